"""The architectures of `archs = "common"`: the least code that runs on each GPU of a toolkit.

The tables are data/cuda.toml; what runs where is gpuforge/runtime/runs_on.py.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from gpuforge.cuda.releases import ToolkitRelease
from gpuforge.runtime import runs_on
from gpuforge.runtime.arch import Arch, Target

COMMON = "common"


def common(release: ToolkitRelease) -> tuple[Target, ...]:
    """Return machine code for the lowest architecture of each major, and PTX of the lowest of all.

    Machine code runs on its major's later GPUs, PTX on everything from its architecture on. Embedded GPUs, which share
    no machine code with others, run the PTX.
    """
    lowest: dict[int, Arch] = {}
    for arch in known_gpus(release):
        if not _embedded(arch):
            lowest.setdefault(arch.major, arch)
    first, *later = lowest.values()
    return (Target(first, ptx=True), *map(Target, later))


def spelled_out(archs: Sequence[str], release: ToolkitRelease) -> tuple[str, ...]:
    """Return a manifest's `archs` with "common" replaced by its architectures, each once; the others stay."""
    if COMMON not in archs:
        return tuple(archs)
    meant = (common(release) if text == COMMON else (Target.parse(text),) for text in archs)
    found: dict[Arch, bool] = {}
    for target in chain.from_iterable(meant):
        found[target.arch] = found.get(target.arch, False) or target.ptx
    return tuple(Target(arch, ptx=ptx).written for arch, ptx in sorted(found.items()))


def known_gpus(release: ToolkitRelease) -> Iterable[Arch]:
    """Return the GPUs that a toolkit knows, the lowest first."""
    return sorted({Arch(*arch.capability) for arch in release.archs})


def _embedded(arch: Arch) -> bool:
    return runs_on.RENAMED.get(arch.capability, arch.capability) in runs_on.EMBEDDED
