"""Several threads read what one reads, and end when the caller does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Event, Thread

import pytest
from audit_samples import elf, fatbin, wheel

from gpuforge.audit import audit
from gpuforge.audit.elf_patterns import patterns
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.read import wheel as reader
from gpuforge.audit.read.input import Input
from gpuforge.audit.read.scan import Scanned
from gpuforge.audit.read.wheel import reading
from gpuforge.binary.elf.symbols import Patterns
from gpuforge.errors import MalformedError
from gpuforge.wheel.archive import Archive, Member

FILES = {
    f"demo/lib{n}.so": elf(soname=f"lib{n}.so", sections={".nv_fatbin": fatbin("sm_80")}) for n in range(9)
}


def outcomes_of(paths: list[Path], jobs: int) -> list[WheelFacts | MalformedError | OSError]:
    with reading([Input.of(path) for path in paths], patterns(), jobs) as outcomes:
        return outcomes()


@pytest.mark.parametrize("allowed", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2])
def test_wheels_are_read_with_the_threads_that_can_be_started(
    count: int, allowed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("demo", "other")[:count]
    paths = [wheel(tmp_path, FILES, name=f"{name}-1.0-cp311-cp311-linux_x86_64.whl") for name in names]
    without = outcomes_of(paths, 1)
    left, start = [None] * allowed, Thread.start

    def limited(thread: Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(Thread, "start", limited)
    assert outcomes_of(paths, 4) == without


@pytest.mark.parametrize("count", [1, 2])
def test_an_interrupt_does_not_wait_for_the_threads(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("demo", "other")[:count]
    paths = [wheel(tmp_path, FILES, name=f"{name}-1.0-cp311-cp311-linux_x86_64.whl") for name in names]
    reading, go_on = Event(), Event()
    ended = []
    others = set(threading.enumerate())

    def scan(archive: Archive, member: Member, wheel: str, sought: Patterns) -> Scanned:
        reading.set()
        ended.append(go_on.wait(5))
        return Scanned(member.name)

    def interrupted(function: Callable[..., object]) -> Callable[..., object]:
        def called(*arguments: object) -> object:
            if threading.current_thread() is not threading.main_thread():
                return function(*arguments)
            assert reading.wait(60)
            raise KeyboardInterrupt

        return called

    monkeypatch.setattr(reader, "scan", scan)
    monkeypatch.setattr(Future, "result", interrupted(Future.result))
    with pytest.raises(KeyboardInterrupt):
        audit(paths, jobs=4)
    assert not ended
    go_on.set()
    for thread in set(threading.enumerate()) - others:
        thread.join(60)


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_unexpected_error_is_that_of_the_wheel_that_brings_it_out(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ArithmeticError("no number")

    monkeypatch.setattr(reader, "scan", fail)
    (error,) = outcomes_of([wheel(tmp_path, FILES)], jobs)
    assert (
        str(error)
        == "gpuforge itself failed at it: ArithmeticError: no number\n  hint: this is a bug; report it with the file"
    )
