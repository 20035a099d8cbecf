"""What real packages bring into one process: resolved by uv and read by byte ranges from PyPI."""

import os

import pytest

from gpuforge.audit import audit
from gpuforge.audit.judge import Report
from gpuforge.cli.audit_with import installed_with
from gpuforge.errors import MissingError

NIGHTLY = "GPUFORGE_NIGHTLY"
pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.skipif(NIGHTLY not in os.environ, reason=f"reads 1.4 GB from the index: set {NIGHTLY}=1"),
]


def together(*requirements: str) -> Report:
    try:
        beside = installed_with([], requirements, python="3.11")
    except MissingError as error:
        pytest.skip(f"PyPI cannot be reached: {error}")
    return audit([], beside=beside, jobs=4)


def majors(report: Report) -> set[str]:
    assert report.together is not None
    names = {library.name.partition(".so.")[2] for library in report.together.of_kind("CUDA runtime")}
    return {name.partition(".")[0] for name in names} - {""}


def test_jax_and_cupy_for_one_cuda_major():
    report = together("jax[cuda12]==0.10.2", "cupy-cuda12x==14.2.0")
    assert report.problems == ()
    assert {f.code for f in report.findings if f.severity != "info"} == set()
    assert majors(report) == {"12"}


def test_torch_and_a_cupy_for_another_major():
    report = together("torch==2.15.0", "cupy-cuda11x==13.6.0")
    assert report.problems == ()
    (found,) = (f for f in report.findings if f.severity != "info")
    assert (found.code, found.across) == ("GF104", True)
    assert {(s.item, s.wheel) for s in found.subjects} == {
        ("CUDA 11", "cupy-cuda11x 13.6.0"),
        ("CUDA 13", "torch 2.15.0"),
    }
    assert majors(report) == {"11", "13"}
