"""GPU code: containers and entries without end, images that unpack to far more, and PTX of one line."""

import struct
from pathlib import Path

from audit_samples import elf, fatbin, wheel

from hostile.attack import attack

_START = b"\x50\xed\x55\xba\x01\x00\x10\x00"


def _entry(*, payload: int = 0, packed: int = 0, unpacked: int = 0, flags: int = 0x11) -> bytes:
    """A cubin for sm_80."""
    head = struct.pack("<HHIQIIHHI", 2, 0x101, 64, payload, packed, 0, 8, 1, 80)
    return head + struct.pack("<IIQQQ", 0, 0, flags, 0, unpacked)


def _container(content: bytes) -> bytes:
    return _START + struct.pack("<Q", len(content)) + content


def _of(folder: Path, data: bytes) -> list[Path]:
    return [wheel(folder, {"demo/a.so": elf(sections={".nv_fatbin": data})})]


@attack
def entries_by_the_million(folder: Path) -> list[Path]:
    return _of(folder, _container(_entry() * 1_000_000))


@attack
def containers_by_the_million(folder: Path) -> list[Path]:
    return _of(folder, _container(_entry()) * 600_000)


@attack
def starts_without_containers(folder: Path) -> list[Path]:
    return _of(folder, _START * 4_000_000)


@attack
def containers_that_enclose_themselves(folder: Path) -> list[Path]:
    """Each begins where the entry of the one before does, and all are damaged at the end."""
    one = _START + struct.pack("<Q", 64 * 50_000)
    return _of(folder, (one + _entry(payload=16)) * 50_000)


@attack
def lz4_bombs(folder: Path) -> list[Path]:
    import lz4.block

    packed = lz4.block.compress(bytes(1 << 20), store_size=False)
    padded = packed.ljust(len(packed) + -len(packed) % 8, b"\0")
    one = _container(_entry(payload=len(padded), packed=len(packed), unpacked=1 << 20, flags=0x2011) + padded)
    return _of(folder, one * 2_000)


@attack
def zstd_bombs(folder: Path) -> list[Path]:
    import zstandard

    packed = zstandard.ZstdCompressor().compress(bytes(1 << 20))
    padded = packed.ljust(len(packed) + -len(packed) % 8, b"\0")
    one = _container(_entry(payload=len(padded), packed=len(packed), unpacked=64, flags=0x8011) + padded)
    return _of(folder, one * 20_000)


@attack
def zstd_of_a_large_window(folder: Path) -> list[Path]:
    import zstandard

    packed = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    ).compress(bytes(64))
    packed = b"\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00"  # no content size, a window of 1 GiB
    padded = packed.ljust(64, b"\0")
    one = _container(_entry(payload=64, packed=len(packed), unpacked=1 << 20, flags=0x8011) + padded)
    return _of(folder, one * 2_000)


@attack
def ptx_of_blank_lines(folder: Path) -> list[Path]:
    return [wheel(folder, {"demo/a.ptx": b"\n" * 4_000_000})]


@attack
def cubins_of_long_names(folder: Path) -> list[Path]:
    """A cubin whose sections are called by dots, each to be compared with the names of its kernels."""
    names = b"\0.text." + b".a" * 10_000 + b"\0"
    rows = [(1, 1, 0, 0, 1)] * 2_000
    from hostile.objects import with_sections

    data = bytearray(with_sections(rows, names))
    data[18:20] = struct.pack("<H", 190)
    return [wheel(folder, {"demo/a.cubin": bytes(data)})]


@attack
def architectures_without_end(folder: Path) -> list[Path]:
    return [
        wheel(folder, {f"demo/{n}.fatbin": fatbin(*(f"sm_{k}" for k in range(10, 400))) for n in range(400)})
    ]
