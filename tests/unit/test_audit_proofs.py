"""What was proved, as lines of text: each kind of facts, whole."""

from __future__ import annotations

import pytest

from gpuforge.audit.against import Against
from gpuforge.audit.proofs import proof
from gpuforge.audit.report import proofs
from gpuforge.audit.route import Route
from gpuforge.cuda.provided import Floor
from gpuforge.requirements import Release
from gpuforge.runtime.arch import Arch

SM_80, SM_90 = Arch.parse("sm_80"), Arch.parse("sm_90")
HIGHEST = {"GLIBC": ("2.28", "demo/x.so"), "GLIBCXX": ("3.4.25", "demo/y.so")}
CUFFT = Floor(
    "nvidia-cufft", "12.0.0.15", "12.0", "13.0", symbols={"libcufft.so.12": 14}, refused=("11.4.1.4",)
)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (proof.LibrariesFound({}), "every NEEDED library is found: none is needed"),
        (
            proof.LibrariesFound({"driver": 1, "machine": 2, "wheel": 3}),
            'every NEEDED library is found: 3 in the wheel, 2 from the CUDA of the machine (linkage = "system"), '
            "1 from the driver",
        ),
        (
            proof.LibrariesFound({"package": 2}, ("cupy", "torch")),
            "every NEEDED library is found, once cupy and torch are imported: 2 from other packages",
        ),
        (
            proof.OfPackage(("liba.so.1", "libb.so.1"), "a-cu12", "gpu", Route("RUNPATH", "$ORIGIN/../a")),
            "liba.so.1, libb.so.1 ← a-cu12 (extra gpu), by RUNPATH $ORIGIN/../a",
        ),
        (
            proof.OfPackage(("libc10.so",), "torch", "", Route("import", package="torch")),
            "libc10.so ← torch, once torch is imported",
        ),
        (
            CUFFT,
            "nvidia-cufft: floor 13.0: all 14 symbols of libcufft are in nvidia-cufft 12.0.0.15, and not in 11.4.1.4",
        ),
        (Floor("cutensor", "2.1", "2.1"), "cutensor: floor 2.1: its library is in cutensor 2.1"),
        (
            proof.Forgotten("nvidia-cuda-runtime", Release("nvidia-curand", "10.4.5.25")),
            "nvidia-cuda-runtime is for nvidia-curand 10.4.5.25, which needs it and does not declare it",
        ),
        (
            proof.Complete((Release("nvidia-cufft", "12.0.0.15"), Release("nvidia-cufft", "12.1"))),
            "no undeclared CUDA library is needed by nvidia-cufft 12.0.0.15, nvidia-cufft 12.1",
        ),
        (
            proof.GpuCode(
                "fatbin",
                as_declared=True,
                images={
                    proof.ContainerCode((SM_80, SM_90), (("compute_90", "8.7"),), ()): 2,
                    proof.ContainerCode((SM_80,), (), ()): 1,
                    proof.ContainerCode((), (), (SM_80,)): 3,
                },
            ),
            "fatbin containers as declared: 2 of sm_80 sm_90 + compute_90 (PTX 8.7); 1 of sm_80, no PTX; "
            "3 of LTO-IR of compute_80",
        ),
        (
            proof.GpuCode("cubin", as_declared=False, images={proof.ContainerCode((SM_90,), (), ()): 1}),
            "cubin files: 1 of sm_90, no PTX",
        ),
        (
            proof.TagsHold(("manylinux_2_28_x86_64", "manylinux_2_34_x86_64"), HIGHEST),
            "manylinux_2_28_x86_64, manylinux_2_34_x86_64 hold; highest required: GLIBC 2.28 (x.so), "
            "GLIBCXX 3.4.25 (y.so)",
        ),
        (
            proof.NoPromise("linux_x86_64", "", HIGHEST),
            "linux_x86_64 promises nothing; no manylinux policy has it all; highest required: GLIBC 2.28 (x.so), "
            "GLIBCXX 3.4.25 (y.so)",
        ),
        (
            proof.NoGpuCode(
                "core", tuple(f"demo/{n}.o" for n in "abcd"), 3, 1_200, ("OpenCL",), ("libcuda.so.1",)
            ),
            "core: 3 objects and 1,200 archive members read completely (a.o, b.o, c.o …): "
            "no GPU code in a known format (packed data was not unpacked), no trace of a "
            "GPU compiler, no library of a GPU stack NEEDED but OpenCL; named in strings, so that code may open them: "
            "libcuda.so.1",
        ),
        (proof.KernelSetsMatch(("a", "b")), "a, b: files and images match the index"),
        (proof.SourceSetsMatch(("a",)), "a: files match the recipe"),
        (
            proof.NoUnstableFunctions("torch"),
            "torch: none of its functions that change with each release is used",
        ),
        (
            proof.NoSecondCopies(Against("the folder /x", frozenset({"liba.so"}))),
            "the folder /x: the wheel loads no second copy of its 1 library",
        ),
        (
            proof.FitsBeside(2, "jax[cuda13]"),
            "jax[cuda13]: no conflict with 2 packages in one process",
        ),
        (proof.FitsBeside(1), "no conflict with 1 package in one process"),
    ],
)
def test_each_kind_of_facts_has_its_line(facts: proof.Proved, expected: str) -> None:
    assert proofs.text(proof.Proof("providers", facts)) == expected
