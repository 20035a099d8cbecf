"""Read HIP's GPU code: the bundles of clang in the section `.hip_fatbin`, and the GPUs that each has code for.

Format: https://clang.llvm.org/docs/ClangOffloadBundler.html
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuforge.binary.window import Budget, find

SECTION = ".hip_fatbin"
_PLAIN, _PACKED = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
_ENOUGH = 1 << 18  # bytes from a bundle's start on that hold the list of its entries, packed or not
_LIST = 1 << 16  # bytes of an unpacked bundle that hold it
_MOST = 1024  # entries of a bundle; there are fewer GPUs


class HipBundle(NamedTuple):
    """One bundle: the code of one source file for several GPUs."""

    targets: tuple[str, ...]  # "gfx90a", "gfx942:sramecc+:xnack-"; sorted
    damaged: bool = False  # its list of entries cannot be read


def bundles(chunks: Iterable[bytes], start: int, size: int, budget: Budget) -> Iterator[HipBundle]:
    """Yield the bundles in the `size` bytes from `start` on of a file, which is passed in chunks."""
    left, skip, data = size, start, b""
    for chunk in chunks:
        part = chunk[skip : skip + left] if skip < len(chunk) else b""
        skip = max(0, skip - len(chunk))
        left -= len(part)
        data += part
        while len(data) >= _ENOUGH or (data and not left):
            at = min((hit for word in (_PLAIN, _PACKED) if (hit := find(data, word)) >= 0), default=-1)
            if at < 0:
                data = b"" if not left else data[1 - len(_PLAIN) :]
                break
            data = data[at:]
            if len(data) < _ENOUGH and left:
                break
            budget.spend("entries", 1)
            bundle, length = _bundle(data, budget)
            if bundle:
                yield bundle
            skip = max(0, length - len(data))
            left -= min(left, skip)
            data = data[length:]
        if not left and not data:
            return


def _bundle(data: bytes, budget: Budget) -> tuple[HipBundle | None, int]:
    """Return the bundle at the beginning of bytes, and its length, or what to go on after."""
    try:
        if data.startswith(_PLAIN):
            return _listed(data, budget)
        content, length = _unpacked(data)
        found = _listed(content, budget)[0] if content.startswith(_PLAIN) else None
        return found or HipBundle((), damaged=True), length
    except (struct.error, ValueError):
        return (HipBundle((), damaged=True), len(_PLAIN)) if data.startswith(_PLAIN) else (None, len(_PACKED))


def _listed(data: bytes, budget: Budget) -> tuple[HipBundle, int]:
    """Read the list of entries: offset, size and the length of a name such as "hipv4-amdgcn-amd-amdhsa--gfx90a"."""
    (count,) = struct.unpack_from("<Q", data, len(_PLAIN))
    if count > _MOST:
        raise ValueError
    targets, at, end = set(), len(_PLAIN) + 8, len(_PLAIN)
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        name = data[at + 24 : at + 24 + length].decode("latin-1")
        at += 24 + length
        if at > len(data):
            raise ValueError
        budget.spend("entries", 1)
        end = max(end, at, offset + size)
        kind, _, target = name.partition("gfx")  # before ROCm 4.1 one "-" is before it
        if "amdgcn" in kind:
            targets.add(f"gfx{target}" if target else name)
    return HipBundle(tuple(sorted(targets))), end


def _unpacked(data: bytes) -> tuple[bytes, int]:
    """Return the beginning of a packed bundle's content, b"" if it is damaged, and the bundle's length.

    A bundle of the first version has no length: it lasts to the next one.
    """
    version, method = struct.unpack_from("<HH", data, 4)
    match version:
        case 1:
            following = find(data, _PACKED, len(_PACKED))
            length, start = following if following >= 0 else len(data), 20
        case 2:
            length, start = struct.unpack_from("<I", data, 8)[0], 24
        case 3:
            length, start = struct.unpack_from("<Q", data, 8)[0], 32
        case _:
            raise ValueError
    length = max(length, start)
    import zstandard  # noqa: PLC0415  few wheels have such code

    try:
        if method == 0:
            return zlib.decompressobj().decompress(data[start:length], _LIST), length
        with zstandard.ZstdDecompressor().stream_reader(data[start:length]) as stream:
            return stream.read(_LIST), length
    except (zlib.error, zstandard.ZstdError):
        return b"", length
