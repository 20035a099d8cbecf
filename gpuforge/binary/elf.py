"""Read what an ELF file says of itself: dynamic section, symbol versions, segments, notes, sections.

Formats: System V gABI chapters 4 and 5, LSB core "Symbol Versioning", and glibc's elf.h.
"""

import contextlib
import re
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from gpuforge.binary.facts import ElfObject, Section, VersionNeed
from gpuforge.binary.search import find, find_all
from gpuforge.binary.window import MissedError, Window
from gpuforge.cuda import symbols as cuda
from gpuforge.errors import MalformedError

try:
    from gpuforge.binary._find import add_up
except ImportError:  # it was installed without a C compiler
    add_up = None

MAGIC = b"\x7fELF"
EM_CUDA = 190

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 3, 4, 0x6474E551, 0x6474E552
PF_X = 1
DT_NULL, DT_NEEDED, DT_STRTAB, DT_STRSZ, DT_SONAME, DT_RPATH, DT_RUNPATH = 0, 1, 5, 10, 14, 15, 29
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_NAMES = (DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH)
SHT_NOBITS = 8
EM_X86_64 = 62
_X86_ISA_1_NEEDED = 0xC0008002
_SDK_PATH = rb"/hpc_sdk/[^/\0]+/(\d{1,4}\.\d{1,4})/"
_SDK_PRODUCER = rb"NVC(?:\+\+)? (\d{1,4}\.\d{1,4})-\d+"
_MENTIONED = re.compile(rb"lib(?<!\wlib)(?:cu|nv|nccl)\w+\.so\.\d+(?=\0)")
_PYTHON = rb"_?Py[A-Z_]\w*"
# what the HPC SDK's runtimes give and want of one another
_HPC = rb"__pgi\w+|__nv(?:omp|hpc|_)\w+|__c_m\w+"
_LONGEST_DYNSTR = 32 << 20  # bytes of .dynstr that are kept, and searched for a compiler's traces
_PRINTABLE = bytes(range(0x20, 0x7F))
_WORD = 5  # bytes of a note that are a word: fewer may be a number
_KERNEL = ".text."  # with its name: the section of its machine code
_TOOL = ".note.nv.tkinfo"
_PLACE = struct.Struct("<QQ")  # sh_offset and sh_size
_SLACK = 1 << 16  # bytes kept around what is known to be wanted
_PAGE = 1 << 16  # bytes; the most that linkers align segments to
_SMALL = 4 << 20  # bytes of a segment that is kept whole
_CONSTANTS = 8 << 20  # bytes of .rodata that are searched for names of libraries
_READ_ONLY = 4  # PF_R: the segment that .rodata begins, where code has one of its own
_LONGEST_DYNAMIC = 1 << 20  # bytes
_LONGEST_VERSION = 1 << 10  # characters of a symbol version, which ends in numbers


class Segment(NamedTuple):
    """A program header."""

    type: int
    flags: int
    offset: int
    address: int
    size: int  # bytes in the file


class Header(NamedTuple):
    """The ELF header, and the program headers that it names."""

    bits: int
    order: str  # struct's byte order: "<" or ">"
    type: int
    machine: int
    section_offset: int
    section_size: int
    section_count: int
    section_names: int
    segments: tuple[Segment, ...]


def read(window: Window, *, wheel: str = "", file: str = "") -> ElfObject:
    """Read the ELF file in `window`, all but its device code.

    Raises MalformedError when it contradicts itself, MissedError (of `source`) when a range was not kept.
    """
    header = read_header(window)
    if header.machine == EM_CUDA:  # no linker reads what else it has
        kinds, comment = _of_cubin(window, header)
        size, bits, machine, kind = window.size, header.bits, header.machine, header.type
        return ElfObject(wheel, file, size, bits, machine, kind, comment=comment, sections=kinds)
    dynamic, strings = _dynamic(window, header)
    values = dict(reversed(dynamic))  # of a repeated tag the first counts
    sections = _sections(window, header)
    markers = _markers(strings)
    symbols = _hpc_symbols(window, header, sections, strings) if "nvhpc" in markers else (frozenset(),) * 2

    called = _cuda_symbols(window, header, sections, strings)

    def text(tag: int) -> str | None:
        return strings.text(values[tag]) if tag in values else None

    return ElfObject(
        wheel=wheel,
        file=file,
        size=window.size,
        bits=header.bits,
        machine=header.machine,
        type=header.type,
        dynamic=dynamic,
        soname=text(DT_SONAME) or "",
        needed=tuple(strings.text(value) for tag, value in dynamic if tag == DT_NEEDED),
        rpath=text(DT_RPATH),
        runpath=text(DT_RUNPATH),
        interpreter=_interpreter(window, header),
        version_needs=tuple(_version_needs(window, header, values, strings)),
        version_definitions=tuple(_version_definitions(window, header, values, strings)),
        stack=next((s.flags for s in header.segments if s.type == PT_GNU_STACK), None),
        relro=any(s.type == PT_GNU_RELRO for s in header.segments),
        isa=_isa(window, header),
        build_id=_build_id(window, header),
        comment=_comment(window, sections),
        sections=sections,
        markers=markers,
        producers=_producers(window, sections, strings),
        mentions=_mentions(window, sections),
        python=_python(window, header, sections, strings) if _stable_abi(wheel, file) else frozenset(),
        calls=called[0],
        offers=called[1],
        wants=symbols[0],
        gives=symbols[1],
    )


def is_cubin(head: bytes) -> bool:
    """Say whether a file that begins with these bytes is machine code for a GPU."""
    return head[:6] == MAGIC + b"\2\1" and head[18:20] == EM_CUDA.to_bytes(2, "little")


def outline(window: Window, header: Header) -> list[tuple[int, int]]:
    """Return the ranges (start, stop) that `read` will want, as far as what was kept tells.

    Once the dynamic section is there, what it points to is in the list, too. Raises MalformedError.
    """
    small = (PT_DYNAMIC, PT_INTERP, PT_NOTE)
    wanted = [(s.offset, s.offset + s.size) for s in header.segments if s.type in small]
    wanted.append((window.size - _SLACK, window.size))  # the sections' names, mostly
    loaded = sorted((s.offset, s.offset + s.size) for s in header.segments if s.type == PT_LOAD)[-4:]
    wanted += [(end, end + _SLACK) for _, end in loaded]  # .comment, the first of what is not loaded
    # what lies before a segment that patchelf appended ends with the sections' names
    wanted += [(start - _SLACK, start) for (_, end), (start, _) in pairwise(loaded) if start - end > _PAGE]
    # small ones whole: patchelf's, with what it moved
    wanted += [(start, end) for start, end in loaded if end - start <= _SMALL]
    constants = (s for s in header.segments if s.type == PT_LOAD and s.flags == _READ_ONLY and s.offset)
    wanted += [(s.offset, s.offset + min(s.size, _CONSTANTS)) for s in constants]
    if header.section_count:
        end = header.section_offset + header.section_count * header.section_size
        wanted.append((header.section_offset - _SLACK, end))
    with contextlib.suppress(MissedError):
        entries = _entries(window, header)
        values = dict(reversed(entries))
        if DT_STRTAB in values and DT_STRSZ in values:
            start, size = _file_offset(header, values[DT_STRTAB]), values[DT_STRSZ]
            if size <= _LONGEST_DYNSTR:
                wanted.append((start, start + size))
            else:
                names = (value for tag, value in entries if tag in _NAMES)
                wanted += [(start + name, start + name + _SLACK) for name in names if name < size]
        tables = (_file_offset(header, values[tag]) for tag in (DT_VERNEED, DT_VERDEF) if tag in values)
        wanted += [(start, start + _SLACK) for start in tables]
    return [
        (max(0, start), min(stop, window.size)) for start, stop in wanted if start < min(stop, window.size)
    ]


def front(header: Header, limit: int) -> list[tuple[int, int]]:
    """Return the ranges of the first `limit` bytes that are not code: names, versions, constants, debug info.

    All of it where the first segment has code and the rest too, as linkers once did.
    """
    segments = sorted((s.offset, s.size, s.flags) for s in header.segments if s.type == PT_LOAD)
    if segments and segments[0][2] & PF_X:
        segments = []
    ranges, at = [], 0
    for offset, size, _ in (s for s in segments if s[2] & PF_X):
        ranges.append((at, min(offset, limit)))
        at = max(at, offset + size)
    return [(start, stop) for start, stop in [*ranges, (at, limit)] if start < stop]


def loaded(header: Header) -> int:
    """Return where in the file its last loaded segment ends."""
    return max((s.offset + s.size for s in header.segments if s.type == PT_LOAD), default=0)


def read_header(window: Window) -> Header:
    """Read the headers. Raises MalformedError, and MissedError where they were not kept."""
    ident = window.read(0, 16)
    if ident[:4] != MAGIC or ident[4] not in (1, 2) or ident[5] not in (1, 2):
        raise MalformedError.of("its first 16 bytes are not an ELF header")
    bits, order = 32 * ident[4], "<>"[ident[5] - 1]
    layout = _layout(order + ("HHIIIIIHHHHHH" if bits == 32 else "HHIQQQIHHHHHH"))
    (kind, machine, _, _, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, shstrndx) = layout.unpack(
        window.read(16, layout.size)
    )
    segments = _segments(window, bits, order, phoff, phentsize, phnum)
    if shoff and shnum == 0:  # more than 65279 sections: the count is in the first header
        first = _section_headers(window, bits, order, shoff, shentsize, 1)[0]
        shnum, shstrndx = first[3], first[4] if shstrndx == 0xFFFF else shstrndx
    if shnum * shentsize > window.size:
        raise MalformedError.of(f"{shnum} section headers do not fit into it")
    return Header(bits, order, kind, machine, shoff, shentsize, shnum if shoff else 0, shstrndx, segments)


@cache
def _layout(fields: str) -> struct.Struct:
    return struct.Struct(fields)


def _segments(
    window: Window, bits: int, order: str, offset: int, size: int, count: int
) -> tuple[Segment, ...]:
    if not count:
        return ()
    layout = _layout(order + ("III4xI4xI4x" if bits == 32 else "IIQQ8xQ16x"))
    if size < layout.size:
        raise MalformedError.of(f"program headers of {size} bytes")
    table = window.read(offset, size * count)
    found = [layout.unpack_from(table, index * size) for index in range(count)]
    if bits == 32:
        found = [(kind, flags, start, address, length) for kind, start, address, length, flags in found]
    return tuple(map(Segment._make, found))


def _section_headers(
    window: Window, bits: int, order: str, offset: int, size: int, count: int
) -> list[tuple[int, int, int, int, int]]:
    """Return name, type, offset, size and link of each."""
    layout = _layout(order + ("II8xIII12x" if bits == 32 else "II16xQQI20x"))
    if size < layout.size:
        raise MalformedError.of(f"section headers of {size} bytes")
    table = window.read(offset, size * count)
    if size == layout.size:
        return list(layout.iter_unpack(table))
    return [layout.unpack_from(table, index * size) for index in range(count)]


def _sections(window: Window, header: Header) -> tuple[Section, ...]:
    raw, texts = _named(window, header)
    return tuple(
        Section(text, start, 0 if kind == SHT_NOBITS else size)
        for text, (_, kind, start, size, _) in zip(texts, raw, strict=True)
    )


def _of_cubin(window: Window, header: Header) -> tuple[tuple[Section, ...], tuple[str, ...]]:
    """Return a cubin's sections, and what the tool that wrote it says in a note.

    The sections are added up: each kernel has half a dozen of its own, and a wheel may have thousands of cubins.
    """
    sizes, notes = _added_up(window, header) or _added_up_in_python(window, header)
    comment = next((_words(window.read(*note)) for note in reversed(notes) if note[1] < _SLACK), ())
    return tuple([Section(sys.intern(name), 0, size) for name, size in sizes.items()]), comment


_Notes = list[tuple[int, int]]  # offset and size of each


def _added_up(window: Window, header: Header) -> tuple[dict[str, int], _Notes] | None:
    """Do what `_added_up_in_python` does for usual cubins, if there was a C compiler; None for others."""
    usual = header.bits == 64 and header.order == "<" and header.section_size == 64
    if not (add_up and usual and header.section_names < header.section_count):
        return None
    headers = window.read(header.section_offset, header.section_size * header.section_count)
    start, size = _PLACE.unpack_from(headers, header.section_size * header.section_names + 24)
    if start + size > window.size:
        return None
    found: tuple[dict[str, int], _Notes] | None = add_up(headers, window.read(start, size))
    return found


def _added_up_in_python(window: Window, header: Header) -> tuple[dict[str, int], _Notes]:
    """Return the bytes of a cubin's sections by their names without those of kernels, and where notes of ptxas lie."""
    raw, texts = _named(window, header)
    kernels = {text[len(_KERNEL) :] for text in texts if text.startswith(_KERNEL)}
    sizes: dict[str, int] = {}
    notes: _Notes = []
    for text, (_, kind, start, size, _) in zip(texts, raw, strict=True):
        if size and kind != SHT_NOBITS:
            at = text.find(".", 1)
            while at >= 0 and text[at + 1 :] not in kernels:
                at = text.find(".", at + 1)
            name = text if at < 0 else text[:at]  # ".nv.info" of ".nv.info._Z5scalePf"
            sizes[name] = sizes.get(name, 0) + size
            if text == _TOOL:
                notes.append((start, size))
    return sizes, notes


@lru_cache(maxsize=256)  # thousands of cubins were written by one tool with the same options
def _words(note: bytes) -> tuple[str, ...]:
    """Return the strings among a note's numbers."""
    parts = note.split(b"\0")[:-1]
    words = (part[len(part.rstrip(_PRINTABLE)) :].decode() for part in parts)
    return tuple(dict.fromkeys(word for word in words if len(word) >= _WORD))


def _named(window: Window, header: Header) -> tuple[list[tuple[int, int, int, int, int]], list[str]]:
    """Return the section headers, and the name of each."""
    if not header.section_count:
        return [], []
    place = header.section_offset, header.section_size, header.section_count
    raw = _section_headers(window, header.bits, header.order, *place)
    if header.section_names >= len(raw):
        raise MalformedError.of("its section names lie in a section that is not there")
    _, _, names, length, _ = raw[header.section_names]
    indexes = [name for name, _, _, _, _ in raw]
    return raw, _Strings(window, names, length).texts(indexes) if length else [""] * len(raw)


class _Strings:
    """A string table of the file."""

    def __init__(self, window: Window, offset: int, size: int) -> None:
        self._window, self._offset, self._size = window, offset, size
        self._all: bytes | None = None

    def text(self, index: int) -> str:
        if index >= self._size:
            raise MalformedError.of(f"string {index} of a table of {self._size} bytes")
        if self._size > _LONGEST_DYNSTR or self._offset + self._size > self._window.size:
            return self._window.text(self._offset + index, self._offset + self._size)
        table = self.all()
        end = table.find(b"\0", index)
        if end < 0:
            raise MalformedError.of(f"the string at byte {self._offset + index} has no end")
        return table[index:end].decode("utf-8", "backslashreplace")

    def texts(self, indexes: Sequence[int]) -> list[str]:
        """Return many strings: a wheel may have thousands of files with dozens of sections each."""
        if self._size > _LONGEST_DYNSTR or self._offset + self._size > self._window.size:
            return [self.text(index) for index in indexes]
        if not self.all().isascii():
            return [self.text(index) for index in indexes]
        table = self.all().decode("ascii")
        ends = [table.find("\0", index) for index in indexes]
        if -1 in ends:
            return [self.text(index) for index in indexes]  # one of them raises
        return [table[index:end] for index, end in zip(indexes, ends, strict=True)]

    def has(self, word: bytes) -> bool:
        return find(self.all(), word) >= 0

    def all(self) -> bytes:
        """Return the whole table; nothing of one that is too long to be searched."""
        if self._all is None:
            self._all = b"" if self._size > _LONGEST_DYNSTR else self._window.read(self._offset, self._size)
        return self._all


def _file_offset(header: Header, address: int) -> int:
    for segment in header.segments:
        if segment.type == PT_LOAD and segment.address <= address < segment.address + segment.size:
            return address - segment.address + segment.offset
    raise MalformedError.of(f"address {address:#x} lies in no loaded segment")


def _dynamic(window: Window, header: Header) -> tuple[tuple[tuple[int, int], ...], _Strings]:
    entries = _entries(window, header)
    if not entries:
        return (), _Strings(window, 0, 0)
    values = dict(reversed(entries))
    if DT_STRTAB not in values or DT_STRSZ not in values:
        raise MalformedError.of("its dynamic section names no string table")
    return entries, _Strings(window, _file_offset(header, values[DT_STRTAB]), values[DT_STRSZ])


def _entries(window: Window, header: Header) -> tuple[tuple[int, int], ...]:
    segment = next((s for s in header.segments if s.type == PT_DYNAMIC), None)
    if segment is None:
        return ()
    layout = struct.Struct(header.order + ("iI" if header.bits == 32 else "qQ"))
    if segment.size > _LONGEST_DYNAMIC:
        raise MalformedError.of(f"a dynamic section of {segment.size} bytes")
    table = window.read(segment.offset, segment.size - segment.size % layout.size)
    entries: list[tuple[int, int]] = []
    for tag, value in layout.iter_unpack(table):
        if tag == DT_NULL:
            break
        entries.append((tag, value))
    return tuple(entries)


def _interpreter(window: Window, header: Header) -> str:
    segment = next((s for s in header.segments if s.type == PT_INTERP), None)
    return window.text(segment.offset, segment.offset + segment.size) if segment else ""


def _version_needs(
    window: Window, header: Header, values: dict[int, int], strings: _Strings
) -> Iterator[VersionNeed]:
    if DT_VERNEED not in values:
        return
    need = _file_offset(header, values[DT_VERNEED])
    left = window.size // 16
    for _ in range(min(values.get(DT_VERNEEDNUM, 0), window.size // 16)):
        _, count, file, aux, following = struct.unpack(header.order + "HHIII", window.read(need, 16))
        names, position = [], need + aux
        left -= count
        if left < 0:
            raise MalformedError.of("it wants more symbol versions than fit into it")
        for _ in range(count):
            _, _, _, name, step = struct.unpack(header.order + "IHHII", window.read(position, 16))
            names.append(strings.text(name))
            if len(names[-1]) > _LONGEST_VERSION:
                raise MalformedError.of(f"a symbol version of {len(names[-1])} characters")
            if not step:
                break
            position += step
        yield VersionNeed(strings.text(file), tuple(names))
        if not following:
            break
        need += following


def _version_definitions(
    window: Window, header: Header, values: dict[int, int], strings: _Strings
) -> Iterator[str]:
    if DT_VERDEF not in values:
        return
    position = _file_offset(header, values[DT_VERDEF])
    for _ in range(min(values.get(DT_VERDEFNUM, 0), window.size // 20)):
        _, flags, _, count, _, aux, following = struct.unpack(
            header.order + "HHHHIII", window.read(position, 20)
        )
        if count and not flags & 1:  # the first one (VER_FLG_BASE) is the file's own name
            (name,) = struct.unpack(header.order + "I", window.read(position + aux, 4))
            yield strings.text(name)
        if not following:
            break
        position += following


def _build_id(window: Window, header: Header) -> str:
    for segment in header.segments:
        if segment.type != PT_NOTE or segment.size > 1 << 16:
            continue
        notes = window.read(segment.offset, segment.size)
        position = 0
        while position + 12 <= len(notes):
            name, size, kind = struct.unpack_from(header.order + "III", notes, position)
            start = position + 12 + (name + 3) // 4 * 4
            if kind == 3 and notes[position + 12 : position + 16] == b"GNU\0":
                return notes[start : start + size].hex()
            position = start + (size + 3) // 4 * 4
    return ""


def _isa(window: Window, header: Header) -> str:
    """Return the x86-64 level of GNU_PROPERTY_X86_ISA_1_NEEDED (x86-64 psABI, "Program Property")."""
    for segment in header.segments:
        if segment.type != PT_NOTE or header.machine != EM_X86_64 or not 16 < segment.size <= 1 << 12:
            continue
        notes = window.read(segment.offset, segment.size)
        at = notes.find(struct.pack("<II", _X86_ISA_1_NEEDED, 4))
        if b"GNU\0" in notes[:at] and 0 <= at <= len(notes) - 12:
            (levels,) = struct.unpack_from("<I", notes, at + 8)
            return next((f"x86-64-v{n}" for n in (4, 3, 2) if levels & 1 << (n - 1)), "")
    return ""


def _producers(window: Window, sections: tuple[Section, ...], strings: _Strings) -> tuple[str, ...]:
    """Return the versions of the HPC SDK that an object was compiled by or once searched for libraries in.

    nvc++ writes DW_AT_producer as the first string of the debug info; patchelf leaves the path that it replaces.
    """
    found = re.findall(_SDK_PATH, strings.all()) if strings.has(b"/hpc_sdk/") else []
    if strings.has(b"\0__pgi_"):
        for section in sections:
            if section.name in (".debug_info", ".debug_str") and section.size:
                found += re.findall(_SDK_PRODUCER, window.read(section.offset, min(section.size, 256)))
    return tuple(sorted({version.decode() for version in found}))


def _mentions(window: Window, sections: tuple[Section, ...]) -> frozenset[str]:
    """Return the libraries that an object's constants name, as far as these were kept: a second pass is too dear."""
    for section in sections:
        size = min(section.size, _CONSTANTS)
        if section.name == ".rodata" and window.has(section.offset, section.offset + size):
            texts = _with_word(window.read(section.offset, size), b".so.")
            return frozenset(name.decode() for text in texts for name in _MENTIONED.findall(text))
    return frozenset()


def _with_word(data: bytes, word: bytes) -> Iterator[bytes]:
    """Yield the NUL-terminated strings that a word is in."""
    at = find(data, word)
    while at >= 0:
        end = data.find(b"\0", at)
        if end < 0:
            return
        yield data[data.rfind(b"\0", 0, at) + 1 : end + 1]
        at = find(data, word, end)


def _stable_abi(wheel: str, file: str) -> bool:
    return file.endswith(".abi3.so") or ("-abi3-" in wheel and file.endswith(".so"))


def _python(
    window: Window, header: Header, sections: tuple[Section, ...], strings: _Strings
) -> frozenset[str]:
    """Return the undefined symbols of Python's C API in `.dynsym` (gABI, "Symbol Table"); weak ones are optional."""
    symbols = _symbols(window, header, sections, strings, _PYTHON, (b"Py", b"_Py"))
    return frozenset(name for name, defined, strong in symbols if strong and not defined)


def _hpc_symbols(
    window: Window, header: Header, sections: tuple[Section, ...], strings: _Strings
) -> tuple[frozenset[str], frozenset[str]]:
    """Return what an object wants of the HPC SDK's runtimes, but for what is optional, and what it gives of them."""
    symbols = list(_symbols(window, header, sections, strings, _HPC, (b"__pgi", b"__nv", b"__c_m")))
    wants = frozenset(name for name, defined, strong in symbols if strong and not defined)
    return wants, frozenset(name for name, defined, _ in symbols if defined)


def _cuda_symbols(
    window: Window, header: Header, sections: tuple[Section, ...], strings: _Strings
) -> tuple[frozenset[str], frozenset[str]]:
    """Return which functions of CUDA's libraries an object leaves undefined, but for weak ones, and which it defines.

    Of an object that holds none of their names, or more names than are kept, nothing is said.
    """
    if not any(strings.has(b"\0" + word) for word in cuda.BEGINNINGS):
        return frozenset(), frozenset()
    found = list(_symbols(window, header, sections, strings, cuda.pattern(), cuda.BEGINNINGS))
    calls = frozenset(name for name, defined, strong in found if strong and not defined)
    return calls, frozenset(name for name, defined, _ in found if defined)


def _symbols(
    window: Window,
    header: Header,
    sections: tuple[Section, ...],
    strings: _Strings,
    pattern: bytes,
    beginnings: tuple[bytes, ...],
) -> Iterator[tuple[str, bool, bool]]:
    """Yield the dynamic symbols that begin like `pattern`: name, whether it is defined, whether it is not weak.

    `beginnings` are those that the pattern allows, which is quicker to see of a hundred thousand symbols.
    """
    section = next((s for s in sections if s.name == ".dynsym"), None)
    if section is None or header.bits != 64:  # no 32-bit GPU wheel was ever met
        return
    names, matching = strings.all(), re.compile(pattern)
    places = {place for word in beginnings for place in find_all(names, word)}
    table = window.read(section.offset, section.size - section.size % 24)
    places_of = array("I", table if places else b"")[::6]  # st_name is the first of a symbol's 24 bytes
    if (sys.byteorder == "little") is not (header.order == "<"):
        places_of.byteswap()
    for number, name in enumerate(places_of):
        if name in places and (match := matching.match(names, name)):
            info, _, index = struct.unpack_from(f"{header.order}BBH", table, 24 * number + 4)
            if info >> 4:
                yield match[0].decode(), bool(index), info >> 4 == 1


def _comment(window: Window, sections: tuple[Section, ...]) -> tuple[str, ...]:
    section = next((s for s in sections if s.name == ".comment"), None)
    if section is None:
        return ()
    data = window.read(section.offset, min(section.size, 1 << 16))
    lines = (line.decode("utf-8", "backslashreplace") for line in data.split(b"\0") if line)
    return tuple(dict.fromkeys(lines))


def _markers(strings: _Strings) -> frozenset[str]:
    """Tell by symbol names what made an object, and what it is for.

    nvc++ writes no .comment, but its objects define or want `__pgi_*` (seen in SDK 21.11 to 22.1). A Python
    module defines `PyInit_*`.
    """
    words = {"nvhpc": b"\0__pgi_", "python-module": b"\0PyInit_"}
    return frozenset(marker for marker, word in words.items() if strings.has(word))
