"""Sources compiled on the machine with the GPU: membrane's mechanisms by what is there.

Install the wheel of recipes/openacc, then `python -m pytest tests/gpu -m gpu`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu


def run(home: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUFORGE_KERNEL_HOME": str(home), **env}
    return subprocess.run(
        [sys.executable, *argv], env=environment, capture_output=True, text=True, check=False
    )


def test_mechanisms_compiled_here_give_the_same_spikes_as_the_shipped_ones(tmp_path):
    pytest.importorskip("membrane", reason="the membrane wheel is not installed")
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine")
    shipped = run(tmp_path, "-m", "membrane").stdout.splitlines()
    assert run(tmp_path, "-m", "membrane._gpuforge", "compile").returncode == 0
    own = run(tmp_path, "-m", "membrane").stdout.splitlines()
    assert own[1].startswith("  used     user build")
    assert own[-1] == shipped[-1]
    assert run(tmp_path, "-m", "membrane._gpuforge", "compile", "--remove").returncode == 0
    assert run(tmp_path, "-m", "membrane").stdout.splitlines() == shipped
