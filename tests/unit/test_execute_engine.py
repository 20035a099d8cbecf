"""The engine: order, slots, failures, reuse; with the ports in memory, and with real ones where they matter."""

from __future__ import annotations

import errno
import functools
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gpuforge import digest
from gpuforge.cli.action_reason import words
from gpuforge.errors import MissingError
from gpuforge.execute import engine
from gpuforge.execute.ledger import FileLedger
from gpuforge.execute.memory_store import MemoryLedger, MemoryStore
from gpuforge.execute.outcome import ActionResult, Outcome, Step
from gpuforge.execute.perform import LocalMachine
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.memory_runner import MemoryRunner
from gpuforge.execute.runners.runner import Task
from gpuforge.execute.store import FolderStore
from gpuforge.plan.action import Action, ActionInput, FileInput, Kind


class Listener:
    def __init__(self) -> None:
        self.events: list[str] = []

    def on_plan(self, steps: Sequence[Step], run: frozenset[str]) -> None:
        self.events.append(f"plan {len(steps)} run {len(run)}")

    def on_start(self, action: Action, log: Path) -> None:
        self.events.append(f"start {action.id}")

    def on_wait(self, action: Action, what: str) -> None:
        self.events.append(f"wait {action.id}: {what}")

    def on_interrupt(self) -> None:
        self.events.append("interrupt")

    def on_finish(self, action: Action, result: ActionResult) -> None:
        assert action.id == result.id
        self.events.append(f"{result.state} {action.id}")


def step(name: str, *needs: str, code: str = "", key: str = "", kind: Kind = "build", **more: Any) -> Step:
    inputs = {need: ActionInput(need, "out") for need in needs}
    argv = (sys.executable, "-c", code, "${out:out}", *(f"${{in:{need}}}" for need in needs))
    action = Action(name, kind, name, argv, inputs=inputs, outputs=("out",), **more)
    return Step(action, key or f"{name}-key".ljust(64, "0"), {})


class Rig:
    def __init__(self, top: Path, act: Callable[[Task], int] | None = None) -> None:
        self.store = MemoryStore(top)
        self.ledger = MemoryLedger()
        self.runner = MemoryRunner(act)
        self.listener = Listener()
        self.top = top

    def run(self, *steps: Step, jobs: int = 1, targets: tuple[str, ...] = ()) -> Outcome:
        return engine.run(
            steps,
            store=self.store,
            ledger=self.ledger,
            workers=LocalMachine(self.store, self.runner),
            jobs=jobs,
            observer=self.listener,
            logs=self.top / "logs",
            project="p",
            targets=targets,
        )


def states(outcome: Outcome) -> dict[str, str]:
    return {name: result.state for name, result in outcome.results.items()}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_steps_run_in_the_order_of_their_needs_and_the_second_time_not_at_all(rig: Rig) -> None:
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


def test_a_pruned_store_entry_that_nobody_needs_is_not_made_again(rig: Rig) -> None:
    steps = step("fetch"), step("build", "fetch"), step("wheel", "build")
    rig.run(*steps)
    del rig.store.entries[steps[0].key], rig.store.entries[steps[1].key]
    assert rig.run(*steps).ok
    assert len(rig.runner.ran) == 3
    rig.run(*steps, targets=("build",))
    assert rig.runner.ran[3:] == ["fetch", "build"]


def test_a_failure_fails_only_what_needs_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path, lambda task: 2 if task.action.id == "bad" else 0)
    outcome = rig.run(step("bad"), step("b", "bad"), step("c", "b"), step("good"), step("d", "good", "bad"))
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


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/store/x"),
            "a failed: the disk is full (/store/x)\n  hint: make room (`df -h` shows which disk is full), "
            "then run the same command again: what is finished is kept",
        ),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/project/x", None, "/work/x"),
            "a failed: the disk is full (/work/x)\n  hint: make room (`df -h` shows which disk is full), "
            "then run the same command again: what is finished is kept",
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
            "then run the same command again: what is finished is kept",
        ),
        (
            shutil.Error([("/a/x", "/b/x", "`/a/x` is a named pipe")]),
            "a failed: `/a/x` is a named pipe\n  hint: see its log for how far it came",
        ),
        (MissingError.of("no engine", hint="install one"), "no engine\n  hint: install one"),
    ],
)
def test_what_the_machine_does_wrong_is_a_failed_action(
    tmp_path: Path, error: Exception, message: str
) -> None:
    def act(_: Task) -> int:
        raise error

    outcome = Rig(tmp_path, act).run(step("a"))
    assert outcome.results["a"].state == "failed"
    assert str(outcome.results["a"].error) == message


def test_a_mistake_in_our_own_code_is_not_hidden(tmp_path: Path) -> None:
    def act(_: Task) -> int:
        return 1 // 0

    with pytest.raises(ZeroDivisionError):
        Rig(tmp_path, act).run(step("a"), step("b"))


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            -9,
            "a was killed by the system (SIGKILL)\n  hint: most often memory ran out: try a smaller --jobs",
        ),
        (-11, "a was ended by SIGSEGV\n  hint: its log shows how far it came"),
        (-63, "a was ended by signal 63\n  hint: its log shows how far it came"),
    ],
)
def test_signals_are_named(tmp_path: Path, status: int, message: str) -> None:
    assert str(Rig(tmp_path, lambda _: status).run(step("a")).results["a"].error) == message


def test_a_command_that_leaves_an_output_out_has_failed(tmp_path: Path) -> None:
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


def test_a_full_disk_in_a_commands_own_words_is_recognised(tmp_path: Path) -> None:
    def act(task: Task) -> int:
        task.log.write_text("ld: final link failed: No space left on device\ncollect2: error\n")
        return 1

    error = Rig(tmp_path, act).run(step("a")).results["a"].error
    assert error is not None
    assert error.message == "a failed: the disk is full"


@pytest.mark.thorough
def test_no_more_run_at_once_than_there_are_slots(tmp_path: Path) -> None:
    assert watched(tmp_path, *(step(name) for name in "abcde"), jobs=3).most == 3


@pytest.mark.thorough
def test_actions_with_jobs_of_their_own_share_the_slots(tmp_path: Path) -> None:
    alone = watched(tmp_path / "1", step("a", parallel=True), jobs=8)
    assert alone.jobs == {"a": 8}
    both = watched(tmp_path / "2", *(step(name, parallel=True, image="i") for name in "ab"), jobs=8)
    assert (both.most, both.jobs) == (2, {"a": 4, "b": 4})
    many = watched(tmp_path / "3", *(step(name, parallel=True, image="i") for name in "abcdef"), jobs=8)
    assert many.most == 4
    assert many.jobs["a"] == 2


@pytest.mark.thorough
def test_downloads_run_beside_the_rest_and_the_highest_priority_comes_first(tmp_path: Path) -> None:
    steps = (
        step("compile"),
        step("for tests", pool="downloads", priority=1),
        step("for builds", pool="downloads", priority=2),
        step("build", "for builds"),
        step("test", "build", "for tests"),
    )
    seen = watched(tmp_path, *steps, jobs=1)
    assert seen.events[1:3] == ["start for builds", "start compile"]
    assert seen.most == 2


@pytest.mark.thorough
def test_what_has_priority_goes_before_what_was_ready_earlier(tmp_path: Path) -> None:
    def cell(name: str) -> tuple[Step, Step, Step]:
        build = step(f"{name} build")
        wheel = step(f"{name} wheel", build.action.id, priority=1)
        return build, wheel, step(f"{name} test", wheel.action.id)

    seen = watched(tmp_path, *cell("a"), *cell("b"), jobs=1)
    starts = [event.removeprefix("start ") for event in seen.events if event.startswith("start ")]
    assert starts == ["a build", "a wheel", "a test", "b build", "b wheel", "b test"]
    both = watched(tmp_path / "2", step("x"), *cell("a"), *cell("b"), step("y"), jobs=3)
    starts = [event.removeprefix("start ") for event in both.events if event.startswith("start ")]
    assert starts.index("b wheel") < starts.index("a test")


@pytest.mark.thorough
def test_an_action_with_jobs_of_its_own_starts_beside_a_small_one(tmp_path: Path) -> None:
    seen = watched(tmp_path, step("small"), step("build", parallel=True), step("later"), jobs=2)
    assert seen.jobs["build"] == 2
    assert seen.events[1:3] == ["start small", "start build"]
    assert seen.most == 2


@pytest.mark.thorough
def test_one_working_directory_is_for_one_action_at_a_time(tmp_path: Path) -> None:
    steps = [step(name, parallel=True, place="build", turns="one at a time") for name in "ab"]
    here = watched(tmp_path / "1", *steps, jobs=2)
    assert (here.most, here.jobs) == (1, {"a": 2, "b": 2})


@pytest.mark.thorough
def test_where_the_first_is_alone_the_others_wait_until_it_has_filled_their_cache(tmp_path: Path) -> None:
    steps = [step(name, parallel=True, place="build", turns="first alone") for name in "abc"]
    first = watched(tmp_path / "1", *steps, jobs=8)
    assert first.jobs == {"a": 8, "b": 4, "c": 4}
    assert first.events[1:3] == ["start a", "done a"]
    assert first.most == 2
    rig = Rig(tmp_path / "2")
    known = [replace(each, key=f"{each.key} before") for each in steps]
    assert rig.run(*known, jobs=8).ok  # a second run knows that they are short
    rig.listener.events.clear()
    assert rig.run(*steps, jobs=8).ok
    assert rig.listener.events[1:4] == ["start a", "start b", "start c"]


@dataclass
class Seen:
    """How many actions ran at once, with how many jobs each, and what was told."""

    most: int = 0
    jobs: dict[str, int] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)


def watched(top: Path, *steps: Step, jobs: int) -> Seen:
    seen, level, guard = Seen(), 0, threading.Lock()

    def act(task: Task) -> int:
        nonlocal level
        with guard:
            level += 1
            seen.most = max(seen.most, level)
            seen.jobs[task.action.id] = task.jobs
        time.sleep(0.2)  # long enough for the next one to start on a busy machine
        with guard:
            level -= 1
        return 0

    top.mkdir(exist_ok=True)
    rig = Rig(top, act)
    assert rig.run(*steps, jobs=jobs).ok
    seen.events = rig.listener.events
    return seen


def test_what_reads_the_same_as_before_is_not_made_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    def chain(key: str) -> Sequence[Step]:
        known = step("package", "build", key=f"{key} package", by_content=True)
        return (
            step("build", key=f"{key} build"),
            known,
            step("test", "package", key=f"{key} test", by_content=True),
        )

    assert rig.run(*chain("first")).ok
    second = rig.run(*chain("second"))  # the build runs anew, and makes the same
    assert states(second) == {"build": "done", "package": "reused", "test": "reused"}
    assert (
        words(second.results["test"].reason) == "reused: what it reads was made anew, with the same content"
    )
    assert rig.runner.ran == ["build", "package", "test", "build"]
    assert states(rig.run(*chain("second"))) == {"build": "reused", "package": "reused", "test": "reused"}
    changed = step("build", key="third")
    rig.runner = MemoryRunner(lambda task: int(not (task.out / "out").write_text("another")))
    third = rig.run(changed, *chain("third")[1:])
    assert states(third) == {"build": "done", "package": "done", "test": "done"}


def test_one_key_in_two_steps_is_worked_on_once(rig: Rig) -> None:
    outcome = rig.run(step("a", key="same"), step("b", key="same"), jobs=2)
    assert sorted(states(outcome).values()) == ["done", "reused"]
    assert len(rig.runner.ran) == 1


def test_two_steps_that_read_the_same_are_worked_on_once(tmp_path: Path) -> None:
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
                    network=True,
                    by_content=True,
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
def test_waiting_for_another_gpuforge_is_shown_and_its_work_is_used(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    mine = step("a")
    claim = rig.store.claim(mine.key)
    assert claim is not None
    rig.run(step("other", key="other"))
    theirs = rig.store.entries["other"]

    def finish() -> None:
        time.sleep(0.15)
        with claim:
            rig.store.entries[mine.key] = theirs

    other = threading.Thread(target=finish)
    other.start()
    outcome = rig.run(mine)
    other.join()
    assert states(outcome) == {"a": "reused"}
    assert "wait a: another gpuforge is doing the same work" in rig.listener.events


def test_an_input_that_vanished_meanwhile_is_a_clear_failure(tmp_path: Path) -> None:
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
def test_an_interruption_keeps_what_is_finished(tmp_path: Path, times: int) -> None:
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


# Below: real processes, a real store.


def real(top: Path, steps: Sequence[Step], jobs: int = 2, store: Path | None = None) -> Outcome:
    work = top / "work"
    work.mkdir(exist_ok=True)
    kept = FolderStore(store or top / "store")
    return engine.run(
        steps,
        store=kept,
        ledger=FileLedger(top / "ledger.jsonl"),
        workers=LocalMachine(kept, LocalRunner(root=work, grace=0.5)),
        jobs=jobs,
        observer=Listener(),
        logs=top / "logs",
        project="p",
    )


COUNT = """
import sys, time
open(sys.argv[1], "w").write("".join(open(name).read() for name in sys.argv[2:]) + "x")
open({marks!r}, "a").write("x")
time.sleep(0.2)
"""


def counted(top: Path) -> list[Step]:
    code = COUNT.format(marks=str(top / "marks"))
    return [
        step("a", code=code),
        step("b", "a", code=code),
        step("c", "a", code=code),
        step("d", "b", "c", code=code),
    ]


def test_real_commands_feed_each_other_and_a_second_run_is_instant(tmp_path: Path) -> None:
    steps = counted(tmp_path)
    outcome = real(tmp_path, steps)
    assert outcome.ok
    stored = FolderStore(tmp_path / "store").get(steps[-1].key)
    assert stored is not None
    assert stored.path("out").read_text() == "xxxxx"
    assert words(real(tmp_path, steps).results["d"].reason).startswith("reused: same inputs as on 20")
    assert (tmp_path / "marks").read_text() == "xxxx"
    assert list((tmp_path / "work").glob("*/")) == []


def test_an_up_to_date_plan_of_thirty_actions_is_decided_in_no_time(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    steps = [step(f"s{n}", *([f"s{n - 1}"] if n % 5 else [])) for n in range(30)]
    runner = MemoryRunner()
    ledger, logs = FileLedger(tmp_path / "ledger.jsonl"), tmp_path / "logs"

    def once() -> float:
        begin = time.perf_counter()
        outcome = engine.run(
            steps,
            store=store,
            ledger=ledger,
            workers=LocalMachine(store, runner),
            jobs=4,
            observer=Listener(),
            logs=logs,
            project="p",
        )
        assert outcome.ok
        return time.perf_counter() - begin

    once()
    assert len(runner.ran) == 30
    assert min(once() for _ in range(5)) < 0.05
    assert len(runner.ran) == 30


def build(top: Path, name: str) -> None:
    (top / name).mkdir()
    assert real(top / name, counted(top), store=top / "store").ok


@pytest.mark.thorough
def test_two_engines_on_one_store_share_the_work(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    builders = [context.Process(target=build, args=(tmp_path, name)) for name in ("one", "two")]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert [builder.exitcode for builder in builders] == [0, 0]
    assert (tmp_path / "marks").read_text() == "xxxx"


CLI = """
import sys
from pathlib import Path
from typing import Any
sys.path.insert(0, sys.argv[1])
from test_execute_engine import real, step, states
top = Path(sys.argv[2])
stubborn = '''
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open({!r}, "w").write(f"{{os.getpid()}} {{child.pid}} ")
time.sleep(60)
'''.format(str(top / "pids"))
quick = "import sys; open(sys.argv[1], 'w')"
outcome = real(top, [step("a", code=quick), step("b", "a", code=stubborn), step("c", "b")])
print(outcome.interrupted, states(outcome))
"""


@pytest.mark.thorough
def test_ctrl_c_stops_children_that_ignore_it_and_keeps_what_is_finished(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLI, str(Path(__file__).parent), str(tmp_path)]
    # a shell lets commands in the background, such as a CI's, ignore SIGINT: undo that
    hear = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=hear) as process:
        pids = tmp_path / "pids"
        while not (pids.exists() and pids.read_text().endswith(" ")):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(2)
        said, _ = process.communicate(timeout=20)
    assert said == "True {'a': 'done', 'b': 'cancelled', 'c': 'not-run'}\n"
    for pid in map(int, pids.read_text().split()):
        stat = Path(f"/proc/{pid}/stat")
        assert not stat.exists() or ") Z " in stat.read_text()
    assert FolderStore(tmp_path / "store").get(step("a").key) is not None
    assert list((tmp_path / "work").glob("*/")) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk can only be mounted by root")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)  # processes that end may still use it


def test_a_full_disk_fails_what_does_not_fit_and_leaves_nothing_half_written(small_disk: Path) -> None:
    write = "import sys; open(sys.argv[1], 'wb').write(bytes({}))"
    steps = [step("big", code=write.format(3_000_000)), step("small", code=write.format(1000))]
    outcome = real(small_disk, steps, jobs=1)
    assert states(outcome) == {"big": "failed", "small": "done"}
    assert outcome.results["big"].error is not None
    assert outcome.results["big"].error.message == "big failed: the disk is full"
    files = {path.name for path in (small_disk / "store").rglob("*") if path.is_file()}
    assert files == {".lock", ".taking.lock", "out", "record.json", *(each.key for each in steps)}


def test_a_disk_that_is_full_before_anything_starts_is_one_clear_message(small_disk: Path) -> None:
    (small_disk / "logs").mkdir()
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "ballast").write_bytes(bytes(5_000_000))
    outcome = real(small_disk, [step("a")])
    assert outcome.results["a"].error is not None
    assert outcome.results["a"].error.message.startswith("a failed: the disk is full")


def test_what_was_edited_while_it_was_built_is_not_stored(tmp_path: Path) -> None:
    """Its key was made of the old content: storing it would give the new output for the old source for ever."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.c").write_text("old")
    parts = tuple(digest.of_each(source, [source / "a.c"]).items())
    read = FileInput(source, "d", ("a.c",), parts)
    code = f"import sys, pathlib; pathlib.Path({str(source / 'a.c')!r}).write_text('new'); open(sys.argv[1], 'w')"
    action = Action(
        "a", "build", "a", (sys.executable, "-c", code, "${out:out}"), inputs={"s": read}, outputs=("out",)
    )
    outcome = real(tmp_path, [Step(action, "a".ljust(64, "0"), {})])
    result = outcome.results["a"]
    assert result.state == "failed"
    assert result.error is not None
    assert result.error.message == f"{source}/a.c changed while a ran"
    assert not list((tmp_path / "store").glob("*/*/record.json"))


def test_workers_that_are_apart_keep_room_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Job slots and shared working directories are of one machine; a worker that joins late is noticed."""
    monkeypatch.setattr(engine, "_LOOK", 0.02)
    together = threading.Barrier(3, timeout=30)
    rig = Rig(tmp_path, lambda _: together.wait() * 0)
    asked: list[str] = []

    class Apart(LocalMachine):
        is_remote = True

        def take_room(self, action: Action) -> bool:
            asked.append(action.id)
            return len(asked) > 3

    outcome = engine.run(
        [step(name, place="one", turns="one at a time", parallel=True) for name in "abc"],
        store=rig.store,
        ledger=rig.ledger,
        workers=Apart(rig.store, rig.runner),
        jobs=1,
        observer=rig.listener,
        logs=tmp_path / "logs",
        project="p",
    )
    assert outcome.ok
    assert asked[:3] == ["a", "b", "c"]
