"""Finds the CPython interpreter of this machine that builds the wheels of a Python version."""

import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuforge.cpython import CPython
from gpuforge.errors import MissingError

# A program for interpreters that prints their facts as JSON.
ASK = """
import importlib.util, json, os, platform, sys, sysconfig, zlib
has = importlib.util.find_spec
print(json.dumps({
    "version": platform.python_version(),
    "implementation": platform.python_implementation(),
    "abi": sysconfig.get_config_var("SOABI") or "",
    "executable": sys.executable,
    "zlib": zlib.ZLIB_RUNTIME_VERSION,
    "headers": os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h")),
    "venv": bool(has("venv") and has("ensurepip")),
    "pip": bool(has("pip")),
}))
"""


class Interpreter(NamedTuple):
    """A CPython that runs: its path, full version ("3.11.7") and ABI ("cpython-314t-x86_64-linux-gnu")."""

    path: Path
    version: str
    abi: str
    headers: bool
    zlib: str = ""  # version of its zlib, which affects the bytes of a ZIP member
    venv: bool = True  # whether it can make virtual environments with pip
    pip: bool = True

    @property
    def cpython(self) -> CPython:
        """The version that it builds wheels for."""
        threads = "t" if re.match(r"cp(?:ython-)?3[0-9]+t", self.abi) else ""
        return CPython.parse(self.version)._replace(threads=threads)

    @property
    def minor(self) -> str:
        """That version as text: "3.11"."""
        return str(self.cpython)

    @property
    def title(self) -> str:
        """Its full version for messages: "3.11.7", "3.14.2t"."""
        return f"{self.version}{self.cpython.threads}"

    @property
    def identity(self) -> str:
        """Its part of a key: builds of one CPython minor see the same headers and ABI."""
        return f"CPython {self.version} {self.abi}"


def find(minor: str, *, or_newer: bool = False, search: Sequence[Path] | None = None) -> Interpreter:
    """Return an interpreter of `minor` ("3.11") with its headers; with `or_newer`, a later 3.x is accepted.

    Looks at the interpreter gpuforge runs on, at `python3.N` on PATH, at manylinux's `/opt/python` and at the versions
    of pyenv and uv. Raises MissingError with the interpreters that were found, and what to install.
    """
    minors = [minor, *(newer(minor) if or_newer else [])]
    without_headers: Interpreter | None = None
    for version in minors:
        for path in _candidates(version, search):
            found = ask(path)
            if found is None or found.minor != version:
                continue
            if found.headers:
                return found
            without_headers = without_headers or found
    if without_headers:
        raise MissingError.of(
            f"CPython {without_headers.title} ({without_headers.path}) has no Python.h",
            hint=f"install its headers (Debian: apt-get install python{minor}-dev)",
        )
    raise MissingError.of(
        f"no CPython {minor} on this machine",
        hint=f"install it with its headers (python{minor}-dev, pyenv, uv python install {minor}), "
        "or choose another with --python",
    )


@cache
def ask(path: Path) -> Interpreter | None:
    """Return the interpreter at `path`, which is started once; None if it fails or is not CPython."""
    if path == Path(sys.executable) and sys.implementation.name == "cpython":
        return _this()
    try:
        answer = subprocess.run(
            [path, "-I", "-S", "-c", ASK],  # its packages, which take time to find, do not matter
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        facts = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return read(facts)


def _this() -> Interpreter:
    """Return the interpreter that runs here, which need not be started: that takes 40 ms."""
    headers = Path(sysconfig.get_path("include"), "Python.h").is_file()
    abi = sysconfig.get_config_var("SOABI") or ""
    base = Path(sys._base_executable)  # type: ignore[attr-defined]  # not that of a virtual environment
    return Interpreter(base, platform.python_version(), abi, headers, zlib.ZLIB_RUNTIME_VERSION, pip=False)


def read(facts: Mapping[str, Any]) -> Interpreter | None:
    """Return the interpreter with these facts, its output for `ASK`; None if it is not CPython."""
    if facts["implementation"] != "CPython":
        return None
    executable = Path(facts["executable"])
    abilities = (facts["headers"], facts["zlib"], facts.get("venv", True), facts.get("pip", True))
    return Interpreter(executable, facts["version"], facts["abi"], *abilities)


def newer(minor: str) -> list[str]:
    """Return the later minors that can replace one: "3.12" and on for "3.11"."""
    first = CPython.parse(minor)
    return [str(first._replace(minor=first.minor + more)) for more in range(1, 8)]


def _candidates(minor: str, search: Sequence[Path] | None) -> Iterator[Path]:
    if search is None:
        if minor == str(CPython(*sys.version_info[:2])):
            yield Path(sys.executable)
        search = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    # slow scripts; what they start comes below
    search = [folder for folder in search if folder != pyenv / "shims"]
    yield from (path for folder in search if os.access(path := folder / f"python{minor}", os.X_OK))
    version = CPython.parse(minor)
    yield from sorted(Path("/opt/python").glob(f"{version.folder}/bin/python3"))
    yield from sorted(pyenv.glob(f"versions/{version.number}.*/bin/python{minor}"), reverse=True)
    yield from sorted(_of_uv().glob(f"cpython-{version.number}.*/bin/python{minor}"), reverse=True)


def _of_uv() -> Path:
    """Return the folder of uv's Pythons: https://docs.astral.sh/uv/reference/storage/"""
    if chosen := os.environ.get("UV_PYTHON_INSTALL_DIR"):
        return Path(chosen)
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return data / "uv" / "python"
