"""Whether an image holds what a build or a test needs: asked of the image itself, without a network."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from gpuforge.containers.catalog import CatalogImage, Purpose
from gpuforge.containers.port import Images
from gpuforge.errors import ActionError

OLDEST_PYTHON = Version("3.11")  # gpuforge's own steps run on the image's Python
# Tab-separated facts; only what every shell and C library has is used to find them.
_PROBE = r"""
printf 'machine\t%s\n' "$(uname -m)"
printf 'libc\t%s\n' "$(getconf GNU_LIBC_VERSION 2>/dev/null)"
for python in /opt/python/*/bin/python $(command -v python3); do
  [ -x "$python" ] || continue
  "$python" -I -c '
import os, platform, sys, sysconfig
def has(*names):
    try:
        for name in names: __import__(name)
    except ImportError: return "no"
    return "yes"
header = os.path.join(sysconfig.get_path("include"), "Python.h")
print("python", sys.argv[1], platform.python_version(), platform.python_implementation(), has("venv", "ensurepip"),
      has("pip"), "yes" if os.path.exists(header) else "no", sep="\t")' "$python" 2>/dev/null
done
IFS=:
for folder in $PATH /opt/rh/gcc-toolset-*/root/usr/bin; do
  [ -L "$folder" ] && continue # /bin is /usr/bin
  for cxx in "$folder"/g++ "$folder"/g++-[0-9] "$folder"/g++-[0-9][0-9]; do
    [ -x "$cxx" ] && printf 'g++\t%s\t%s\n' "$cxx" "$("$cxx" -dumpfullversion -dumpversion 2>/dev/null)"
  done
done
for nvcc in /usr/local/cuda/bin/nvcc $(command -v nvcc); do
  [ -x "$nvcc" ] && printf 'nvcc\t%s\t%s\n' "$nvcc" "$("$nvcc" --version | sed -n 's/.*release [0-9.]*, V//p')" && break
done
exit 0
"""


@dataclass(frozen=True, slots=True)
class Python:
    """A Python in an image and what it can do: make environments (venv), install (pip), compile against (headers)."""

    path: str
    version: str
    implementation: str
    venv: bool
    pip: bool
    headers: bool


@dataclass(frozen=True, slots=True)
class Program:
    """A compiler in an image."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What was found in an image; `glibc` is "" where the C library is another."""

    machine: str
    glibc: str
    pythons: tuple[Python, ...]
    compilers: tuple[Program, ...]
    nvcc: Program | None


def contents(images: Images, reference: str) -> Contents:
    """Run the image and return what it holds; raises ActionError when it cannot run a shell."""
    status, said = images.run(reference, ["/bin/sh", "-c", _PROBE])
    if status != 0:
        last = said.strip().rpartition("\n")[2] or f"exit status {status}"
        raise ActionError.of(
            f"{reference} cannot run a shell: {last}", hint="an image for builds needs /bin/sh"
        )
    return parse(said)


def parse(said: str) -> Contents:
    """Return what the probe's output says."""
    facts: dict[str, list[list[str]]] = {}
    for line in said.splitlines():
        kind, *fields = line.split("\t")
        facts.setdefault(kind, []).append(fields)
    pythons = {
        path: Python(path, version, implementation, venv == "yes", pip == "yes", headers == "yes")
        for path, version, implementation, venv, pip, headers in facts.get("python", ())
        if _is_its_own(path, version)
    }
    programs = {path: Program(path, version) for path, version in facts.get("g++", ())}
    nvcc = facts.get("nvcc")
    libc = facts.get("libc", [[""]])[0][0].split()
    return Contents(
        facts.get("machine", [[""]])[0][0],
        libc[1] if libc[:1] == ["glibc"] else "",
        tuple(pythons.values()),
        tuple(programs.values()),
        Program(*nvcc[0]) if nvcc else None,
    )


def _is_its_own(path: str, version: str) -> bool:
    """Say whether a Python is what its folder's name says: cp39-cp39 may be another one's alias."""
    if not path.startswith("/opt/python/cp"):
        return True
    tag = path.split("/")[3].partition("-")[0]
    return tag == f"cp{''.join(version.split('.')[:2])}"


def missing(found: Contents, image: CatalogImage | None, purpose: Purpose) -> list[str]:
    """Return what an image lacks: for a build or a test, and of what the catalog says of it, if it is in there."""
    lacks = []
    if not found.glibc:
        lacks.append("the GNU C library: wheels for manylinux need it")
    if not any(_is_usable(python) for python in found.pythons):
        lacks.append(
            f"a CPython {OLDEST_PYTHON} or newer with venv and pip, in /opt/python/cpXY-cpXY or on PATH"
        )
    if purpose == "build" and not found.compilers:
        lacks.append("a g++")
    if image is not None:
        lacks += _unlike(found, image)
    return lacks


def _is_usable(python: Python) -> bool:
    try:
        new_enough = Version(python.version) >= OLDEST_PYTHON
    except InvalidVersion:
        return False
    return new_enough and python.implementation == "CPython" and python.venv and python.pip


def _unlike(found: Contents, image: CatalogImage) -> list[str]:
    """Return where an image is not what the catalog says."""
    minors = {
        ".".join(python.version.split(".")[:2]) for python in found.pythons if python.path.startswith("/opt/")
    }
    majors = {f"g++-{program.version.split('.')[0]}" for program in found.compilers}
    lacks = [f"CPython {minor} in /opt/python" for minor in image.pythons if minor not in minors]
    lacks += [compiler for compiler in image.compilers if compiler not in majors]
    if found.glibc and found.glibc != image.glibc:
        lacks.append(f"glibc {image.glibc}: it has {found.glibc}")
    if image.purpose == "test" and found.compilers:
        lacks.append(
            f"the absence of compilers, of which a clean container has none: {found.compilers[0].path}"
        )
    if image.toolkit and (found.nvcc is None or not found.nvcc.version.startswith(f"{image.toolkit}.")):
        lacks.append(f"nvcc {image.toolkit}" + (f": it has {found.nvcc.version}" if found.nvcc else ""))
    return lacks
