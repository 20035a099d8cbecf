"""sccache, the compiler cache of host builds: the variables for it, and its default folder."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuforge import digest

FOLDER = "SCCACHE_DIR"
CONFIGURATION = "SCCACHE_CONF"
SIZE = "SCCACHE_CACHE_SIZE"
OFF = "GPUFORGE_NO_SCCACHE"
IDENTITY = "GPUFORGE_COMPILER_CACHE"  # replaces the manifests' paths in the name of a project's cache
COMPILED = "compiled"  # in a shared store: the caches of all projects
CONTAINED = (OFF, SIZE)  # the settings that work in a container, which has no network
# Its back ends (https://github.com/mozilla/sccache/blob/main/docs/Configuration.md) and the variables for them.
_PREFIXES = ("SCCACHE_", "AWS_", "ALIBABA_CLOUD_", "TENCENTCLOUD_", "ACTIONS_")
_REACH = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir")
# Each of these enables a back end across the network.
BACK_ENDS = (
    *("SCCACHE_BUCKET", "SCCACHE_GCS_BUCKET", "SCCACHE_AZURE_CONNECTION_STRING", "SCCACHE_WEBDAV_ENDPOINT"),
    *("SCCACHE_REDIS_ENDPOINT", "SCCACHE_REDIS_CLUSTER_ENDPOINTS", "SCCACHE_REDIS"),
    *("SCCACHE_MEMCACHED_ENDPOINT", "SCCACHE_MEMCACHED", "SCCACHE_GHA_ENABLED", "SCCACHE_GHA_VERSION"),
    *("SCCACHE_OSS_BUCKET", "SCCACHE_COS_BUCKET"),
)
_FILES = {  # where programs of Amazon and Google find credentials below HOME, which an action does not have
    "AWS_SHARED_CREDENTIALS_FILE": ".aws/credentials",
    "AWS_CONFIG_FILE": ".aws/config",
    "SCCACHE_GCS_KEY_PATH": ".config/gcloud/application_default_credentials.json",
}
OF_STORE = (  # what `configured` adds for a shared store
    *_FILES,
    *("SCCACHE_MULTILEVEL_CHAIN", "SCCACHE_MULTILEVEL_WRITE_ERROR_POLICY"),
    *("SCCACHE_BUCKET", "SCCACHE_S3_KEY_PREFIX", "SCCACHE_REGION", "SCCACHE_ENDPOINT", "SCCACHE_S3_USE_SSL"),
    *("SCCACHE_GCS_BUCKET", "SCCACHE_GCS_KEY_PREFIX", "SCCACHE_GCS_RW_MODE"),
)
# A build has its own server, never the user's, and decides itself what is compared.
_OWN = frozenset(
    f"SCCACHE_{name}"
    for name in (
        *("SERVER_UDS", "SERVER_PORT", "START_SERVER", "STARTUP_NOTIFY", "NO_DAEMON", "IDLE_TIMEOUT"),
        *("DIRECT", "BASEDIRS", "EXTRAFILES", "C_CUSTOM_CACHE_BUSTER", "IGNORE_SERVER_IO_ERROR"),
    )
)


@dataclass(frozen=True, slots=True)
class CacheUse:
    """A build's use of the cache: the number of its compile steps that were found there, and errors.

    Without `steps` it was not used, and the notes have the reason.
    """

    hits: int = 0
    steps: int | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Write "60 of 74 hits, 2 failed reads"."""
        return ", ".join(
            [*([f"{self.hits} of {self.steps} hits"] if self.steps is not None else []), *self.notes]
        )


def is_setting(name: str) -> bool:
    """Return whether the variable `name` configures the compiler cache of builds."""
    if name in _OWN:
        return False
    return name == OFF or name.startswith(_PREFIXES) or name.lower() in _REACH


def folder(name: str, *manifests: Path, identity: str | None = None) -> str:
    """Return the name of the folder with the compiler cache of one project, or of several that share one.

    Their builds write objects into it that they later link. `identity` (GPUFORGE_COMPILER_CACHE) replaces the paths of
    the manifests, which differ between machines.
    """
    known: object = str(manifests[0]) if len(manifests) == 1 else sorted(map(str, manifests))
    known = {IDENTITY: identity} if identity else known
    return f"{name}-{digest.of_data(known)[:12]}"


def configured(environ: Mapping[str, str], cache: Path, project: str, store: str | None) -> dict[str, str]:
    """Return `environ` with the variables by which host builds use the compiler cache of `project`.

    Its folder is `cache`/sccache/`project` unless the variables name another. If the user set up no back end of
    sccache, the cache is in the shared `store`, if there is one: a folder takes the place of this machine's own; a
    bucket comes after it. The configuration file is looked for where sccache does; actions have another HOME.
    """
    home = Path(environ.get("HOME", "/"))
    folder = cache.absolute() / "sccache" / project
    files = {CONFIGURATION: Path(environ.get("XDG_CONFIG_HOME") or home / ".config", "sccache", "config")}
    shared: dict[str, str] = {}
    there = {name: str(file) for name, file in files.items() if file.is_file()}
    if store and not back_end(there | dict(environ)):
        scheme, _, rest = store.rpartition("://")
        if scheme in {"s3", "gs"}:
            shared = _bucket(scheme, f"{rest.strip('/')}/{COMPILED}/{project}", environ)
            files = {name: home / place for name, place in _FILES.items()}
            there |= {name: str(file) for name, file in files.items() if file.is_file()}
        else:
            folder = Path(rest) / COMPILED / project
    return {FOLDER: str(folder)} | there | shared | dict(environ)


def _bucket(scheme: str, place: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return sccache's variables for a folder in a bucket, behind the one of this machine."""
    bucket, _, prefix = place.partition("/")
    chain = {"SCCACHE_MULTILEVEL_WRITE_ERROR_POLICY": "ignore"}
    if scheme == "gs":
        key = environ.get("GOOGLE_APPLICATION_CREDENTIALS")
        return chain | {
            "SCCACHE_MULTILEVEL_CHAIN": "disk,gcs",
            "SCCACHE_GCS_BUCKET": bucket,
            "SCCACHE_GCS_KEY_PREFIX": prefix,
            "SCCACHE_GCS_RW_MODE": "READ_WRITE",
            **({"SCCACHE_GCS_KEY_PATH": key} if key else {}),
        }
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
    protocol, _, host = endpoint.rpartition("://")
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ("us-east-1" if host else "")
    return chain | {
        "SCCACHE_MULTILEVEL_CHAIN": "disk,s3",
        "SCCACHE_BUCKET": bucket,
        "SCCACHE_S3_KEY_PREFIX": prefix,
        **({"SCCACHE_REGION": region} if region else {}),
        **({"SCCACHE_ENDPOINT": host, "SCCACHE_S3_USE_SSL": str(protocol != "http").lower()} if host else {}),
    }


def back_end(environ: Mapping[str, str]) -> str:
    """Return the back end across the network that the user configured for sccache, or "".

    It is the name of a variable, or of the configuration file.
    """
    named = next((name for name in BACK_ENDS if environ.get(name)), "")
    file = environ.get(CONFIGURATION)
    if named or not file:
        return named
    try:
        caches = tomllib.loads(Path(file).read_text()).get("cache", {})
    except (OSError, ValueError):
        return ""  # sccache's own message is better
    return file if isinstance(caches, dict) and set(caches) - {"disk"} else ""
