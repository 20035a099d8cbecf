"""Sdists of other people, unmodified, from manifests of a few lines: built, proved, installed and imported.

With `GPUFORGE_CACHE_DIR` set, what one run compiled serves the next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MANIFESTS = Path(__file__).parent / "other_packages"
NIGHTLY = "GPUFORGE_NIGHTLY"
pytestmark = [
    *(pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow),
    pytest.mark.xdist_group("build"),
    pytest.mark.skipif(
        NIGHTLY not in os.environ, reason=f"compiles for an hour, takes 30 GB: set {NIGHTLY}=1"
    ),
]


def built(name: str, folder: Path) -> dict[str, Any]:
    program = str(Path(sys.executable).with_name("gpuforge"))
    env = {"GPUFORGE_CACHE_DIR": str(folder / "cache"), **os.environ}
    command = [program, "build", str(MANIFESTS / name), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=folder)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("name", ["pycuda", "pyvkfft", "lightgbm", "torch-scatter"])
def test_an_sdist_is_built_from_a_short_manifest(name: str, tmp_path: Path) -> None:
    result = built(name, tmp_path)
    (wheel,) = result["wheels"]
    assert [each["code"] for each in wheel["findings"] if each["severity"] == "error"] == []
    (test,) = result["tests"]
    assert test["state"] == "passed"
