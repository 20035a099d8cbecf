"""Package indexes: pip's settings for them, and the wheels that pip would install, which uv chooses."""

import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

import requests
from packaging.pylock import Pylock, PylockValidationError
from uv import find_uv_bin

from gpuforge.cpython import CPython
from gpuforge.errors import ActionError, MissingError

DEFAULT_INDEX = "https://pypi.org/simple/"


def index_url() -> str:
    """Return pip's package index."""
    return pip_setting("index-url") or DEFAULT_INDEX


def public(url: str) -> str:
    """Return a URL without the name and password in it, for messages and logs."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def session() -> requests.Session:
    """Return an HTTP session with pip's CA bundle, if pip has its own."""
    made = requests.Session()
    bundle = pip_setting("cert")
    if bundle:
        made.verify = bundle
    return made


def pip_setting(name: str) -> str:
    """Return one of pip's settings, from its environment variables or its configuration files; else ""."""
    found = _settings(frozenset(os.environ.items()))
    places = (":env:", "download", "install", "global")
    return next((found[key] for place in places if found.get(key := f"{place}.{name}")), "")


@lru_cache(maxsize=1)  # running pip takes half a second
def _settings(environ: frozenset[tuple[str, str]]) -> Mapping[str, str]:
    """Return all of pip's settings in an environment, by the section and the name of each."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    answer = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False)
    found: dict[str, str] = {}
    for line in answer.stdout.splitlines():
        key, _, value = line.partition("=")
        found[key] = next(iter(shlex.split(value)), "")
    return found


_SECONDS, _MEMORY = 300, 8 << 30  # of processor time, and bytes of data
_LONGEST = 600  # characters of uv's reason
_UNREACHABLE = (
    "Failed to fetch",
    "error sending request",
    "dns error",
    "Network is unreachable",
    "tcp connect",
)


def compile_requirements(
    requirements_file: Path, options: Sequence[str], what: str
) -> subprocess.CompletedProcess[str]:
    """Let uv choose a wheel for each of the requirements in a file, and for their dependencies.

    `what` names the requirements in a message. If nothing fits, the answer's status is not 0, and `reason` returns the
    cause in one line. Raises MissingError if the index cannot be reached.
    """
    command = [find_uv_bin(), "pip", "compile", "--quiet", "--no-config", "--no-cache", "--color=never"]
    command += ["--no-header", "--no-annotate", "--only-binary=:all:", f"--index-url={index_url()}"]
    # like pip, which installs the wheels on users' machines and in tests: the versions of all indexes count
    command.append("--index-strategy=unsafe-best-match")
    places = {"extra-index-url": "--extra-index-url", "find-links": "--find-links"}
    for setting, option in places.items():
        command += [f"{option}={word}" for word in pip_setting(setting).split() if _is_there(word)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    if (bundle := pip_setting("cert")) and "SSL_CERT_FILE" not in environ:
        environ["SSL_CERT_FILE"] = bundle
    environ |= {"UV_NO_WRAP": "1"}
    answer = subprocess.run(
        [*command, *options, "--", str(requirements_file)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_limit,  # it inherits the limits of an audit, if this is one
    )
    if answer.returncode and any(sign in answer.stderr for sign in _UNREACHABLE):
        raise MissingError.of(
            f"cannot reach the package index {public(index_url())} for {what}{reason(answer.stderr)}",
            hint="check the network, the proxy and the CA bundle (PIP_INDEX_URL, SSL_CERT_FILE)",
        )
    return answer


def sources(indexes: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a pyproject.toml by which uv takes packages from indexes of their own."""
    if indexes:
        yield "[tool.uv.sources]"
        yield from (f"{name} = {{ index = {json.dumps(f'of-{name}')} }}" for name in indexes)
    for name, url in indexes.items():
        yield f"[[tool.uv.index]]\nname = {json.dumps(f'of-{name}')}\nurl = {json.dumps(url)}\nexplicit = true"


def reason(output: str) -> str:
    """Return why uv found nothing that fits, in one line after a colon, shortened."""
    _, found, text = output.partition("cause: ")
    words = " ".join((text if found else output).split("hint:")[0].split())
    words = re.sub(r"(?<=[a-z\d]) @ file://\S+", "", words)
    return f": {words[:_LONGEST]}{' …' if len(words) > _LONGEST else ''}" if words else ""


def _limit() -> None:
    """Set this process's limits to what uv may need, not to its parent's: an index may be hostile."""
    for what, most in ((resource.RLIMIT_CPU, _SECONDS), (resource.RLIMIT_DATA, _MEMORY)):
        _, hardest = resource.getrlimit(what)
        resource.setrlimit(what, (most if hardest == resource.RLIM_INFINITY else min(most, hardest), hardest))


def _is_there(place: str) -> bool:
    return place.startswith("http") or Path(place.removeprefix("file://")).exists()


_LOCK = "pylock.toml"
# Current systems: the newest policy that uv supports. Of several wheels of a release it chooses the one for the newest.
_PLATFORM = "manylinux_2_40"
_NOWHERE = "https://localhost/"  # installed wheels have no address; only their versions matter


class Chosen(NamedTuple):
    """A wheel that was chosen."""

    project: str
    version: str
    file: str
    url: str  # "" for a file on this machine
    path: Path | None
    size: int  # bytes; 0 if the index does not have it


class For(NamedTuple):
    """The environment for the wheels; installed packages are kept if they fit."""

    python: str  # "3.11"
    machine: str  # "x86_64"
    installed: Mapping[str, str] = {}  # project -> version
    alone: bool = False  # without dependencies


def choose(requirements: Sequence[str], where: For) -> list[Chosen]:
    """Return the wheels that pip would install for requirements and dependencies; raises ActionError.

    A requirement may be `name @ file://…`, a wheel on this machine. Installed packages are among the chosen ones.
    Raises MissingError if the index cannot be reached.
    """
    with tempfile.TemporaryDirectory(prefix="gpuforge-") as folder:
        requirements_file, lock = Path(folder, "wanted.in"), Path(folder, _LOCK)
        requirements_file.write_text("".join(f"{line}\n" for line in requirements))
        if where.installed:
            lock.write_text(_preferred(where.installed))
        version = CPython.parse(where.python).number  # uv has no word for a free-threaded one
        options = [f"--python-version={version}", f"--python-platform={where.machine}-{_PLATFORM}"]
        options += ["--format=pylock.toml", f"--output-file={lock}", *(["--no-deps"] if where.alone else [])]
        names = ", ".join(line.partition(" @ ")[0] for line in requirements)
        answer = compile_requirements(requirements_file, options, names)
        if answer.returncode:
            raise ActionError.of(
                f"these cannot be installed together: {names}{reason(answer.stderr)}",
                hint="change a requirement, or leave one out",
            )
        return _chosen(lock.read_text(encoding="utf-8"), Path(folder))


def _preferred(installed: Mapping[str, str]) -> str:
    """Return a lock file of the installed packages, whose versions uv prefers to newer ones."""
    tables = [
        f'[[packages]]\nname = "{project}"\nversion = "{version}"\n'
        f'wheels = [{{ url = "{_NOWHERE}{project.replace("-", "_")}-{version}-py3-none-any.whl", hashes = {{}} }}]\n'
        for project, version in installed.items()
    ]
    return "\n".join(['lock-version = "1.0"\ncreated-by = "gpuforge"\n', *tables])


def _chosen(text: str, folder: Path) -> list[Chosen]:
    try:
        packages = Pylock.from_dict(tomllib.loads(text)).packages
    except (tomllib.TOMLDecodeError, PylockValidationError) as error:
        raise ActionError.of(
            f"uv wrote a lock file that cannot be read: {error}", hint="report it as a bug"
        ) from error
    found = []
    for package in packages:
        wheels = package.wheels or ()
        if not wheels or package.version is None:
            continue  # one that was given by its path
        first = wheels[0]  # uv lists those that fit, the best one first
        path = folder / first.path if first.path else _of_file_url(first.url or "")
        url = "" if path else first.url or ""
        found.append(Chosen(package.name, str(package.version), first.filename, url, path, first.size or 0))
    return found


def _of_file_url(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
