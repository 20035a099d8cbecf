"""`--runner dask` while workers, clients, a scheduler and containers are killed: actions run again or the run ends."""

import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from dask_build import ONCE, Build, _lines, cluster, started, step, until

from gpuforge.containers.container import ACTION, OWNER
from gpuforge.containers.engine import connect
from gpuforge.execute.outcome import Step
from gpuforge.execute.runners.choice import SiteRequest
from gpuforge.execute.runners.docker import setup as docker_setup
from gpuforge.plan.action import Action

pytestmark = pytest.mark.slow

CLIENT = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
import dask_build as t
if __name__ == "__main__":
    t.Build(Path({top!r}), {more}).run(t.step("act", t.ONCE.format(mark={mark!r}, times=9)))
"""


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFORGE_WORK", str(tmp_path / "work"))


def gone(pid: int) -> bool | None:
    """Return True once a process has ended."""
    return None if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" else True


def worker_of(pid: int) -> psutil.Process:
    """Return the worker's process of an action: its keeper's, whose parent makes keepers for the worker."""
    return psutil.Process(pid).parents()[2]


@contextmanager
def beside(work: Callable[[], None]) -> Iterator[None]:
    """Do something on another thread; its error is the test's."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  it is raised below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join()
    if errors:
        raise errors[0]


def test_an_action_whose_worker_is_killed_runs_again_on_another(tmp_path):
    mark = tmp_path / "mark"
    build = Build(tmp_path)
    ended: list[int] = []

    def kill() -> None:
        pid = started(mark, 1)
        worker_of(pid).kill()
        until(lambda: gone(pid), 10)
        ended.append(pid)

    with beside(kill):
        outcome = build.run(step("act", ONCE.format(mark=str(mark), times=2)))
    assert outcome.ok, outcome.results
    assert len(_lines(mark)) == 2
    assert ended
    assert any(
        "another worker: tcp" in text or "another worker: tls" in text for text in build.observer.waits
    )


def test_an_action_that_loses_every_worker_fails_with_their_names(tmp_path):
    mark = tmp_path / "mark"
    build = Build(tmp_path)

    def kill() -> None:
        for count in range(1, 5):
            worker_of(started(mark, count)).kill()

    with beside(kill):
        outcome = build.run(step("act", ONCE.format(mark=str(mark), times=9)))
    message = str(outcome.results["act"].error)
    assert message.startswith("act was given up after 4 workers were lost with it (t")
    until(lambda: all(gone(int(pid)) for pid in _lines(mark)) or None, 10)


def test_an_interrupted_run_stops_its_workers_at_once(tmp_path):
    mark = tmp_path / "mark"

    def interrupt() -> None:
        started(mark, 1)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    try:
        with beside(interrupt):
            outcome = Build(tmp_path).run(step("act", ONCE.format(mark=str(mark), times=9)))
    finally:
        signal.signal(signal.SIGINT, before)
    assert outcome.interrupted
    assert outcome.results["act"].state == "cancelled"
    until(lambda: gone(int(_lines(mark)[0])), 10)


def test_workers_on_this_machine_end_with_a_client_that_is_killed(tmp_path):
    mark = tmp_path / "mark"
    file = tmp_path / "client.py"
    file.write_text(
        CLIENT.format(here=str(Path(__file__).parent), top=str(tmp_path), mark=str(mark), more="")
    )
    with subprocess.Popen([sys.executable, file]) as client:
        pid = started(mark, 1)
        others = psutil.Process(client.pid).children(recursive=True)
        client.kill()
    until(lambda: gone(pid), 10)
    until(lambda: all(gone(each.pid) for each in others) or None, 20)


def test_workers_of_a_scheduler_share_a_store_and_stop_when_the_client_is_gone(tmp_path):
    shared, mark = tmp_path / "shared", tmp_path / "mark"
    with cluster(tmp_path, 2) as (address, _):
        steps = [
            step("one", "import os, sys; open(sys.argv[1], 'w').write('made')"),
            *(
                step(
                    f"two{n}", "import sys; open(sys.argv[1], 'w').write(open(sys.argv[2]).read() * 2)", "one"
                )
                for n in range(3)
            ),
        ]
        build = Build(tmp_path / "a", scheduler=address, shared=str(shared))
        outcome = build.run(*steps)
        assert outcome.ok, [str(each.error) for each in outcome.results.values()]
        stored = build.store.get(steps[1].key)
        assert stored
        assert stored.path("out").read_text() == "mademade"
        again = Build(tmp_path / "b", scheduler=address, shared=str(shared)).run(*steps)
        assert {each.state for each in again.results.values()} == {"reused"}

        file = tmp_path / "client.py"
        file.write_text(
            CLIENT.format(
                here=str(Path(__file__).parent),
                top=str(tmp_path / "c"),
                mark=str(mark),
                more=f"scheduler={address!r}, shared={str(shared)!r}",
            )
        )
        with subprocess.Popen([sys.executable, file]) as client:
            pid = started(mark, 1)
            client.kill()
        until(lambda: gone(pid), 20)


def test_a_scheduler_that_is_killed_ends_the_run_with_a_message(tmp_path):
    shared, mark = tmp_path / "shared", tmp_path / "mark"
    with cluster(tmp_path, 1) as (address, begun):

        def kill() -> None:
            started(mark, 1)
            begun[0].kill()

        with beside(kill):
            build = Build(tmp_path / "a", scheduler=address, shared=str(shared))
            outcome = build.run(step("act", ONCE.format(mark=str(mark), times=9)))
        assert f"the scheduler {address} cannot be reached" in str(outcome.results["act"].error)
        until(lambda: all(gone(int(pid)) for pid in _lines(mark)) or None, 20)


@pytest.mark.docker
def test_a_container_of_a_worker_that_is_killed_is_removed_and_the_action_runs_again(tmp_path, test_image):
    """The first container sleeps; in it the action cannot know how often it ran, but where it runs."""
    sites = docker_setup.sites(
        SiteRequest([test_image], [platform.machine()], True, False, tmp_path, None, lambda _: None)
    )
    action = Action(
        "act",
        "build",
        "act",
        ("/bin/sh", "-c", "sleep 12; echo made > ${out:out}"),
        outputs=("out",),
        image=sites[0].id,
    )
    killed: list[str] = []

    def container() -> str | None:
        found = connect().containers.list(filters={"label": f"{ACTION}=act"})
        return str(found[0].id) if found else None

    def kill() -> None:
        first = until(container)
        owner = connect().containers.get(first).labels[OWNER].split()[1]
        psutil.Process(int(owner)).kill()
        until(lambda: container() != first or None, 30)
        killed.append(first)

    build = Build(tmp_path, workers=1, sites=sites)
    with beside(kill):
        outcome = build.run(Step(action, "0" * 64))
    assert outcome.ok, outcome.results["act"].error
    assert killed
    assert container() is None
