"""The progress display: plain lines and the table, as a user sees them."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from gpuforge.cli.progress import LiveProgress, PlainProgress, progress
from gpuforge.diagnostics import Diagnostic
from gpuforge.execute.outcome import ActionReason, ActionResult, Observer, Step
from gpuforge.plan.action import Action

LOG = Path("/nonexistent/host.log")
CELLS = ("cp311-cu13.0-x86_64", "cp312-cu13.0-x86_64", "cp313-cu13.0-x86_64")


def step(name: str, title: str, *cells: str) -> Step:
    return Step(Action(name, "build", title, ("true",), cells=cells), name)


FETCH = step("fetch", "fetch the sources of saxpy", *CELLS)
BUILDS = [step(f"{cell}/host-build", "build saxpy [host]", cell) for cell in CELLS]
AUDITS = [step(f"{cell}/audit", "audit the wheel", cell) for cell in CELLS]
STEPS = [FETCH, *BUILDS, *AUDITS]


def tell_a_story(observer: Observer) -> None:
    """One cell is up to date, one fails and skips its audit, one is built."""
    run = {step.action.id for step in STEPS[2:] if step is not AUDITS[0]}
    observer.on_plan(STEPS, frozenset(run))
    for done in (FETCH, BUILDS[0], AUDITS[0]):
        observer.on_finish(
            done.action, ActionResult(done.action.id, "reused", ActionReason("same-content"), 5.0)
        )
    observer.on_start(BUILDS[1].action, LOG)
    observer.on_start(BUILDS[2].action, LOG)
    observer.on_wait(BUILDS[2].action, "another gpuforge is doing the same work")
    observer.on_finish(
        BUILDS[1].action,
        ActionResult(
            BUILDS[1].action.id,
            "failed",
            ActionReason("first"),
            2.0,
            Path("/home/user/.cache/gpuforge/logs/a-path-that-is-longer-than-the-terminal-is-wide/host.log"),
            Diagnostic("cp312-cu13.0-x86_64/host-build failed with exit status 1", hint="its log shows more"),
            ("compiling [bold]saxpy.cpp", "saxpy.cpp:3:1: error: no"),
        ),
    )
    reason = ActionReason("blocked", actions=(BUILDS[1].action.id,), state="failed")
    observer.on_finish(AUDITS[1].action, ActionResult(AUDITS[1].action.id, "not-run", reason))
    for built in (BUILDS[2], AUDITS[2]):
        if built is AUDITS[2]:
            observer.on_start(built.action, LOG)
        observer.on_finish(built.action, ActionResult(built.action.id, "done", ActionReason("first"), 61.0))


FAILURE = """\
failed: build saxpy [host]
  | compiling [bold]saxpy.cpp
  | saxpy.cpp:3:1: error: no
  why:  cp312-cu13.0-x86_64/host-build failed with exit status 1
  log:  /home/user/.cache/gpuforge/logs/a-path-that-is-longer-than-the-terminal-is-wide/host.log
  hint: its log shows more
"""

PLAIN = f"""\
[    0.0 s] plan      4 of 7 actions to run
[    0.0 s] start     cp312-cu13.0-x86_64: build saxpy [host]
[    0.0 s] start     cp313-cu13.0-x86_64: build saxpy [host]
[    0.0 s] waits     cp313-cu13.0-x86_64: build saxpy [host]: another gpuforge is doing the same work
[    0.0 s] failed    cp312-cu13.0-x86_64: build saxpy [host] (2.0 s)
{FAILURE}\
[    0.0 s] skipped   cp312-cu13.0-x86_64: audit the wheel: needs cp312-cu13.0-x86_64/host-build, which failed
[    0.0 s] done      cp313-cu13.0-x86_64: build saxpy [host] (61.0 s)
[    0.0 s] start     cp313-cu13.0-x86_64: audit the wheel
[    0.0 s] done      cp313-cu13.0-x86_64: audit the wheel (61.0 s)
[    0.0 s] end       5 of 7 actions, 3 reused, 1 failed, 1 not run
"""


def test_plain_lines_where_there_is_no_terminal():
    stream = io.StringIO()
    with progress(Console(file=stream, width=80), clock=lambda: 100.0) as observer:
        assert isinstance(observer, PlainProgress)
        tell_a_story(observer)
    assert stream.getvalue() == PLAIN


def test_what_a_failure_skips_is_one_line_for_each_reason():
    stream = io.StringIO()
    plain = PlainProgress(Console(file=stream, width=80), lambda: 0.0)
    plain.on_plan(STEPS, frozenset(each.action.id for each in STEPS))
    failed, state = FETCH.action.id, "not-run"
    plain.on_finish(FETCH.action, ActionResult(failed, "done", ActionReason("first"), 1.0))
    for each in (*BUILDS, *AUDITS):
        kind = "useless" if each in BUILDS[1:] else "blocked"
        reason = ActionReason(kind, actions=(failed,), state="failed")
        plain.on_finish(each.action, ActionResult(each.action.id, state, reason))
    assert stream.getvalue().splitlines()[2:] == [
        "[    0.0 s] skipped   cp311-cu13.0-x86_64: build saxpy [host] and 3 more: needs fetch, which failed",
        "[    0.0 s] skipped   cp312-cu13.0-x86_64: build saxpy [host] and 1 more: no longer needed, as fetch failed",
        "[    0.0 s] end       1 of 7 actions, 6 not run",
    ]


def test_an_interruption_is_acknowledged_at_once():
    stream = io.StringIO()
    with progress(Console(file=stream, width=80), clock=lambda: 100.0) as observer:
        observer.on_interrupt()
    assert stream.getvalue() == (
        "[    0.0 s] stop      interrupted: stopping 0 actions and removing their working folders; finished work is "
        "kept (once more to stop by force)\n"
    )


def test_a_long_action_is_named_from_time_to_time(tmp_path):
    """CI systems stop a job whose log is silent for ten minutes."""
    (tmp_path / "log").write_text("[1/9] compiling\n[2/9] compiling k.cu\n")
    stream, now = io.StringIO(), [0.0]
    plain = PlainProgress(Console(file=stream, width=80), lambda: now[0])
    plain.on_plan(STEPS, frozenset([FETCH.action.id, BUILDS[0].action.id]))
    plain.on_start(BUILDS[0].action, tmp_path / "log")
    for seconds in (59.0, 61.0, 100.0, 122.0):
        now[0] = seconds
        plain.beat()
    plain.on_finish(BUILDS[0].action, ActionResult(BUILDS[0].action.id, "done", ActionReason("first"), 123.0))
    now[0] = 500.0
    plain.beat()  # nothing runs
    name = "cp311-cu13.0-x86_64: build saxpy [host]"
    assert stream.getvalue().splitlines()[2:-1] == [
        f"[   61.0 s] runs      {name} (61.0 s so far): [2/9] compiling k.cu",
        f"[  122.0 s] runs      {name} (2 min 02 s so far): [2/9] compiling k.cu",
    ]


def test_nothing_is_shown_when_nothing_runs():
    for terminal in (False, True):
        stream = io.StringIO()
        console = Console(file=stream, width=80, force_terminal=terminal, _environ={"TERM": "xterm"})
        with progress(console) as observer:
            observer.on_plan(STEPS, frozenset())
            for each in STEPS:
                observer.on_finish(
                    each.action, ActionResult(each.action.id, "reused", ActionReason("same-content"))
                )
        assert stream.getvalue() == ""


@pytest.mark.parametrize("kind", [PlainProgress, LiveProgress])
def test_nothing_of_a_build_steers_a_terminal_or_a_ci_system(kind):
    """Names of files and a build's output were printed as they are: `##vso[…]` sets variables of later steps."""
    odd = "a\n::error::b \x1b]0;c\x07##vso[task.setvariable variable=d]e\u202e"
    stream = io.StringIO()
    observer = kind(Console(file=stream, width=200), lambda: 1.0)
    one = step("x", odd)
    observer.on_plan([one], frozenset({"x"}))
    observer.on_start(one.action, LOG)
    observer.on_wait(one.action, odd)
    error = Diagnostic(odd, hint=odd)
    reason = ActionReason("output-damaged", problem=odd)
    result = ActionResult("x", "failed", reason, 1.0, Path(odd), error, (odd,), kept=Path(odd))
    observer.on_finish(one.action, result)
    text = stream.getvalue()
    assert "failed: " in text
    assert not re.search(r"[\x1b\x07\u202e]|##vso\[|^\s*::", text, re.MULTILINE)


@pytest.fixture(params=["utf-8", "ascii"])
def terminal(request: pytest.FixtureRequest) -> Iterator[tuple[Console, io.BytesIO]]:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=request.param, errors="strict", write_through=True)
    yield (
        Console(
            file=stream,
            width=80,
            height=24,
            force_terminal=True,
            color_system=None,
            _environ={"TERM": "xterm"},
        ),
        raw,
    )
    stream.close()


TABLE = """\
✓ cp311-cu13.0-x86_64 3/3 up to date
✗ cp312-cu13.0-x86_64 1/3 failed: build saxpy [host]                        0:00
✓ cp313-cu13.0-x86_64 3/3 done                                              0:00
5 of 7 actions, 3 reused, 1 failed, 1 not run, 0:00
"""


RUNNING = """\
· cp311-cu13.0-x86_64 1/3 waiting
· cp312-cu13.0-x86_64 1/3 running                                           0:00
· cp313-cu13.0-x86_64 1/3 running                                           0:00
⠋ cp312-cu13.0-x86_64: build saxpy [host]                                   0:00
⠋ cp313-cu13.0-x86_64: build saxpy [host] (waits: another gpuforge is doin… 0:00
1 of 7 actions, 1 reused, 2 running, 0:00
"""


def drawn(height: int, log: Path = LOG) -> list[str]:
    """The lines of the live display while two actions run, one of which waits."""
    console = Console(width=80, height=height, color_system=None, file=io.StringIO(), force_terminal=True)
    display = LiveProgress(console, lambda: 100.0)
    display.on_plan(STEPS, frozenset({step.action.id for step in STEPS[1:]}))
    try:
        display.on_finish(
            FETCH.action, ActionResult(FETCH.action.id, "reused", ActionReason("same-content"), 5.0)
        )
        display.on_start(BUILDS[1].action, log)
        display.on_start(BUILDS[2].action, LOG)
        display.on_wait(BUILDS[2].action, "another gpuforge is doing the same work")
        paper = Console(width=80, file=io.StringIO(), color_system=None)
        with paper.capture() as text:
            paper.print(display._draw())
        return [re.sub(r"^[⠀-⣿]", "⠋", line.rstrip()) for line in text.get().splitlines()]
    finally:
        display.close()


def test_every_running_action_is_named_on_a_terminal():
    assert drawn(24) == RUNNING.splitlines()


def test_the_last_line_of_the_log_is_below_its_action(tmp_path):
    log = tmp_path / "host.log"
    log.write_text("$ build\n\nDownloading nvidia_cufft (214.1 MB)\n  120 of 214 MB\n\n")
    lines = drawn(24, log)
    assert lines[4] == "      120 of 214 MB"
    assert [*lines[:4], *lines[5:]] == RUNNING.splitlines()
    assert drawn(6, log)[:3] == drawn(6)[:3]


def test_a_low_terminal_shows_what_runs_and_counts_the_rest():
    low = [line.partition("_64")[0] for line in drawn(6)]
    assert low[:3] == ["· cp312-cu13.0-x86", "⠋ cp312-cu13.0-x86", "⠋ cp313-cu13.0-x86"]
    assert low[3].startswith("… and 2 more cells; 1 of 7 actions")


def test_the_table_on_a_terminal(terminal):
    console, raw = terminal
    with progress(console, clock=lambda: 100.0) as observer:
        assert isinstance(observer, LiveProgress)
        tell_a_story(observer)
    encoding = console.encoding
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw.getvalue().decode(encoding)).replace("\r", "\n")
    assert FAILURE in text
    table = TABLE if encoding == "utf-8" else TABLE.replace("✓", "+").replace("✗", "x")
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    assert lines[-4:] == table.splitlines()
