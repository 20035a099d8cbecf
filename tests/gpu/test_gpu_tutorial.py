"""The tutorial of docs/tutorial.md on a GPU: its wheel is installed, its programs are run as printed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.gpu]


def test_the_tutorials_programs_print_what_the_page_shows(tmp_path, monkeypatch):
    if importlib.util.find_spec("ripple") is None:
        pytest.skip("the tutorial's wheel is not installed: scripts/tutorial.py says how it is made")
    pytest.importorskip("cupy")
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    import tutorial

    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    ran = []
    for block in tutorial.blocks():
        if isinstance(block, tutorial.FileBlock):
            if block.path.startswith("demo"):
                block.write(tmp_path)
            continue
        for command, shown in block.commands if block.machine != "no-gpu" else ():
            if not command.startswith("venv/bin/python demo"):
                continue
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=os.environ,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            assert tutorial.matches(done.stdout, shown), f"{command}\n{done.stdout}"
            ran.append(command)
    assert {"venv/bin/python demo.py", "venv/bin/python demo_cupy.py"} == set(ran)
    from ripple import _kernels

    (used, *_) = _kernels.candidates("scale")
    assert used.origin.label == "shipped"
    assert used.accepted
