"""The CUDA majors of the releases that a requirement allows."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from gpuforge.cuda.carriers import cuda_majors


@pytest.mark.parametrize(
    ("requirement", "majors"),
    [
        ("torch==2.10.*", {12}),
        ("torch==2.11.*", {13}),
        ("torch==2.13.*", {13}),  # no row lists it: the range of a row has it
        ("torch~=2.11.0", {13}),
        ("torch>=2.11", {13}),
        ("torch<2.11,>=2.10", {12}),
        ("torch>=2.10", {12, 13}),
        ("torch", {11, 12, 13}),
        ("Torch==2.11", {13}),
        ("torch==2.11.0+cu126", {12}),
        ("torch==2.11.0+cu130", {13}),
        ("torch==2.11.0+cu13", {13}),
        ("torch==2.11.0+cpu", set()),
        ("torch===nonsense", set()),
        ("torch>99", set()),
        ("numpy==2.11.*", set()),
    ],
)
def test_majors(requirement: str, majors: set[int]) -> None:
    assert cuda_majors(Requirement(requirement)) == majors
