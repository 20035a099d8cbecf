"""However many inputs have no end, a call takes no more than twice the time that it may, and the others are judged."""

import ast
import hashlib
import math
import resource
import time
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from gpuforge.cli import bounded
from gpuforge.cli.bounded import Watched
from gpuforge.errors import TooLargeError

FEW = 1.0  # seconds
EACH = 0.05  # seconds for each input


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "CPU_SECONDS", FEW)
    monkeypatch.setattr(bounded, "CPU_SECONDS_PER_INPUT", EACH)
    monkeypatch.setattr(bounded, "LEAST_CPU_SECONDS", 0.1)


def endless() -> None:
    while True:
        pass


def deaf() -> None:
    """Without an end, and without a look at signals: what an extension module may do."""
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)


def reads(
    count: int, bad: Collection[int], folder: Path, loop: Callable[[], None] = endless
) -> Callable[[Watched], int]:
    """An audit of so many inputs; what it read whole, and what not, is written as two lines."""

    def work(watched: Watched) -> int:
        read, left_out = [], []
        watched.expects([0] * count)
        for number in range(count):
            if watched.refuses(number):
                left_out.append(number)
                continue
            try:
                watched.begins(number, 0)
                if number in bad:
                    loop()
                read.append(number)
            except TooLargeError:
                left_out.append(number)
            watched.ends(number)
        (folder / "report").write_text(f"{read}\n{left_out}\n")
        return 1

    return work


def twice(inputs: int) -> float:
    """The seconds that a call of so many inputs may take: twice its own, in the whole seconds that the kernel counts.

    The last process may have less than one left, and gets one.
    """
    return 2 * math.ceil(FEW + inputs * EACH) + 1


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.thorough
@pytest.mark.parametrize("bad", [{0}, {5}, {0, 3, 4}, set(range(9))], ids=str)
def test_several_endless_inputs_hide_no_other(bad, tmp_path):
    begin = spent()
    assert bounded.run(reads(10, set(), tmp_path)) == 1
    before = spent()
    one = before - begin  # a process without endless inputs: its fork takes time for all memory in use here
    assert bounded.run(reads(10, bad, tmp_path)) == 1
    assert (tmp_path / "report").read_text() == f"{sorted({*range(10)} - bad)}\n{sorted(bad)}\n"
    assert spent() - before < twice(10) + one * (len(bad) + 1)


@pytest.mark.thorough  # as several that are endless
def test_many_that_take_a_little_too_much_hide_no_other(tmp_path):
    """None takes more than the call may take; together they do."""

    def a_little() -> None:
        end = time.process_time() + 0.15
        while time.process_time() < end:
            pass

    before = spent()
    assert bounded.run(reads(31, range(30), tmp_path, a_little)) == 1
    assert 30 in ast.literal_eval((tmp_path / "report").read_text().splitlines()[0])
    assert spent() - before < twice(31)


@pytest.mark.thorough
def test_one_that_no_signal_reaches_is_left_out(tmp_path):
    assert bounded.run(reads(3, {1}, tmp_path, deaf)) == 1
    assert (tmp_path / "report").read_text() == "[0, 2]\n[1]\n"


@pytest.mark.thorough
def test_many_that_no_signal_reaches_end_the_call(tmp_path, capfd):
    begin = spent()
    assert bounded.run(reads(30, set(), tmp_path)) == 1
    before = spent()
    one = before - begin  # as above: what each fork takes
    assert bounded.run(reads(30, range(30), tmp_path, deaf)) == 2
    assert capfd.readouterr().err == (
        "error: too large to judge: it takes more time or memory than files of its size may take\n"
        "  hint: audit fewer inputs at once\n"
    )
    assert spent() - before < twice(30) + one * 31


@pytest.mark.thorough
def test_an_endless_rule_is_found_by_its_input(tmp_path):
    """Nothing is being read then: each input is tried alone."""

    def work(watched: Watched) -> int:
        status = reads(3, (), tmp_path)(watched)
        if not watched.refuses(1):
            endless()
        return status

    assert bounded.run(work) == 1
    assert (tmp_path / "report").read_text() == "[0, 2]\n[1]\n"


def test_sound_inputs_are_read_once(tmp_path):
    before = spent()
    assert bounded.run(reads(10, (), tmp_path)) == 1
    assert (tmp_path / "report").read_text() == f"{[*range(10)]}\n[]\n"
    assert spent() - before < FEW
