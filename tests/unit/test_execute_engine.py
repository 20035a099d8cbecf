"""The engine: order, failures, reuse; with the ports in memory."""

import errno
import os
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from engine_samples import Listener, MemoryRunner, Rig, states, step

from gpuforge.cli.build_report import words
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import MissingError
from gpuforge.execute.outcome import Step
from gpuforge.execute.runners.runner import Task
from gpuforge.plan import action
from gpuforge.plan.action import RESULT, Action, ActionInput, StepResult


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_steps_run_in_the_order_of_their_needs_and_the_second_time_not_at_all(rig):
    steps = step("wheel", "build"), step("build", "fetch"), step("fetch"), step("audit", "wheel")
    first = rig.run(*steps)
    assert first.ok
    assert rig.runner.ran == ["fetch", "build", "wheel", "audit"]
    assert list(first.results) == ["wheel", "build", "fetch", "audit"]
    assert words(first.results["audit"].reason) == "runs: needs wheel, which will run"
    assert [(e.id, e.result, e.project) for e in rig.ledger.entries] == [
        (name, "ok", "p") for name in ("fetch", "build", "wheel", "audit")
    ]
    rig.listener.events.clear()
    second = rig.run(*steps)
    assert second.ok
    assert len(rig.runner.ran) == 4
    assert rig.listener.events == [
        "plan 4 run 0",
        "reused wheel",
        "reused build",
        "reused fetch",
        "reused audit",
    ]


def test_a_pruned_store_entry_that_nobody_needs_is_not_made_again(rig):
    steps = step("fetch"), step("build", "fetch"), step("wheel", "build")
    rig.run(*steps)
    del rig.store.entries[steps[0].key], rig.store.entries[steps[1].key]
    assert rig.run(*steps).ok
    assert len(rig.runner.ran) == 3
    rig.run(*steps, targets=("build",))
    assert rig.runner.ran[3:] == ["fetch", "build"]


def test_a_failure_fails_only_what_needs_it(tmp_path):
    rig = Rig(tmp_path, lambda task: 2 if task.action.id == "bad" else 0)
    steps = step("bad"), step("b", "bad"), step("c", "b"), step("good"), step("d", "good", "bad")
    outcome = rig.run(*steps, targets=("good",))
    assert not outcome.ok
    assert states(outcome) == {
        "bad": "failed",
        "b": "not-run",
        "c": "not-run",
        "good": "done",
        "d": "not-run",
    }
    assert {words(outcome.results[name].reason) for name in "bcd"} == {"not run: needs bad, which failed"}
    assert str(outcome.results["bad"].error) == (
        "bad failed with exit status 2\n  hint: its log shows the command and its output"
    )
    assert [(e.id, e.result) for e in rig.ledger.entries] == [("bad", "failed"), ("good", "ok")]
    assert [result.id for result in outcome.having("not-run")] == ["b", "c", "d"]
    assert words(rig.run(step("bad")).results["bad"].reason).startswith("runs: failed on 20")


def test_what_only_serves_a_failed_step_is_not_started(tmp_path):
    """The wheel of one cell needs a kernel that does not compile: its host build serves nobody, another's does."""
    rig = Rig(tmp_path, lambda task: 2 if task.action.id == "kernel" else 0)
    outcome = rig.run(
        *(step("kernel"), step("shared"), step("sources"), step("build", "sources", "shared")),
        *(
            step("wheel", "kernel", "build"),
            step("other-build", "shared"),
            step("other-wheel", "other-build"),
        ),
    )
    assert states(outcome) == {
        "kernel": "failed",
        "shared": "done",
        "sources": "not-run",
        "build": "not-run",
        "wheel": "not-run",
        "other-build": "done",
        "other-wheel": "done",
    }
    assert words(outcome.results["build"].reason) == "not run: no longer needed, as kernel failed"
    assert words(outcome.results["wheel"].reason) == "not run: needs kernel, which failed"


def test_what_only_serves_a_failed_step_is_stopped_while_it_runs(tmp_path):
    """The host build of the failed cell ends at once; that of another cell, and what both need, go on."""
    both_run = threading.Barrier(4, timeout=30)

    def act(task: Task) -> int:
        name = task.action.id
        if name in {"kernel", "build", "other-build", "shared"}:
            both_run.wait()
        if name in {"build", "other-build", "shared"}:
            return int(task.stop.wait(20 if name == "build" else 0.2))
        return int(name == "kernel")

    rig = Rig(tmp_path, act)
    outcome = rig.run(
        *(step("kernel"), step("build"), step("other-build"), step("shared")),
        *(step("packed", "build"), step("wheel", "kernel", "packed", "shared")),
        step("other-wheel", "other-build", "shared"),
        jobs=4,
    )
    assert states(outcome) == {
        "kernel": "failed",
        "build": "cancelled",
        "other-build": "done",
        "shared": "done",
        "packed": "not-run",
        "wheel": "not-run",
        "other-wheel": "done",
    }
    assert rig.runner.stopped == ["build"]
    assert words(outcome.results["build"].reason) == "not run: no longer needed, as kernel failed"
    assert words(outcome.results["packed"].reason) == "not run: no longer needed, as kernel failed"
    assert words(outcome.results["wheel"].reason) == "not run: needs kernel, which failed"
    assert not outcome.interrupted
    assert [entry.id for entry in rig.ledger.entries if entry.result == "failed"] == ["kernel"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/store/x"),
            "a failed: the disk is full (/store/x)\n  hint: make room (`df -h` shows which disk is full), "
            "then run the same command again: finished work is kept",
        ),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/project/x", None, "/work/x"),
            "a failed: the disk is full (/work/x)\n  hint: make room (`df -h` shows which disk is full), "
            "then run the same command again: finished work is kept",
        ),
        (
            PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/store/x"),
            "a failed: Permission denied (/store/x)\n"
            "  hint: check who owns that path and whether it is writable",
        ),
        (
            OSError(errno.E2BIG, os.strerror(errno.E2BIG)),
            "a failed: Argument list too long\n  hint: see its log for how far it came",
        ),
        (
            shutil.Error(
                [("/a/x", "/b/x", "[Errno 28] No space left on device: '/b/x'"), ("/a/y", "/b/y", "?")]
            ),
            "a failed: the disk is full (/b/x)\n  hint: make room (`df -h` shows which disk is full), "
            "then run the same command again: finished work is kept",
        ),
        (
            shutil.Error([("/a/x", "/b/x", "`/a/x` is a named pipe")]),
            "a failed: `/a/x` is a named pipe\n  hint: see its log for how far it came",
        ),
        (MissingError.of("no engine", hint="install one"), "no engine\n  hint: install one"),
    ],
)
def test_what_the_machine_does_wrong_is_a_failed_action(tmp_path, error, message):
    def act(_: Task) -> int:
        raise error

    outcome = Rig(tmp_path, act).run(step("a"))
    assert outcome.results["a"].state == "failed"
    assert str(outcome.results["a"].error) == message


def test_a_mistake_in_our_own_code_is_not_hidden(tmp_path):
    def act(_: Task) -> int:
        return 1 // 0

    with pytest.raises(ZeroDivisionError):
        Rig(tmp_path, act).run(step("a"), step("b"))


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            -9,
            "a was killed by the system (SIGKILL)\n  hint: most often memory ran out: try a smaller --memory or --jobs",
        ),
        (-11, "a was ended by SIGSEGV\n  hint: its log shows how far it came"),
        (-63, "a was ended by signal 63\n  hint: its log shows how far it came"),
    ],
)
def test_signals_are_named(tmp_path, status, message):
    assert str(Rig(tmp_path, lambda _: status).run(step("a")).results["a"].error) == message


def test_a_command_that_leaves_an_output_out_has_failed(tmp_path):
    def act(task: Task) -> int:
        (task.out / "out").unlink()
        task.log.write_bytes(b"".join(b"line %d\x1b[0m\n" % n for n in range(50)) + b"10%\r100%\r\n\xff\n\n")
        return 0

    rig = Rig(tmp_path, act)
    result = rig.run(step("a")).results["a"]
    assert str(result.error) == (
        "a ended without an error but did not make out\n  hint: its log shows what it did instead"
    )
    assert len(result.tail) == 20
    assert result.tail[-3:] == ("line 49[0m", "100%", "\N{REPLACEMENT CHARACTER}")
    assert rig.store.entries == {}


def test_what_a_step_notes_of_its_error_is_shown_instead_of_the_end_of_its_log(tmp_path):
    def act(task: Task) -> int:
        task.log.write_text("proved    all the rest\n")
        StepResult(Diagnostic("errors"), notes=("error GF301", "", "remedy: …")).write(task.out / RESULT)
        return 1

    result = Rig(tmp_path, act).run(step("a")).results["a"]
    assert (str(result.error), result.tail) == (
        "errors",
        ("error GF301", "", "remedy: …"),
    )


def test_a_full_disk_in_a_commands_own_words_is_recognised(tmp_path):
    def act(task: Task) -> int:
        task.log.write_text("ld: final link failed: No space left on device\ncollect2: error\n")
        return 1

    error = Rig(tmp_path, act).run(step("a")).results["a"].error
    assert error is not None
    assert error.message == "a failed: the disk is full"


def test_what_reads_the_same_as_before_is_not_made_again(tmp_path):
    rig = Rig(tmp_path)

    def chain(key: str) -> Sequence[Step]:
        known = step("package", "build", key=f"{key} package", step=action.Step())
        return (
            step("build", key=f"{key} build"),
            known,
            step("test", "package", key=f"{key} test", step=action.Step()),
        )

    assert rig.run(*chain("first")).ok
    second = rig.run(*chain("second"))  # the build runs anew, and makes the same
    assert states(second) == {"build": "done", "package": "reused", "test": "reused"}
    assert words(second.results["test"].reason) == "reused: its inputs were made again, with the same content"
    assert rig.runner.ran == ["build", "package", "test", "build"]
    assert states(rig.run(*chain("second"))) == {"build": "reused", "package": "reused", "test": "reused"}
    changed = step("build", key="third")
    rig.runner = MemoryRunner(lambda task: int(not (task.out / "out").write_text("another")))
    third = rig.run(changed, *chain("third")[1:])
    assert states(third) == {"build": "done", "package": "done", "test": "done"}


def test_one_key_in_two_steps_is_worked_on_once(rig):
    outcome = rig.run(step("a", key="same"), step("b", key="same"), jobs=2)
    assert sorted(states(outcome).values()) == ["done", "reused"]
    assert len(rig.runner.ran) == 1


def test_two_steps_that_read_the_same_are_worked_on_once(tmp_path):
    def act(task: Task) -> int:
        time.sleep(0.05)
        (task.out / "out").write_text("the same")
        return 0

    rig = Rig(tmp_path, act)
    steps = (
        step("build-1"),
        step("build-2"),
        *(
            Step(
                Action(
                    f"fetch-{n}",
                    "fetch",
                    "fetch",
                    ("fetch",),
                    inputs={"wheel": ActionInput(f"build-{n}", "out")},
                    outputs=("out",),
                    step=action.Step(),
                ),
                f"fetch {n}",
                {},
            )
            for n in (1, 2)
        ),
    )
    outcome = rig.run(*steps, jobs=2)
    assert sorted(states(outcome).values()) == ["done", "done", "done", "reused"]
    assert len([name for name in rig.runner.ran if name.startswith("fetch")]) == 1
    assert {*states(rig.run(*steps)).values()} == {"reused"}


@pytest.mark.thorough
def test_waiting_for_another_gpuforge_is_shown_and_its_work_is_used(tmp_path):
    rig = Rig(tmp_path)
    mine = step("a")
    claim = rig.store.claim(mine.key)
    assert claim is not None
    rig.run(step("other", key="other"))
    theirs = rig.store.entries["other"]

    def finish() -> None:
        while "wait a: another gpuforge is doing the same work" not in rig.listener.events:
            time.sleep(0.01)
        with claim:
            rig.store.entries[mine.key] = theirs

    other = threading.Thread(target=finish)
    other.start()
    outcome = rig.run(mine)
    other.join()
    assert states(outcome) == {"a": "reused"}
    assert "wait a: another gpuforge is doing the same work" in rig.listener.events


def test_an_input_that_vanished_meanwhile_is_a_clear_failure(tmp_path):
    def act(task: Task) -> int:
        if task.action.id == "b":
            rig.store.entries.clear()
        return 0

    rig = Rig(tmp_path, act)
    result = rig.run(step("a"), step("b", "a"), step("c", "a", "b")).results["c"]
    assert str(result.error) == (
        "c needs out of a, which is no longer in the store\n"
        "  hint: something removed it while this ran: run the same command again"
    )


@pytest.mark.parametrize("times", [1, 2])
def test_an_interruption_keeps_what_is_finished(tmp_path, times):
    class Interrupting(Listener):
        def on_start(self, action: Action, log: Path) -> None:
            super().on_start(action, log)
            if action.id == "b":
                raise KeyboardInterrupt

    class Stubborn(MemoryRunner):
        def cancel(self) -> None:
            super().cancel()
            if times == 2:
                raise KeyboardInterrupt

        def kill(self) -> None:
            killed.append(True)

    killed: list[bool] = []
    rig = Rig(tmp_path)
    rig.listener, rig.runner = Interrupting(), Stubborn()
    outcome = rig.run(step("a"), step("b", "a"), step("c", "b"))
    assert outcome.interrupted
    assert not outcome.ok
    assert states(outcome) == {"a": "done", "b": "not-run", "c": "not-run"}
    assert words(outcome.results["c"].reason) == "not run: interrupted"
    assert len(killed) == times - 1


def test_the_end_of_the_time_stops_what_runs_and_keeps_what_is_finished(tmp_path):
    def act(task: Task) -> int:
        if task.action.id == "b":  # it runs until it is stopped
            assert rig.runner.cancelled.wait(60)
            return -15
        return 0

    rig = Rig(tmp_path, act)
    outcome = rig.run(step("a"), step("b", "a"), step("c", "b"), seconds=0.3)
    assert outcome.interrupted
    assert states(outcome) == {"a": "done", "b": "cancelled", "c": "not-run"}
    assert rig.run(step("a"), seconds=600).ok
