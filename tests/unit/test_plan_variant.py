"""Which GPUs a variant wheel is for: what NVIDIA's provider reports of each GPU that runs it, and of no other."""

from __future__ import annotations

import pytest

from gpuforge.actions.wheel import _capabilities, variant_gpus
from gpuforge.cuda.targets import targets
from gpuforge.runtime.arch import EMBEDDED, binary_mismatch, ptx_mismatch


@pytest.mark.parametrize(
    ("archs", "ptx", "found"),
    [
        (["80", "90"], None, "80_real 90_real"),
        (["80"], "90", "80_real 90_virtual 100_virtual 110_virtual 120_virtual"),
        (["75", "86+ptx"], None, "75_real 86_real 86_virtual 90_virtual 100_virtual 110_virtual 120_virtual"),
        (["ptx:120"], None, "120_virtual"),
        (["90a"], None, "90a_real 90_real"),  # there is no other GPU of its major
        (["100a"], None, "100a_real"),  # does not run on 10.3, which reports 100_real
        (["100f", "120f"], None, "100f_real 100_real 120f_real 120_real"),
        (["103a", "121a"], None, "103a_real 121a_real 121_real"),
        ([], "100f", "100f_virtual"),
        ([], None, ""),
    ],
)
def test_the_values_of_sm_arch(archs: list[str], ptx: str | None, found: str) -> None:
    assert " ".join(variant_gpus(targets(archs, ptx))) == found


def reported(gpu: tuple[int, int]) -> set[str]:
    """Return what the provider in uv 0.13.9 reports of a GPU."""
    major, minor = gpu
    return {f"{major}{each}_real" for each in range(minor + 1)} | {f"{major}0_virtual"}


@pytest.mark.parametrize("ptx", [None, "75", "80", "90", "120"])
@pytest.mark.parametrize(
    "archs", [["80"], ["75", "86"], ["90a"], ["100f"], ["100a", "103a"], ["70", "80", "90", "120f"]]
)
def test_a_gpu_that_is_offered_the_wheel_runs_it(archs: list[str], ptx: str | None) -> None:
    wanted = targets(archs, ptx)
    for gpu in _capabilities() - EMBEDDED:
        runs = any(
            (each.real and not binary_mismatch(each.arch, gpu))
            or (each.ptx and not ptx_mismatch(each.arch, gpu))
            for each in wanted
        )
        assert runs or not reported(gpu) & set(variant_gpus(wanted)), gpu
