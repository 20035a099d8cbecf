"""`python -m PACKAGE._gpuforge` itself: its help, and an output that cannot be written."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _run(*arguments: str, output: str) -> subprocess.CompletedProcess[str]:
    with Path(output).open("w") as stream:
        argv = [sys.executable, "-m", "gpuforge.runtime", *arguments]
        return subprocess.run(argv, stdout=stream, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [(), ("explain",), ("include",)], ids=str)
def test_a_full_disk_is_one_line(arguments):
    done = _run(*arguments, output="/dev/full")
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


@pytest.mark.thorough
def test_without_a_command_the_help_is_shown(tmp_path):
    shown = tmp_path / "shown"
    done = _run(output=str(shown))
    assert (done.returncode, done.stderr) == (0, "")
    assert "explain" in shown.read_text()
