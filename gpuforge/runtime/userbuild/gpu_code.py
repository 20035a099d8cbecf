"""Finds the GPU code that a compiler left in a library: NVIDIA's images with their architectures, and other forms.

A compiler links without complaint where a pragma, a kernel or its offload compiler is missing. The forms are those of
gpuforge's host-only proof, read the other way.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .. import elf
from ..arch import Arch, binary_mismatch, ptx_mismatch
from .families import GPU_CODE

_PTX = rb"\.version[ \t]+\d+\.\d+\s+\.target[ \t]+sm_\d+"
# Images in a fatbin container; gpuforge/binary/fatbin.py describes the format.
_IMAGE = struct.Struct("<HHIQIIHHI8xQ")
_HEADER = 16  # bytes of a container's header
_AS_PTX, _AS_CUBIN, _AS_LTO_IR = _KINDS = (1, 2, 8)
_COMPRESSED, _ARCH_SPECIFIC, _FAMILY = 0xA000, 0x100000, 0x200000
# Bytes of a compressed image without a function: 72 of PTX (nvcc 13), 464 of a cubin (nvc++ 22.1).
_EMPTY = {_AS_PTX: 128, _AS_CUBIN: 600}
# A section of a cubin for each function, and a kernel in PTX.
_FUNCTION = {_AS_CUBIN: b".text.", _AS_PTX: b".entry"}
_FATBIN, _CUBIN, _PACKAGED = "fatbin", "cubin", "LLVM offload binary"
# LLVM's OpenMP runtimes that do not load cubins with the header of CUDA 13: on an H100, 19 ended the process and 16
# failed. LLVM 21.1.2 reads both headers: https://github.com/llvm/llvm-project/issues/159088
_BEFORE_CUDA_13 = re.compile(r"libomptarget\.so\.(1[5-9]|20)\b")
_EI_ABIVERSION, _CUDA_13 = 8, 8


class GpuImage(NamedTuple):
    """GPU code: NVIDIA's for an architecture, as machine code or PTX, or of a form whose target is not read."""

    form: str
    arch: Arch | None = None
    is_ptx: bool = False

    def runs_on(self, gpu: Arch) -> bool:
        """Return whether a GPU may run it."""
        if self.arch is None:
            return True
        judge = ptx_mismatch if self.is_ptx else binary_mismatch
        return judge(self.arch, gpu.capability) is None

    @property
    def label(self) -> str:
        """Its name for people: "sm_90"."""
        if self.arch is None:
            return self.form
        return self.arch.compute if self.is_ptx else self.arch.sm


def gpu_code(library: Path) -> list[GpuImage]:
    """Return the GPU code in a library, each form and architecture once; raises OSError and `elf.NotReadable`.

    Images without a function do not count: nvcc and clang++ leave one for a source without kernels.
    """
    found: dict[GpuImage, None] = {}
    if any(name.startswith("GOMP_offload_register") for name in elf.imports(library)):
        found[GpuImage("GCC offloading")] = None
    with library.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        containers = [m.start() for m in re.finditer(GPU_CODE[_FATBIN], data, re.DOTALL)]
        ends = [start + _size(data, start) for start in containers]
        for start, end in zip(containers, ends):
            found.update(dict.fromkeys(_of_container(data, start + _HEADER, min(end, len(data)))))
        for form, pattern in {**GPU_CODE, "PTX": _PTX}.items():
            for match in re.finditer(pattern, data, re.DOTALL) if form != _FATBIN else ():
                at = match.start()
                inside = any(start < at < end for start, end in zip(containers, ends))
                inside = inside or (form == _PACKAGED and _is_cubin(data, at))  # which is found by itself
                if not inside and (form != _CUBIN or _has_function(data, at)):
                    found[GpuImage(form, _arch(data, at) if form == _CUBIN else None)] = None
    return list(found)


def refused_by_openmp(library: Path) -> str:
    """Return why the OpenMP runtime that a library needs does not load its machine code; "" if it does.

    Raises OSError and, if there is machine code of CUDA 13, `elf.NotReadable`.
    """
    data = library.read_bytes()
    cubins = re.finditer(GPU_CODE[_CUBIN], data, re.DOTALL)
    if all(data[cubin.start() + _EI_ABIVERSION] < _CUDA_13 for cubin in cubins):
        return ""
    for name in filter(_BEFORE_CUDA_13.match, elf.read_dynamic(library).needed):
        return (
            f"it has machine code with the header of CUDA 13, which {name} does not load: use a toolkit of CUDA 12, or "
            "clang++ 21.1.2 or newer"
        )
    return ""


def _size(data: mmap.mmap, container: int) -> int:
    return (
        _HEADER + int(struct.unpack_from("<Q", data, container + 8)[0]) if container + 16 <= len(data) else 0
    )


def _of_container(data: mmap.mmap, at: int, end: int) -> Iterator[GpuImage]:
    while at + _IMAGE.size <= end:
        kind, _, header, stored, packed, _, _, _, number, flags = _IMAGE.unpack_from(data, at)
        if kind not in _KINDS or header < _IMAGE.size:
            return
        content = at + header
        if flags & _COMPRESSED:
            counts = packed > _EMPTY.get(kind, 0)
        else:
            counts = data.find(_FUNCTION.get(kind, b""), content, min(content + stored, end)) >= 0
        if counts:
            variant = "a" if flags & _ARCH_SPECIFIC else "f" if flags & _FAMILY else ""
            yield GpuImage(_FATBIN, Arch(number // 10, number % 10, variant), kind != _AS_CUBIN)
        at += header + stored


def _is_cubin(data: mmap.mmap, packaged: int) -> bool:
    """Return whether the image in an offload binary of clang is a cubin.

    https://clang.llvm.org/docs/ClangOffloadPackager.html#binary-format
    """
    if packaged + 24 > len(data):
        return False
    (entry,) = struct.unpack_from("<Q", data, packaged + 16)
    if packaged + entry + 40 > len(data):
        return False
    start = packaged + int(struct.unpack_from("<Q", data, packaged + entry + 24)[0])
    return data[start : start + 4] == b"\x7fELF" and data[start + 18 : start + 20] == b"\xbe\x00"


def _arch(data: mmap.mmap, cubin: int) -> Arch | None:
    """Return the architecture of a cubin by itself, from e_flags as gpuforge/binary/cubin.py describes them."""
    (flags,) = struct.unpack_from("<I", data, cubin + 48)
    new = data[cubin + _EI_ABIVERSION] >= _CUDA_13
    number, specific = (flags >> 8 & 0xFF, flags & 0x8) if new else (flags & 0xFF, flags & 0x800)
    return Arch(number // 10, number % 10, "a" if specific else "") if number else None


def _has_function(data: mmap.mmap, cubin: int) -> bool:
    """Return whether a cubin by itself has a function; the table of its sections ends it."""
    if cubin + 64 > len(data):
        return False
    (table,) = struct.unpack_from("<Q", data, cubin + 40)
    size, count = struct.unpack_from("<HH", data, cubin + 58)
    return data.find(_FUNCTION[_AS_CUBIN], cubin, min(cubin + table + size * count, len(data))) >= 0
