"""Find the Python code of a wheel that loads shared libraries by itself, before the linker would look for them.

A reading of text, not of behaviour: it says "this file loads such libraries", never that it always does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator

from gpuforge.audit.inflate import Archive
from gpuforge.audit.model import Preload
from gpuforge.audit.search import find

# quicker to look for than the pattern
_CALLS = (b"CDLL(", b"ibrary(", b"ibraries(", b"loadPlugins", b"dynamic_lib(")
_LOADS = re.compile(rb"\bCDLL\(|\bload_nvidia_dynamic_lib\(|\b[lL]oad_?\w*(?:[lL]ibrar|Plugins)\w*\(")
# The C library is in every process: who opens it wants to call it, and loads nothing.
_LIBC = re.compile(
    rb"\bCDLL\(\s*(?:name\s*=\s*)?(?:None|[\"'](?:libc\.so\.6)?[\"']|[\w.]*find_library\(\s*[\"']c[\"']\s*\))"
)
# A framework opens what it is given, which is an object of its own kind: nothing that others need comes of it.
_OPS = re.compile(rb"\b(?:ops|classes|tf|tensorflow)\.load_(?:op_)?library\(|\bload_op_library\(")
_OPENED = re.compile(rb"\b(?:CDLL|LoadLibrary|load_nvidia_dynamic_lib)\(([^\n]{0,400})")
_WRITTEN = re.compile(rb"[\"'][\w./-]{3,}[\"']")  # a name, and no pattern to fill in
# A program is told where to look when it is started.
_STARTS = re.compile(rb"\bPopen\(|\bsubprocess\.\w+\(|\bos\.(?:exec|spawn|posix_spawn)\w*\(|\bos\.system\(")
# What is called like a program starts it: a script that pip puts beside Python, or a console entry point.
_SCRIPT = re.compile(r"[^/]+\.data/scripts/([^/]+)")
_BESIDE = re.compile(r"[^/]+\.data/(?:purelib|platlib)/")
_PYTHON = re.compile(rb"#!\s*(?:python|\S*/(?:env\s+)?python)")
_IMPORTS = re.compile(rb"^[ \t]*(?:from|import)[ \t]+(\w+)", re.MULTILINE)
_ENTRY_POINTS = re.compile(r"[^/]+\.dist-info/entry_points\.txt")
_CONSOLE = re.compile(rb"^\[(\S+?)\]|^[ \t]*([\w.-]+)[ \t]*=[ \t]*(\w+)", re.MULTILINE)
# Libraries may also be handed over to compiled code that opens them: by a variable of the package's own.
_HANDS_OVER = re.compile(rb"environ\[\s*[\"'](?!LD_)\w*LIB\w*[\"']\s*\]\s*=[^=]")
_NAMES = re.compile(rb"\blib(\w+)\.so|[\"'](?:lib)?([A-Za-z]\w+)[\"']")
# A bare name is looked for where the linker looks, too, so opening it changes nothing: a path has to be made of it.
_BARE = re.compile(rb"[\"']lib\w+\.so")
_PATHS = re.compile(
    rb"__file__|__path__|purelib|platlib|site-packages|sys\.path|sys\.prefix|os\.path\.|\bPath\(|find_spec|os\.environ|getenv"
    rb"|resources|\bglob|listdir|iterdir|scandir|\bwalk\(|\bfiles\(|import nvidia"
)
_WHOLE_FOLDERS = re.compile(rb"\bi?r?glob\(|listdir\(|iterdir\(|scandir\(")
_LARGEST = 4 << 20  # bytes; larger Python files are data
_LARGEST_SCRIPT = 1 << 18  # bytes
_LISTS = (".json", ".toml", ".cfg", ".txt")
_LARGEST_LIST = 1 << 18  # bytes
# one by one: each is searched for by its letters
_CUDAS = tuple(map(re.compile, (rb"cu\w+", rb"nv\w+", rb"nccl\w*")))


def loaders(archive: Archive) -> tuple[Preload, ...]:
    """List the Python files of a wheel that load libraries, with the names they speak of. Raises MalformedError."""
    found = tuple(_loaders(archive))
    found += tuple(_launchers(archive, {_package(p.file) for p in found if p.starts}))
    lists = [p for p in found if (p.everything or p.pathfinder) and not p.fixed and not p.ops]
    if not lists:
        return found
    near = _listed(archive, {p.file.rpartition("/")[0] for p in lists})
    # who calls cuda.pathfinder means NVIDIA's libraries, and may be told which by any module
    told = near | _listed(archive, None) if any(p.pathfinder for p in lists) else near
    return tuple(p._replace(listed=told if p.pathfinder else near) for p in found)


def _loaders(archive: Archive) -> Iterator[Preload]:
    for member in archive.members:
        if not member.name.endswith(".py") or member.size > _LARGEST:
            continue
        text = archive.data(member)
        starts = find(text, b"LD_LIBRARY_PATH") >= 0 and _STARTS.search(text) is not None
        if not _opens(text):
            if starts:
                yield Preload(member.name, False, False, frozenset(), bare=True, ops=True, starts=True)
            continue
        pathfinder = b"load_nvidia_dynamic_lib(" in text
        names = {a or b for a, b in _NAMES.findall(text)}
        opened = _OPENED.findall(_LIBC.sub(b"", text))
        yield Preload(
            file=member.name,
            pathfinder=pathfinder,
            everything=b"RTLD_GLOBAL" in text and b"CDLL(" in text,
            folders=_WHOLE_FOLDERS.search(text) is not None,
            bare=not pathfinder and _BARE.search(text) is not None and _PATHS.search(text) is None,
            ops=not _opens(_OPS.sub(b"", text)),
            starts=starts,
            fixed=bool(opened) and all(_WRITTEN.search(argument) for argument in opened),
            names=frozenset(name.decode("ascii", "replace") for name in names),
        )


def _launchers(archive: Archive, starting: Collection[str]) -> Iterator[Preload]:
    """Yield the scripts and console entry points that may start a program of their name with a path to libraries.

    Their code is in one of the wheel's packages that do so (`starting`), or in a package of others, which nobody here
    has read.
    """
    found = [m for m in archive.members if "/scripts/" in m.name or m.name.endswith("/entry_points.txt")]
    own = {_package(member.name) for member in archive.members} if found else set()
    known = (own | sys.stdlib_module_names) - set(starting)
    for member in found:
        script = _SCRIPT.fullmatch(member.name)
        if not (script or _ENTRY_POINTS.fullmatch(member.name)) or member.size > _LARGEST_SCRIPT:
            continue
        text = archive.data(member)
        if not script:
            names = {name for name, top in _console(text) if top not in known}
        elif _PYTHON.match(text):
            names = {script[1]} if {top.decode() for top in _IMPORTS.findall(text)} - known else set()
        else:
            continue
        if names:
            yield Preload(member.name, False, False, frozenset(names), bare=True, ops=True, starts=True)


def _package(member: str) -> str:
    """Return the name by which what a member is in is imported: "demo" for demo/run.py and for demo.py."""
    installed = _BESIDE.sub("", member) if ".data/" in member else member
    return installed.partition("/")[0].removesuffix(".py")


def _console(text: bytes) -> Iterator[tuple[str, str]]:
    """Yield the names of console entry points, each with the package that its function is in."""
    group = b""
    for section, name, top in _CONSOLE.findall(text):
        group = section or group
        if name and group == b"console_scripts":
            yield name.decode(), top.decode()


def _listed(archive: Archive, folders: set[str] | None) -> frozenset[str]:
    """Return CUDA's words in the Python files and lists in `folders`, or in all Python files. Raises MalformedError."""
    found: set[bytes] = set()
    for member in archive.members:
        near = folders is not None and member.name.rpartition("/")[0] in folders
        code = member.name.endswith(".py") and member.size <= _LARGEST and (near or folders is None)
        beside = near and member.name.endswith(_LISTS) and member.size <= _LARGEST_LIST
        if code or beside:
            text = archive.data(member)
            found.update(*(pattern.findall(text) for pattern in _CUDAS))
    return frozenset(name.decode("ascii", "replace") for name in found)


def _opens(text: bytes) -> bool:
    called = any(find(text, call) >= 0 for call in _CALLS) and _LOADS.search(text)
    if called and _LOADS.search(_LIBC.sub(b"", text)):
        return True
    return find(text, b"environ[") >= 0 and _HANDS_OVER.search(text) is not None
