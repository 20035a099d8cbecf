"""The fatbin reader: containers anywhere in a file, in chunks of any size, and damaged."""

import struct

import pytest
from audit_samples import STATIC_CUDART, elf, fatbin, image
from draws import draws
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.audit.elf_patterns import patterns
from gpuforge.binary import cubin
from gpuforge.binary.elf.header import read_header
from gpuforge.binary.elf.reader import read
from gpuforge.binary.facts import FatbinContainer, FatbinEntry
from gpuforge.binary.fatbin import Scanner, entry, scan
from gpuforge.binary.ptx import standalone
from gpuforge.binary.window import Window
from gpuforge.runtime.arch import Arch

ONE = fatbin("sm_80", "sm_90a", "sm_100f", "compute_120:8.8")
FILE = b"head" * 10 + STATIC_CUDART + bytes(7) + ONE + b"between" * 9 + fatbin("sm_75") + b"tail" * 5


def archs(containers: list[FatbinContainer]) -> list[list[str]]:
    return [[e.target for e in c.entries] for c in containers]


def test_containers_are_found_anywhere_in_a_file():
    found = list(scan(FILE))
    assert archs(found) == [["sm_80", "sm_90a", "sm_100f", "compute_120"], ["sm_75"]]
    assert [FILE[c.offset : c.offset + c.size] for c in found] == [ONE, fatbin("sm_75")]
    assert found[0].entries[3] == FatbinEntry("ptx", Arch.parse("compute_120"), "8.8", 256, 256)
    assert found[0].cubins == {Arch(8, 0), Arch(9, 0, "a"), Arch(10, 0, "f")}
    assert found[0].ptx == {Arch(12, 0)}
    assert not any(c.damaged for c in found)


def test_a_compressed_entry_has_both_sizes():
    found, step = entry(image("compute_90:8.4", size=1000, compressed=77))
    assert (found.size, found.stored, found.compression, step) == (1000, 77, "lz4", 64 + 80)


@pytest.mark.parametrize("flag", [0x2000, 0x8000])
def test_flags_have_the_compression(flag):
    data = bytearray(image("sm_80"))
    struct.pack_into("<Q", data, 40, flag)
    assert entry(bytes(data))[0].compression == {0x2000: "lz4", 0x8000: "zstd"}[flag]


def fed(data: bytes, size: int) -> Scanner:
    scanner = Scanner(len(data), STATIC_CUDART)
    for offset in range(0, len(data), size):
        scanner.feed(offset, data[offset : offset + size])
    scanner.finish()
    return scanner


@draws(150)
@given(st.integers(1, len(FILE) + 10))
def test_the_size_of_chunks_makes_no_difference(size):
    scanner = fed(FILE, size)
    assert scanner.containers == list(scan(FILE))
    assert scanner.marked


@pytest.mark.parametrize("size", [13, 97, 4096])
def test_a_container_in_the_last_payload_of_another_is_none(size):
    outer = fatbin("sm_80", "sm_90a")
    data = outer[:-80] + fatbin("sm_80")
    assert [c.offset for c in scan(data)] == [0]
    assert fed(data, size).containers == list(scan(data))


def test_error_messages_of_cudart_are_not_its_mark():
    words = b"\0cudaErrorCudartUnloading\0driver shutting down\0"  # what bindings name, and torch waits for
    assert not fed(words, 64).marked


def test_a_mark_inside_a_payload_is_not_a_mark():
    data = bytearray(fatbin("sm_80"))
    data[100 : 100 + len(STATIC_CUDART)] = STATIC_CUDART
    assert not fed(bytes(data), 64).marked


def test_a_truncated_container_is_damaged():
    scanner = Scanner(len(ONE))  # the file says that it is longer than what comes
    scanner.feed(0, ONE[:500])
    scanner.finish()
    assert archs(scanner.containers) == [["sm_80", "sm_90a"]]  # as far as their headers came
    assert scanner.containers[0].damaged


def test_magic_without_a_container_is_skipped():
    magic = ONE[:8]
    data = magic + b"\xff" * 8 + magic + struct.pack("<Q", 64) + bytes(64) + ONE
    assert archs(list(scan(data))) == archs(list(scan(ONE)))


def test_a_container_whose_entries_do_not_add_up_is_damaged():
    data = bytearray(ONE)
    struct.pack_into("<I", data, 16 + 64 + 256 + 4, 7)  # the second entry's header size
    assert [c.damaged for c in scan(bytes(data))] == [True]


@pytest.mark.thorough
@draws(400)
@given(
    st.lists(st.tuples(st.integers(0, len(ONE) - 1), st.integers(0, 255)), min_size=1, max_size=10),
    st.integers(1, 600),
)
def test_mutated_containers_raise_nothing(changes, size):
    data = bytearray(ONE)
    for position, value in changes:
        data[position] = value
    assert fed(bytes(data), size).containers == list(scan(bytes(data)))


@pytest.mark.parametrize(
    ("abi", "flags", "arch"),
    [
        (7, 0x00500550, "sm_80"),
        (7, 0x005A0D5A, "sm_90a"),
        (8, 0x06006408, "sm_100a"),
        (8, 0x06007802, "sm_120"),
    ],
)
def test_the_flags_of_a_cubin_have_its_architecture(abi, flags, arch):
    head = b"\x7fELF\x02\x01\x01\x33" + bytes([abi]) + bytes(39) + struct.pack("<I", flags) + bytes(12)
    assert cubin.container(read_header(Window.of(head)), 5000).cubins == {Arch.parse(arch)}


@pytest.mark.parametrize(
    ("options", "arch"),
    [
        ("-arch sm_100f -m 64 ", "sm_100f"),
        ("-v  -maxrregcount 64 -lineinfo  -O 1 -arch sm_100a -m 64 ", "sm_100a"),
        ("-arch sm_100", "sm_100"),
        ("-m 64", "sm_100"),
    ],
)
def test_the_note_of_a_cubin_has_its_variant_and_its_toolkit(options, arch):
    """As ptxas 12.9 and 13.0 write it: the header of all four says sm_100."""
    said = ("NVIDIA Corp", "ptxas", "Cuda compilation tools, release 13.0, V13.0.88", options)
    note = struct.pack("<III", 12, 200, 2000) + b"".join(text.encode() + b"\0" for text in said)
    data = bytearray(elf(needed=(), machine=190, sections={".note.nv.tkinfo": note}))
    data[8] = 8
    data[48:52] = struct.pack("<I", 0x06006402)
    made = read(Window.of(bytes(data)), patterns().every, file="k.cubin")
    assert made.comment == said
    ((found,),) = (container.entries for container in made.containers)
    assert (found.target, found.toolkit) == (arch, "13.0")


def test_a_ptx_text_has_its_isa_and_target():
    found = standalone(b"//\n.version 8.4\n.target sm_90a\n.address_size 64\n", 900)
    assert found is not None
    assert found.entries == (FatbinEntry("ptx", Arch.parse("compute_90a"), "8.4", 900, 900),)
    assert standalone(b"nothing of the kind", 900) is None
