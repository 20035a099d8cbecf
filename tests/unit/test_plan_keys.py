"""Keys: what is in them."""

from __future__ import annotations

from pathlib import Path

from gpuforge import digest
from gpuforge.plan.action import Action, FileInput
from gpuforge.plan.keys import keys


def folder(name: str, **files: str) -> FileInput:
    return FileInput(Path(name), digest.of_data(files), parts=tuple(files.items()))


def test_two_inputs_whose_files_have_the_same_names_are_both_in_the_key() -> None:
    def key(project: str, tests: str) -> str:
        inputs = {"project": folder("p", conftest=project), "tests": folder("t", conftest=tests)}
        return keys([Action("a/test", "test", "test", (), inputs=inputs)])["a/test"].digest

    assert len({key("1", "1"), key("2", "1"), key("1", "2"), key("2", "2")}) == 4
