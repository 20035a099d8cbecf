"""IREE, from PyPI: MLIR compiled ahead of time for CUDA (PTX), Vulkan (SPIR-V) and levels of CPUs, a module for each.

A source's functions are called by name. Each result is written into an argument: `{iree.abi.output = 0 : index}`.
https://iree.dev/reference/mlir-dialects/ · https://iree.dev/guides/deployment-configurations/
"""

from collections.abc import Sequence

from gpuforge.runtime.arch import Arch
from gpuforge.runtime.cpu import LEVELS, CpuLevel
from gpuforge.toolchains.toolchain import CompilerTarget, PackagedCompiler, Toolchain, chosen

# Compute capabilities for which IREE 3.13 compiles an element-wise function; not 5.x, 9.0 and 10.0.
# https://iree.dev/guides/deployment-configurations/gpu-cuda/
_CAPABILITIES = ("60", "61", "70", "72", "75", "80", "86", "87", "89", "120")
_GPUS = {arch.compute: arch for arch in map(Arch.parse, _CAPABILITIES)}
_VULKAN = "vulkan-spirv"
# By default, IREE makes a `double` a `float`, also in the signatures of functions, and puts names of files into the
# module.
_USUAL_FLAGS = {
    "--iree-input-demote-f64-to-f32": "false",
    "--iree-vm-bytecode-module-strip-source-map": "true",
}


def targets(names: Sequence[str], machine: str) -> list[CompilerTarget]:
    """Return the targets; raises ValueError for those that IREE does not have."""
    if machine not in {"x86_64", "aarch64"}:
        raise ValueError(f"IREE compiles for x86_64 and aarch64, and this is {machine}")
    levels = list(LEVELS["x86_64"]) if machine == "x86_64" else []
    known = [CompilerTarget(name, "iree-cuda", arch) for name, arch in _GPUS.items()]
    known.append(CompilerTarget(_VULKAN, "iree-vulkan", None))
    known.append(CompilerTarget("cpu", "iree-cpu", CpuLevel("x86-64" if levels else "")))
    known += [CompilerTarget(name, "iree-cpu", CpuLevel(name)) for name in levels]
    return chosen(known, names or ("compute_60", _VULKAN, "cpu"))


def compile_source(target: CompilerTarget, machine: str, flags: Sequence[str]) -> list[str]:
    """Return the command that compiles one source; the manifest's flags replace the defaults of the same name."""
    given = {flag.partition("=")[0] for flag in flags}
    usual = [f"{name}={value}" for name, value in _USUAL_FLAGS.items() if name not in given]
    return ["iree-compile", *_words(target, machine), *usual, *flags, "-o", "{output}", "{source}"]


def _words(target: CompilerTarget, machine: str) -> list[str]:
    match target.built_for:
        case Arch():
            return ["--iree-hal-target-backends=cuda", f"--iree-cuda-target={target.built_for.sm}"]
        case None:
            return [f"--iree-hal-target-backends={_VULKAN}"]
        case CpuLevel(name):
            return [
                "--iree-hal-target-backends=llvm-cpu",
                f"--iree-llvmcpu-target-triple={machine}-unknown-linux-gnu",
                f"--iree-llvmcpu-target-cpu={name or 'generic'}",
            ]


TOOLCHAIN = Toolchain(
    name="iree",
    compiles=(".mlir",),
    packaged=PackagedCompiler(
        requires="iree-base-compiler",
        makes="module",
        targets=targets,
        compile=compile_source,
        suffix=".vmfb",
        runs_with="iree-base-runtime",
    ),
)
