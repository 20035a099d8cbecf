"""What makes reading fast must not change what is read: one pass, searching in C, threads, our own zip directory."""

from __future__ import annotations

import contextlib
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import lz4.block
import pytest
import zstandard
from audit_samples import STATIC_CUDART, elf, fatbin, image, wheel
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.audit.model import WheelFacts
from gpuforge.audit.read import scan as scanner
from gpuforge.audit.read.inputs import Input
from gpuforge.audit.read.scan import binaries, scan
from gpuforge.audit.read.wheel import read, read_all
from gpuforge.binary import cubin
from gpuforge.binary import fatbin as reader
from gpuforge.binary.cubin import toolkit
from gpuforge.binary.elf.file import ElfFile
from gpuforge.binary.facts import Entry
from gpuforge.binary.fatbin import Scanner, unpacked
from gpuforge.binary.window import MissedError, Window
from gpuforge.cuda.arch import Arch
from gpuforge.errors import MalformedError
from gpuforge.wheel.archive import Archive, Member


def test_a_window_reads_across_its_pieces() -> None:
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
def test_a_window_has_what_it_was_given_to_keep(data: bytes, kept: list[tuple[int, int, int, int]]) -> None:
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


class Counting(Archive):
    """An archive of one file that counts how often it is read, in chunks of a given size."""

    def __init__(self, data: bytes, chunk: int) -> None:
        self.data_, self.chunk, self.passes, self.taken = data, chunk, 0, 0

    def chunks(self, member: Member) -> Iterator[bytes]:
        self.passes += 1
        for start in range(0, len(self.data_), self.chunk):
            self.taken += self.chunk
            yield self.data_[start : start + self.chunk]


@pytest.mark.parametrize("chunk", [50_000, 1 << 20])
def test_one_pass_suffices_wherever_the_linker_puts_names(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuforge.audit.read.scan._HEAD", 8192)
    symbols = bytes(3_000_000)  # LLD puts them before the sections' names, and their names behind
    data = elf(
        soname="libx.so.1",
        needed=["libc.so.6"],
        sections={
            ".comment": b"LLD 19\0",
            ".symtab": symbols,
            ".nv_fatbin": fatbin("sm_80"),
            ".strtab": symbols,
        },
    )
    archive = Counting(data, chunk)
    found = scan(archive, Member("libx.so", len(data), len(data), 0, 0, 0), "w.whl")
    assert found.object is not None
    assert found.object.soname == "libx.so.1"
    assert found.object.containers[0].section == ".nv_fatbin"
    assert archive.passes == 1


@pytest.mark.parametrize("place", [3_000_000, 3_049_995, 8_940_000])
def test_names_of_what_is_needed_are_kept_wherever_they_lie(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setattr("gpuforge.audit.read.scan._HEAD", 8192)
    between = bytearray(9_000_000)  # of Go's read-only data, for example, whose names lie behind it
    between[place : place + 26] = b"\0libm.so.6\0libc.so.6\0main"
    data = elf(sections={".gopclntab": bytes(between)}).replace(b"\0libc.so.6", b"\0libd.so.6", 1)
    archive, member = Counting(data, 50_000), Member("go", len(data), len(data), 0, 0, 0)
    window, _ = scanner._first_pass(archive, member)
    at = data.index(b"libm.so.6")
    assert window.read(at, 24) == b"libm.so.6\0libc.so.6\0main"


def test_a_second_pass_ends_with_what_was_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuforge.audit.read.scan._HEAD", 8192)
    data = elf(soname="libx.so.1", sections={".symtab": bytes(9_000_000), ".comment": b"LLD 19\0"})
    archive, member = Counting(data, 50_000), Member("libx.so", len(data), len(data), 0, 0, 0)
    window, _ = scanner._first_pass(archive, member)
    archive.taken = 0
    missed = (1_000_000, 1_065_536)  # names, for example, that lie before what says where they are
    assert not window.has(*missed)
    scanner._fetch(archive, member, window, missed)
    assert window.has(*missed)
    assert archive.taken == 1_100_000


@pytest.mark.parametrize("chunk", [50_000, 1 << 20])
def test_program_headers_may_lie_behind(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuforge.audit.read.scan._HEAD", 8192)
    data = bytearray(elf(soname="libx.so.1", needed=["libc.so.6"], sections={".text": bytes(3_000_000)}))
    headers = data[64 : 64 + 4 * 56]  # BOLT copies them behind the code that it has moved
    data[64 : 64 + 4 * 56] = bytes(4 * 56)
    data[32:40] = len(data).to_bytes(8, "little")
    archive = Counting(bytes(data + headers), chunk)
    found = scan(archive, Member("libx.so", len(archive.data_), len(archive.data_), 0, 0, 0), "w.whl").object
    assert found is not None
    assert (found.soname, found.needed, archive.passes) == ("libx.so.1", ("libc.so.6",), 1)


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_a_file_read_whole_is_read_as_in_chunks(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuforge.audit.read.scan._WHOLE", limit)
    data = elf(
        soname="libx.so.1",
        sections={
            ".comment": b"GCC 14\0",
            ".rodata": STATIC_CUDART + b"\0libcudnn.so.9\0",
            ".nv_fatbin": fatbin("sm_80"),
        },
    )
    found = scan(Counting(data, 700), Member("libx.so", len(data), len(data), 0, 0, 0), "w.whl").object
    assert found is not None
    assert (found.soname, found.comment, found.mentions) == (
        "libx.so.1",
        ("GCC 14",),
        frozenset({"libcudnn.so.9"}),
    )
    assert found.markers == {"static-cudart"}
    assert [(c.section, c.cubins) for c in found.containers] == [(".nv_fatbin", {"sm_80"})]


def test_of_a_cubin_the_sections_of_all_kernels_are_one() -> None:
    kernels = {
        f"{part}.{name}": bytes(size)
        for name, size in (("_Z5scalePf", 100), ("add.cold", 20))
        for part in (".text", ".nv.info", ".rela.text")
    }
    data = elf(machine=190, sections={**kernels, ".nv.info": bytes(3), ".note.nv.tkinfo": bytes(7)})
    found = scan(Counting(data, 5000), Member("a.cubin", len(data), len(data), 0, 0, 0), "w.whl").object
    assert found is not None
    sizes = {section.name: section.size for section in found.sections}
    assert sizes.pop(".shstrtab") > 0
    assert sizes == {".text": 120, ".nv.info": 123, ".rela.text": 120, ".note.nv.tkinfo": 7}


@pytest.mark.parametrize("cut", [1, 5, 20, 23])
def test_what_lies_across_two_chunks_is_found(cut: int) -> None:
    code = fatbin("sm_90")
    data = bytes(100_000) + STATIC_CUDART + bytes(70_000) + code
    for place in (100_000 + cut, len(data) - len(code) + min(cut, 7)):
        scanner = Scanner(len(data), STATIC_CUDART)
        scanner.feed(0, data[:place])
        scanner.feed(place, data[place:])
        scanner.finish()
        assert scanner.marked
        assert [c.offset for c in scanner.containers] == [len(data) - len(code)]


def test_source_text_is_not_scanned(tmp_path: Path) -> None:
    names = ["a.so", "a.so.1", "bin/nrniv-core", "a.fatbin", "a.ptx", "a.bin"]
    files = {name: elf() for name in ("torch/include/ATen/ATen.h", "a.py", *names)}
    with Archive(wheel(tmp_path, files)) as archive:
        assert [member.name for member in binaries(archive)] == names


def test_the_directory_is_what_zipfile_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("folder/", b"")
        archive.writestr("plain.txt", b"x" * 1000, zipfile.ZIP_DEFLATED)
        archive.writestr("größe.txt", b"y")
        with archive.open("large", "w", force_zip64=True) as stream:
            stream.write(b"z" * 70_000)
        archive.comment = b"a comment"
    for prefix in (b"", b"#!/bin/sh\n"):
        path.write_bytes(prefix + path.read_bytes())
        with zipfile.ZipFile(path) as peer, Archive(path) as ours:
            assert [(m.name, m.size, m.packed, m.method, m.crc, m.header) for m in ours.members] == [
                (i.filename, i.file_size, i.compress_size, i.compress_type, i.CRC, i.header_offset)
                for i in peer.infolist()
                if not i.is_dir()
            ]
            assert [ours.data(m) for m in ours.members] == [peer.read(m.name) for m in ours.members]


def test_a_damaged_directory_is_one_clear_error(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"demo/a.so": elf()})
    data = path.read_bytes()
    start = data.index(b"PK\x01\x02")
    for place in range(start, len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            read(path)
        except MalformedError as error:
            assert error.diagnostics[0].message  # noqa: PT017 - either outcome is right


def test_threads_read_what_one_job_reads_in_the_order_given(tmp_path: Path) -> None:
    paths = []
    for number in range(6):
        (tmp_path / str(number)).mkdir()
        files = {f"demo/{n}.so": elf(soname=f"lib{number}{n}.so") for n in range(number)}
        paths.append(wheel(tmp_path / str(number), files, name=f"demo{number}-1.0-py3-none-linux_x86_64.whl"))
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"PK")
    given = [Input.of(path) for path in (*paths[:3], broken, tmp_path / "absent.whl", *paths[3:])]
    one, several = read_all(given), read_all(given, jobs=3)
    assert [w for w in several if isinstance(w, WheelFacts)] == [w for w in one if isinstance(w, WheelFacts)]
    assert [type(w) for w in several] == [type(w) for w in one]
    assert isinstance(several[3], MalformedError)
    assert isinstance(several[4], FileNotFoundError)


def _cubin(kind: int, content: bytes) -> bytes:
    header = bytearray(64)
    header[:9] = b"\x7fELF\x02\x01\x01\x33\x07"
    struct.pack_into("<Q", header, 40, 64 + len(content))
    struct.pack_into("<HH", header, 58, 64, 1)
    return bytes(header) + content + struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, 64, len(content), 0, 0, 4, 0)


API = _cubin(0x70000000, b"\x04\x2f\x08\0" + bytes(8) + b"\x04\x37\x04\0" + struct.pack("<I", 129))
NOTE = _cubin(7, b"NVIDIA Corp\0ptxas\0Cuda compilation tools, release 13.0, V13.0.88\0")


@pytest.mark.parametrize(
    ("image", "expected"), [(API, "12.9"), (NOTE, "13.0"), (_cubin(1, bytes(64)), ""), (b"no ELF", "")]
)
def test_a_cubin_says_which_toolkit_wrote_it(image: bytes, expected: str) -> None:
    plain = Entry("cubin", Arch.parse("sm_90"), "", len(image), len(image))
    assert toolkit(unpacked(plain, image)) == expected
    for compression, packed in (
        ("lz4", lz4.block.compress(image, store_size=False)),
        ("zstd", zstandard.ZstdCompressor().compress(image)),
    ):
        entry = Entry("cubin", Arch.parse("sm_90"), "", len(image), len(packed), compression)  # type: ignore[arg-type]
        assert toolkit(unpacked(entry, packed)) == (expected if len(image) >= 64 else "")
        assert toolkit(unpacked(entry, packed[:5])) == ""


@pytest.mark.parametrize("image", [API, NOTE])
@pytest.mark.parametrize("field", [24, 32])  # sh_offset, sh_size
@pytest.mark.parametrize("value", [1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_cubin_whose_section_is_not_in_it_says_nothing(image: bytes, field: int, value: int) -> None:
    changed = bytearray(image)
    struct.pack_into("<Q", changed, len(image) - 64 + field, value)
    assert toolkit(bytes(changed)) == ""


CODE, DATA = _cubin(1, b"\0.text._Z1kPf\0"), _cubin(1, b"\0.nv.constant3\0")


@pytest.mark.parametrize(
    ("contents", "empty"),
    [((CODE,), False), ((DATA,), True), ((DATA, DATA), True), ((DATA, CODE), False), ((b"no ELF",), False)],
)
def test_cubins_without_code_make_an_empty_container(contents: tuple[bytes, ...], empty: bool) -> None:
    cubins = (image("sm_80", size=9000 + 100 * n, content=content) for n, content in enumerate(contents))
    entries = b"".join(cubins) + image("compute_80:8.4", size=60)
    data = b"\x50\xed\x55\xba\x01\x00\x10\x00" + struct.pack("<Q", len(entries)) + entries
    (found,) = reader.scan(data)
    assert found.empty is empty


@pytest.mark.parametrize("place", [1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_file_that_is_said_to_lie_behind_the_end_is_missing(place: int, tmp_path: Path) -> None:
    path = wheel(tmp_path, {"demo/a.so": elf()})
    data = path.read_bytes()
    end = data.rindex(b"PK\5\6")
    length, start = struct.unpack_from("<II", data, end + 12)
    table = bytearray(data[start : start + length])
    (name,) = struct.unpack_from("<H", table, 28)
    struct.pack_into("<H", table, 30, 12)
    struct.pack_into("<I", table, 42, 0xFFFFFFFF)
    table[46 + name : 46 + name] = struct.pack("<HHQ", 1, 8, place)
    path.write_bytes(data[:start] + table + data[end : end + 12] + struct.pack("<IIH", len(table), start, 0))
    facts = read(path)
    assert facts.corrupt == {"demo/a.so"}
    assert "no file where its directory says" in facts.damaged["demo/a.so"]


NAMES = [
    b".text.k",
    b".nv.info.k",
    b".rela.text.k",
    b".nv.info",
    b".text.a.b",
    b".nv.info.b",
    b".note.nv.tkinfo",
]
NAMES += [b".text", b".text.", b".k", b"k", b"", b"\xff.k", b".nv.constant0.kernel2", b".text.kernel2"]


@given(
    names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=12),
    ended=st.sampled_from([b"\0", b"", b"\0\0"]),
    sections=st.lists(
        st.tuples(
            st.integers(0, 12),  # the name's place among the names
            st.sampled_from([0, 0, 0, 0, 1, 5, 1 << 20]),  # bytes behind its beginning
            st.sampled_from([1, 7, 8, 0x70000000]),
            st.sampled_from([0, 5, 70_000, 1 << 40, (1 << 64) - 1]),
        ),
        max_size=70,
    ),
)
def test_a_cubins_sections_are_added_up(
    names: list[bytes], ended: bytes, sections: list[tuple[int, int, int, int]]
) -> None:
    table = b"\0".join(names) + ended
    starts = [sum(len(name) + 1 for name in names[:index]) for index in range(len(names))]
    layout = struct.Struct("<II16xQQ24x")
    headers = layout.pack(0, 3, 64, len(table))
    for index, behind, kind, size in sections:
        headers += layout.pack(starts[index % len(names)] + behind, kind, 99, size)
    count = len(sections) + 1
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1", 2, 190, 1, 0, 0, 64 + len(table), 0, 64, 0, 0, 64, count, 0
    )
    window = Window.of(header + table + headers)
    with contextlib.suppress(MalformedError):
        found = cubin.read(ElfFile(window)).sections
        whole = sum(size for _, _, kind, size in sections if kind != 8)
        assert sum(section.size for section in found) == whole + len(table)
