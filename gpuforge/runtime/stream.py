"""Reads the handle of a CUDA stream from the stream objects of all libraries."""

from __future__ import annotations

from typing import Any

LEGACY = 1  # CU_STREAM_LEGACY: the default stream by its other name
DEFAULT = (0, LEGACY)
PER_THREAD = 2  # CU_STREAM_PER_THREAD: the default stream of the calling thread


def stream_handle(stream: Any) -> int:
    """Return the CUstream of None (the default stream), a number, or another library's stream; raises TypeError.

    `__cuda_stream__` is the protocol (https://nvidia.github.io/cuda-python/cuda-core/latest/interoperability.html);
    `ptr` is CuPy's attribute and `cuda_stream` torch's, of versions without it.
    """
    if stream is None:
        return 0
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        _, handle = protocol() if callable(protocol) else protocol
        return int(handle)
    for attribute in ("ptr", "cuda_stream", "handle", "value"):
        handle = getattr(stream, attribute, None)
        if handle is not None:
            return int(handle)
    raise TypeError(f"a stream is a number or has __cuda_stream__, and {type(stream).__name__} is neither")
