"""Sdists of other people, unmodified, from manifests of a few lines: built, proved, installed and imported.

With `GPUFORGE_CACHE_DIR` set, what one run compiled serves the next.
"""

import os
from pathlib import Path

import pytest
from builds import build

MANIFESTS = Path(__file__).parent / "other_packages"
NIGHTLY = "GPUFORGE_NIGHTLY"
pytestmark = [
    *(pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow),
    pytest.mark.xdist_group("build"),
    pytest.mark.skipif(
        NIGHTLY not in os.environ, reason=f"compiles for an hour, takes 30 GB: set {NIGHTLY}=1"
    ),
]


@pytest.mark.parametrize("name", ["pycuda", "pyvkfft", "lightgbm", "torch-scatter"])
def test_an_sdist_is_built_from_a_short_manifest(name, tmp_path):
    cache = Path(os.environ.get("GPUFORGE_CACHE_DIR", tmp_path / "cache"))
    result = build(MANIFESTS / name, cache=cache, cwd=tmp_path)
    (wheel,) = result["wheels"]
    assert [each["code"] for each in wheel["findings"] if each["severity"] == "error"] == []
    (test,) = result["tests"]
    assert test["state"] == "passed"
