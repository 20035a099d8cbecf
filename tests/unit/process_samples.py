"""What wheels with libraries of CUDA's packages are made of, for tests of rules."""

from __future__ import annotations

from audit_samples import elf

CU12, CU13 = "$ORIGIN/../nvidia/cuda_runtime/lib", "$ORIGIN/../nvidia/cu13/lib"


def lib(file: str, **keys: object) -> bytes:
    return elf(soname=file.rpartition("/")[2], **keys)  # type: ignore[arg-type]
