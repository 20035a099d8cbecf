"""Halide, from PyPI: pipelines in Python, compiled ahead of time for GPUs (PTX) and for levels of CPUs.

A source is a Python file with one generator of the same name, and calls `halide.main()`. Its function becomes a C
function of that name. Halide's runtime is linked into each library once.
https://halide-lang.org/docs/class_halide_1_1_generator.html
"""

from collections.abc import Sequence
from pathlib import Path

from gpuforge.runtime.arch import Arch
from gpuforge.runtime.cpu import CpuLevel
from gpuforge.toolchains.toolchain import CompilerTarget, PackagedCompiler, Toolchain, chosen

# `Target::Feature` of Halide 21: https://github.com/halide/Halide/blob/main/src/Target.h
_CAPABILITIES = ("30", "32", "35", "50", "61", "70", "75", "80", "86")
_GPUS = {arch.compute: arch for arch in map(Arch.parse, _CAPABILITIES)}
_MACHINES = {"x86_64": "x86-64-linux", "aarch64": "arm-64-linux"}
# The features of a level that Halide uses; the levels are those of the x86-64 psABI.
_LEVELS = {
    "x86-64": "",
    "x86-64-v2": "-sse41",
    "x86-64-v3": "-sse41-avx-f16c-fma-avx2",
    "x86-64-v4": "-sse41-avx-f16c-fma-avx2-avx512-avx512_skylake",
}
_USUAL = ("compute_50", "cpu")


def targets(names: Sequence[str], machine: str) -> list[CompilerTarget]:
    """Return the targets; raises ValueError for those that Halide does not have."""
    if machine not in _MACHINES:
        raise ValueError(f"Halide compiles for {' and '.join(_MACHINES)}, and this is {machine}")
    known = [CompilerTarget(name, "ptx", arch) for name, arch in _GPUS.items()]
    known.append(CompilerTarget("cpu", "library", CpuLevel()))
    if machine == "x86_64":
        known += [CompilerTarget(name, "library", CpuLevel(name)) for name in _LEVELS]
    return chosen(known, names or _USUAL)


def _words(target: CompilerTarget, machine: str) -> str:
    """Return a target in Halide's form."""
    if isinstance(target.built_for, Arch):
        return f"{_MACHINES[machine]}-cuda-cuda_capability_{target.built_for.number}"
    level = target.built_for or CpuLevel()
    return _MACHINES[machine] + _LEVELS.get(level.name, "")


def compile_source(target: CompilerTarget, machine: str, flags: Sequence[str]) -> list[str]:
    """Return the command that compiles the generator of one source; `flags` are its arguments (`tile=32`)."""
    return [
        *("{python}", "{programs}/generate.py", "{source}", "{name}", "{output}"),
        *(f"{_words(target, machine)}-no_runtime", *flags),
    ]


def compile_runtime(target: CompilerTarget, machine: str) -> list[str]:
    """Return the command that makes the object with Halide's runtime."""
    return ["{python}", "{programs}/runtime.py", "{output}", _words(target, machine)]


def links(target: CompilerTarget) -> list[str]:
    """Return the flags for linking the objects; for GPUs, with those for reaching the driver."""
    return [*(["{programs}/driver.c"] if target.kind == "ptx" else []), "-ldl", "-lpthread"]


TOOLCHAIN = Toolchain(
    name="halide",
    compiles=(".py",),
    packaged=PackagedCompiler(
        requires="halide",
        makes="library",
        targets=targets,
        compile=compile_source,
        runtime=compile_runtime,
        programs=Path(__file__).with_name("halide_programs"),
        links=links,
    ),
)
