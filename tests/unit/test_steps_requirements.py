"""Build requirements: what the backend asks for is fetched only when it is not there yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuforge.steps.fetch_requirements import is_met


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        ("cmake", True),
        ("CMake >=3.15, <4", True),
        ("cmake>=4", False),
        ("scikit-build.core", True),  # names are compared as normalized
        ("ninja", False),
        ("cmake[extra]", False),
        ("cmake; python_version > '3'", False),  # whether it holds is pip's to say
    ],
)
def test_a_backends_wish_is_met_by_name_and_version(tmp_path: Path, requirement: str, met: bool) -> None:
    for name in ("cmake-3.31.6-py3-none-any.whl", "scikit_build_core-0.11-py3-none-any.whl"):
        (tmp_path / name).touch()
    assert is_met(requirement, tmp_path) is met
