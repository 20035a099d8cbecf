"""The ELF reader: every field, string tables that are too long to be kept, windows, and errors for damaged bytes."""

import io
import shutil
import struct
import subprocess

import pytest
from audit_samples import elf as sample
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.audit.elf_patterns import patterns
from gpuforge.binary.elf import header
from gpuforge.binary.elf.file import version_hash
from gpuforge.binary.elf.header import PT_LOAD, Header, Segment, read_header
from gpuforge.binary.elf.reader import front, outline
from gpuforge.binary.elf.reader import read as read_elf
from gpuforge.binary.facts import ElfObject, VersionNeed
from gpuforge.binary.window import MissedError, Window
from gpuforge.errors import MalformedError

SOUGHT = patterns().every


def read(data: bytes) -> ElfObject:
    return read_elf(Window.of(data), SOUGHT, wheel="w.whl", file="a/libx.so")


RICH = sample(
    soname="libx.so.1",
    needed=["liby.so", "libc.so.6"],
    rpath="$ORIGIN:/opt/x",
    versions={"libc.so.6": ["GLIBC_2.2.5", "GLIBC_2.17"], "libstdc++.so.6": ["GLIBCXX_3.4"]},
    interpreter="/lib64/ld-linux-x86-64.so.2",
    sections={".comment": b"GCC: (GNU) 12.2.0\0GCC: (GNU) 12.2.0\0clang 19\0", ".nv_fatbin": bytes(40)},
    strings=["__pgi_data_section_start"],
    stack=7,
)


def test_every_field_is_read():
    found = read(RICH)
    assert (found.soname, found.needed, found.rpath, found.runpath) == (
        "libx.so.1",
        ("liby.so", "libc.so.6"),
        ("$ORIGIN", "/opt/x"),
        None,
    )
    assert found.version_needs == (
        VersionNeed("libc.so.6", ("GLIBC_2.2.5", "GLIBC_2.17")),
        VersionNeed("libstdc++.so.6", ("GLIBCXX_3.4",)),
    )
    assert found.interpreter == "/lib64/ld-linux-x86-64.so.2"
    assert not found.is_program  # a library with an interpreter, such as libc.so.6
    assert found.links
    assert found.stack == 7
    assert found.comment == ("GCC: (GNU) 12.2.0", "clang 19")
    assert [s.name for s in found.sections] == ["", ".comment", ".nv_fatbin", ".shstrtab"]
    assert found.markers == {"nvhpc"}
    assert (found.bits, found.machine, found.size) == (64, 62, len(RICH))


def test_an_object_without_dynamic_section_links_nothing():
    data = bytearray(sample())
    data[64 + 56 : 64 + 60] = bytes(4)  # PT_DYNAMIC becomes PT_NULL
    found = read(bytes(data))
    assert (found.needed, found.links) == ((), False)


@pytest.mark.parametrize("length", [0, 3, 15, 63, 100, 200, len(RICH) - 1])
def test_a_truncated_file_is_malformed(length):
    with pytest.raises(MalformedError):
        read(RICH[:length])


def test_missing_ranges_are_reported_until_all_are_kept():
    window = Window(len(RICH), {0: RICH[:64]})
    for _ in range(20):
        try:
            found = read_elf(window, SOUGHT, wheel="w.whl", file="a/libx.so")
            break
        except MissedError as missed:
            window.keep(0, RICH, missed.start, missed.stop)
    assert found == read(RICH)


def test_the_outline_has_what_the_header_points_to():
    window = Window(len(RICH), {0: RICH[:512]})
    ranges = outline(window, read_header(window))
    assert all(0 <= start < stop <= len(RICH) for start, stop in ranges)
    assert any(stop == len(RICH) for _, stop in ranges)  # the section headers, at the end


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(
    "flags", [["-shared", "-Wl,-soname,libx.so.3", "-Wl,-rpath,$ORIGIN/y"], ["-Wl,-z,execstack"]]
)
def test_a_compilers_object_is_read_as_pyelftools_reads_it(tmp_path, flags):
    (tmp_path / "x.c").write_text('#include <stdio.h>\nint main(void) { return puts("x"); }\n')
    target = tmp_path / "x"
    subprocess.run(
        ["gcc", "-fPIC", *flags, "-o", str(target), str(tmp_path / "x.c")],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    data = target.read_bytes()
    found = read(data)
    peer = ELFFile(io.BytesIO(data))
    segment = next(s for s in peer.iter_segments() if isinstance(s, DynamicSegment))
    entries = [(t.entry.d_tag, t.entry.d_val) for t in segment.iter_tags()][:-1]
    assert [value for _, value in found.dynamic] == [value for _, value in entries]
    assert list(found.needed) == [t.needed for t in segment.iter_tags("DT_NEEDED")]
    assert found.soname == ("libx.so.3" if "-shared" in flags else "")
    assert found.build_id == next(
        n["n_desc"]
        for s in peer.iter_segments("PT_NOTE")
        for n in s.iter_notes()
        if n["n_type"] == "NT_GNU_BUILD_ID"
    )
    assert bool(found.stack and found.stack & 1) == ("-shared" not in flags)


def _header(*segments: Segment) -> Header:
    return Header(64, "<", 3, 62, 0, 64, 0, 0, segments)


def test_the_front_has_no_segments_of_code():
    constants, code = Segment(PT_LOAD, 4, 0, 0, 1000), Segment(PT_LOAD, 5, 4096, 4096, 8000)
    assert front(_header(constants, code), 20_000) == [(0, 4096), (12_096, 20_000)]
    assert front(_header(constants, code), 5000) == [(0, 4096)]


MOVED = (
    Segment(PT_LOAD, 6, 0, 0, 4096),
    Segment(PT_LOAD, 5, 4096, 4096, 8000),
)  # ptxas, with tables that moved


@pytest.mark.parametrize("segments", [(), (Segment(PT_LOAD, 5, 0, 0, 8000),), MOVED])
def test_the_front_is_whole_if_code_has_no_segment_of_its_own(segments):
    assert front(_header(*segments), 20_000) == [(0, 20_000)]
    assert front(_header(*segments), 0) == []


def test_the_outline_has_the_bytes_before_an_appended_segment():
    first, moved = (
        Segment(PT_LOAD, 4, 0, 0, 1000),
        Segment(PT_LOAD, 6, 900_000, 900_000, 5000),
    )
    header = _header(first, moved)
    assert any(start < 899_900 and stop == 900_000 for start, stop in outline(Window(1_000_000), header))


def test_section_names_that_add_up_to_too_much_are_malformed():
    """Thousands of sections may share one long name."""
    name = b"x" * 200_000 + b"\0"
    count = 5000
    headers = b"".join(struct.pack("<II16xQQ24x", 0, 3, 64, len(name)) for _ in range(count))
    ident = b"\x7fELF\2\1\1".ljust(16, b"\0")
    start = 64 + len(name)
    head = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, start, 0, 64, 56, 0, 64, count, 0)
    with pytest.raises(MalformedError, match="add up"):
        read(head + name + headers)


CONTENT = b"\0one\0two\0three\0"


def test_strings_of_a_long_table_are_read_also_after_a_search(monkeypatch):
    monkeypatch.setattr(header, "LONGEST", 8)
    table = header.StringTable(Window.of(b"head" + CONTENT), 4, len(CONTENT))
    assert not table.has(b"two")  # it is not searched
    assert (table.text(1), table.texts([5, 9])) == ("one", ["two", "three"])


@pytest.mark.parametrize("longest", [8, 1 << 20])
def test_a_string_without_an_end_is_an_error(longest, monkeypatch):
    monkeypatch.setattr(header, "LONGEST", longest)
    table = header.StringTable(Window.of(CONTENT[:-1]), 0, len(CONTENT) - 1)
    with pytest.raises(MalformedError, match="has no end"):
        table.text(9)


def test_a_window_reads_across_its_pieces():
    window = Window(100)
    window.keep(10, b"abc", 10, 20)
    window.keep(13, b"defgh", 10, 20)
    window.keep(18, b"ij", 10, 20)
    assert window.read(11, 8) == b"bcdefghi"
    assert window.has(10, 20)
    assert not window.has(9, 12)
    assert not window.has(19, 21)
    with pytest.raises(MissedError):
        window.read(15, 10)


@given(st.binary(min_size=1, max_size=60), st.lists(st.tuples(*[st.integers(0, 60)] * 4), max_size=8))
def test_a_window_has_what_was_kept(data, kept):
    window, wanted = Window(len(data)), set[int]()
    for at, length, start, stop in kept:
        chunk = data[at : at + length]
        window.keep(at, chunk, start, stop)
        wanted |= set(range(max(at, start), min(at + len(chunk), stop)))
    for place in wanted:
        assert window.has(place, place + 1)
        assert window.read(place, 1) == data[place : place + 1]
    for start in range(len(data)):
        for stop in range(start + 1, len(data) + 1):
            if window.has(start, stop):
                assert window.read(start, stop - start) == data[start:stop]


def test_glibc_compares_the_hash_of_a_version_first():
    data = sample(versions={"libc.so.6": ["GLIBC_2.17"]})
    assert version_hash("GLIBC_2.2.5") == 0x09691A75
    with pytest.raises(MalformedError, match=r"GLIBC_2\.17 has the hash of another name"):
        read(data.replace(struct.pack("<I", version_hash("GLIBC_2.17")), bytes(4)))


@pytest.mark.parametrize("place", [6, 20])
def test_glibc_takes_one_version_of_elf(place):
    data = sample()
    with pytest.raises(MalformedError, match="glibc takes only 1"):
        read(data[:place] + b"\2" + data[place + 1 :])
