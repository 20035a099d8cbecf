"""Advice for messages of compilers that show what is missing: a CUDA library, or a header beside the manifest."""

import re
from collections.abc import Iterator
from functools import cache

from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import Manifest
from gpuforge.plan.action import Advice
from gpuforge.toolkits import pins

# The messages of g++, clang++ and nvcc's front end about a missing header; {0} is a pattern of its name.
_NOT_FOUND = r"fatal error: '?(?:{0})'?(?:: No such file| file not found)|cannot open source file \"(?:{0})\""

_ANY = r"[^'\"\s:]+"
# Headers that every toolkit has. For the headers of a library see `_headers`.
_EVERY = r"cuda\w*\.h(?:pp)?|cuda/.*|crt/.*|driver_types\.h|vector_types\.h|device_launch_parameters\.h"
_ARCHS = r"gpuforge: error: nvcc"  # the error of the nvcc of host builds (`actions/compiler_cache.py`)
_UNKNOWN_ARCH = (
    r"nvcc fatal\s*: (Value '\S+' is not defined for option 'gpu-arch|Unsupported gpu arch)"  # nvcc's own
)
OWN_ARCHS = (
    "remove these options from the project's build, or set the variable that they come from below [build.env]: without "
    "them nvcc gets those of `archs`. Or list all of them in `archs`. If the project compiles some files for others on "
    "purpose, accept that in [[audit.ignore]] (GF401: some are missing, GF409: there are others)"
)
TOOLKIT_ARCHS = (
    "this toolkit has no code for that GPU: remove the option from the project's build, or set the variable that it "
    "comes from below [build.env]; without such options nvcc gets those of `archs`. Another `toolkit` may have it: "
    "CUDA 13 dropped the GPUs before 7.5"
)
_NATIVE = Advice(
    r"gpuforge: error: \S+ -m\w+=native",
    'write cpu = "x86-64" or "x86-64-v2" below [build]: then this level is compiled for in place of "native". Or '
    "remove the option: the wheel's code would differ with the machine that built it",
)
SYSTEM = Advice(
    r'^\s+Could NOT find \S+ \(missing|ERROR: Dependency "\S+" not found',
    "install its development package on the machine or in the image that builds, put its headers and libraries into a "
    "folder of [build] overlay, or switch it off in [build.config-settings]",
)
# Messages about a missing build requirement, and the requirement.
_MODULES = (
    (r"^(?:    )?ModuleNotFoundError: No module named 'pkg_resources'", '"setuptools<82"'),
    (r"Ninja is required to load C\+\+ extensions", '"ninja"'),
    (r"^(?:    )?ModuleNotFoundError: No module named", "the package of that module"),
)


def of_host_build(file: ManifestFile) -> tuple[Advice, ...]:
    """Return the advice for a project's own build, and for its backend's hooks, which run the same code."""
    reached = (
        _unreached(file.manifest)
        if file.manifest.cuda.versions and file.manifest.build.cuda is not False
        else ()
    )
    if any(item.sources or item.headers for item in file.manifest.objects):
        missing = "files of an object's `sources` and `headers` are left out of the build unless in-host-build = true"
    else:
        missing = "install the system package that has this header, or put the header into a folder of [build] overlay"
    archs = Advice(_ARCHS, OWN_ARCHS)
    return (
        archs,
        Advice(_UNKNOWN_ARCH, TOOLKIT_ARCHS),
        _NATIVE,
        *_libraries(file),
        *reached,
        *_modules(),
        SYSTEM,
        Advice(_NOT_FOUND.format(_ANY), missing),
    )


def _modules() -> Iterator[Advice]:
    """Yield the advice for modules that the build environment lacks."""
    for pattern, requirement in _MODULES:
        hint = f"add {requirement} to [build] requires: a build has no packages but its requirements"
        yield Advice(pattern, hint)


def of_compile(file: ManifestFile, number: int) -> tuple[Advice, ...]:
    """Return the advice for a source of an object, by its index, that gpuforge compiles itself."""
    name, place = file.manifest.objects[number].name, file.place("objects", number)
    missing = f"add the missing header to `headers` of {name!r} ({place})"
    return (*_libraries(file), Advice(_NOT_FOUND.format(_ANY), missing))


def _libraries(file: ManifestFile) -> Iterator[Advice]:
    """Yield advice for each CUDA library that the manifest does not list."""
    requested = file.manifest.cuda.libraries
    place = file.place("cuda", "libraries") if requested else file.place("cuda")
    for name in pins.headers_by_library():
        if name not in requested:
            listed = ", ".join(f'"{each}"' for each in (*requested, name))
            pattern = rf"{_NOT_FOUND.format(_headers(name))}|^\s+CUDA::{name}\s*$|cannot find (?i:-l{name})\b"
            yield Advice(
                pattern, f"write libraries = [{listed}] below [cuda] ({place}): the toolkit came without it"
            )


def _unreached(manifest: Manifest) -> Iterator[Advice]:
    """Yield advice about files that the toolkit has, but where a project's own command does not look."""
    requested = manifest.cuda.libraries
    there = "|".join((_EVERY, *(_headers(name) for name in requested if name in pins.headers_by_library())))
    yield Advice(
        _NOT_FOUND.format(there),
        'write CPATH = "{toolkit}/include" below [build.env]: the toolkit has this header, and the command does not '
        "look there",
    )
    linked = "|".join(("cudart", "cuda", *map(re.escape, requested)))
    yield Advice(
        rf"cannot find (?i:-l(?:{linked}))\b",
        'write LIBRARY_PATH = "{toolkit}/lib64:{toolkit}/lib64/stubs" below [build.env]: the toolkit has this library, '
        "and the command does not look there",
    )


@cache
def _headers(name: str) -> str:
    """Return a pattern for the headers of a library, as sources include them."""
    files = pins.headers_by_library()[name]
    names = (f"{re.escape(each)}.*" if each.endswith("/") else re.escape(each) for each in files)
    return f"(?:{'|'.join(names)})"
