"""What this machine lacks leaves cells out; what the user asked for by name and is missing is an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version

from gpuforge.errors import MissingError, UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan import machine
from gpuforge.plan.cell import select
from gpuforge.toolchains.cpython import Interpreter
from gpuforge.toolchains.model import Compiler

Recipe = Callable[..., ManifestFile]


@pytest.fixture(autouse=True)
def _a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with g++ 12, Python 3.11 and no CUDA installation."""

    def find(minor: str, *, or_newer: bool = False) -> Interpreter:
        if minor != "3.11":
            raise MissingError.of(f"no CPython {minor} on this machine")
        return Interpreter(Path("/python3.11"), "3.11.9", "cpython-311", headers=True)

    gxx = Compiler("g++", Path("/g++"), Version("12.2"), "g++ 12.2", None)
    monkeypatch.setattr(machine, "detect", lambda *_, **__: gxx)
    monkeypatch.setattr(machine.cpython, "find", find)
    monkeypatch.setattr("gpuforge.toolkits.system.installed", list, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")


def test_what_is_missing_is_left_out_with_the_reason(recipe: Recipe) -> None:
    file = recipe(("[cuda.12]\n", '[cuda.12]\nprovider = "debian"\n'))
    found, chosen = machine.resolve(file, select(file, "x86_64"), asked=())
    assert [cell.id for cell in chosen.cells] == ["cp311-cu13.0-x86_64"]
    assert set(found.toolkits) == {"13"}
    reasons = {item.cell.id: item.reason for item in chosen.left_out}
    assert reasons["cp313-cu13.0-x86_64"] == "no CPython 3.13 on this machine"
    assert "distribution packages" in reasons["cp311-cu12.4-x86_64"]


def test_what_was_asked_for_and_is_missing_is_an_error(recipe: Recipe) -> None:
    file = recipe()
    with pytest.raises(MissingError, match=r"no CPython 3\.13"):
        machine.resolve(file, select(file, "x86_64", cuda=["13"]), asked=["cuda", "python"])
    _, chosen = machine.resolve(file, select(file, "x86_64", cuda=["13"]), asked=["cuda"])
    assert [cell.id for cell in chosen.cells] == ["cp311-cu13.0-x86_64"]


def test_nothing_left_to_build_is_an_error(recipe: Recipe) -> None:
    file = recipe(('python = ["3.11", "3.13"]', 'python = ["3.13"]'))
    with pytest.raises(MissingError, match=r"no CPython 3\.13"):
        machine.resolve(file, select(file, "x86_64", cuda=["13"]), asked=())


def test_impossible_architectures_are_refused_with_their_place(recipe: Recipe) -> None:
    file = recipe(('archs = ["80", "90a"]', 'archs = ["80", "52"]'))
    with pytest.raises(UsageError) as caught:
        machine.resolve(file, select(file, "x86_64"), asked=())
    (problem,) = caught.value.diagnostics
    assert problem.place is not None
    assert file.path.read_text().splitlines()[problem.place.line - 1] == 'archs = ["80", "52"]'
    assert "52" in problem.message
    assert problem.hint


def test_a_host_compiler_that_does_not_fit_is_an_error_only_when_asked(recipe: Recipe) -> None:
    file = recipe(
        (
            '[cuda.12]\ntoolkit = "12.4"\narchs = ["80", "90+ptx"]',
            '[cuda.11]\ntoolkit = "11.8"\narchs = ["80"]',
        )
    )
    _, chosen = machine.resolve(file, select(file, "x86_64"), asked=())
    assert [cell.id for cell in chosen.cells] == ["cp311-cu13.0-x86_64"]
    with pytest.raises(UsageError, match=r"CUDA 11\.8 takes g\+\+ 6 to 11 as host compiler, not 12\.2"):
        machine.resolve(file, select(file, "x86_64", cuda=["11"]), asked=["cuda"])
