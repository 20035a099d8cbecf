"""`[wheel] kernels = "own"`: conditions for kernels in wheels of their own."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.cuda.suffix import suffix_of
from gpuforge.manifest.problem import Problem, Raw, compiler_of, numbered, table, text_of
from gpuforge.manifest.quoting import quote
from gpuforge.toolchain_names import needs_cuda


def kernels_wheels(data: Raw) -> Iterator[Problem]:
    """Yield keys that contradict kernels in wheels of their own."""
    wheel, cuda = table(data, "wheel"), table(data, "cuda")
    if wheel.get("kernels") != "own" or "cuda" not in data:
        return
    if not any(_is_of_cuda(data, thing) for _, thing in numbered(data.get("objects"))):
        yield Problem(
            ("wheel", "kernels"),
            '[wheel] kernels = "own" makes empty kernels wheels: nvcc compiles no fallback object',
            "remove `kernels`, or add a fallback object",
        )
    if table(data, "build").get("cuda") is not False:
        yield Problem(
            ("wheel", "kernels"),
            '[wheel] kernels = "own" makes one wheel for all CUDA versions, but the host build uses a CUDA toolkit',
            "write [build] cuda = false if the host code needs no CUDA; otherwise remove `kernels`",
        )
    if wheel.get("naming", ["plain"]) != ["plain"]:
        yield Problem(
            ("wheel", "naming"),
            '[wheel] naming needs kernels inside the wheel: with kernels = "own" the package keeps its plain name',
            "remove `naming`; the kernels wheels are called name-kernels-cu12",
            at_key=True,
        )
    if cuda.get("requires") == "extra":
        yield Problem(
            ("cuda", "requires"),
            '[cuda] requires = "extra" needs kernels inside the wheel: with kernels = "own" the extras install the '
            "kernels wheels, which require NVIDIA's packages",
            "remove `requires`",
            at_key=True,
        )
    name = table(data, "package").get("name")
    if isinstance(name, str) and suffix_of(name):
        yield Problem(
            ("package", "name"),
            f"[package] name: {quote(name)} is named for one CUDA version, but with [wheel] kernels = "
            '"own" it serves all of them',
            "give the package a name without a CUDA suffix",
        )


def _is_of_cuda(data: Raw, thing: Raw) -> bool:
    return thing.get("role") == "fallback" and needs_cuda(compiler_of(data, text_of(thing, "toolchain")))
