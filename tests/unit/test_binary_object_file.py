"""ELF objects of every kind: sections, symbols, comments and debug info; damaged and hostile ones."""

import struct
import tracemalloc
import zlib

import pytest
import zstandard
from audit_samples import elf
from object_samples import archive, relocatable

from gpuforge.binary import ar
from gpuforge.binary.elf.object_file import ObjectFile
from gpuforge.binary.elf.symbols import Symbol
from gpuforge.errors import MalformedError

PRODUCER = b"NVC++ 22.1-0\0"
SAMPLE = relocatable(
    {".debug_str": PRODUCER, ".note": b"n"},
    wants=["cudaMalloc"],
    gives=["f"],
    weak=["maybe"],
    sources=["f.cpp"],
    compressed=[".debug_str"],
)


def everything(data: bytes) -> ObjectFile:
    """Read all of a file."""
    found = ObjectFile(data)
    list(found.debug())
    list(found.unpacked())
    assert found.sections is not None
    assert found.symbols is not None
    assert found.comments is not None
    assert found.needed is not None
    return found


def test_a_relocatable_object():
    found = everything(SAMPLE)
    assert (found.bits, found.type, found.machine, found.has_code) == (64, 1, 62, True)
    assert found.comments == ("GCC: (Debian 12.2.0-14) 12.2.0",)
    assert [s.name for s in found.sections][:4] == ["", ".text", ".eh_frame", ".comment"]
    assert set(found.symbols) == {
        Symbol("cudaMalloc", defined=False),
        Symbol("f", defined=True),
        Symbol("maybe", defined=False, weak=True),
        Symbol("f.cpp", defined=True, local=True, file=True),
    }
    assert list(found.debug()) == list(found.unpacked()) == [PRODUCER]


def test_a_library():
    found = everything(
        elf(needed=["libc.so.6", "libcudart.so.12"], sections={".x": b"y"}, undefined=["cuInit"])
    )
    assert found.needed == ("libc.so.6", "libcudart.so.12")


def test_names_of_a_library_without_section_headers():
    data = bytearray(elf(strings=["__pgi_uacc_launch"]))
    data[40:48] = bytes(8)  # e_shoff
    data[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    found = everything(bytes(data))
    assert found.sections == ()
    assert Symbol("__pgi_uacc_launch", defined=False) in found.symbols


@pytest.mark.parametrize("way", ["zlib", "zstd", "zdebug"])
def test_debug_info_is_unpacked(way):
    packed = zlib.compress(PRODUCER) if way != "zstd" else zstandard.compress(PRODUCER)
    name, header = ".debug_str", struct.pack("<I4xQQ", 1 + (way == "zstd"), len(PRODUCER), 1)
    if way == "zdebug":
        name, header = ".zdebug_str", b"ZLIB" + len(PRODUCER).to_bytes(8, "big")
    data = relocatable({name: header + packed})
    if way != "zdebug":  # the flag of its header, in the row after .comment
        start = data.index(header) - 0
        rows = struct.unpack_from("<Q", data, 40)[0]
        for at in range(rows, len(data) - 63, 64):
            if struct.unpack_from("<Q", data, at + 24)[0] == start:
                data = data[: at + 8] + struct.pack("<Q", 0x800) + data[at + 16 :]
    assert list(ObjectFile(data).debug()) == [PRODUCER]


def bomb(size: int, said: int) -> bytes:
    """An object whose debug info unpacks to more than any real one's."""
    header = b"ZLIB" + said.to_bytes(8, "big")
    return relocatable({".zdebug_str": header + zlib.compress(bytes(size))})


@pytest.mark.parametrize(
    ("size", "said"),
    [pytest.param(1 << 26, 1 << 26, marks=pytest.mark.thorough), (1 << 22, 100), (100, 1 << 60), (100, 200)],
)
def test_sections_that_unpack_to_too_much_are_malformed(size, said):
    data = bomb(size, said)
    tracemalloc.start()
    with pytest.raises(MalformedError):
        list(ObjectFile(data).debug())
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < min(size, 1 << 22) + (1 << 20), "it was unpacked further than it may be"


def test_names_that_add_up_to_too_much_are_malformed():
    long = "x" * 60_000
    data = bytearray(relocatable(gives=[long, *"abc" * 300]))
    table = data.index(long.encode())
    for at in range(len(data) - 24):  # every symbol has the long name
        if data[at : at + 8] == struct.pack("<IBBH", int.from_bytes(data[at : at + 4], "little"), 16, 0, 1):
            data[at : at + 4] = struct.pack("<I", 1)
    assert table
    with pytest.raises(MalformedError, match="add up"):
        everything(bytes(data))


@pytest.mark.parametrize("cut", [1, 40, 60, 70, 200, 400, len(SAMPLE) - 1])
def test_a_truncated_object_is_malformed(cut):
    with pytest.raises(MalformedError):
        everything(SAMPLE[:cut])


MEMBERS = {"a.o": b"one", "a_name_that_is_longer_than_sixteen.o": b"four", "dir/b.o": b""}


@pytest.mark.parametrize("style", ["gnu", "bsd"])
def test_members_have_their_names_and_bytes(style):
    assert {m.name: m.data for m in ar.members(archive(MEMBERS, style=style))} == MEMBERS


def test_members_of_a_thin_archive_have_no_bytes():
    assert [tuple(m) for m in ar.members(archive(MEMBERS, style="thin"))] == [(n, None) for n in MEMBERS]


def test_short_names_are_in_the_header():
    data = b"!<arch>\n" + b"x.o/".ljust(48) + b"2".ljust(10) + b"`\nhi"
    assert list(ar.members(data)) == [ar.ArMember("x.o", b"hi")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"!<arch>", "its first bytes are not those of an archive"),
        (b"!<arch>\nrubbish", "there is no archive member at byte 8"),
        (archive({"a.o": b"four"})[:-1], "the archive ends in the middle of the member at byte"),
        (archive(MEMBERS) + b"more", "there is no archive member at byte"),
        (archive(MEMBERS).replace(b"/0  ", b"/999"), "the archive has no name at byte 999"),
        (archive(MEMBERS, style="bsd").replace(b"#1/3 ", b"#1/99"), "an archive member's name has 99 bytes"),
        (archive({"a.o": b"x"}).replace(b"1         `", b"-1        `"), "has no size"),
        (archive({"a.o": b"x"}, style="thin").replace(b"/0   ", b"/0:64"), "names members of other archives"),
    ],
)
def test_the_error_names_the_damage(data, message):
    with pytest.raises(MalformedError, match=message):
        list(ar.members(data))
