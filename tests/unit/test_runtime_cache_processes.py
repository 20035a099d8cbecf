"""The kernel cache and several threads or processes: a kernel is compiled once, and a killed one leaves nothing bad."""

import errno
import multiprocessing
import os
import random
import threading
import time
import warnings
from pathlib import Path

import pytest
from cache_samples import Counter, cache_in, key, never

pytestmark = pytest.mark.thorough

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kernels"


def test_threads_that_ask_together_compile_once(folder):
    cache = cache_in(folder)
    slow = Counter()
    start = threading.Barrier(8)
    got = []

    def compile_slowly() -> bytes:
        time.sleep(0.05)
        return slow()

    def ask() -> None:
        start.wait()
        got.append(cache.obtain(key(), compile_slowly))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (slow.calls, got) == (1, [b"cubin"] * 8)


def test_an_interrupted_thread_leaves_the_work_to_the_next(folder):
    cache = cache_in(folder)
    begun = threading.Event()

    def interrupted() -> bytes:
        begun.set()
        time.sleep(0.05)
        raise KeyboardInterrupt

    def lead() -> None:
        with pytest.raises(KeyboardInterrupt):
            cache.obtain(key(), interrupted)

    leader = threading.Thread(target=lead)
    leader.start()
    begun.wait()
    assert cache.obtain(key(), lambda: b"cubin") == b"cubin"
    leader.join()


def test_a_compile_step_may_ask_for_its_own_key(folder):
    cache = cache_in(folder)
    assert cache.obtain(key(), lambda: cache.obtain(key(), lambda: b"inner") + b", outer") == b"inner, outer"


def _ask_for_all(folder: Path, log: Path, order: int) -> None:
    cache = cache_in(folder, limit=1 << 30)
    numbers = list(range(50))
    random.Random(order).shuffle(numbers)  # noqa: S311
    for number in numbers:

        def compile_one(number: int = number) -> bytes:
            with log.open("ab", buffering=0) as file:
                file.write(b"%d\n" % number)
            time.sleep(0.002)
            return b"code %d" % number

        assert cache.obtain(key(number), compile_one) == b"code %d" % number


def test_a_hundred_processes_compile_fifty_kernels_once_each(folder, tmp_path):
    log = tmp_path / "log"
    processes = [FORK.Process(target=_ask_for_all, args=(folder, log, n)) for n in range(100)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert {process.exitcode for process in processes} == {0}
    assert sorted(map(int, log.read_text().split())) == list(range(50))


def _write_for_ever(folder: Path) -> None:
    cache = cache_in(folder, limit=1 << 30)
    while True:
        for number in range(5):
            cache.obtain(key(number), lambda number=number: b"%d" % number * 50_000)  # type: ignore[misc]
            cache.discard(key(number))


def test_no_entry_of_a_killed_process_is_ever_bad(folder):
    chance = random.Random(7)  # noqa: S311
    for _ in range(100):
        process = FORK.Process(target=_write_for_ever, args=(folder,))
        process.start()
        time.sleep(chance.uniform(0, 0.02))
        process.kill()
        process.join()
        cache = cache_in(folder, limit=1 << 30)
        assert cache.folder is not None
        assert [cache.folder.check(file) for file in cache.folder.files() if cache.folder.check(file)] == []
    for number in range(5):
        assert (
            cache.obtain(key(number), lambda number=number: b"%d" % number * 50_000)
            == b"%d" % number * 50_000
        )


def test_the_lock_of_a_killed_process_is_free(folder):
    begun = FORK.Event()

    def hang() -> bytes:
        begun.set()
        time.sleep(60)
        return b""

    process = FORK.Process(target=lambda: cache_in(folder).obtain(key(), hang))
    process.start()
    begun.wait()
    process.kill()
    process.join()
    assert cache_in(folder).obtain(key(), lambda: b"cubin") == b"cubin"


def test_a_child_forked_while_a_thread_compiles_can_compile(folder):
    cache = cache_in(folder)
    begun, end = threading.Event(), threading.Event()

    def wait() -> bytes:
        begun.set()
        end.wait(10)
        return b"parent"

    thread = threading.Thread(target=lambda: cache.obtain(key(), wait))
    thread.start()
    begun.wait()
    child = FORK.Process(target=lambda: os._exit(cache.obtain(key(1), lambda: b"child") != b"child"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 and newer warn of a fork beside threads
        child.start()
    child.join(10)
    end.set()
    thread.join()
    assert child.exitcode == 0


def test_a_file_system_without_locks_costs_a_second_compilation_and_no_more(folder, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("gpuforge.runtime.cache._request", refuse)
    assert cache_in(folder).obtain(key(), lambda: b"cubin") == b"cubin"
    assert cache_in(folder).obtain(key(), never) == b"cubin"
