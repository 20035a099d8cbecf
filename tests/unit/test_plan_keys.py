"""Keys: what is in them."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
from memory_store import MemoryStore

from gpuforge import digest
from gpuforge.execute.outcome import ActionReason
from gpuforge.execute.work import Work, _content_key
from gpuforge.plan.action import Action, ActionInput, FileInput, ImageInput
from gpuforge.plan.keys import Fact, keys, labelled


def folder(name: str, **files: str) -> FileInput:
    return FileInput(Path(name), digest.of_data(files), parts=tuple(files.items()))


def test_two_inputs_whose_files_have_the_same_names_are_both_in_the_key() -> None:
    def key(project: str, tests: str) -> str:
        inputs = {"project": folder("p", conftest=project), "tests": folder("t", conftest=tests)}
        return keys([Action("a/test", "test", "test", (), inputs=inputs)])["a/test"].digest

    assert len({key("1", "1"), key("2", "1"), key("1", "2"), key("2", "2")}) == 4


FETCH = Action("fetch", "fetch", "fetch", ("fetch",), outputs=("tree",), network=True)
BUILD = Action(
    "a/build",
    "build",
    "build",
    ("cc", "${in:src}"),
    request="{}",
    inputs={
        "src": FileInput(Path("/x"), "d" * 64, ("a.cu", "b.h"), (("a.cu", "1" * 64), ("b.h", "2" * 64))),
        "tool": ImageInput(PurePosixPath("/usr/bin/cc"), "cc 1"),
        "tree": ActionInput("fetch", "tree"),
        "one": FileInput(Path("/y"), "e" * 64),
    },
    outputs=("wheel",),
    env={"CFLAGS": "-O3"},
    facts={"compiler": "g++ 12.2"},
    image="sha256:1",
    gpu=True,
    by_content=True,
)
FETCHED = "455cd6d40ce2847d19be83bbeb639f54a852b0f7b5fae75f443fae1d78037cdd"
# As version 0.1 wrote it into ledgers, in this order.
LEDGER = {
    "compiler": "g++ 12.2",
    "file a.cu": "1" * 64,
    "file b.h": "2" * 64,
    "input tool": "cc 1",
    "input tree": f"{FETCHED}:tree",
    "input one": "e" * 64,
    "env CFLAGS": "-O3",
    "command": "b00986217014444793f5085782ebfef6f153b160a2d8f0034bf5482f9cd2a960",
    "image": "sha256:1",
    "gpu": "the machine's",
}


def test_what_earlier_versions_stored_is_still_found() -> None:
    """These keys were computed before facts had a type: a store of then is used, and its ledger is understood."""
    found = keys([FETCH, BUILD])
    assert found["fetch"].digest == FETCHED
    key = found["a/build"]
    assert key.digest == "c51e630b178dc9689e0dbc599bd201d986f364f3963d458dc91dc7a1bbca225f"
    assert [*labelled(key.facts).items()] == [*LEDGER.items()]
    assert {Fact.of_label(label): value for label, value in LEDGER.items()} == key.facts


def test_an_output_stored_by_content_is_still_found(tmp_path: Path) -> None:
    class Content(MemoryStore):
        def get(self, key: str, *, links_out: bool = False) -> Any:
            return SimpleNamespace(entry=SimpleNamespace(outputs=("tree",)), content=lambda output: "c" * 64)

    key = keys([FETCH, BUILD])["a/build"]
    work = Work(BUILD, key.digest, key.facts, {"fetch": FETCHED}, ActionReason("first"))
    assert _content_key(work, Content(tmp_path)) == (
        "d7dc38a1dae75b34c0429cf2ca171314b81bfbc487eae48d5b26b4d84b6d32d0"
    )


@pytest.mark.parametrize(
    "fact", [Fact("file", "a b.cu"), Fact("input", "x"), Fact("env", "CFLAGS"), Fact("", "pip"), Fact("", "")]
)
def test_a_fact_is_read_as_it_was_written(fact: Fact) -> None:
    assert Fact.of_label(fact.label) == fact
