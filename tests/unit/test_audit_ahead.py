"""What was begun while the program is loaded changes nothing but when it is read."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event, Thread

import pytest
from audit_samples import elf, fatbin, wheel

from gpuforge.audit import ahead, audit
from gpuforge.audit import wheel as reader
from gpuforge.audit.inputs import Input
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.scan import Scanned
from gpuforge.audit.wheel import read_all
from gpuforge.errors import MalformedError
from gpuforge.wheel.archive import Archive, Member

FILES = {
    f"demo/lib{n}.so": elf(soname=f"lib{n}.so", sections={".nv_fatbin": fatbin("sm_80")}) for n in range(9)
}


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ahead, "LARGE", 0)
    monkeypatch.setattr(ahead, "SWITCH", 0.005)  # Python's own
    yield
    for begun in ahead._begun:
        begun.__exit__(None, None, None)
    ahead._begun.clear()


def outcomes(paths: list[Path], jobs: int) -> list[WheelFacts | MalformedError | OSError]:
    return list(read_all([Input.of(path) for path in paths], jobs))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("count", [1, 2])
def test_it_is_read_as_without(jobs: int, count: int, tmp_path: Path) -> None:
    names = ("demo", "other")[:count]
    paths = [wheel(tmp_path, FILES, name=f"{name}-1.0-cp311-cp311-linux_x86_64.whl") for name in names]
    without = outcomes(paths, jobs)
    ahead.begin(["--jobs", str(jobs), *map(str, paths)])
    assert any(map(ahead.is_begun, paths))
    assert outcomes(paths, jobs) == without
    assert ahead._begun == []


@pytest.mark.parametrize("allowed", [0, 1, 2])
@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("count", [1, 2])
def test_it_is_read_with_what_threads_can_be_started(
    count: int, jobs: int, allowed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("demo", "other")[:count]
    paths = [wheel(tmp_path, FILES, name=f"{name}-1.0-cp311-cp311-linux_x86_64.whl") for name in names]
    paths.append(tmp_path / "absent.whl")
    without = outcomes(paths, jobs)
    left, start = [None] * allowed, Thread.start

    def limited(thread: Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(Thread, "start", limited)
    assert [repr(o) for o in outcomes(paths, jobs)] == [repr(o) for o in without]
    left[:] = [None] * allowed
    ahead.begin(list(map(str, paths)))
    assert [repr(o) for o in outcomes(paths, jobs)] == [repr(o) for o in without]


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("count", [1, 2])
def test_who_interrupts_does_not_wait_for_the_threads(
    count: int, jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("demo", "other")[:count]
    paths = [wheel(tmp_path, FILES, name=f"{name}-1.0-cp311-cp311-linux_x86_64.whl") for name in names]
    reading, go_on = Event(), Event()
    ended = []
    others = set(threading.enumerate())

    def scan(archive: Archive, member: Member, wheel: str) -> Scanned:
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

    monkeypatch.setattr(ahead, "scan", scan)
    monkeypatch.setattr(reader, "scan", scan)
    monkeypatch.setattr(Future, "result", interrupted(Future.result))
    monkeypatch.setattr(ahead.Begun, "scanned", interrupted(ahead.Begun.scanned))
    ahead.begin(list(map(str, paths)))
    with pytest.raises(KeyboardInterrupt):
        audit(paths, jobs=jobs)
    assert not ended
    go_on.set()
    for thread in set(threading.enumerate()) - others:
        thread.join(60)


def test_the_largest_is_begun_and_taken_once_under_its_own_name(tmp_path: Path) -> None:
    small = wheel(tmp_path, {}, name="small-1.0-py3-none-any.whl")
    large = wheel(tmp_path, FILES)
    ahead.begin([str(small), str(large), "absent.whl"])
    assert not ahead.is_begun(small)
    assert ahead.taken(large, "dist/demo.whl") is None
    begun = ahead.taken(large, large.name)
    assert begun is not None
    with begun:
        assert len(begun.scanned()) == len(FILES)
    assert ahead.taken(large, large.name) is None


@pytest.mark.parametrize("argument", ["--help", "absent.whl", "folder", "text.txt"])
def test_nothing_is_begun_of_what_is_no_large_wheel(argument: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("no wheel")
    (tmp_path / "folder").mkdir()
    ahead.begin([argument if argument.startswith("-") else str(tmp_path / argument)])
    assert ahead._begun == []


def test_small_wheels_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "LARGE", 8 << 20)
    ahead.begin([str(wheel(tmp_path, FILES))])
    assert ahead._begun == []


@pytest.mark.parametrize("damage", ["cut off", "no zip", "a broken member", "no wheel"])
def test_what_is_broken_is_said_as_without(damage: str, tmp_path: Path) -> None:
    path = wheel(tmp_path, FILES)
    data = path.read_bytes()
    match damage:
        case "cut off":
            path.write_bytes(data[: len(data) // 2])
        case "no zip":
            path.write_bytes(b"text")
        case "a broken member":
            start = data.index(b"demo/lib0.so")
            path.write_bytes(data[: start - 30] + b"XX" + data[start - 28 :])
        case _:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("demo/lib.so", FILES["demo/lib0.so"])
    without = audit([path])
    ahead.begin([str(path)])
    found = audit([path])
    assert found.problems == without.problems
    assert found.findings == without.findings
    assert found.problems or found.findings


@pytest.mark.parametrize("jobs", [1, 3])
def test_what_nobody_expected_is_raised_where_it_is_read(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError("no number")

    path = wheel(tmp_path, FILES)
    monkeypatch.setattr(ahead, "scan", fail)
    ahead.begin([str(path)])
    with pytest.raises(ArithmeticError, match="no number"):
        outcomes([path], jobs)
