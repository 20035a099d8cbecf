"""Libraries by SONAME: the package of each, or the driver or compiler that it belongs to; data in data/*.toml."""

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

from gpuforge.cuda import sonames
from gpuforge.datafile import load, rows


class CudaLibrary(NamedTuple):
    """One SONAME and its origin."""

    soname: str
    package: str  # "" for a driver's or a compiler's library
    cuda: int | None  # the CUDA major that the package is for
    folder: str  # relative to site-packages: "nvidia/cu13/lib"
    kind: Literal["toolkit", "driver", "compiler-runtime"]
    first: str = ""  # oldest and newest version of the package seen to have it
    last: str = ""
    requires: tuple[str, ...] = ()  # other packages that it needs


class CompilerRuntimes(NamedTuple):
    """Runtimes of a compiler: a row of data/runtimes.toml, which explains each field."""

    name: str  # "nvhpc", "gcc-openmp"
    title: str = ""
    called: tuple[str, ...] = ()
    sonames: tuple[str, ...] = ()
    gpu: bool = False
    one_release: bool = False
    openmp: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


class Opener(NamedTuple):
    """Libraries that another opens by name: `always`, or for some of its features only."""

    soname: str
    opens: tuple[str, ...]
    always: bool


def by_soname(soname: str) -> tuple[CudaLibrary, ...]:
    """Return every library known by this SONAME, lowest CUDA major first; also the driver's and compilers'.

    `libcurand.so.10` is in CUDA 11, 12 and 13. A fully versioned file name counts as the SONAME of its major
    (`libcudart.so.12.4.127` as `libcudart.so.12`, `libcudart.so.11.5.117` as `libcudart.so.11.0`). For mangled names
    see `sonames.plain_name`.
    """
    if is_driver(soname):
        return (CudaLibrary(soname, "", None, "", "driver"),)
    if compiler_runtime(soname):
        return (CudaLibrary(soname, "", None, "", "compiler-runtime"),)
    if soname in _packaged():
        return _packaged()[soname]
    return _of_major().get(sonames.cut_to_major(soname), ())


@cache
def toolkit_libraries(cuda: int | None = None) -> tuple[CudaLibrary, ...]:
    """Return every library in the packages for a CUDA major, or any; wheels that require the packages contain none."""
    found = (entry for entries in _packaged().values() for entry in entries)
    return tuple(entry for entry in found if cuda in (None, entry.cuda))


def is_toolkit(soname: str) -> bool:
    """Return whether NVIDIA's CUDA packages have a library of this SONAME."""
    return any(entry.kind == "toolkit" for entry in by_soname(soname))


def is_cudart(soname: str) -> bool:
    """Return whether a library is the CUDA runtime of any version: "libcudart.so.12", "libcudart.so"."""
    return soname.startswith("libcudart.so")


def is_toolkit_file(name: str) -> bool:
    """Return whether CUDA's packages have a library of this file name (mangled or not, with any version or none)."""
    return sonames.stem(sonames.plain_name(name)) in _toolkit_stems() and ".so" in name


def is_driver(name: str) -> bool:
    """Return whether a file name or SONAME (mangled or not) is one of the driver's libraries."""
    return sonames.unversioned(sonames.plain_name(name)) in drivers()


def is_soname_of_driver(name: str) -> bool:
    """Return whether the driver is known to have exactly this SONAME: libcuda.so.1, and not libcuda.so.2."""
    return name in _driver_sonames()


def compiler_runtime(name: str) -> CompilerRuntimes | None:
    """Return the compiler's runtimes to which a file name or SONAME (mangled or not) belongs; else None."""
    return _runtimes_by_soname().get(sonames.unversioned(sonames.plain_name(name)))


def is_of_one_release(name: str) -> bool:
    """Return whether a name (mangled or not) is a runtime that fits only its own release, such as the HPC SDK's."""
    runtimes = compiler_runtime(name)
    return runtimes is not None and runtimes.one_release


def is_openmp(soname: str) -> bool:
    """Return whether a SONAME (not mangled) is an OpenMP runtime's own, not a plugin's or a stub's."""
    return sonames.unversioned(soname) in _openmp()


def compiler_names() -> tuple[str, ...]:
    """Return the compilers whose runtimes are known, by the names that `runtimes_of` takes."""
    return tuple(sorted({name for runtimes in compilers() for name in runtimes.called}))


def runtimes_of(compiler: str) -> frozenset[str]:
    """Return the libraries that a build with a compiler may bring, without versions; none for an unknown one."""
    found = (each for each in compilers() if compiler in each.called)
    return frozenset(name for each in found for name in (*each.sonames, *each.beside))


def opener(soname: str) -> Opener | None:
    """Return the toolkit libraries that a toolkit library opens by name (dlopen); None if it opens none."""
    return _openers().get(sonames.unversioned(soname))


@cache
def _of_major() -> Mapping[str, tuple[CudaLibrary, ...]]:
    """Return the libraries by their name cut to the major, one of each package."""
    found: dict[str, dict[str, CudaLibrary]] = defaultdict(dict)
    for soname, entries in sorted(_packaged().items()):
        for entry in entries:
            found[sonames.cut_to_major(soname)].setdefault(entry.package, entry)
    return {name: tuple(entries.values()) for name, entries in found.items()}


@cache
def _packaged() -> Mapping[str, tuple[CudaLibrary, ...]]:
    found: dict[str, list[CudaLibrary]] = defaultdict(list)
    for row in load(__file__, "libraries.toml")["package"]:
        package, cuda, folder, requires = row["package"], row["cuda"], row["folder"], tuple(row["requires"])
        for soname, (first, last) in row["sonames"].items():
            entry = CudaLibrary(soname, package, cuda, folder, "toolkit", first, last, requires)
            found[soname].append(entry)
    return {soname: tuple(sorted(entries, key=lambda e: e.cuda or 0)) for soname, entries in found.items()}


@cache
def _toolkit_stems() -> frozenset[str]:
    return frozenset(map(sonames.stem, _packaged()))


@cache
def _openers() -> Mapping[str, Opener]:
    return {each.soname: each for each in rows(Opener, load(__file__, "runtimes.toml")["opener"])}


@cache
def drivers() -> frozenset[str]:
    """Return the SONAMEs of the driver's own libraries, without versions."""
    return frozenset(name for row in load(__file__, "runtimes.toml")["driver"] for name in row["sonames"])


@cache
def _driver_sonames() -> frozenset[str]:
    return frozenset(name for row in load(__file__, "runtimes.toml")["driver"] for name in row["versioned"])


@cache
def tool_packages() -> frozenset[str]:
    """Return the packages that are compilers and tools, without CUDA suffixes; they have no code for the GPU."""
    return frozenset(name for row in load(__file__, "runtimes.toml")["tools"] for name in row["packages"])


@cache
def compilers() -> tuple[CompilerRuntimes, ...]:
    """Return the runtimes of all known compilers."""
    return rows(CompilerRuntimes, load(__file__, "runtimes.toml")["compiler"])


@cache
def _runtimes_by_soname() -> Mapping[str, CompilerRuntimes]:
    return {soname: runtimes for runtimes in compilers() for soname in runtimes.sonames}


@cache
def _openmp() -> frozenset[str]:
    return frozenset(soname for runtimes in compilers() for soname in runtimes.openmp)
