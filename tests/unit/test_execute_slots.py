"""What runs at once: job slots, priorities, places that are for one action at a time."""

import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from engine_samples import Rig, step

from gpuforge.execute import slots
from gpuforge.execute.engine import Engine
from gpuforge.execute.outcome import Step
from gpuforge.execute.runners.runner import Task
from gpuforge.execute.work import Workplace
from gpuforge.plan.action import Action


@pytest.mark.thorough
def test_no_more_run_at_once_than_there_are_slots(tmp_path):
    assert watched(tmp_path, *(step(name) for name in "abcde"), jobs=3, at_once=3).most == 3


@pytest.mark.thorough
def test_actions_with_jobs_of_their_own_share_the_slots(tmp_path):
    alone = watched(tmp_path / "1", step("a", kind="build"), jobs=8)
    assert alone.jobs == {"a": 8}
    both = watched(tmp_path / "2", *(step(name, kind="build", image="i") for name in "ab"), jobs=8, at_once=2)
    assert (both.most, both.jobs) == (2, {"a": 4, "b": 4})
    many = watched(
        tmp_path / "3", *(step(name, kind="build", image="i") for name in "abcdef"), jobs=8, at_once=4
    )
    assert many.most == 4
    assert many.jobs["a"] == 2


@pytest.mark.thorough
def test_downloads_run_beside_the_rest_and_the_highest_priority_comes_first(tmp_path):
    steps = (
        step("compile"),
        step("for tests", kind="fetch"),
        step("for builds", kind="fetch"),
        step("build", "for builds"),
        step("test", "build", "for tests"),
    )
    seen = watched(tmp_path, *steps, jobs=1, at_once=2)
    assert seen.events[1:3] == ["start for builds", "start compile"]
    assert seen.most == 2


@pytest.mark.thorough
def test_what_has_priority_goes_before_what_was_ready_earlier(tmp_path):
    def cell(name: str) -> tuple[Step, Step, Step]:
        build = step(f"{name} build")
        wheel = step(f"{name} wheel", build.action.id, kind="package")
        return build, wheel, step(f"{name} test", wheel.action.id)

    seen = watched(tmp_path, *cell("a"), *cell("b"), jobs=1)
    starts = [event.removeprefix("start ") for event in seen.events if event.startswith("start ")]
    assert starts == ["a build", "a wheel", "a test", "b build", "b wheel", "b test"]
    both = watched(tmp_path / "2", step("x"), *cell("a"), *cell("b"), step("y"), jobs=3)
    starts = [event.removeprefix("start ") for event in both.events if event.startswith("start ")]
    assert starts.index("b wheel") < starts.index("a test")


@pytest.mark.thorough
def test_an_action_with_jobs_of_its_own_starts_beside_a_small_one(tmp_path):
    seen = watched(tmp_path, step("small"), step("build", kind="build"), step("later"), jobs=2, at_once=2)
    assert seen.jobs["build"] == 2
    assert seen.events[1:3] == ["start small", "start build"]
    assert seen.most == 2


@pytest.mark.thorough
def test_one_working_directory_is_for_one_action_at_a_time(tmp_path):
    steps = [step(name, kind="build", place="build") for name in "ab"]
    here = watched(tmp_path / "1", *steps, jobs=2)
    assert (here.most, here.jobs) == (1, {"a": 2, "b": 2})


@pytest.mark.thorough
def test_where_the_first_is_alone_the_others_wait_until_it_has_filled_their_cache(tmp_path):
    steps = [step(name, kind="build", place="build", image="i") for name in "abc"]
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


def test_no_more_jobs_run_than_memory_allows_by_the_last_run(tmp_path):
    jobs: list[int] = []
    rig = Rig(tmp_path, lambda task: jobs.append(task.jobs) or 0)
    rig.runner.memory = 3 << 30
    for number, name in enumerate(("py312/build", "py312/build", "py313/build", "py313/other")):
        assert rig.run(replace(step(name, kind="build"), key=f"{number}"), jobs=8, memory=7 << 30).ok
    assert jobs == [7, 2, 2, 7]  # never measured, as measured, as for the other Python, never measured
    assert rig.run(replace(step("py312/build", kind="build"), key="9"), jobs=8, memory=2 << 30).ok
    assert jobs[4] == 1


@pytest.mark.thorough
def test_an_action_waits_until_there_is_memory_for_it(tmp_path):
    assert watched(tmp_path, *(step(name) for name in "abc"), jobs=3, at_once=2, memory=2 << 30).most == 2


def test_the_memory_of_a_machine_is_less_in_a_container(tmp_path):
    (tmp_path / "memory.max").write_text("max\n")
    whole = slots.machine_memory(tmp_path)
    (tmp_path / "memory.max").write_text("1000\n")
    assert whole > slots.machine_memory(tmp_path) == 1000


@dataclass
class Seen:
    """How many actions ran at once, with how many jobs each, and what was told."""

    most: int = 0
    jobs: dict[str, int] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)


def watched(top: Path, *steps: Step, jobs: int, at_once: int = 1, memory: int = 1 << 40) -> Seen:
    """Run steps; each waits until `at_once` have run at once."""
    seen, level, guard = Seen(), 0, threading.Lock()

    def act(task: Task) -> int:
        nonlocal level
        with guard:
            level += 1
            seen.most = max(seen.most, level)
            seen.jobs[task.action.id] = task.jobs
        for _ in range(3000):
            if seen.most >= at_once:
                break
            time.sleep(0.01)
        time.sleep(0.2)  # for one too many to start
        with guard:
            level -= 1
        return 0

    top.mkdir(exist_ok=True)
    rig = Rig(top, act)
    assert rig.run(*steps, jobs=jobs, memory=memory).ok
    seen.events = rig.listener.events
    return seen


def test_workers_that_are_apart_keep_room_themselves(tmp_path, monkeypatch):
    """Job slots and shared working directories are of one machine; a worker that joins late is noticed."""
    monkeypatch.setattr(slots, "_LOOK", 0.02)
    together = threading.Barrier(3, timeout=30)
    rig = Rig(tmp_path, lambda _: together.wait() * 0)
    asked: list[str] = []

    class Apart(Workplace):
        is_remote = True

        def take_room(self, action: Action) -> bool:
            asked.append(action.id)
            return len(asked) > 3

    outcome = Engine(
        [step(name, place="one", kind="build") for name in "abc"],
        store=rig.store,
        ledger=rig.ledger,
        workers=Apart(rig.store, rig.runner),
        jobs=1,
        observer=rig.listener,
        logs=tmp_path / "logs",
        project="p",
    ).run()
    assert outcome.ok
    assert asked[:3] == ["a", "b", "c"]
