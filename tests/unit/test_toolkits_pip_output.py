"""What pip prints is passed on as it comes; its progress is shortened, and its traceback is its last line."""

from __future__ import annotations

import sys

import pytest

from gpuforge.toolkits import pip, progress


def ran(code: str) -> tuple[int, str, list[str]]:
    said: list[str] = []
    status, output = pip.run_pip([sys.executable, "-c", code], said.append)
    return status, output, said


def test_progress_is_shown_and_not_in_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PAUSE_S", -1.0)
    status, output, said = ran(
        "print('Downloading x'); print('Progress 120000000 of 214000000'); print('done')"
    )
    assert (status, output) == (0, "Downloading x\ndone\n")
    assert said == ["Downloading x", "  120 of 214 MB", "done"]


def test_not_every_step_is_a_line() -> None:
    _, _, said = ran("for n in range(9): print(f'Progress {n} of 9')")
    assert said == []


def test_of_a_traceback_the_last_line_is_shown() -> None:
    status, output, said = ran("print('ERROR: Exception:\\nTraceback\\nOSError: full'); raise SystemExit(2)")
    assert (status, said) == (2, ["OSError: full"])
    assert output == "ERROR: Exception:\nTraceback\nOSError: full\n"
