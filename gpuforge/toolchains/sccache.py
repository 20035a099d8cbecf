"""sccache, the compiler cache of host builds: the variables for it, and its default folder."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuforge import digest

FOLDER = "SCCACHE_DIR"
CONFIGURATION = "SCCACHE_CONF"
SIZE = "SCCACHE_CACHE_SIZE"
OFF = "GPUFORGE_NO_SCCACHE"
SHARED = "GPUFORGE_SCCACHE_SHARED"  # the folder with the socket of the shared cache (`execute/compiled`)
IDENTITY = "GPUFORGE_COMPILER_CACHE"  # replaces the manifests' paths in the name of a project's cache
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
    return name in {OFF, SHARED} or name.startswith(_PREFIXES) or name.lower() in _REACH


def folder(cache: Path, name: str, *manifests: Path, identity: str | None = None) -> Path:
    """Return the compiler cache of one project in gpuforge's folder `cache`, or of several that share one.

    Their builds write objects into it that they later link. `identity` (GPUFORGE_COMPILER_CACHE) replaces the paths of
    the manifests, which differ between machines.
    """
    known: object = str(manifests[0]) if len(manifests) == 1 else sorted(map(str, manifests))
    known = {IDENTITY: identity} if identity else known
    return cache / "sccache" / f"{name}-{digest.of_data(known)[:12]}"


def configured(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return `environ` with `folder` as the cache's folder and the user's configuration file, if neither is set.

    The configuration file is looked for where sccache does; actions have another HOME and would not find it.
    """
    home = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "/"), ".config")
    file = Path(home, "sccache", "config")
    found = {CONFIGURATION: str(file)} if file.is_file() else {}
    return {FOLDER: str(folder.absolute())} | found | dict(environ)


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
