"""Modules of one context: counted holders, loads once, unloads once. Several contexts: tests of the driver."""

from __future__ import annotations

import itertools
import threading

import pytest

from gpuforge.runtime.backends.cuda.kernel import Modules


class Driver:
    """Gives a number for each load and notes what was unloaded."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.loaded: set[int] = set()
        self.unloaded: list[int] = []

    def load(self) -> int:
        number = next(self.numbers)
        self.loaded.add(number)
        return number

    def unload(self, number: int) -> None:
        self.loaded.remove(number)
        self.unloaded.append(number)


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def modules(driver: Driver) -> Modules[int]:
    return Modules(driver.unload)


def test_what_is_not_held_stays_loaded_for_the_next(modules, driver):
    first = modules.hold("saxpy", driver.load)
    number = first.module
    first.release()
    assert modules.hold("saxpy", driver.load).module == number
    assert driver.unloaded == []


def test_what_is_held_survives_a_release(modules, driver):
    held, other = (modules.hold("saxpy", driver.load) for _ in range(2))
    modules.release()
    modules.release()
    assert driver.unloaded == []
    held.release()
    held.release()  # the second time must not count for the other holder
    assert driver.unloaded == []
    other.release()
    assert driver.unloaded == [held.module]


def test_a_holder_that_is_gone_holds_nothing(modules, driver):
    held = modules.hold("saxpy", driver.load)
    modules.release()
    del held
    assert driver.loaded == set()


def test_a_released_module_is_loaded_anew(modules, driver):
    old = modules.hold("saxpy", driver.load)
    modules.release()
    new = modules.hold("saxpy", driver.load)
    assert new.module != old.module
    old.release()
    assert driver.loaded == {new.module}


def test_release_never_unloads_what_was_not_loaded(modules, driver):
    modules.release()
    assert (driver.loaded, driver.unloaded) == (set(), [])


def test_a_failed_load_is_not_remembered(modules, driver):
    def fail() -> int:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        modules.hold("saxpy", fail)
    assert len(modules) == 0
    assert modules.hold("saxpy", driver.load).module in driver.loaded


def test_eight_threads_and_three_hundred_modules_while_all_is_released(modules, driver):
    wrong = []
    stop = threading.Event()

    def use() -> None:
        for number in range(300):
            held = modules.hold(f"module {number}", driver.load)
            if held.module not in driver.loaded:
                wrong.append(held.module)
            held.release()

    def release() -> None:
        while not stop.is_set():
            modules.release()

    threads = [threading.Thread(target=use) for _ in range(8)]
    releasing = threading.Thread(target=release)
    for thread in [*threads, releasing]:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    releasing.join()
    modules.release()
    assert (wrong, driver.loaded, len(modules)) == ([], set(), 0)
