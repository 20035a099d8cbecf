"""Kernels to keep in the runtime's cache, and a compilation that must not be needed."""

from pathlib import Path
from typing import Any

from gpuforge.runtime.cache import CacheFolder, CacheKey, KernelCache


def key(number: int = 0, **fields: Any) -> CacheKey:
    return CacheKey.of(b"kernel %d" % number, toolchain="nvrtc 13.0.88", arch="sm_90", **fields)


def cache_in(folder: Path, limit: int = 1 << 20) -> KernelCache:
    return KernelCache(CacheFolder(folder, limit), limit=limit)


def never() -> bytes:
    raise AssertionError("compiled although it is cached")


class Counter:
    """A compile step that counts its calls."""

    def __init__(self, payload: bytes = b"cubin") -> None:
        self.payload = payload
        self.calls = 0

    def __call__(self) -> bytes:
        self.calls += 1
        return self.payload
