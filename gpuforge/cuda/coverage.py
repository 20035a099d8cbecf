"""What `archs = "common"` stands for: the least code of one toolkit that every GPU of that toolkit runs.

The tables are data/cuda.toml; what runs where is gpuforge/cuda/runs_on.py.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuforge.cuda import runs_on
from gpuforge.cuda.arch import Arch, Target, targets
from gpuforge.cuda.releases import Release

COMMON = "common"


class Gap(NamedTuple):
    """A GPU that a toolkit knows and that some architectures leave out: altogether, or `jit`, without machine code."""

    gpu: Arch
    jit: bool


def common(release: Release) -> tuple[str, ...]:
    """Return machine code for the lowest architecture of each major, and PTX of the lowest of all: "75+ptx", "80" …

    Machine code runs on its own major's later GPUs, PTX on everything from its architecture on. Embedded GPUs, which
    share no machine code with others, run the PTX.
    """
    lowest: dict[int, Arch] = {}
    for arch in _gpus(release):
        if not _embedded(arch):
            lowest.setdefault(arch.major, arch)
    first, *later = lowest.values()
    return (f"{first.number}+ptx", *(arch.number for arch in later))


def spelled_out(archs: Sequence[str], release: Release) -> tuple[str, ...]:
    """Return a manifest's `archs` with "common" replaced; what stands beside it is added, and an architecture once."""
    if COMMON not in archs:
        return tuple(archs)
    texts = [each for text in archs for each in (common(release) if text == COMMON else (text,))]
    found: dict[Arch, bool] = {}
    for target in map(Target.parse, texts):
        found[target.arch] = found.get(target.arch, False) or target.ptx
    return tuple(f"{arch.number}+ptx" if ptx else arch.number for arch, ptx in sorted(found.items()))


def gaps(archs: Sequence[str], ptx: str | None, release: Release) -> list[Gap]:
    """Return the GPUs of a toolkit that architectures leave without machine code, or altogether."""
    wanted = targets(archs, ptx)
    real = [target.arch for target in wanted if target.real]
    virtual = [target.arch for target in wanted if target.ptx]
    found = []
    for gpu in _gpus(release):
        if any(runs_on.binary_mismatch(arch, gpu.capability) is None for arch in real):
            continue
        jit = any(runs_on.ptx_mismatch(arch, gpu.capability) is None for arch in virtual)
        found.append(Gap(gpu, jit))
    return found


def _gpus(release: Release) -> Iterable[Arch]:
    """Return the GPUs that a toolkit knows, the lowest first."""
    return sorted({Arch(*Arch.parse(text).capability) for text in release.archs})


def _embedded(arch: Arch) -> bool:
    return runs_on.RENAMED.get(arch.capability, arch.capability) in runs_on.EMBEDDED
