"""A package's own optional libraries: present with their version, or absent with a reason, in `explain`, too."""

import ctypes
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuforge.runtime import KernelUnavailable, explain_command, optional
from gpuforge.runtime.optional import OptionalLibrary, nccl_version

SOURCE = """
int thingVersion(int *version) { *version = %d; return %d; }
int thingTwice(int value, int *out) { *out = 2 * value; return 0; }
"""


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "DECLARED", {})


def library(folder: Path, version: int = 21804, failed: int = 0) -> str:
    source, made = folder / "thing.c", folder / f"libthing-{version}-{failed}.so"
    source.write_text(SOURCE % (version, failed))
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", made], check=True)
    return str(made)


def declared(file: str, functions: dict[str, str] | None = None) -> OptionalLibrary:
    return OptionalLibrary(
        "thing",
        [file],
        functions or {"thingTwice": "iI"},
        optional={"thingNew": ""},
        version="thingVersion",
        decode=nccl_version,
        needed=(2, 18),
        install="pip install thing",
    )


def test_its_functions_are_called(tmp_path):
    file = library(tmp_path)
    found, out = declared(file), ctypes.c_int()
    assert found.problem() is None
    assert found.load().thingTwice(21, ctypes.byref(out)) == 0
    assert out.value == 42
    assert found.load().thingNew is None
    assert found.state() == f"2.18.4 ({file})"


def test_a_letter_that_is_no_type_is_refused_where_it_is_written():
    with pytest.raises(
        ValueError, match=r"^thing: thingTwice has the types 'id', of which the letters are p i u z q s P"
    ):
        declared("libnothing-at-all.so.1", {"thingTwice": "id"})


def test_its_absence_is_a_reason(tmp_path):
    found = declared("libnothing-at-all.so.1")
    with pytest.raises(
        KernelUnavailable, match=r"no thing \(libnothing-at-all\.so\.1: .*\); pip install thing$"
    ):
        found.load()
    file = library(tmp_path)
    assert str(declared(file, {"thingThrice": ""}).state()) == (
        f"{file} cannot be used as the thing: it lacks thingThrice; pip install thing"
    )
    failing = library(tmp_path, failed=3)
    assert (
        str(declared(failing).state())
        == f"{failing} cannot be used as the thing: thingVersion failed (3); pip install thing"
    )


def test_the_version_is_checked_before_the_functions(tmp_path):
    file = library(tmp_path, version=2804)
    found = declared(file, {"thingOfLater": ""})
    assert (
        str(found.state())
        == f"{file} is for thing 2.8.4; this runtime needs 2.18 or newer; pip install thing"
    )


def test_explain_has_a_line_for_it(tmp_path, capsys, monkeypatch):
    file = library(tmp_path)
    declared(file)
    monkeypatch.setattr(explain_command, "contents", lambda: SimpleNamespace(sets=[], libraries=[]))
    assert explain_command.run(SimpleNamespace(set=[], json=False)) == 0  # type: ignore[arg-type]
    assert f"thing: 2.18.4 ({file})" in capsys.readouterr().out
