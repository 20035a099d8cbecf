"""Find the toolchains and folders in build files of a wheel: makefiles, CMake and pkg-config configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.audit.layout import left_over_folder
from gpuforge.audit.model import BuildFileCompilers, BuildPath, Compilers
from gpuforge.wheel.archive import Archive

BUILD_FILE = r"(?i:.*makefile(\.\w+)?|.*\.mk)|.*(-config|Config|Targets|-targets)\.cmake|.*\.pc"
_LIKE_BUILD_FILES = (".mk", ".cmake", ".pc")  # faster to search for than the pattern
_SDK = rb"/hpc_sdk/[^/\s]+/(\d+\.\d+)/compilers/bin/(nvc\+\+|nvc|nvfortran)"
_TARGET = rb"-gpu=[\w,.]*(?:cuda\d|cc\d)[\w,.]*"
_NVCC = rb"/cuda-(\d+\.\d+)/bin/nvcc"
# An absolute path that systems do not have. Before it is the end of a word, a sign, -I or -L.
_PATH = (
    rb"(?:(?<=[\s=\"':;,(])|(?<=-[IL]))"
    rb"(/(?!(?:usr|opt|etc|s?bin|lib\w{0,4}|dev|proc|sys|var|run|tmp|System|Library)/)[\w.+-]{1,255}/[\w.+/-]{1,4096})"
)
_COMMENT = rb"#[^\n]*"
_LARGEST = 4 << 20  # bytes; larger files are not build files


def compilers(archive: Archive) -> tuple[BuildFileCompilers, ...]:
    """List the toolchains that a wheel's build files name by path or option. Raises MalformedError."""
    return tuple(each for file, text in _build_files(archive) for each in _compilers(file, text))


def build_paths(archive: Archive) -> tuple[BuildPath, ...]:
    """List the folders of other machines that a wheel's build files name. Raises MalformedError."""
    return tuple(
        BuildPath(file, path.decode())
        for file, text in _build_files(archive)
        for path in dict.fromkeys(re.findall(_PATH, re.sub(_COMMENT, b"", text)))
    )


def _build_files(archive: Archive) -> Iterator[tuple[str, bytes]]:
    for member in archive.members:
        name = member.name.rpartition("/")[2]
        like = name.lower().endswith(_LIKE_BUILD_FILES) or "akefile" in name.lower()
        if not like or member.size > _LARGEST or not re.fullmatch(BUILD_FILE, name):
            continue
        if left_over_folder(member.name):
            continue
        yield member.name, archive.data(member)


def _compilers(file: str, text: bytes) -> Iterator[BuildFileCompilers]:
    sdks: dict[str, dict[str, None]] = {}
    for version, tool in re.findall(_SDK, text):
        sdks.setdefault(version.decode(), {})[tool.decode()] = None
    for version, tools in sdks.items():
        yield BuildFileCompilers(file, Compilers("HPC SDK", version, tuple(tools)))
    for option in dict.fromkeys(re.findall(_TARGET, text)):
        yield BuildFileCompilers(file, Compilers("option", option.decode()))
    for version in dict.fromkeys(re.findall(_NVCC, text)):
        yield BuildFileCompilers(file, Compilers("nvcc", version.decode()))


# OpenCL's loader reads NAME.icd; Vulkan's NAME_icd.x86_64.json and layers, EGL's 50_NAME.json in a folder of its own
_FILE = re.compile(
    r"(?:.*/)?[^/]*\.icd|(?:.*/)?[^/]*(?:icd|layer)[^/]*\.json|.*/egl_vendor\.d/[^/]*\.json", re.IGNORECASE
)
_LIBRARY = re.compile(rb"[\w.+-]+\.so(?:\.[\w.]+)?")
_LARGEST_LOADER_FILES = 1 << 16  # bytes


def opened(archive: Archive) -> frozenset[str]:
    """Return the file names of the libraries. Raises MalformedError for a broken archive."""
    return frozenset(_names(archive))


def _names(archive: Archive) -> Iterator[str]:
    for member in archive.members:
        if not member.name.lower().endswith((".icd", ".json")) or member.size > _LARGEST_LOADER_FILES:
            continue
        if _FILE.fullmatch(member.name) and not left_over_folder(member.name):
            yield from (name.decode() for name in _LIBRARY.findall(archive.data(member)))
