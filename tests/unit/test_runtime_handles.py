"""Handles per context: the behaviour that one kernel cache for many contexts and threads needs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest

from gpuforge.runtime.handles import Handles


class Driver:
    """Gives a number for each load and notes where it was loaded and unloaded."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.loaded: dict[int, object] = {}
        self.unloaded: list[tuple[object, int]] = []

    def load(self, context: object) -> Callable[[], int]:
        def make() -> int:
            number = next(self.numbers)
            self.loaded[number] = context
            return number

        return make

    def unload(self, context: object, number: int) -> None:
        assert self.loaded.pop(number) == context
        self.unloaded.append((context, number))


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def handles(driver: Driver) -> Handles[int]:
    return Handles(driver.unload)


def test_one_kernel_in_two_contexts_is_loaded_twice_and_never_crosses(
    handles: Handles[int], driver: Driver
) -> None:
    one = handles.hold("a", "saxpy", driver.load("a"))
    two = handles.hold("b", "saxpy", driver.load("b"))
    again = handles.hold("a", "saxpy", driver.load("a"))
    assert one.handle == again.handle != two.handle
    assert driver.loaded == {one.handle: "a", two.handle: "b"}


def test_what_is_not_held_stays_loaded_for_the_next(handles: Handles[int], driver: Driver) -> None:
    with handles.hold("a", "saxpy", driver.load("a")) as first:
        pass
    assert handles.hold("a", "saxpy", driver.load("a")).handle == first
    assert driver.unloaded == []


def test_an_entry_that_is_held_survives_the_release_of_its_context(
    handles: Handles[int], driver: Driver
) -> None:
    held, other = (handles.hold("a", "saxpy", driver.load("a")) for _ in range(2))
    handles.release_context("a")
    assert driver.unloaded == []
    held.release()
    held.release()  # the second time must not count for the other holder
    assert driver.unloaded == []
    other.release()
    assert driver.unloaded == [("a", held.handle)]


def test_releasing_one_context_leaves_the_others(handles: Handles[int], driver: Driver) -> None:
    for context in "ab":
        handles.hold(context, "saxpy", driver.load(context)).release()
    handles.release_context("a")
    handles.release_context("a")
    assert [context for context, _ in driver.unloaded] == ["a"]
    assert list(driver.loaded.values()) == ["b"]


def test_a_released_kernel_is_loaded_anew(handles: Handles[int], driver: Driver) -> None:
    old = handles.hold("a", "saxpy", driver.load("a"))
    handles.release("saxpy")
    new = handles.hold("a", "saxpy", driver.load("a"))
    assert new.handle != old.handle
    old.release()
    assert driver.loaded == {new.handle: "a"}


def test_release_never_loads_and_never_unloads_what_was_not_loaded(
    handles: Handles[int], driver: Driver
) -> None:
    handles.release_context("a")
    handles.release("saxpy")
    assert (driver.loaded, driver.unloaded) == ({}, [])


def test_a_failed_load_is_not_remembered(handles: Handles[int], driver: Driver) -> None:
    def fail() -> int:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        handles.hold("a", "saxpy", fail)
    assert len(handles) == 0
    assert handles.hold("a", "saxpy", driver.load("a")).handle in driver.loaded


def test_eight_threads_three_contexts_three_hundred_kernels(handles: Handles[int], driver: Driver) -> None:
    """While one thread releases contexts again and again: no handle is another context's, nor was unloaded."""
    wrong = []
    stop = threading.Event()

    def use(seed: int) -> None:
        for number in range(300):
            context = "abc"[(number + seed) % 3]
            with handles.hold(context, f"kernel {number}", driver.load(context)) as handle:
                if driver.loaded.get(handle) != context:
                    wrong.append(handle)

    def release() -> None:
        for context in itertools.cycle("abc"):
            handles.release_context(context)
            if stop.is_set():
                return

    threads = [threading.Thread(target=use, args=(seed,)) for seed in range(8)]
    releasing = threading.Thread(target=release)
    for thread in [*threads, releasing]:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    releasing.join()
    for context in "abc":
        handles.release_context(context)
    assert (wrong, driver.loaded, len(handles)) == ([], {}, 0)
