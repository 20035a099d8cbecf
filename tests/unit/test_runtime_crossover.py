"""When a kernel is faster than the package's own code: measured once on a machine, and kept."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpuforge.runtime import cache, crossover
from gpuforge.runtime.crossover import Crossover

KERNEL = SimpleNamespace(device="a device, driver 1")
SIZES = (10, 100, 1000)


class Work:
    """Sample problems whose times are given: the clock moves on when they are called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.sampled: list[int] = []
        self.own: Callable[[int], float] = lambda size: size * 1e-6
        self.kernel: Callable[[int], float] = lambda size: 5e-5
        self.result: Callable[[], object] = lambda: 1.0  # of the kernel
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def __call__(self, size: int) -> tuple[Callable[[], object], Callable[[], object]]:
        self.sampled.append(size)
        return (lambda: self.takes(self.own(size), 1.0)), (
            lambda: self.takes(self.kernel(size), self.result())
        )

    def takes(self, seconds: float, result: object) -> object:
        self.now += seconds
        return result


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


@pytest.fixture
def found(tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> Callable[..., float]:
    """Ask as a new process does."""

    def find(
        kernel: object = KERNEL, *arrays: object, version: str = "1", name: str = "work", **options: Any
    ) -> float:
        monkeypatch.setattr(cache, "_caches", {})
        env = {"GPUFORGE_KERNEL_HOME": str(tmp_path)}
        made = Crossover(name, work, version=version, rtol=1e-6, sizes=SIZES, env=env, **options)
        return made.size(kernel, *arrays)

    return find


def test_it_is_measured_once_for_each_device_file_and_version(work, found):
    assert found() == 100
    assert work.sampled == list(SIZES)
    assert found() == 100
    assert work.sampled == list(SIZES)
    work.kernel = lambda size: 0.0
    assert found(SimpleNamespace(device="a device, driver 2")) == 10
    assert found(SimpleNamespace(device=KERNEL.device, module=SimpleNamespace(sha256="another"))) == 10
    assert found(version="2") == 10
    assert found(name="other") == 10
    assert found() == 100


def test_a_kernel_that_is_slower_at_the_largest_size_is_never_taken(work, found):
    work.kernel = lambda size: 0.0 if size == 100 else 1e-2
    assert found() == math.inf
    assert found() == math.inf
    assert work.sampled == list(SIZES)


def test_a_kernel_that_computes_something_else_is_refused_with_the_reason(work, found):
    work.result = lambda: 1.0 + 5e-7
    assert found(version="close") == 100
    work.result = lambda: 1.5
    for _ in range(2):  # the second process reads it from disk
        with pytest.warns(
            RuntimeWarning,
            match=r"with 10 elements, result 0 of the kernel is 1\.5, and that of the package's own",
        ):
            assert found() == math.inf
    work.result = lambda: None
    with pytest.raises(TypeError, match="the calls of a sample return their results"):
        found(version="nothing")


@pytest.mark.parametrize("shared", [True, False])
def test_a_kernel_that_writes_nothing_is_noticed(shared, tmp_path):
    def sample(size: int) -> Any:
        out, other = (
            np.zeros(size),
            np.full(size, 2.0),
        )  # what the kernel should have written is there by chance

        def own() -> Any:
            out[:] = 2.0
            return out

        return own, lambda: out if shared else other

    env = {"GPUFORGE_KERNEL_HOME": str(tmp_path)}
    made = Crossover("nothing", sample, version="1", rtol=1e-6, sizes=[4], env=env)
    with pytest.warns(RuntimeWarning, match="result 0 of the kernel is nan"):
        assert made.size(KERNEL) == math.inf
    assert made.problem(KERNEL).startswith("with 4 elements, result 0 of the kernel is nan")


def test_it_knows_where_the_data_lies(work, found):
    on_device = SimpleNamespace(__cuda_array_interface__={})
    assert found(KERNEL, np.zeros(3)) == 100
    assert found(KERNEL, np.zeros(3), on_device) == 0

    def resident(size: int) -> Any:
        return (lambda: work.takes(size * 1e-5, 1.0)), (lambda: work.takes(5e-5, 1.0))

    assert found(KERNEL, on_device, resident=resident) == 10
    assert found(KERNEL, resident=resident) == 100


def test_sizes_that_take_too_long_are_left_out(work, found):
    work.own = lambda size: size * 1e-3
    assert found() == 10
    assert work.sampled == [10, 100]


def test_another_cpu_or_fewer_processors_measure_again(work, found, monkeypatch):
    """A home folder may belong to many machines."""
    found()
    monkeypatch.setattr("gpuforge.runtime.cpu.fact", lambda _: "another CPU")
    found()
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3, 4, 5, 6})
    found()
    assert work.sampled == list(SIZES) * 3


def test_a_failure_is_raised_and_nothing_is_kept(work, found, tmp_path):
    def fails(size: int) -> float:
        raise RuntimeError(f"no memory for {size}")

    works, work.kernel = work.kernel, fails
    with pytest.raises(RuntimeError, match="no memory for 10"):
        found()
    assert not list(tmp_path.rglob("*.kernel"))
    work.kernel = works
    assert found() == 100


@pytest.mark.parametrize("kept", ["[]", "{}", '{"from": "10"}', '{"from": -1}', '{"from": true}', "\xff"])
def test_an_entry_that_makes_no_sense_is_measured_again(work, found, tmp_path, kept):
    env = {"GPUFORGE_KERNEL_HOME": str(tmp_path)}
    made = Crossover("work", work, version="1", rtol=1e-6, sizes=SIZES, env=env)
    key = made._key(KERNEL.device, "host", "")
    cache.KernelCache.of_user(env).obtain(key, lambda: kept.encode("latin-1"))
    assert found() == 100
    assert found() == 100
    assert work.sampled == list(SIZES)


def test_what_was_measured_can_be_read(work, found, tmp_path):
    found()
    (entry,) = tmp_path.rglob("*.kernel")
    times = json.loads(
        entry.read_bytes().rpartition(b'{"from"')[1] + entry.read_bytes().rpartition(b'{"from"')[2]
    )
    assert [row[0] for row in times["seconds"]] == list(SIZES)
    assert crossover.SIZES[0] >= 1
