"""The tutorial of docs/tutorial.md, as printed there: its files are written, its commands are run, in its order."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("build")]


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def test_every_block_of_the_tutorial_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tutorial

    env = {**os.environ, "GPUFORGE_KERNEL_HOME": str(tmp_path / "kernels")}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    project = tmp_path / "ripple"
    project.mkdir()
    ran = 0
    for block in tutorial.blocks():
        if isinstance(block, tutorial.FileBlock):
            block.write(project)
            continue
        if block.machine == ("no-gpu" if has_driver() else "gpu"):
            continue  # tests/gpu/test_gpu_tutorial.py runs those for a GPU
        for command, shown in block.commands:
            done = subprocess.run(
                ["bash", "-c", command], cwd=project, env=env, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            if shown:
                assert tutorial.matches(done.stdout, shown), f"{command}\n{done.stdout}"
            ran += 1
    assert ran >= 11
