"""What makes reading fast must not change what is read: one pass, searching in C, threads, our own zip directory."""

import struct
import zipfile
from collections.abc import Iterator

import pytest
from audit_samples import STATIC_CUDART, elf, fatbin, read, wheel

from gpuforge.audit.elf_patterns import patterns
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.read import scan as scanner
from gpuforge.audit.read.input import Input
from gpuforge.audit.read.scan import binaries, scan
from gpuforge.audit.read.wheel import reading
from gpuforge.binary.fatbin import Scanner
from gpuforge.binary.window import Budget
from gpuforge.errors import MalformedError
from gpuforge.runtime.arch import Arch
from gpuforge.wheel.archive import Archive, Member

SOUGHT = patterns().every


class Counting(Archive):
    """An archive of one file that counts how often it is read, in chunks of a given size."""

    def __init__(self, data: bytes, chunk: int) -> None:
        self.data_, self.chunk, self.passes, self.taken = data, chunk, 0, 0
        self.budget = Budget(len(data))

    def chunks(self, member: Member) -> Iterator[bytes]:
        self.passes += 1
        for start in range(0, len(self.data_), self.chunk):
            self.taken += self.chunk
            yield self.data_[start : start + self.chunk]


@pytest.mark.parametrize("chunk", [50_000, 1 << 20])
def test_one_pass_suffices_wherever_the_linker_puts_names(chunk, monkeypatch):
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
    found = scan(archive, Member("libx.so", len(data), len(data), 0, 0, 0), "w.whl", SOUGHT)
    assert found.object is not None
    assert found.object.soname == "libx.so.1"
    assert found.object.containers[0].section == ".nv_fatbin"
    assert archive.passes == 1


@pytest.mark.parametrize("place", [3_000_000, 3_049_995, 8_940_000])
def test_names_of_what_is_needed_are_kept_wherever_they_lie(monkeypatch, place):
    monkeypatch.setattr("gpuforge.audit.read.scan._HEAD", 8192)
    between = bytearray(9_000_000)  # of Go's read-only data, for example, whose names lie behind it
    between[place : place + 26] = b"\0libm.so.6\0libc.so.6\0main"
    data = elf(sections={".gopclntab": bytes(between)}).replace(b"\0libc.so.6", b"\0libd.so.6", 1)
    archive, member = Counting(data, 50_000), Member("go", len(data), len(data), 0, 0, 0)
    window, _ = scanner._first_pass(archive, member, SOUGHT.text)
    at = data.index(b"libm.so.6")
    assert window.read(at, 24) == b"libm.so.6\0libc.so.6\0main"


def test_a_second_pass_ends_with_what_was_missed(monkeypatch):
    monkeypatch.setattr("gpuforge.audit.read.scan._HEAD", 8192)
    data = elf(soname="libx.so.1", sections={".symtab": bytes(9_000_000), ".comment": b"LLD 19\0"})
    archive, member = Counting(data, 50_000), Member("libx.so", len(data), len(data), 0, 0, 0)
    window, _ = scanner._first_pass(archive, member, SOUGHT.text)
    archive.taken = 0
    missed = (1_000_000, 1_065_536)  # names, for example, that lie before what says where they are
    assert not window.has(*missed)
    scanner._fetch(archive, member, window, missed)
    assert window.has(*missed)
    assert archive.taken == 1_100_000


@pytest.mark.parametrize("chunk", [50_000, 1 << 20])
def test_program_headers_may_lie_behind(chunk, monkeypatch):
    monkeypatch.setattr("gpuforge.audit.read.scan._HEAD", 8192)
    data = bytearray(elf(soname="libx.so.1", needed=["libc.so.6"], sections={".text": bytes(3_000_000)}))
    headers = data[64 : 64 + 4 * 56]  # BOLT copies them behind the code that it has moved
    data[64 : 64 + 4 * 56] = bytes(4 * 56)
    data[32:40] = len(data).to_bytes(8, "little")
    archive = Counting(bytes(data + headers), chunk)
    found = scan(
        archive, Member("libx.so", len(archive.data_), len(archive.data_), 0, 0, 0), "w.whl", SOUGHT
    ).object
    assert found is not None
    assert (found.soname, found.needed, archive.passes) == ("libx.so.1", ("libc.so.6",), 1)


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_a_file_read_whole_is_read_as_in_chunks(limit, monkeypatch):
    monkeypatch.setattr("gpuforge.audit.read.scan._WHOLE", limit)
    data = elf(
        soname="libx.so.1",
        sections={
            ".comment": b"GCC 14\0",
            ".rodata": STATIC_CUDART + b"\0libcudnn.so.9\0",
            ".nv_fatbin": fatbin("sm_80"),
        },
    )
    found = scan(
        Counting(data, 700), Member("libx.so", len(data), len(data), 0, 0, 0), "w.whl", SOUGHT
    ).object
    assert found is not None
    assert (found.soname, found.comment, found.mentions) == (
        "libx.so.1",
        ("GCC 14",),
        frozenset({"libcudnn.so.9"}),
    )
    assert found.markers == {"static-cudart"}
    assert [(c.section, c.cubins) for c in found.containers] == [(".nv_fatbin", {Arch(8, 0)})]


def test_of_a_cubin_the_sections_of_all_kernels_are_one():
    kernels = {
        f"{part}.{name}": bytes(size)
        for name, size in (("_Z5scalePf", 100), ("add.cold", 20))
        for part in (".text", ".nv.info", ".rela.text")
    }
    data = elf(machine=190, sections={**kernels, ".nv.info": bytes(3), ".note.nv.tkinfo": bytes(7)})
    found = scan(
        Counting(data, 5000), Member("a.cubin", len(data), len(data), 0, 0, 0), "w.whl", SOUGHT
    ).object
    assert found is not None
    sizes = {section.name: section.size for section in found.sections}
    assert sizes.pop(".shstrtab") > 0
    assert sizes == {".text": 120, ".nv.info": 123, ".rela.text": 120, ".note.nv.tkinfo": 7}


@pytest.mark.parametrize("cut", [1, 5, 20, 23])
def test_what_lies_across_two_chunks_is_found(cut):
    code = fatbin("sm_90")
    data = bytes(100_000) + STATIC_CUDART + bytes(70_000) + code
    for place in (100_000 + cut, len(data) - len(code) + min(cut, 7)):
        scanner = Scanner(len(data), STATIC_CUDART)
        scanner.feed(0, data[:place])
        scanner.feed(place, data[place:])
        scanner.finish()
        assert scanner.marked
        assert [c.offset for c in scanner.containers] == [len(data) - len(code)]


def test_source_text_is_not_scanned(tmp_path):
    names = ["a.so", "a.so.1", "bin/nrniv-core", "a.fatbin", "a.ptx", "a.bin"]
    files = {name: elf() for name in ("torch/include/ATen/ATen.h", "a.py", *names)}
    with Archive(wheel(tmp_path, files)) as archive:
        assert [member.name for member in binaries(archive)] == names


def test_the_directory_is_what_zipfile_reads(tmp_path):
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


@pytest.mark.thorough
def test_a_damaged_directory_is_one_clear_error(tmp_path):
    path = wheel(tmp_path, {"demo/a.so": elf()})
    data = path.read_bytes()
    start = data.index(b"PK\x01\x02")
    for place in range(start, len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            read(path)
        except MalformedError as error:
            assert error.diagnostics[0].message  # noqa: PT017 - either outcome is right


def test_threads_read_what_one_job_reads_in_the_order_given(tmp_path):
    paths = []
    for number in range(6):
        (tmp_path / str(number)).mkdir()
        files = {f"demo/{n}.so": elf(soname=f"lib{number}{n}.so") for n in range(number)}
        paths.append(wheel(tmp_path / str(number), files, name=f"demo{number}-1.0-py3-none-linux_x86_64.whl"))
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"PK")
    given = [Input.of(path) for path in (*paths[:3], broken, tmp_path / "absent.whl", *paths[3:])]
    with reading(given, patterns()) as alone, reading(given, patterns(), jobs=3) as threads:
        one, several = alone(), threads()
    assert [w for w in several if isinstance(w, WheelFacts)] == [w for w in one if isinstance(w, WheelFacts)]
    assert [type(w) for w in several] == [type(w) for w in one]
    assert isinstance(several[3], MalformedError)
    assert isinstance(several[4], FileNotFoundError)


@pytest.mark.parametrize("place", [1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_file_that_is_said_to_lie_behind_the_end_is_missing(place, tmp_path):
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
