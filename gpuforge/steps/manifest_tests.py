"""Run the manifest's test command, and read what pytest counted."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from gpuforge.errors import ActionError
from gpuforge.manifest import braces
from gpuforge.plan.trial_result import CommandResult
from gpuforge.steps.child import Ran, failure, last_line, run

_COUNT = re.compile(r"\b(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)\b")
_TIME = re.compile(r" in \d+(\.\d+)?s( \([\d:]+\))?$")
_NO_TESTS = 5  # https://docs.pytest.org/en/stable/reference/exit-codes.html


def tested(
    command: Sequence[str], python: Path, folder: Path, project: Path | None, package: str
) -> CommandResult:
    """Run the test command in `folder` with the environment's programs first on PATH; raises ActionError."""
    words = [braces.fill(word, {"project": str(project)}) for word in command]
    env = {**os.environ, "VIRTUAL_ENV": str(python.parent.parent)}
    env["PATH"] = os.pathsep.join([str(python.parent), env.get("PATH", os.defpath)])
    shown = _line(command)
    print(f"$ {shlex.join(words)}", flush=True)
    try:
        ran = run(words, folder, env)
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        raise ActionError.of(
            f"[test] command cannot be started: there is no program {words[0]}",
            hint="add the package that has it to [test] requires",
        ) from error
    summary = pytest_summary(ran.lines) if _is_pytest(command) else ""
    if ran.status:
        shadowed = project is not None and (project / package.replace(".", "/")).is_dir()
        raise _failed(shown, ran, summary, package if shadowed else "")
    return CommandResult(
        command=tuple(command),
        command_line=shown,
        seconds=round(ran.seconds, 3),
        summary=summary,
        outcome=_TIME.sub("", summary),
        counts={kind: int(number) for number, kind in _COUNT.findall(summary)},
    )


def _line(command: Sequence[str]) -> str:
    """Write a command as for a shell, but without quotes around `{project}`."""
    return " ".join(
        word if re.fullmatch(r"[\w@%+=:,./{}-]+", word) else shlex.quote(word) for word in command
    )


def _failed(shown: str, ran: Ran, summary: str, shadowed: str) -> ActionError:
    hint = "the log has all of its output"
    line = last_line(ran.lines)
    if summary:
        worst = [text for text in ran.lines if text.startswith(("FAILED ", "ERROR ", "ERROR:"))][:1]
        if worst and " - " not in worst[0]:
            worst += [text[1:].strip() for text in ran.lines if text.startswith("E  ")][:1]
        line = ": ".join([summary, *worst])
    if ran.status == _NO_TESTS and "no tests ran" in summary:
        line, hint = "pytest found no tests", "check the path in [test] command: {project} is the source tree"
    elif shadowed and re.search(r"ImportError|ModuleNotFoundError", "\n".join(ran.lines)):
        hint = (
            f"the source tree's own {shadowed}/ may be found before the installed one: "
            "copy the tests alone beside it, with [test] sources"
        )
    return ActionError.of(failure(shown, ran.status, line), hint=hint)


def pytest_summary(lines: Sequence[str]) -> str:
    """Return pytest's last line without its frame: "1 failed, 12 passed in 0.21s", or ""."""
    for line in reversed(lines):
        text = line.strip("= ")
        if _TIME.search(text) and (_COUNT.search(text) or text.startswith("no tests ran")):
            return text
    return ""


def _is_pytest(command: Sequence[str]) -> bool:
    return any(Path(word).name in {"pytest", "py.test"} for word in command[:4])
