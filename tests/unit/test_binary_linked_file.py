"""Linked files, compared with pyelftools, without section headers, and damaged."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from audit_samples import elf, fatbin
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

from gpuforge.binary.elf import linked_file
from gpuforge.binary.elf.file import opened
from gpuforge.binary.elf.linked_file import LinkedFile
from gpuforge.binary.fatbin import containers
from gpuforge.runtime.arch import Arch

SAMPLE = elf(
    soname="libx.so.1",
    needed=["libcudart.so.13"],
    runpath="$ORIGIN:/opt/x",
    versions={"libc.so.6": ["GLIBC_2.17"]},
    undefined=["cudaMalloc"],
    defined=["f"],
    sections={".nv_fatbin": fatbin("sm_80")},
)
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def read(tmp_path: Path, data: bytes) -> LinkedFile | None:
    path = tmp_path / "x.so"
    path.write_bytes(data)
    return linked_file.read(path)


def test_every_field_is_read(tmp_path):
    found = read(tmp_path, SAMPLE)
    assert found is not None
    assert (found.soname, found.needed) == ("libx.so.1", ("libcudart.so.13",))
    assert (found.search_path, found.has_rpath) == (("$ORIGIN", "/opt/x"), False)
    assert found.version_needs == (("libc.so.6", ("GLIBC_2.17",)),)
    assert (found.defined, found.undefined) == ({"f"}, {"cudaMalloc"})


@pytest.mark.parametrize(
    ("paths", "search_path", "has_rpath"),
    [
        ({"rpath": "/a::/b"}, ("/a", "", "/b"), True),
        ({"rpath": "/a", "runpath": "/b"}, ("/b",), True),
        ({}, (), False),
    ],
)
def test_rpath_is_ignored_beside_runpath(paths, search_path, has_rpath, tmp_path):
    found = read(tmp_path, elf(**paths))  # type: ignore[arg-type]
    assert found is not None
    assert (found.search_path, found.has_rpath) == (search_path, has_rpath)


@pytest.mark.parametrize("data", [b"", b"\x7fEL", b"#!/bin/sh\n", elf(machine=190)])
def test_other_files_and_cubins_are_not_linked_files(data, tmp_path):
    assert read(tmp_path, data) is None


def library(tmp_path: Path, *flags: str) -> Path:
    (tmp_path / "x.c").write_text(
        "#include <stdio.h>\n"
        "extern int absent(void);\n"
        "__attribute__((weak)) extern int maybe(void);\n"
        "static int hidden(void) { return 3; }\n"
        "int value = 5;\n"
        'int shown(void) { return absent() + (maybe ? maybe() : 0) + hidden() + puts("x"); }\n'
    )
    argv = [
        "gcc",
        "-shared",
        "-fPIC",
        "-Wl,-soname,libx.so.3",
        "-Wl,-rpath,$ORIGIN/y",
        *flags,
        "-o",
        "libx.so",
        "x.c",
    ]
    subprocess.run(argv, check=True, cwd=tmp_path)
    return tmp_path / "libx.so"


@needs_gcc
def test_a_library_is_read_as_pyelftools_reads_it(tmp_path):
    path = library(tmp_path)
    found = linked_file.read(path)
    assert found is not None
    with path.open("rb") as stream:
        peer = ELFFile(stream)
        table = peer.get_section_by_name(".dynsym")
        versions = peer.get_section_by_name(".gnu.version_r")
        assert isinstance(table, SymbolTableSection)
        assert isinstance(versions, GNUVerNeedSection)
        symbols = [s for s in table.iter_symbols() if s.name and s.entry.st_info.bind != "STB_LOCAL"]
        assert found.defined == {s.name for s in symbols if s.entry.st_shndx != "SHN_UNDEF"}
        assert found.undefined == {
            s.name for s in symbols if s.entry.st_shndx == "SHN_UNDEF" and s.entry.st_info.bind != "STB_WEAK"
        }
        assert found.version_needs == tuple(
            (need.name, tuple(part.name for part in parts)) for need, parts in versions.iter_versions()
        )
    assert {"shown", "value"} <= found.defined
    assert "absent" in found.undefined
    assert "maybe" not in found.undefined


@needs_gcc
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_symbols_are_read_without_section_headers(style, tmp_path):
    path = library(tmp_path, f"-Wl,--hash-style={style}")
    whole = linked_file.read(path)
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, 40, 0)  # e_shoff
    struct.pack_into("<HHH", data, 58, 0, 0, 0)  # e_shentsize, e_shnum, e_shstrndx
    assert read(tmp_path, bytes(data)) == whole


@needs_gcc
@pytest.mark.parametrize("field", [24, 32], ids=["another place", "a smaller size"])
def test_a_section_that_contradicts_the_dynamic_section_is_not_believed(field, tmp_path):
    """The dynamic linker does not read section headers."""
    path = library(tmp_path, "-Wl,--hash-style=gnu")
    whole = linked_file.read(path)
    with path.open("rb") as stream:
        peer = ELFFile(stream)
        number = peer.get_section_index(".dynsym")
        at = peer.header.e_shoff + number * peer.header.e_shentsize + field
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, at, 24)  # sh_offset, sh_size
    assert read(tmp_path, bytes(data)) == whole


@pytest.mark.thorough
@needs_gcc
def test_programs_and_libraries_are_told_apart(tmp_path):
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    for flags in (["-pie"], ["-no-pie"], ["-static"]):
        subprocess.run(["gcc", *flags, "-o", "main", "main.c"], check=True, cwd=tmp_path)
        with opened(tmp_path / "main") as file:
            assert file is not None
            assert file.is_program
    with opened(library(tmp_path)) as file:
        assert file is not None
        assert not file.is_program


def test_containers_of_a_file_have_their_section(tmp_path):
    (tmp_path / "x.so").write_bytes(SAMPLE)
    (tmp_path / "x.fatbin").write_bytes(fatbin("sm_80"))
    assert [(c.section, c.cubins) for c in containers(tmp_path / "x.so")] == [(".nv_fatbin", {Arch(8, 0)})]
    assert [(c.section, c.cubins) for c in containers(tmp_path / "x.fatbin")] == [("", {Arch(8, 0)})]
