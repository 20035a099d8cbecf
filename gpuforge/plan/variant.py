"""Which GPUs a variant wheel is for, as NVIDIA's variant provider names them.

For a GPU of 8.6, the provider of uv 0.13.9 reports `80_real` to `86_real` and `80_virtual`: machine code of its major
up to its own, and PTX of its major's first architecture only. It never reports `90a` or `100f`.
https://github.com/wheelnext/nvidia-variant-provider
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from gpuforge.cuda import releases
from gpuforge.runtime.arch import Arch, Target
from gpuforge.runtime.runs_on import RENAMED, Version, binary_mismatch


def gpus(targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the values of `sm_arch` for the code in a wheel: "90_real", "90_virtual"."""
    real = [f"{name}_real" for target in targets if target.real for name in _of_machine_code(target.arch)]
    virtual = [f"{name}_virtual" for target in targets if target.ptx for name in _of_ptx(target.arch)]
    return tuple(dict.fromkeys([*real, *virtual]))


def _of_machine_code(arch: Arch) -> Iterator[str]:
    """Yield "90a", and also "90" if the code runs on every GPU that reports "90_real"."""
    yield arch.number
    if arch.variant and all(
        binary_mismatch(arch, gpu) is None
        for gpu in _capabilities()
        if gpu[0] == arch.major and gpu[1] >= arch.minor
    ):
        yield f"{arch.major}{arch.minor}"


def _of_ptx(arch: Arch) -> Iterator[str]:
    """Yield "90", then the first architecture of each later major, whose GPUs its PTX serves as well."""
    yield arch.number
    if not arch.variant:
        yield from (f"{major}0" for major in sorted({c[0] for c in _capabilities()}) if major > arch.major)


@cache
def _capabilities() -> frozenset[Version]:
    """Return the compute capabilities that any known toolkit compiles for, by their names of today."""
    known = {arch.capability for release in releases.releases() for arch in release.archs}
    return frozenset(known - RENAMED.keys())
