"""Find the toolchains and paths in text files of a wheel: makefiles, CMake, pkg-config, scripts, configurations."""

import re
from collections.abc import Iterator

from gpuforge.audit.layout import left_over_folder
from gpuforge.audit.model import BuildFileCompilers, BuildPath, Compilers, PathKind
from gpuforge.audit.read.loading_code import of_tests
from gpuforge.runtime import layout
from gpuforge.wheel.archive import Archive

BUILD_FILE = r"(?i:.*makefile(\.\w+)?|.*\.mk)|.*(-config|Config|Targets|-targets)\.cmake|.*\.pc"
_LIKE_BUILD_FILES = (".mk", ".cmake", ".pc")  # faster to search for than the pattern
_SDK = rb"/hpc_sdk/[^/\s]+/(\d+\.\d+)/compilers/bin/(nvc\+\+|nvc|nvfortran)"
_TARGET = rb"-gpu=[\w,.]*(?:cuda\d|cc\d)[\w,.]*"
_NVCC = rb"/cuda-(\d+\.\d+)/bin/nvcc"
# Before a path is the end of a word, a sign, -I or -L.
_BEFORE = rb"(?:(?<=[\s=\"':;,(])|(?<=-[IL])|(?<=#!))"
_REST = rb"[\w.+-]{1,255}/[\w.+/-]{1,4096}"
# Folders of systems that users have, too; below /opt those of vendors and package managers.
_OF_SYSTEMS = rb"usr|opt|etc|s?bin|lib\w{0,4}|dev|proc|sys|var|run|tmp|System|Library"
_VENDORS = rb"nvidia|rocm[\w.-]*|intel|amd|arm|cray|ibm|rh|local|homebrew|conda|miniconda\d?|anaconda\d?"
# Below /tmp a file alone may be a user's own; of CUDA and the HPC SDK one release is not on every machine.
_OF_BUILDS = (
    rb"opt/(?!(?:"
    + _VENDORS
    + rb")/)[\w.+-]{1,255}(?:/[\w.+/-]{1,4096})?|tmp/[\w.+-]{1,255}/[\w.+/-]{1,4096}"
    rb"|usr/local/cuda-\d[\w.+/-]{0,4096}|opt/nvidia/hpc_sdk/[\w.+-]{1,255}/\d[\w.+/-]{0,4096}"
)
_PATH = _BEFORE + rb"(/(?:" + _OF_BUILDS + rb"|(?!(?:" + _OF_SYSTEMS + rb")/)" + _REST + rb"))"
# Scripts and Python files have other words like paths (sed's /x/p, parts of URLs): only the usual folders count there.
_USUAL = rb"(?:root|home|Users|project|work(?:space)?|builds?|__w|github|host|io)/"
_USUAL_PATH = _BEFORE + rb"(/(?:" + _OF_BUILDS + rb"|" + _USUAL + _REST + rb"))"
_COMMENT = rb"#(?!!)[^\n]*"
_SCRIPT = re.compile(r".*\.(sh|bash)|[^/]+\.data/scripts/[^/]+|(.*/)?(bin/[^/]+|[^/.]+)")
_CONFIGURATION = re.compile(r"(?i:(.*/)?_{0,2}(\w+_)?(config|configure|conf|build_?info)(_\w+)?_{0,2}\.py)")
_SOURCES = re.compile(rf"(.*/)?{re.escape(layout.HOME)}/{re.escape(layout.SOURCES)}/[^/]+/.+")
_LARGEST = 4 << 20  # bytes; larger files are not build files


def compilers(archive: Archive) -> tuple[BuildFileCompilers, ...]:
    """List the toolchains that a wheel's build files name by path or option. Raises MalformedError."""
    return tuple(each for file, text in _build_files(archive) for each in _compilers(file, text))


def build_paths(archive: Archive) -> tuple[BuildPath, ...]:
    """List the paths of other machines in a wheel's build files, scripts and configurations. Raises MalformedError."""
    return tuple(
        BuildPath(file, path, kind) for file, kind, text in _texts(archive) for path in _paths(kind, text)
    )


def _paths(kind: PathKind, text: bytes) -> Iterator[str]:
    found = re.findall(_PATH if kind == "build file" else _USUAL_PATH, re.sub(_COMMENT, b"", text))
    return (path.decode(errors="replace") for path in dict.fromkeys(found))


def _texts(archive: Archive) -> Iterator[tuple[str, PathKind, bytes]]:
    """Yield the files that may have paths of the build machine."""
    build_files = dict(_build_files(archive))
    for file, text in build_files.items():
        yield file, "build file", text
    for member in archive.members:
        name = member.name
        if name in build_files or member.size > _LARGEST or left_over_folder(name):
            continue
        if _SCRIPT.fullmatch(name) or _SOURCES.fullmatch(name):
            data = archive.data(member)
            if data.startswith(b"#!") or name.endswith((".sh", ".bash")):
                yield name, "script", data
        elif name.endswith(".py") and _CONFIGURATION.fullmatch(name) and not of_tests(member):
            yield name, "configuration", archive.data(member)


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
    small = (
        m
        for m in archive.members
        if m.name.lower().endswith((".icd", ".json")) and m.size <= _LARGEST_LOADER_FILES
    )
    files = (m for m in small if _FILE.fullmatch(m.name) and not left_over_folder(m.name))
    return frozenset(name.decode() for file in files for name in _LIBRARY.findall(archive.data(file)))
