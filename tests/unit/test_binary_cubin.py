"""Cubins: toolkit, sections and empty ones; damaged ones raise MalformedError alone."""

import contextlib
import struct

import lz4.block
import pytest
import zstandard
from audit_samples import image
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.binary import cubin
from gpuforge.binary import fatbin as reader
from gpuforge.binary.cubin import toolkit
from gpuforge.binary.elf.file import ElfFile
from gpuforge.binary.facts import FatbinEntry
from gpuforge.binary.fatbin import unpacked
from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError
from gpuforge.runtime.arch import Arch


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
def test_the_toolkit_of_a_cubin_is_read(image, expected):
    plain = FatbinEntry("cubin", Arch.parse("sm_90"), "", len(image), len(image))
    assert toolkit(unpacked(plain, image)) == expected
    for compression, packed in (
        ("lz4", lz4.block.compress(image, store_size=False)),
        ("zstd", zstandard.ZstdCompressor().compress(image)),
    ):
        entry = FatbinEntry("cubin", Arch.parse("sm_90"), "", len(image), len(packed), compression)  # type: ignore[arg-type]
        assert toolkit(unpacked(entry, packed)) == (expected if len(image) >= 64 else "")
        assert toolkit(unpacked(entry, packed[:5])) == ""


@pytest.mark.parametrize("image", [API, NOTE])
@pytest.mark.parametrize("field", [24, 32])  # sh_offset, sh_size
@pytest.mark.parametrize("value", [1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_cubin_whose_section_is_outside_of_it_has_no_toolkit(image, field, value):
    changed = bytearray(image)
    struct.pack_into("<Q", changed, len(image) - 64 + field, value)
    assert toolkit(bytes(changed)) == ""


CODE, DATA = _cubin(1, b"\0.text._Z1kPf\0"), _cubin(1, b"\0.nv.constant3\0")


@pytest.mark.parametrize(
    ("contents", "empty"),
    [((CODE,), False), ((DATA,), True), ((DATA, DATA), True), ((DATA, CODE), False), ((b"no ELF",), False)],
)
def test_cubins_without_code_make_an_empty_container(contents, empty):
    cubins = (image("sm_80", size=9000 + 100 * n, content=content) for n, content in enumerate(contents))
    entries = b"".join(cubins) + image("compute_80:8.4", size=60)
    data = b"\x50\xed\x55\xba\x01\x00\x10\x00" + struct.pack("<Q", len(entries)) + entries
    (found,) = reader.scan(data)
    assert found.empty is empty


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
def test_sections_of_all_kernels_are_added_up(names, ended, sections):
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


def _container(*images: bytes) -> bytes:
    entries = b"".join(images)
    return b"\x50\xed\x55\xba\x01\x00\x10\x00" + struct.pack("<Q", len(entries)) + entries


def test_small_cubins_are_looked_at_whatever_came_before_and_of_large_ones_the_rest_is_unknown():
    large = lz4.block.compress(_cubin(1, b"\0.text.k\0" + bytes(900_000)), store_size=False)
    packed = image("sm_80", size=900_137, content=large, compressed=len(large))
    small = image("sm_80", size=9000, content=DATA)
    found = list(reader.scan(_container(packed) * 30 + _container(small, image("compute_80:8.4", size=60))))
    assert [c.empty for c in found[:18]] == [False] * 18
    assert {c.empty for c in found[19:30]} == {None}
    assert found[30].empty is True
