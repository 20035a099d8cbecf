"""Tells by content what the files of a wheel that are no binaries may hold: text, data of a known format, or code.

Each of them is read once. Files that are packed are unpacked, also in each other. What remains is of unknown content:
nobody knows whether it is code.
"""

import base64
import bz2
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import log2
from typing import Literal, Protocol

from gpuforge.audit.model import Contents
from gpuforge.binary import ar, fatbin, ptx
from gpuforge.binary.window import Budget, find
from gpuforge.errors import MalformedError
from gpuforge.wheel.archive import BROKEN

_LEAST = 16  # bytes; nothing that a machine runs is smaller, even if it is packed
_MOST_DIGITS = 4 << 20  # bytes of a text whose numbers are read
_LEAST_INSIDE = 256  # bytes of data in a text
_MOST = 128 << 20  # bytes that are read of all these files of a wheel
UNPACKED = 32 << 20  # bytes of one packed file
_DEEPEST = 4  # packed files in each other
_LZMA_MEMORY = 128 << 20  # bytes of its dictionary; a header may demand 4 GB
# that the dynamic linker loads, and relocatable ones
_ELF = re.compile(rb"\x7fELF[\x01\x02][\x01\x02]\x01.{9}(?:[\x02\x03]\x00|\x00[\x02\x03])", re.DOTALL)
_RELOCATABLE = re.compile(rb"\x7fELF.{12}(?:\x01\x00|\x00\x01)", re.DOTALL)
_BITCODE = b"BC\xc0\xde"  # LLVM's, also for GPUs
# How texts write the beginning of a fatbin and that of an ELF file, in lower case and without the bytes of _BETWEEN: in
# strings with escapes, in octal and binary digits, in base64.
_WRITTEN = (
    b"xeduxbax01", b"xedx55xbax01", b"120355125272", b"0o1200o3550o1250o272", b"0b10100000b111011010b10101010b10111010",
    b"u0050u00edu0055u00ba", b"uo1vugeaea", b"dtvbobabaa", b"q7vw6aqaqa",
    b"x7felfx02x01x01", b"177elf0020", b"177elf21", b"0o1770o1050o1140o106", b"0b11111110b10001010b10011000b1000110",
    b"u007fu0045u004cu0046u0002", b"u007felfu0002", b"f0vmrgiba",
)  # fmt: skip
# The same as hexadecimal and decimal numbers of 8, 16, 32 and 64 bits, without "0x" and C's suffixes
_NUMBERED = (
    b"50ed55ba01", b"50ed55ba1", b"ed50ba550001", b"ed50ba551", b"50ed55ba0100", b"ba55ed5000100001", b"ba55ed50100001",
    b"100001ba55ed50",
    b"8023785186", b"6075247701116", b"31261934881048577", b"4503607048531280",
    b"80-1985-701", b"-4784-17835116", b"-11687738081048577",
    b"7f454c46020101", b"7f454c46211", b"457f464c01020001", b"457f464c1021", b"464c457f00010102", b"464c457f10102",
    b"10102464c457f", b"12769767021", b"17791179962581", b"117940364765794", b"282584257676671",
)  # fmt: skip
_LOWER = bytes(range(256)).lower()
_BETWEEN = b" \t\r\n,:'\"\\"
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_LONG = 1000  # characters of a line that may be data in letters
_LETTERS = re.compile(rb"(?<![\w+/-])[\w+/-]{1000,}={0,2}")
# Texts are looked at in samples: data in letters, digits or escapes that is longer than a step is in one of them.
_STEP, _SAMPLE = 1024, 512
_WORD = re.compile(rb"\S{40,}")  # no text for people has only such words
_ASCII = bytes(range(128))
_HEX = b"0123456789abcdefABCDEFxX"
_NUMBERS = re.compile(rb"\b(?:0[xX][0-9a-fA-F]{1,16}|[1-9]\d{0,18}|0)\b")
_DIGITS = re.compile(rb"(?<![\w.])[0-9a-fA-F]{32,}")
_BASE32 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567="
# Bits for each character: of 31 wheels no code, prose or list of names has more than 5.5; base64 of packed data has 5.9
_BITS = 5.7
# Formats of data by their first bytes, as in https://github.com/file/file/tree/master/magic/Magdir
_DATA = (
    b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"OggS", b"fLaC", b"II*\0", b"MM\0*", b"\0\0\1\0",
    b"\x93NUMPY", b"\x89HDF\r\n", b"MATLAB 5.0", b"SR\0\4", b"SIMPLE  =", b"CDF\1", b"CDF\2", b"CDF\5", b"PAR1",
    b"ARROW1", b"SQLite format 3", b"TZif", b"\xde\x12\x04\x95", b"\x95\x04\x12\xde", b"%PDF",
    b"\0\1\0\0\0", b"OTTO", b"ttcf", b"wOFF", b"wOF2",
    # code that Linux does not load: for Windows, macOS, WebAssembly, and SPIR-V and DXIL, which the audit names
    b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm", b"\3\2\x23\7", b"DXBC",
)  # fmt: skip
# Their last bytes, before line breaks and padding
_ENDS = {
    b"\x89PNG": b"IEND\xaeB`\x82", b"\xff\xd8\xff": b"\xff\xd9", b"GIF8": b";", b"%PDF": b"%%EOF", b"PAR1": b"PAR1",
    b"ARROW1": b"ARROW1",
}  # fmt: skip
_MORE = 0b10100  # gzip: FEXTRA, FCOMMENT (RFC 1952)
_SKIPPED = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")  # zstd: a frame that readers skip (RFC 8878)
_BETWEEN_MEMBERS = 64  # bytes of a zip file beside a member's content and names


class _Inflater(Protocol):
    def decompress(self, data: bytes, /, limit: int) -> bytes: ...


class Reader:
    """Collects what the files of one wheel hold."""

    def __init__(self, budget: Budget) -> None:
        """Spend the wheel's `budget` for what is unpacked."""
        self._budget = budget
        self._left = _MOST
        self._code: dict[str, Literal["ELF", "GPU code"]] = {}
        self._unknown: list[str] = []
        self._data: list[str] = []
        self._unpackable: list[str] = []

    def fits(self, size: int) -> bool:
        """Return whether a file of this size is still read."""
        return size <= self._left

    def add(self, file: str, data: bytes | None) -> None:
        """Add a file with its content; None if it is not read."""
        if data is None:
            self._unknown.append(file)
            return
        self._left -= len(data)
        linked = data.startswith(ar.MAGIC)  # the GPU code in its objects was found when they were read
        try:
            for part, packed in parts(data, self._budget):
                if not (linked and _RELOCATABLE.match(part)):
                    self._judge(file, part, packed=packed)
        except MalformedError:
            self._unpackable.append(file)

    def add_code(self, file: str) -> None:
        """Add a file that has GPU code which is not judged."""
        self._code[file] = "GPU code"

    def contents(self) -> Contents:
        """Return what was found."""
        return Contents(
            self._code,
            *(tuple(dict.fromkeys(each)) for each in (self._unknown, self._unpackable, self._data)),
        )

    def _judge(self, file: str, data: bytes, *, packed: bool) -> None:
        if len(data) < _LEAST or data.startswith(ar.MAGIC):
            return
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            with suppress(UnicodeDecodeError):
                data = data.decode("utf-16").encode()
        if _is_text(data):
            self._judge_text(file, data)
        elif find(data, b"\x7fELF") >= 0 and _ELF.search(data):
            self._code[file] = "ELF"
        elif find(data, fatbin.START) >= 0 or ptx.occurs(data) or data.startswith(_BITCODE):
            self._code.setdefault(file, "GPU code")
        elif not packed:
            is_data = _is_data(data) or (file.endswith(".pyc") and data[2:4] == b"\r\n")
            (self._data if is_data else self._unknown).append(file)

    def _judge_text(self, file: str, data: bytes) -> None:
        """Judge a text and the data that it has in letters, digits or escapes."""
        plain = data.translate(_LOWER, _BETWEEN)
        numbered = plain.translate(None, b"ul").replace(b"0x", b"")
        written = any(find(plain, word) >= 0 for word in _WRITTEN)
        if written or any(find(numbered, word) >= 0 for word in _NUMBERED) or ptx.occurs(data):
            self._code.setdefault(file, "GPU code")
        judged = False
        for line in _long_lines(data):
            for written in _LETTERS.findall(line):
                self._judge_inside(file, _of_letters(written))
                judged = True
        if judged:
            data = _LETTERS.sub(b"", data)
        if file.endswith(".dist-info/RECORD"):  # which has hashes
            return
        samples = [data[at : at + _SAMPLE] for at in range(0, len(data), _STEP)]
        if not data.isascii() and any(len(s.translate(None, _ASCII)) * 5 > 2 * len(s) for s in samples):
            self._judge_other_letters(file, data)
        kinds = set(map(_kind_of_sample, samples))
        if "letters" in kinds or ("digits" in kinds and len(data) > _MOST_DIGITS):
            self._unknown.append(file)
        elif "digits" in kinds:
            self._judge_inside(file, b"".join(map(_of_letters, _DIGITS.findall(data))))
            numbers = [int(number, 0) for number in _NUMBERS.findall(data)]
            values = [number for number in numbers if number < 256]
            if len(values) * 10 > len(numbers) * 9:  # else it is a table of other numbers
                self._judge_inside(file, bytes(values))

    def _judge_other_letters(self, file: str, data: bytes) -> None:
        """Judge a text of letters beyond ASCII, which may stand for any bytes: in UTF-8 it is usually prose."""
        try:
            data.decode()
        except UnicodeDecodeError:
            self._unknown.append(file)
        else:
            self._data.append(file)

    def _judge_inside(self, file: str, content: bytes) -> None:
        if len(content) < _LEAST_INSIDE:
            return
        self._budget.spend("bytes", len(content))
        for part, packed in parts(content, self._budget):
            self._judge(file, part, packed=packed)


def _is_data(data: bytes) -> bool:
    """Return whether bytes are data of a known format, by their first and last bytes and the sizes in their headers."""
    if data.startswith(b"MZ"):
        at = int.from_bytes(data[0x3C:0x40], "little")
        return data[at : at + 4] == b"PE\0\0"
    if data.startswith(b"RIFF"):
        return int.from_bytes(data[4:8], "little") + 8 == len(data)
    end = next((end for start, end in _ENDS.items() if data.startswith(start)), b"")
    return data.startswith(_DATA) and data.rstrip(b"\r\n\0").endswith(end)


def _of_letters(written: bytes) -> bytes:
    """Return the content of hexadecimal digits or of base64."""
    try:
        return bytes.fromhex(written.decode())
    except ValueError:
        digits = written.rstrip(b"=").translate(_URL_SAFE)
        return base64.b64decode(digits[: len(digits) - (len(digits) % 4 == 1)] + b"==")


def _kind_of_sample(text: bytes) -> Literal["", "letters", "digits"]:
    """Return how a part of a text may have data in it: in letters or escapes, which are not read, or in digits."""
    if len(text) < _SAMPLE:
        return ""
    if text.count(b"\\") * 6 > len(text):
        return "letters"
    digits = text.translate(None, _BETWEEN)
    if len(digits) * 2 > len(text) and len(digits.translate(None, _HEX)) * 20 < len(digits):
        return "digits"
    if text.count(b" ") * 6 > len(text) or sum(map(len, _WORD.findall(text))) * 4 < 3 * len(text):
        return ""
    if not digits.translate(None, _BASE32) or _bits(digits) > _BITS:
        return "letters"
    return ""


def _bits(text: bytes) -> float:
    """Return the entropy of a text, in bits for each character."""
    return -sum(count / len(text) * log2(count / len(text)) for count in Counter(text).values())


def parts(data: bytes, budget: Budget, depth: int = 0) -> Iterator[tuple[bytes, bool]]:
    """Yield the content of a file and all that is packed in it, each with whether it is packed itself.

    Raises MalformedError for what cannot be unpacked.
    """
    unpack = _unpacker(data)
    yield data, unpack is not None
    if unpack is None:
        return
    if depth == _DEEPEST:
        raise MalformedError.of("it is packed too often")
    try:
        for part in unpack(data):
            budget.spend("bytes", len(part))
            budget.spend("entries", 1)
            yield from parts(part, budget, depth + 1)
    except (RuntimeError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError, *BROKEN) as error:
        raise MalformedError.of(str(error)) from error


def _long_lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines that are longer than _LONG; of others only the ends are looked for."""
    start = 0
    while start + _LONG < len(data):
        end = data.rfind(b"\n", start, start + _LONG + 1)
        if end < 0:
            end = data.find(b"\n", start)
            yield data[start : end if end >= 0 else len(data)]
            if end < 0:
                return
        start = end + 1


def _is_text(data: bytes) -> bool:
    """Return whether bytes are text: they have no NUL, and are UTF-8 or of an older encoding without control bytes."""
    if b"\0" in data:
        return False
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return re.search(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]", data) is None
    return True


def _unpacker(data: bytes) -> Callable[[bytes], Iterator[bytes]] | None:
    if data.startswith(b"PK\3\4"):
        return _zip
    if data.startswith(ar.MAGIC):
        return _ar
    if data[257:262] == b"ustar":
        return _tar
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd
    return _stream if _inflater(data) else None


def _inflater(data: bytes) -> _Inflater | None:
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31)
    # RFC 1950
    if data.startswith((b"x\x01", b"x\x9c", b"x\xda")) or (data.startswith(b"x^") and not _is_text(data)):
        return zlib.decompressobj()
    if data.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    is_lzma = data.startswith((b"\xfd7zXZ\0", b"\x5d\0\0"))
    return lzma.LZMADecompressor(memlimit=_LZMA_MEMORY) if is_lzma else None


def _stream(data: bytes) -> Iterator[bytes]:
    """Yield the content of each stream; raises the errors of its library, and MalformedError if it is too large."""
    left = data
    while inflater := _inflater(left):
        if left.startswith(b"\x1f\x8b") and int.from_bytes(left[3:4]) & _MORE:
            raise MalformedError.of("its header has more than a name")
        yield inflater.decompress(left, UNPACKED)
        left = getattr(inflater, "unused_data", b"")
        if not getattr(inflater, "eof", True):
            raise MalformedError.of("it is cut off or too large")
    if len(left) >= _LEAST:
        raise MalformedError.of("something follows its end")


def _zstd(data: bytes) -> Iterator[bytes]:
    import zstandard  # noqa: PLC0415  few wheels have such files

    if _SKIPPED.search(data):
        raise MalformedError.of("readers skip a part of it")
    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as stream:
            yield _bounded(stream.read(UNPACKED + 1))
    except zstandard.ZstdError as error:
        raise MalformedError.of(str(error)) from error


def _ar(data: bytes) -> Iterator[bytes]:
    yield from (member.data for member in ar.members(data) if member.data)


def _zip(data: bytes) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        known = sum(i.compress_size + 2 * (len(i.filename.encode()) + len(i.extra)) for i in members)
        if len(data) - known - 22 > (30 + 46 + _BETWEEN_MEMBERS) * len(members) + _LONG:
            raise MalformedError.of("something is between its members")
        for info in archive.infolist():
            with archive.open(info) as member:
                yield _bounded(member.read(UNPACKED + 1))


def _tar(data: bytes) -> Iterator[bytes]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for info in archive:
            if member := archive.extractfile(info):
                yield _bounded(member.read(UNPACKED + 1))
        if data[archive.offset :].strip(b"\0"):
            raise MalformedError.of("something follows its end")


def _bounded(content: bytes) -> bytes:
    if len(content) > UNPACKED:
        raise MalformedError.of("it is too large")
    return content
