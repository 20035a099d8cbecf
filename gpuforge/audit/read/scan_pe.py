"""Read one DLL, module or program of Windows in a wheel: the DLLs that it imports, and its GPU code."""

import re
from contextlib import suppress

from gpuforge.audit.read.scan import Scanned
from gpuforge.binary import fatbin, pe
from gpuforge.binary.window import MissedError, Window
from gpuforge.errors import CorruptError, MalformedError
from gpuforge.wheel.archive import Archive, Member

_HEAD = 1 << 16  # bytes that are kept of any file
_MORE = 1 << 20  # bytes that are kept behind the first that was missed
_PASSES = 4


def dlls(archive: Archive, *, named: bool) -> list[Member]:
    """Return the members that begin as programs of Windows do; with `named` only those with a DLL's name."""
    members = (m for m in archive.members if m.packed)
    if named:
        members = (m for m in members if m.name.lower().endswith((".dll", ".pyd")))
    return [m for m in members if _head(archive, m) == pe.MAGIC]


def _head(archive: Archive, member: Member) -> bytes:
    try:
        return archive.head(member, 2)
    except MalformedError:  # the readers of other files report it
        return b""


def scan_pe(archive: Archive, member: Member) -> Scanned:
    """Read one file; damage inside it becomes its `problem`."""
    try:
        return _scan(archive, member)
    except MalformedError as error:
        corrupt = isinstance(error, CorruptError)
        return Scanned(member.name, problem=error.diagnostics[0].message, corrupt=corrupt)


def _scan(archive: Archive, member: Member) -> Scanned:
    scanner = fatbin.Scanner(member.size, wheel=archive.budget)
    window = Window(member.size, budget=archive.budget)
    ranges = [(0, min(member.size, _HEAD))]
    for attempt in range(_PASSES):
        offset = 0
        for chunk in archive.chunks(member):
            if not attempt:
                scanner.feed(offset, chunk)
            for start, stop in ranges:
                window.keep(offset, chunk, start, stop)
            if not attempt and not offset:
                ranges += _tables(window)
                for start, stop in ranges[1:]:
                    window.keep(offset, chunk, start, stop)
            offset += len(chunk)
        try:
            found = pe.read(window, member.name)
            break
        except MissedError as missed:
            ranges = [(missed.start, min(member.size, missed.stop + _MORE))]
    else:
        raise MalformedError.of("its tables are too far from each other")
    scanner.finish()
    if found is None:
        return Scanned(member.name, containers=tuple(scanner.containers), hidden=bool(scanner.texts))
    containers = tuple(fatbin.placed(scanner.containers, found.sections))
    return Scanned(member.name, pe=found, containers=containers, hidden=bool(scanner.texts))


def _tables(window: Window) -> list[tuple[int, int]]:
    try:
        return list(pe.tables(window))
    except (MalformedError, MissedError):  # `pe.read` reports it, or reads on
        return []


# Code that adds a folder to those in which Windows looks for DLLs, or that loads DLLs by itself
_LOADS = re.compile(rb"add_dll_directory|\b(?:WinDLL|CDLL|LoadLibrary\w*|load_nvidia_dynamic_lib)\(")
_LARGEST = 1 << 20  # bytes; larger Python files are data


def loads_dlls(archive: Archive) -> bool:
    """Return whether Python code of a wheel for Windows adds folders of DLLs, or loads DLLs by itself."""
    for member in archive.members:
        if member.name.endswith(".py") and member.packed and member.size <= _LARGEST:
            with suppress(MalformedError):  # the reader of Python code reports it
                if _LOADS.search(archive.data(member)):
                    return True
    return False
