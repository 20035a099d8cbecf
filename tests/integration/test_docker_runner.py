"""The docker runner with a real engine: what a container sees and may, and that none is left."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from docker.errors import NotFound

from gpuforge.containers.container import (
    MACHINE,
    OWNER,
    Containers,
    ContainerSpec,
    caller,
    clear_leftovers,
    labels,
    run_once,
)
from gpuforge.containers.engine import connect
from gpuforge.containers.images import Images
from gpuforge.containers.obtain import contents
from gpuforge.errors import ActionError, MissingError
from gpuforge.execute import workdir
from gpuforge.execute.engine import Engine
from gpuforge.execute.ledger import Ledger
from gpuforge.execute.outcome import Observer, Step
from gpuforge.execute.runners.docker import docker_runner
from gpuforge.execute.runners.docker.docker_runner import DockerRunner
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.runner import InputPath, Limits, Task
from gpuforge.execute.store import FolderStore
from gpuforge.execute.work import Workplace
from gpuforge.plan import variables
from gpuforge.plan.action import Action, FileInput
from gpuforge.plan.site import ContainerImage
from gpuforge.plan.variables import literal

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with closing(connect()) as client:
        yield client


@pytest.fixture(scope="module")
def image(client: Any, test_image: str, tmp_path_factory: pytest.TempPathFactory) -> ContainerImage:
    images = Images(client)
    found = images.find(test_image)
    assert found is not None
    inventory = contents(images, found, "test", tmp_path_factory.mktemp("images"))
    return ContainerImage(found.id, "test", inventory)


@pytest.fixture
def runner(image: ContainerImage, tmp_path: Path) -> DockerRunner:
    return runner_of(image, tmp_path)


def runner_of(image: ContainerImage, tmp_path: Path, **options: Any) -> DockerRunner:
    (tmp_path / "work").mkdir(exist_ok=True)
    return DockerRunner(
        {image.id: image},
        local=LocalRunner(root=tmp_path / "work"),
        cache=tmp_path / "cache",
        root=tmp_path / "work",
        project="p",
        grace=1.0,
        **options,
    )


def task(
    tmp_path: Path,
    image: ContainerImage,
    script: str,
    *,
    inputs: Mapping[str, InputPath] | None = None,
    env: Mapping[str, str] | None = None,
    network: bool = False,
    name: str = "cell/act",
) -> Task:
    action = Action(
        name,
        "fetch" if network else "build",
        "do it",
        ("/bin/sh", "-c", script),
        inputs={each: FileInput(source.path, "0") for each, source in (inputs or {}).items()},
        outputs=("result",),
        env=env or {},
        image=image.id,
    )
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    return Task(action, inputs or {}, out, tmp_path / "log")


def is_podman(client: Any) -> bool:
    return any("Podman" in each.get("Name", "") for each in client.version().get("Components") or [])


def left(client: Any) -> list[Any]:
    return [c for c in client.containers.list(all=True) if c.labels.get(OWNER) == labels()[OWNER]]


def test_the_same_paths_everywhere_inputs_read_only_outputs_the_callers(
    client, image, runner, tmp_path, monkeypatch
):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.txt").write_text("hello")
    script = (
        'pwd; cat "$IN/a.txt"; touch "$IN/b" || echo read-only; cp "$STAGED/a.txt" "$OUT"; '
        'echo more >> "$STAGED/a.txt"; id -u; env | grep HIDDEN; ls -d /work /root/.ssh'
    )
    env = {"IN": "${in:data}", "STAGED": "${stage:copy}", "OUT": "${out:result}", "LC_ALL": "C"}
    monkeypatch.setenv("HIDDEN", "of the caller")
    inputs = {"data": InputPath(data), "copy": InputPath(data)}
    asked = task(tmp_path, image, script, env=env, inputs=inputs)
    end = runner.run(asked)
    text = asked.log.read_text()
    assert "\n/tmp/gpuforge/p/cell-act\n" in text  # the folder of working directories is elsewhere here
    assert (
        "hello" in text
    )  # what is said on stderr may come before it: the engine sends the two streams apart
    assert "read-only\n" in text
    assert f"\n{caller(client.info())['user'].partition(':')[0]}\n" in text
    assert "of the caller" not in text
    assert (asked.out / "result").read_text() == "hello"
    assert (asked.out / "result").stat().st_uid == os.geteuid()
    assert (data / "a.txt").read_text() == "hello"
    assert not (data / "b").exists()
    assert end.status != 0  # ls found neither
    assert left(client) == []
    assert list((tmp_path / "work" / "p").glob("*[!k]")) == []  # only lock files


def test_a_build_has_its_place_and_the_compiler_cache_and_no_credentials(image, tmp_path):
    kept = tmp_path / "kept"
    settings = {"SCCACHE_DIR": str(kept), "SCCACHE_CACHE_SIZE": "1G", "AWS_SECRET_ACCESS_KEY": "x"}
    runner = runner_of(image, tmp_path, environ=settings, caches={"sccache": kept})
    asked = task(tmp_path, image, "pwd; env | grep -E 'SCCACHE|AWS' | sort; touch $SCCACHE_DIR/entry")
    passes = variables.build_passes({}, contained=True)
    action = replace(asked.action, place="shared", passes=passes, caches=variables.COMPILER_CACHE)
    asked = replace(asked, action=action)
    runner.run(asked)
    said = asked.log.read_text().rpartition("\n\n")[2].splitlines()
    inside = workdir.DEFAULT / "p" / "shared"
    assert said == [str(inside), "SCCACHE_CACHE_SIZE=1G", "SCCACHE_DIR=/opt/gpuforge-caches/sccache"]
    assert (kept / "entry").stat().st_uid == os.geteuid()


def test_no_other_user_gets_to_what_a_build_leaves_in_its_cache(image, tmp_path):
    """A program with the setuid bit there would run as the caller."""
    folder = tmp_path / "cache" / "sccache" / "p-1"
    runner = runner_of(image, tmp_path, environ={}, caches={"sccache": folder})
    asked = task(tmp_path, image, "touch $SCCACHE_DIR/x; chmod 6755 $SCCACHE_DIR/x; chmod 777 $SCCACHE_DIR")
    runner.run(replace(asked, action=replace(asked.action, caches=variables.COMPILER_CACHE)))
    assert (folder / "x").stat().st_mode & 0o7000
    assert folder.parent.stat().st_mode & 0o777 == 0o700


def test_what_prints_without_end_is_ended(image, runner, tmp_path, monkeypatch):
    monkeypatch.setattr(docker_runner, "MOST_PRINTED", 10**6)
    asked = task(tmp_path, image, "yes")
    with pytest.raises(ActionError, match="cell/act printed more than"):
        runner.run(asked)
    assert asked.log.stat().st_size < 10**7


@pytest.mark.parametrize("network", [False, True])
def test_only_a_fetch_has_a_network(image, runner, tmp_path, network):
    asked = task(tmp_path, image, "ls /sys/class/net", network=network)
    runner.run(asked)
    links = set(asked.log.read_text().rpartition("\n\n")[2].split())
    assert (links == {"lo"}) is not network


def test_a_container_has_no_rights_beyond_a_plain_users(image, runner, tmp_path):
    asked = task(tmp_path, image, "grep -E 'CapEff|NoNewPrivs' /proc/self/status")
    runner.run(asked)
    assert asked.log.read_text().split()[-4:] == ["CapEff:", "0000000000000000", "NoNewPrivs:", "1"]


def test_status_and_signals_are_distinguished(client, image, runner, tmp_path):
    assert runner.run(task(tmp_path, image, "exit 3")).status == 3
    assert runner.run(task(tmp_path, image, literal("sh -c 'kill -SEGV $$'"))).status in {-11, 139}
    assert left(client) == []


def test_a_program_that_is_not_in_the_image(client, image, runner, tmp_path):
    asked = task(tmp_path, image, "")
    bad = Task(
        Action("cell/act", "build", "t", ("/no/such/compiler",), image=image.id), {}, asked.out, asked.log
    )
    with pytest.raises(
        MissingError, match=r"cell/act cannot be started in image test: /no/such/compiler failed: No"
    ):
        runner.run(bad)
    assert left(client) == []


def test_too_much_memory_and_too_much_time_are_reported(client, image, tmp_path):
    small = runner_of(image, tmp_path, limits=Limits(memory=64 * 1024 * 1024))
    eater = (
        "exec $(ls /opt/python/*/bin/python3 /usr/bin/python3 2>/dev/null | head -1) -c 'x = b\"x\" * 10**9'"
    )
    if Containers(client).limits_memory():  # else a build that asks for it is refused
        with pytest.raises(ActionError) as caught:
            small.run(task(tmp_path, image, eater))
        (said,) = caught.value.diagnostics
        assert "--memory" in said.hint
        if not is_podman(client):  # which does not always know why its container was killed
            assert "more memory than its container has" in said.message
    short = runner_of(image, tmp_path, limits=Limits(seconds=1.0))
    with pytest.raises(ActionError, match="ran longer than"):
        short.run(task(tmp_path, image, "sleep 60"))
    assert left(client) == []


def test_cancel_stops_what_runs_and_starts_nothing_more(client, image, runner, tmp_path):
    asked = task(tmp_path, image, "echo started; sleep 60")
    ends = []
    thread = threading.Thread(target=lambda: ends.append(runner.run(asked)))
    thread.start()
    while not asked.log.exists() or "started\n" not in asked.log.read_text():
        time.sleep(0.05)
    runner.cancel()
    thread.join(20)
    assert ends[0].cancelled
    assert runner.run(asked).cancelled
    assert left(client) == []


@pytest.mark.parametrize(
    ("how", "by", "hint"),
    [
        ("SIGKILL", "SIGKILL", "if memory ran out, try a smaller --jobs"),
        ("SIGTERM", "SIGTERM", "run the same command again"),
        ("remove", "SIGKILL", "run the same command again"),
    ],
)
def test_a_container_that_somebody_else_stops(client, image, runner, tmp_path, how, by, hint):
    asked = task(tmp_path, image, "echo started; exec sleep 60")
    ends: list[Any] = []

    def run() -> None:
        try:
            ends.append(runner.run(asked))
        except ActionError as error:
            ends.extend(error.diagnostics)

    thread = threading.Thread(target=run)
    thread.start()
    while not asked.log.exists() or "started\n" not in asked.log.read_text():
        time.sleep(0.05)
    (container,) = left(client)
    container.remove(force=True) if how == "remove" else container.kill(how)
    thread.join(20)
    assert ends[0].message == f"cell/act was ended by {by}, not by gpuforge"
    assert hint in ends[0].hint
    assert left(client) == []
    assert list((tmp_path / "work" / "p").glob("*[!k]")) == []


class Silent(Observer):
    """Shows nothing."""


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("ln -s /etc/shadow $out/result", "the output result is a link, to /etc/shadow"),
        (
            "mkdir $out/result; ln -s /etc/shadow $out/result/a",
            "a link that leads out of them, to /etc/shadow",
        ),
        ("mkfifo $out/result", "result of the outputs is a pipe"),
        ("truncate -s 100G $out/result", "the outputs are more than 64 GB"),
        ("mkfifo $out/step-result.json; echo x > $out/result", ""),
        ("ln -s /dev/zero $out/step-result.json; echo x > $out/result", ""),
        (
            "mkdir $out/result; cd $out/result; for i in $(seq 600); do mkdir deep; cd deep; done",
            "longer than 2000",
        ),
    ],
)
def test_outputs_of_a_container_that_are_meant_to_harm_end_at_once(tmp_path, image, runner, script, message):
    """They are read on the host, where a link would name the host's file."""
    action = task(tmp_path, image, f"out=$(dirname ${{out:result}}); {script}").action
    store = FolderStore(tmp_path / "store")
    outcome = Engine(
        [Step(action, "0" * 64)],
        store=store,
        ledger=Ledger(tmp_path / "ledger"),
        workers=Workplace(store, runner),
        jobs=1,
        observer=Silent(),
        logs=tmp_path / "logs",
        project="p",
    ).run()
    result = outcome.results["cell/act"]
    assert result.state == ("failed" if message else "done")
    assert message in (result.error.message if result.error else "")
    assert not any((tmp_path / "store/tmp").glob("*/*/out"))


def test_a_container_that_does_not_start_is_not_left(client, image):
    spec = ContainerSpec(image.id, ["/no/such/program"], labels(), folder="/dev/null")
    with pytest.raises(ActionError, match="the container engine failed to start a container"):
        run_once(Containers(client), spec)
    assert left(client) == []


def test_what_a_killed_process_left_is_cleared(client, image):
    code = (
        "import sys; from gpuforge.containers.engine import connect; from gpuforge.containers.container import labels;"
        "print(connect().containers.run(sys.argv[1], ['sleep', '300'], entrypoint=[], detach=True,"
        "network_mode='none', labels=labels('x')).id)"
    )
    done = subprocess.run([sys.executable, "-c", code, image.id], capture_output=True, text=True, check=True)

    def sleeping(owner: Mapping[str, str]) -> Any:
        return client.containers.run(
            image.id, ["sleep", "300"], entrypoint=[], detach=True, network_mode="none", labels=dict(owner)
        )

    boot, rest = labels()[OWNER].split(":", 1)
    ours = sleeping(labels("y"))
    unseen = sleeping(labels("y") | {OWNER: f"{boot}:pid:[7] 1 1", MACHINE: ""})
    before = sleeping(labels("y") | {OWNER: f"before:{rest}"})  # of before this machine was started again
    known = bool(labels()[MACHINE])  # in a container it is not: then its time has to pass
    try:
        assert client.containers.get(done.stdout.strip())  # its owner is gone, it runs on
        clear_leftovers(Containers(client))
        there = {container.id for container in client.containers.list(all=True)}
        assert done.stdout.strip() not in there
        assert (before.id in there) is not known
        assert {ours.id, unseen.id} <= there
    finally:
        for container in (ours, unseen, before):
            with suppress(NotFound):
                container.remove(force=True)


def test_no_engine_is_one_clear_message():
    with pytest.raises(MissingError) as caught:
        connect({"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    (said,) = caught.value.diagnostics
    assert said.message == (
        "no container engine answers (unix:///nowhere/docker.sock: there is no such socket)"
    )
    assert "start Docker" in said.hint
