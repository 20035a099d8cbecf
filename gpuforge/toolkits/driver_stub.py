"""Writes the stub of the driver's library for a toolkit, so that builds are linked with libcuda.so.1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpuforge.toolkits import stub_library

SONAME = "libcuda.so.1"
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE, the result of each function of the stub
_DECLARED = re.compile(
    r"^\s*(?:__CUDA_DEPRECATED\s+)?CUresult\s+CUDAAPI\s+(cu(?!WGL)[A-Z]\w*)\s*\(", re.MULTILINE
)
# The names that programs are linked with: the latest version of a function, and its form for per-thread streams.
_DEFINED = re.compile(
    r"^\s*#\s*define\s+cu[A-Z]\w*\s+(?:__CUDA_API_(PTDS|PTSZ)\()?(cu[A-Z]\w*)\)?\s*$", re.MULTILINE
)


def complete(tree: Path, machine: str) -> None:
    """Write `lib/stubs/libcuda.so` with the functions of the toolkit's own headers; an existing one stays.

    A toolkit without cuda.h gets no stub.
    """
    stub = tree / "lib" / "stubs" / "libcuda.so"
    names = sorted(set(functions(tree / "include")))
    if stub.exists() or not names:
        return
    stub.parent.mkdir(parents=True, exist_ok=True)
    stub_library.write(stub, SONAME, names, machine, NO_DEVICE)


def functions(include: Path) -> Iterator[str]:
    """Yield the functions that the driver's headers in a folder declare."""
    for name in ("cuda.h", "cudaProfiler.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"):
        header = include / name
        text = header.read_text(encoding="utf-8", errors="replace") if header.is_file() else ""
        yield from _DECLARED.findall(text)
        for form, function in _DEFINED.findall(text):
            yield function
            if form:
                yield f"{function}_{form.lower()}"
