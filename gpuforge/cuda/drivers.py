"""The oldest driver that runs machine code of a CUDA release or compiles PTX of an ISA, as a driver version.

`runs_on` has the rules, in CUDA versions; this module has the driver that was released with each.
"""

from collections.abc import Iterable
from functools import cache

from gpuforge.cuda import releases
from gpuforge.cuda.version import major_of
from gpuforge.datafile import load
from gpuforge.runtime import runs_on
from gpuforge.runtime.arch import Arch


def driver_of_ptx(isa: str) -> str:
    """Return the driver released with the first toolkit that wrote this PTX ISA ("8.4"), "" if it is unknown."""
    return _by_isa().get(isa, "")


def driver_of_cubins(toolkits: Iterable[str], isas: Iterable[str]) -> str:
    """Return the oldest driver for machine code of these toolkits ("12.4"), "" if none is known.

    `isas` are the PTX ISAs beside the machine code, which also identify toolkits.
    """
    versions, written = set(toolkits), set(isas)
    versions |= {row.version for row in _toolkits() if row.ptx in written}
    majors = {major_of(version) for version in versions}
    floors = [r.driver_floor for r in releases.releases() if major_of(r.version) in majors]
    floors += [
        row.driver
        for row in releases.former()
        if row.version in versions and releases.parsed(row.version).major < runs_on.MINORS_AGREE
    ]
    return max(floors, key=releases.parsed, default="")


@cache
def driver_of_gpu(capability: str) -> str:
    """Return the driver released with the first toolkit that supports GPUs of a capability ("10.0").

    "" for those that the table's oldest toolkit supports, whose drivers are older than the table.
    """
    arch = Arch.parse(capability)
    first, *later = releases.releases()
    if arch in first.archs:
        return ""
    return next((r.driver or "" for r in later if arch in r.archs), "")


@cache
def zstd() -> str:
    """Return the oldest driver that unpacks GPU code that nvcc packed with zstd (`--compress-mode=size`)."""
    return str(load(__file__, "cuda.toml")["zstd"]["driver"])


@cache
def _by_isa() -> dict[str, str]:
    return {row.ptx: row.driver for row in reversed(_toolkits()) if row.driver}


@cache
def _toolkits() -> tuple[releases.Former, ...]:
    """Return all known toolkits, oldest first."""
    later = (releases.Former(r.version, r.ptx, r.driver or "") for r in releases.releases())
    return (*releases.former(), *later)
