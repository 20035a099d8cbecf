"""Checks names, modes and methods of members, which may lead elsewhere, clash, or be installed as something else."""

import re
import stat
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from gpuforge.wheel.checks import extra_fields
from gpuforge.wheel.checks.refusal import Refusal

# in names, one per line: names of printable ASCII without these have no problem
_SIGNS = ("\\", ":", "//", "\n/", "\n\n", "/./", "/../", "/.\n", "/..\n", "\n./", "\n../", "\n.\n", "\n..\n")
_DRIVE = re.compile(r"[A-Za-z]:")
_ENCRYPTED, _UTF8 = 1, 0x800
_PLAIN = {0, stat.S_IFREG, stat.S_IFDIR}
# mode's type and special bits, method, encrypted
_USUAL = {(kind >> 9, method, 0) for kind in _PLAIN for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)}
_SPECIAL = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX


def check(entries: Sequence[zipfile.ZipInfo]) -> Iterator[Refusal]:
    """Yield the problems of each member, and of pairs of them."""
    names = [info.orig_filename for info in entries]
    if odd := _is_odd(names):
        for info in entries:
            yield from _name(info)
    if (
        not {(info.external_attr >> 25, info.compress_type, info.flag_bits & _ENCRYPTED) for info in entries}
        <= _USUAL
    ):
        for info in entries:
            yield from _special(info)
    for info in (info for info in entries if info.extra):
        name = raw_name(info)
        if (other := extra_fields.second_name(info.extra, name)) not in {b"", name}:
            yield Refusal(
                "other name", info.orig_filename, {"name": other.decode("utf-8", "backslashreplace")}
            )
    for info in (info for info in entries if info.file_size and info.orig_filename.endswith("/")):
        yield Refusal("folder with data", info.orig_filename, {"size": info.file_size})
    yield from (Refusal("member comment", info.orig_filename) for info in entries if info.comment)
    yield from _clashes([_normal(name) for name in names] if odd else names)


def _is_odd(names: Sequence[str]) -> bool:
    text = "\n".join(["", *names, ""])
    printable = text.isascii() and text.replace("\n", "").isprintable() and text.count("\n") == len(names) + 1
    return not printable or any(sign in text for sign in _SIGNS)


def _special(info: zipfile.ZipInfo) -> Iterator[Refusal]:
    """Yield the kinds of a member that is not a plain or deflated file."""
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in _PLAIN:
        yield Refusal("link", info.orig_filename)
    elif mode & _SPECIAL and not info.filename.endswith("/"):
        yield Refusal("special mode", info.orig_filename, {"mode": stat.filemode(mode)})
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        yield Refusal("method", info.orig_filename, {"method": info.compress_type})
    if info.flag_bits & _ENCRYPTED:
        yield Refusal("encrypted", info.orig_filename)


def _name(info: zipfile.ZipInfo) -> Iterator[Refusal]:
    """Yield the first problem of a name."""
    name = info.orig_filename
    kind = ""
    if any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in name):
        kind = "control characters"
    elif not name.isascii() and not info.flag_bits & _UTF8:
        kind = "encoding"
    elif not name.isascii() and any(unicodedata.category(letter).startswith("C") for letter in name):
        kind = "unprintable"
    elif _leads_out(name):
        kind = "path"
    elif "\\" in name or _DRIVE.match(name):
        kind = "path on Windows"
    elif ".." in PurePosixPath(name).parts:
        kind = "roundabout path"
    if kind:
        yield Refusal(kind, name)


def raw_name(info: zipfile.ZipInfo) -> bytes:
    """Return a member's name as the bytes of the directory."""
    name = info.orig_filename
    return name.encode() if info.flag_bits & _UTF8 or name.isascii() else name.encode("cp437")


def _leads_out(name: str) -> bool:
    depth = 0
    for part in PurePosixPath(name).parts:
        depth += -1 if part == ".." else 1
        if part.startswith("/") or depth < 0:
            return True
    return not depth


def _normal(name: str) -> str:
    """Return a name as the file system resolves it."""
    return f"{PurePosixPath(name)}{'/' if name.endswith('/') else ''}"


def _clashes(names: Sequence[str]) -> Iterator[Refusal]:
    files = [name for name in names if not name.endswith("/")]
    unique = set(files)
    if len(unique) != len(files):
        yield from (Refusal("duplicate", name) for name, count in Counter(files).items() if count > 1)
    ordered = sorted({name.replace("/", "\0") for name in names})  # a folder is followed by its content
    for name, following in pairwise(ordered):
        if following.startswith(f"{name}\0") and not name.endswith("\0"):
            yield Refusal("file and folder", name.replace("\0", "/"))
    if len({_folded(name) for name in unique}) != len(unique):
        seen: dict[str, str] = {}
        for name in sorted(unique):
            other = seen.setdefault(_folded(name), name)
            if other != name:
                yield Refusal("case", name, {"name": other})


def _folded(name: str) -> str:
    """Return a value that is the same for names of one file on macOS or Windows."""
    return name.lower() if name.isascii() else unicodedata.normalize("NFC", name).lower()
