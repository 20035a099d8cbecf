"""Builds on a cluster of this machine whose parts are ended at random, and what the next build makes of it.

    python bench/kills.py [--rounds 100] [--seed 0] [--project short|small|saxpy] [--store cache|folder|s3]
                          [--workers 2] [--image NAME] [--fault NAME]... [--folder PLACE]

Project `short` is a plan of 13 actions that sleep (kills_client.py), `small` a wheel without CUDA, `saxpy` the recipe.
With the store `cache` there is no scheduler: each client starts workers on this machine, and all use one cache folder.
With `--image` the workers build in containers of that image.

Each round builds a project that was never built before by `--runner dask`, and at a random moment ends a part by
SIGKILL: a worker, its nanny, the scheduler, the client, the S3 server, a container. With `--image` a client is ended
while a container runs. Two faults kill nothing: workers that join late, and two clients at once. What is gone is
started again, and the same build must then
- end with the wheel of an undisturbed build, byte for byte;
- run nothing whose result was in the store;
- leave no process of an action, no container, and in dist nothing but the wheel and its record.
The disturbed build must end by itself, with one message at most and without a traceback. Prints a line for each round
and a table; the exit status is 1 when a round failed, whose folder is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "integration"))

import kills_client
import kills_project
from dask_service import DaskCluster, end, processes
from docker.errors import APIError
from kills_build import SHORT, Build
from kills_parts import Containers, OwnWorkers
from s3_service import S3Server, s3_server

from gpuforge.execute.objects.connect import connect

GPUFORGE = str(Path(sys.executable).with_name("gpuforge"))
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
KILLS = ("worker", "nanny", "scheduler", "client", "s3", "container")
FAULTS = (*KILLS, "late workers", "two clients")
ON_THIS_MACHINE = ("worker", "client", "two clients", "container")
OPTIONS = {"short": (), "small": ("--no-test",), "saxpy": ("--cuda", "13", "--archs", "90", "--no-test")}
LONGEST_S = 180.0
CONTAINERS_S = 10.0
OWN_S = 6.0  # seconds from a build's first message, within which workers of its own are disturbed
HUNG = -1000


@dataclass
class Campaign:
    """The rounds' common ground: the project, the cluster and the store; a build takes `seconds` at most."""

    folder: Path
    project: str
    cluster: DaskCluster | OwnWorkers
    env: dict[str, str]
    s3: S3Server | None
    workers: int
    image: str
    salt: str = ""
    seconds: float = 10.0

    def write(self, salt: str) -> None:
        """Write the project anew."""
        self.salt = salt
        if self.project == "short":
            return
        shutil.rmtree(self.folder / "project", ignore_errors=True)
        make: Callable[[Path, str, str], Path] = getattr(kills_project, self.project)
        make(self.folder / "project", PYTHON, salt)

    def build(self, name: str, *, on_cluster: bool = True) -> Build:
        """Return a build of the project: by this cluster, or undisturbed by local processes."""
        env = dict(self.env)
        if self.project == "short":
            argv = [SHORT, self.salt, "0.5", "DIST", self.cluster.address, self.image]
            return Build(argv, self.folder / name, env)
        argv = [GPUFORGE, "build", str(self.folder / "project"), "--python", PYTHON, *OPTIONS[self.project]]
        argv += ["--json", "-o", "DIST", *(("--image", self.image) if self.image else ())]
        if on_cluster:
            argv += ["--runner", "dask"]
            argv += ["--scheduler", self.cluster.address] if self.cluster.address else []
        else:
            argv += ["--runner", "docker" if self.image else "local"]
            env = {"GPUFORGE_WORK": str(self.folder / "undisturbed-work"), "GPUFORGE_STORE": ""}
        return Build(argv, self.folder / name, env)

    def await_end(self, build: Build) -> int:
        """Return the exit status of a build, while what is missing of the cluster is started as a site would do."""
        deadline = time.monotonic() + LONGEST_S
        while (status := build.status()) is None and time.monotonic() < deadline:
            self.tend()
            time.sleep(0.2)
        if status is None and build.process:
            end(build.process.pid)
            build.process.wait()
            return HUNG
        return HUNG if status is None else status

    def tend(self) -> None:
        """Start what is not there: the S3 server, the scheduler and workers."""
        if self.s3 and not self.s3.service.alive:
            self.s3.service.start()
        self.cluster.start(self.workers)

    def finished(self) -> set[str]:
        """Return the keys whose results are in the store."""
        if cache := self.env.get("GPUFORGE_CACHE_DIR"):
            return {path.parent.name for path in Path(cache, "store").glob("??/*/record.json")}
        os.environ.update(self.env)
        # In a process of its own: a client that is forked off must not inherit connections to the store.
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
            return pool.submit(_finished, self.env["GPUFORGE_STORE"]).result()

    def strays(self) -> list[str]:
        """Return the commands that run in a working directory of an action, and the containers that are there."""
        found = [f"container {each[:12]}" for each in self.containers_left()]
        work = Path(self.env["GPUFORGE_WORK"])
        for pid, _, command in processes():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cwd").readlink().is_relative_to(work):
                    found.append(command[:80])
        return found

    def containers_left(self) -> list[str]:
        """Return the containers that are there; one whose action has ended may take a moment until it is gone."""
        deadline = time.monotonic() + CONTAINERS_S
        while self.image and (left := self.containers.left()):
            if time.monotonic() > deadline:
                return left
            time.sleep(0.5)
        return []

    @property
    def containers(self) -> Containers:
        """The containers of this campaign."""
        return Containers(Path(self.env["GPUFORGE_WORK"]))

    def await_container(self, build: Build) -> list[str]:
        """Return the containers that run, once there is one; none where the build ends without."""
        found: list[str] = []
        while self.image and not found and build.status() is None:
            found = self.containers.running()
        return found

    def disturb(self, fault: str, build: Build, rng: random.Random) -> None:
        """End one part of what runs."""
        running = self.await_container(build) if fault in {"client", "container"} else []
        if fault == "worker" and (found := self.cluster.worker_processes()):
            end(rng.choice(found))
        elif fault == "container" and running:
            with contextlib.suppress(APIError):  # it has just ended
                self.containers.kill(rng.choice(running))
        elif fault == "client" and build.process:
            end(build.process.pid)
        elif fault == "nanny" and isinstance(self.cluster, DaskCluster):
            end(rng.choice(self.cluster.nannies()))
        elif fault == "scheduler" and isinstance(self.cluster, DaskCluster):
            self.cluster.scheduler.kill()
        elif fault == "s3" and self.s3:
            self.s3.service.kill()
            time.sleep(rng.uniform(0, 5))


def _finished(url: str) -> set[str]:
    names = [name.split("/") for name in connect(url).names("entries")]
    return {parts[-2] for parts in names if parts[-1] == "record.json"}


@dataclass
class Round:
    """What came of a round: `complaints` is empty where all was well."""

    fault: str
    met: bool  # it met a build that still ran
    after: float  # seconds from the build's start to the fault
    status: int  # of the disturbed build
    ran: int  # actions of the next one
    complaints: list[str]


def one_round(campaign: Campaign, number: int, seed: int, faults: Sequence[str]) -> Round:
    """Disturb one build, build again, and judge both."""
    rng = random.Random(f"{seed}/{number}")  # noqa: S311 - not for secrets
    fault = rng.choice(faults)
    campaign.write(f"{seed}-{number}")
    expected = undisturbed(campaign)
    complaints = [] if expected else ["the undisturbed build failed"]
    after = rng.uniform(0.5, campaign.seconds)
    builds, met = disturbed(campaign, fault, after, rng)
    statuses = [campaign.await_end(build) for build in builds]
    for build, status in zip(builds, statuses, strict=True):
        complaints += [f"disturbed: {each}" for each in build.complaints()]
        if status == HUNG:
            complaints.append("disturbed: hung")
        if fault not in KILLS and (status or build.sha256() != expected):
            complaints.append(f"disturbed: ended with {status}")
    own = "GPUFORGE_CACHE_DIR" not in campaign.env  # a ledger of its own for each client
    if own and len(builds) > 1 and (twice := builds[0].ran() & builds[1].ran()):
        complaints.append(f"{len(twice)} actions ran for both clients")
    ran, more = next_build(campaign, rng.choice(["disturbed", "again"]), expected)
    return Round(fault, met, after, statuses[0], ran, complaints + more)


def undisturbed(campaign: Campaign) -> list[str]:
    """Build by local processes, with a store of their own; return the wheel's digest."""
    if campaign.project == "short":
        return [hashlib.sha256(kills_client.wheel(campaign.salt)).hexdigest()]
    shutil.rmtree(campaign.folder / "undisturbed" / "dist", ignore_errors=True)
    build = campaign.build("undisturbed", on_cluster=False).start()
    return [] if campaign.await_end(build) else build.sha256()


def disturbed(campaign: Campaign, fault: str, after: float, rng: random.Random) -> tuple[list[Build], bool]:
    """Start a build, or two, and disturb it after some seconds; return whether it still ran then."""
    for name in ("disturbed", "beside"):
        shutil.rmtree(campaign.folder / name, ignore_errors=True)
    if fault == "late workers":
        campaign.cluster.stop_workers()
    builds = [campaign.build("disturbed").start()]
    if fault == "two clients":
        builds.append(campaign.build("beside").start())
    while isinstance(campaign.cluster, OwnWorkers) and builds[0].is_silent() and builds[0].status() is None:
        time.sleep(0.05)  # its workers are being started, which takes longer than all of its actions
    time.sleep(after)
    met = builds[0].status() is None
    if not met:  # builds take less time than the first one did
        campaign.seconds = after
    campaign.disturb(fault, builds[0], rng)
    return builds, met


def next_build(campaign: Campaign, name: str, expected: list[str]) -> tuple[int, list[str]]:
    """Build again, from the disturbed build's folder or an empty one; return how much it ran and what is wrong."""
    campaign.tend()
    finished = campaign.finished()
    if name == "again":
        shutil.rmtree(campaign.folder / name, ignore_errors=True)
    again = campaign.build(name)
    before = again.ran()
    status = campaign.await_end(again.start())
    ran = again.ran() - before
    complaints = [f"the next build ended with {status}"] if status else []
    if again.sha256() != expected:
        complaints.append(f"another wheel: {again.sha256()} instead of {expected}")
    if twice := ran & finished - before:
        complaints.append(f"{len(twice)} finished actions ran again")
    return len(ran), [
        *complaints,
        *again.complaints(),
        *(f"left running: {each}" for each in campaign.strays()),
    ]


def run(campaign: Campaign, rounds: range, seed: int, faults: Sequence[str]) -> list[Round]:
    """Run the rounds, with a line for each."""
    ended = []
    for number in rounds:
        done = one_round(campaign, number, seed, faults)
        ended.append(done)
        if done.complaints:
            shutil.copytree(
                campaign.folder / "disturbed", campaign.folder / f"failed-{number}", symlinks=True
            )
        words = "; ".join(done.complaints) or "ok"
        sys.stdout.write(
            f"{number}: {done.fault} after {done.after:.1f} s: status {done.status}, "
            f"then {done.ran} actions: {words}\n"
        )
        sys.stdout.flush()
    return ended


def table(ended: Sequence[Round]) -> list[str]:
    """Return the rounds by fault as Markdown."""
    rows = ["| fault | rounds | met a running build | which succeeded all the same | failed rounds |"]
    rows.append("|---|---|---|---|---|")
    counts = Counter(each.fault for each in ended)
    for fault, count in sorted(counts.items()):
        of_it = [each for each in ended if each.fault == fault]
        met = [each for each in of_it if each.met]
        good = sum(each.status == 0 for each in met)
        rows.append(
            f"| {fault} | {count} | {len(met)} | {good} | {sum(bool(each.complaints) for each in of_it)} |"
        )
    return rows


def main() -> None:
    """Run a campaign."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--project", choices=OPTIONS, default="small")
    parser.add_argument("--store", choices=("cache", "folder", "s3"), default="folder")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--image", default="")
    parser.add_argument("--fault", action="append", choices=FAULTS)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    folder = (given.folder or Path(tempfile.mkdtemp(prefix="kills-"))).absolute()
    possible = ON_THIS_MACHINE if given.store == "cache" else FAULTS
    without = {*(() if given.store == "s3" else ["s3"]), *(() if given.image else ["container"])}
    faults = given.fault or [each for each in possible if each not in without]
    with contextlib.ExitStack() as stack:
        env = {"GPUFORGE_STORE": str(folder / "store"), "GPUFORGE_WORK": str(folder / "work")}
        if given.store == "cache":
            env = {"GPUFORGE_CACHE_DIR": str(folder / "cache"), "GPUFORGE_WORK": str(folder / "work")}
        s3 = stack.enter_context(s3_server(folder / "s3")) if given.store == "s3" else None
        if s3:
            env |= {**s3.env, "GPUFORGE_STORE": f"{s3.url}/store"}
        own = given.store == "cache"
        cluster = OwnWorkers() if own else DaskCluster(folder / "cluster", env)
        stack.callback(cluster.stop)
        campaign = Campaign(folder, given.project, cluster, env, s3, given.workers, given.image)
        campaign.write("first")
        campaign.tend()
        begin = time.monotonic()
        if status := campaign.await_end(first := campaign.build("first").start()):
            sys.exit(f"the first build ended with {status}:\n{(first.folder / 'err').read_text()}")
        campaign.seconds = OWN_S if own else time.monotonic() - begin
        ended = run(campaign, range(given.first, given.first + given.rounds), given.seed, faults)
    sys.stdout.write("\n".join([*table(ended), ""]))
    sys.exit(any(each.complaints for each in ended))


if __name__ == "__main__":
    main()
