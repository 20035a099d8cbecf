"""The engine with real processes and a real store: interruptions, full disks, two engines at once."""

import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_samples import Listener, MemoryRunner, real, states, step

from gpuforge import digest
from gpuforge.cli.build_report import words
from gpuforge.execute.engine import Engine
from gpuforge.execute.ledger import Ledger
from gpuforge.execute.outcome import Step
from gpuforge.execute.store import FolderStore, Stored
from gpuforge.execute.work import Workplace
from gpuforge.plan.action import Action, FileInput

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


@pytest.mark.thorough
def test_real_commands_feed_each_other_and_a_second_run_is_instant(tmp_path):
    steps = counted(tmp_path)
    outcome = real(tmp_path, steps)
    assert outcome.ok
    stored = FolderStore(tmp_path / "store").get(steps[-1].key)
    assert stored is not None
    assert stored.path("out").read_text() == "xxxxx"
    assert words(real(tmp_path, steps).results["d"].reason).startswith("reused: same inputs as on 20")
    assert (tmp_path / "marks").read_text() == "xxxx"
    assert list((tmp_path / "work").glob("*/")) == []


def test_of_an_up_to_date_plan_only_the_last_actions_are_looked_up(tmp_path):
    class Counted(FolderStore):
        looked_up = 0

        def get(self, key: str, *, links_out: bool = True) -> Stored | None:
            self.looked_up += 1
            return super().get(key, links_out=links_out)

    store = Counted(tmp_path / "store")
    steps = [step(f"s{n}", *([f"s{n - 1}"] if n % 5 else [])) for n in range(30)]
    runner = MemoryRunner()
    ledger, logs = Ledger(tmp_path / "ledger.jsonl"), tmp_path / "logs"
    for _ in range(2):
        store.looked_up = 0
        outcome = Engine(
            steps,
            store=store,
            ledger=ledger,
            workers=Workplace(store, runner),
            jobs=4,
            observer=Listener(),
            logs=logs,
            project="p",
        ).run()
        assert outcome.ok
    assert (len(runner.ran), store.looked_up) == (30, 6)  # the ends of six chains


def build(top: Path, name: str) -> None:
    (top / name).mkdir()
    assert real(top / name, counted(top), store=top / "store").ok


@pytest.mark.thorough
def test_two_engines_on_one_store_share_the_work(tmp_path):
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
from engine_samples import real, step, states
top = Path(sys.argv[2])
stubborn = '''
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({!r}, "w").write(f"{{os.getpid()}} {{child.pid}} ")
time.sleep(600)
'''.format(str(top / "pids"))
quick = "import sys; open(sys.argv[1], 'w')"
outcome = real(top, [step("a", code=quick), step("b", "a", code=stubborn), step("c", "b")])
print(outcome.interrupted, states(outcome))
"""


@pytest.mark.thorough
def test_ctrl_c_stops_children_that_ignore_it_and_keeps_what_is_finished(tmp_path):
    command = [sys.executable, "-c", CLI, str(Path(__file__).parent), str(tmp_path)]
    # a shell lets commands in the background, such as a CI's, ignore SIGINT: undo that
    hear = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=hear) as process:
        pids = tmp_path / "pids"
        while not (pids.exists() and pids.read_text().endswith(" ")):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(2)
        said, _ = process.communicate(timeout=120)
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


def test_a_full_disk_fails_what_does_not_fit_and_leaves_nothing_half_written(small_disk):
    write = "import sys; open(sys.argv[1], 'wb').write(bytes({}))"
    steps = [step("big", code=write.format(3_000_000)), step("small", code=write.format(1000))]
    outcome = real(small_disk, steps, jobs=1)
    assert states(outcome) == {"big": "failed", "small": "done"}
    assert outcome.results["big"].error is not None
    assert outcome.results["big"].error.message == "big failed: the disk is full"
    files = {path.name for path in (small_disk / "store").rglob("*") if path.is_file()}
    assert files == {".lock", "out", "record.json", *(each.key for each in steps)}


def test_a_disk_that_is_full_before_anything_starts_is_one_clear_message(small_disk):
    (small_disk / "logs").mkdir()
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "ballast").write_bytes(bytes(5_000_000))
    outcome = real(small_disk, [step("a")])
    assert outcome.results["a"].error is not None
    assert outcome.results["a"].error.message.startswith("a failed: the disk is full")


def test_what_was_edited_while_it_was_built_is_not_stored(tmp_path):
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
