"""What tests of wheels that meet in one process share: a torch, and what is found of one rule."""

from __future__ import annotations

from pathlib import Path

from audit_samples import elf, wheel

from gpuforge.audit.findings import Finding
from gpuforge.audit.judge import Report

TAGS = "cp311-cp311-manylinux_2_17_x86_64"
RUNTIME = "$ORIGIN/../../nvidia/cuda_runtime/lib"


def said(report: Report, code: str) -> list[Finding]:
    return [f for f in report.findings if f.code == code]


def torch(folder: Path) -> Path:
    files = {
        "torch/_C.cpython-311-x86_64-linux-gnu.so": elf(
            needed=["libtorch_python.so"], runpath="$ORIGIN/lib", strings=["PyInit__C"]
        ),
        "torch/lib/libtorch_python.so": elf(
            soname="libtorch_python.so", needed=["libc10.so", "libgomp-0a1b2c3d.so.1"], runpath="$ORIGIN"
        ),
        "torch/lib/libc10.so": elf(soname="libc10.so", needed=["libcudart.so.12"], runpath=RUNTIME),
        "torch/lib/libgomp-0a1b2c3d.so.1": elf(soname="libgomp.so.1"),
    }
    return wheel(folder, files, name=f"torch-2.4.1-{TAGS}.whl", requires=["nvidia-cuda-runtime-cu12"])
