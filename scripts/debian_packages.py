"""What Debian's packages hold of a CUDA toolkit or a compiler: which file, which of its bytes are needed, sha256."""

from __future__ import annotations

import hashlib
import lzma
import re
import struct
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import requests
from random_access import RandomAccess

from gpuforge.toolkits.unpack import STREAM_HEADER

MIRROR = "https://deb.debian.org/debian"
MACHINES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
}  # Debian's names: https://wiki.debian.org/SupportedArchitectures
SUITES = {"11.8": "bookworm", "12.4": "trixie"}  # toolkit -> the suite whose non-free has it
COMPILERS = {"11": "bookworm"}  # major of GCC -> the suite whose g++ of it is fetched where it is needed
OF_COMPILER = ("g++-{}", "gcc-{}", "cpp-{}", "libstdc++-{}-dev", "libgcc-{}-dev", "gcc-{}-base")
WHOLE = "nvidia-cuda-toolkit"  # the compiler
PIECES = "nvidia-cuda-dev"  # 0.8 to 0.9 GB, of which these files, which no wheel of PyPI has, are needed
_GLIBC = re.compile(r"\blibc6 \(>= ([\d.]+)\)")
FILES_OF_PIECES = re.compile(
    r"\./usr/lib/[^/]+/(?P<name>libcudadevrt\.a|libcudart_static\.a|stubs/libcuda\.so|stubs/libnvidia-ml\.so)"
)


class Package(NamedTuple):
    """One package of a suite's index."""

    name: str
    version: str
    path: str
    size: int
    sha256: str
    depends: str


@cache
def index(suite: str, machine: str, area: str = "non-free") -> Mapping[str, Package]:
    """Return an area's packages by name: https://wiki.debian.org/DebianRepository/Format#A.22Packages.22_Indices."""
    url = f"{MIRROR}/dists/{suite}/{area}/binary-{MACHINES[machine]}/Packages.xz"
    answer = requests.get(url, timeout=120)
    answer.raise_for_status()
    found = {}
    for paragraph in lzma.decompress(answer.content).decode().split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", paragraph, re.MULTILINE))
        if fields:
            name = fields["Package"]
            found[name] = Package(
                name,
                fields["Version"],
                fields["Filename"],
                int(fields["Size"]),
                fields["SHA256"],
                fields.get("Depends", ""),
            )
    return found


@dataclass(frozen=True)
class Block:
    """One block of an .xz file, which can be unpacked without the others (offsets in bytes)."""

    start: int  # in the .deb
    packed: int  # with its padding
    offset: int  # of what it unpacks to
    size: int


class Blocks(RandomAccess):
    """What an .xz member of a .deb unpacks to, read block by block: https://tukaani.org/xz/xz-file-format.txt."""

    def __init__(self, deb: Any, start: int, size: int) -> None:
        self._deb, self._kept = deb, (-1, b"")
        if self._bytes(start, 12) != STREAM_HEADER:
            raise ValueError("an .xz file of another kind than dpkg writes")
        (backward,) = struct.unpack("<I", self._bytes(start + size - 8, 4))
        length = (backward + 1) * 4
        self.blocks = list(_blocks(self._bytes(start + size - 12 - length, length), start + 12))
        super().__init__(self.blocks[-1].offset + self.blocks[-1].size)

    def _bytes(self, start: int, size: int) -> bytes:
        self._deb.seek(start)
        return bytes(self._deb.read(size))

    def packed(self, block: Block) -> bytes:
        """Return a block as it is in the .deb."""
        return self._bytes(block.start, block.packed)

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes of one block (tarfile asks again)."""
        stop = self.stop(size)
        parts = []
        while self._at < stop:
            number = next(n for n, b in enumerate(self.blocks) if b.offset <= self._at < b.offset + b.size)
            block = self.blocks[number]
            if self._kept[0] != number:
                unpacked = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(
                    STREAM_HEADER + self.packed(block)
                )
                self._kept = (number, unpacked)
            at = self._at - block.offset
            parts.append(self._kept[1][at : at + stop - self._at])
            self._at += len(parts[-1])
        return b"".join(parts)


def _blocks(index: bytes, start: int) -> Iterator[Block]:
    """Read an .xz index; blocks follow each other from `start` on."""
    at = 1
    numbers: list[int] = []
    while len(numbers) < 1 or len(numbers) < 1 + 2 * numbers[0]:
        value = shift = 0
        while True:
            byte = index[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        numbers.append(value)
    offset = 0
    for unpadded, size in zip(numbers[1::2], numbers[2::2], strict=True):
        packed = (unpadded + 3) & ~3
        yield Block(start, packed, offset, size)
        start, offset = start + packed, offset + size


def data_member(deb: Any) -> tuple[int, int]:
    """Return start and size of `data.tar.xz` in a .deb (an ar archive, see deb(5) and ar(5))."""
    at = 8
    while True:
        deb.seek(at)
        header = deb.read(60)
        size = int(header[48:58])
        if header.startswith(b"data.tar.xz"):
            return at + 60, size
        at += 60 + size + size % 2


def rows(toolkit: str, machine: str, open_url: Callable[[str, int], Any]) -> Iterator[str]:
    """Yield the TOML lines of what is taken from Debian for one toolkit and machine."""
    packages = index(SUITES[toolkit], machine)
    whole = packages[WHOLE]
    yield _row(machine, whole, 0, whole.size, whole.sha256, [])
    pieces = packages[PIECES]
    deb = open_url(f"{MIRROR}/{pieces.path}", pieces.size)
    data = Blocks(deb, *data_member(deb))
    by_block: dict[Block, list[tuple[str, int, int]]] = {}
    with tarfile.open(fileobj=data, mode="r:") as archive:
        for member in archive:
            match = FILES_OF_PIECES.fullmatch(member.name)
            if match and member.isfile():
                block = next(b for b in data.blocks if b.offset <= member.offset_data < b.offset + b.size)
                if member.offset_data + member.size > block.offset + block.size:
                    raise ValueError(f"{member.name} is in two blocks")
                by_block.setdefault(block, []).append(
                    (match["name"], member.offset_data - block.offset, member.size)
                )
    for block, members in by_block.items():
        sha256 = hashlib.sha256(data.packed(block)).hexdigest()
        yield _row(machine, pieces, block.start, block.packed, sha256, members)


def compiler_rows(major: str) -> Iterator[str]:
    """Yield the TOML lines of one major of g++: its version, the glibc that it runs on, and its packages."""
    suite = COMPILERS[major]
    machines = {machine: index(suite, machine, "main") for machine in MACHINES}
    by_machine = {
        m: [packages[name.format(major)] for name in OF_COMPILER] for m, packages in machines.items()
    }
    (version,) = {each[0].version for each in by_machine.values()}
    needed = {text for each in by_machine.values() for p in each for text in _GLIBC.findall(p.depends)}
    yield from (
        "[[compiler]]",
        'family = "g++"',
        f'suite = "{suite}"',
        f'package = "g++-{major}"',
        f'package-version = "{version}"',
        f'glibc = "{max(needed, key=lambda text: tuple(map(int, text.split("."))))}"',
        f'source = "https://packages.debian.org/{suite}/g++-{major}"',
        "packages = [",
    )
    for machine, packages in by_machine.items():
        yield from (_row(machine, p, 0, p.size, p.sha256, []) for p in packages)
    yield "]"


def _row(
    machine: str, package: Package, start: int, size: int, sha256: str, members: list[tuple[str, int, int]]
) -> str:
    inner = ", ".join(f'{{ name = "{n}", offset = {o}, size = {s} }}' for n, o, s in members)
    return (
        f'  {{ package = "{package.name}", version = "{package.version}", machine = "{machine}", start = {start}, '
        f'size = {size}, path = "{package.path}", sha256 = "{sha256}", members = [{inner}] }},'
    )
