"""HIP's GPU code as `clang-offload-bundler` writes it, plain and packed."""

import struct
import zlib

import zstandard


def bundle(*targets: str, packed: int = 0, method: int = 1, content: bytes = b"\x7fELF") -> bytes:
    """Return a bundle for these GPUs; `packed` is the version of the packed form, `method` 1 is zstd, 0 zlib."""
    names = [b"host-x86_64-unknown-linux--", *(b"hipv4-amdgcn-amd-amdhsa--" + t.encode() for t in targets)]
    at = 32 + sum(24 + len(name) for name in names)
    entries = b"".join(
        struct.pack("<QQQ", at + number * len(content), len(content) * bool(number), len(name)) + name
        for number, name in enumerate(names)
    )
    whole = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)) + entries + content * len(names)
    if not packed:
        return whole
    data = zstandard.compress(whole) if method else zlib.compress(whole)
    sizes = {1: "<I8x", 2: "<II8x", 3: "<QQ8x"}[packed]
    length = struct.calcsize(sizes) + 8 + len(data)
    numbers = (len(whole),) if packed == 1 else (length, len(whole))
    return b"CCOB" + struct.pack("<HH", packed, method) + struct.pack(sizes, *numbers) + data
