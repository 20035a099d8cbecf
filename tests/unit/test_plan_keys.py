"""Keys: what is in them."""

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


def test_two_inputs_whose_files_have_the_same_names_are_both_in_the_key():
    def key(project: str, tests: str) -> str:
        inputs = {"project": folder("p", conftest=project), "tests": folder("t", conftest=tests)}
        return keys([Action("a/test", "test", "test", (), inputs=inputs)])["a/test"].digest

    assert len({key("1", "1"), key("2", "1"), key("1", "2"), key("2", "2")}) == 4


FETCH = Action("fetch", "fetch", "fetch", ("fetch",), outputs=("tree",))
BUILD = Action(
    "a/build",
    "build",
    "build",
    ("cc", "${in:src}"),
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
)
FETCHED = "3cfe0fbcf8dc682b4da04f77b4516c271544faca12adec469e31e4135c1621cd"
# As it is written into ledgers, in this order.
LEDGER = {
    "compiler": "g++ 12.2",
    "file a.cu": "1" * 64,
    "file b.h": "2" * 64,
    "input tool": "cc 1",
    "input tree": f"{FETCHED}:tree",
    "input one": "e" * 64,
    "env CFLAGS": "-O3",
    "command": "048ee303c75c53139b94d6a9da2dd8d85b2d37db05d20d554c5940f3758c6c5b",
    "image": "sha256:1",
}


def test_a_key_is_the_same_on_every_machine_and_with_every_python():
    """Machines that share a store find what others stored."""
    found = keys([FETCH, BUILD])
    assert found["fetch"].digest == FETCHED
    key = found["a/build"]
    assert key.digest == "7959fa3ecf40116124c550c6c47326b180ee0c1548738f83b40d7927b0ecf22a"
    assert [*labelled(key.facts).items()] == [*LEDGER.items()]
    assert {Fact.of_label(label): value for label, value in LEDGER.items()} == key.facts


def test_a_key_by_content_is_the_same_on_every_machine(tmp_path):
    class Content(MemoryStore):
        def get(self, key: str, *, links_out: bool = False) -> Any:
            return SimpleNamespace(entry=SimpleNamespace(outputs=("tree",)), content=lambda output: "c" * 64)

    key = keys([FETCH, BUILD])["a/build"]
    work = Work(BUILD, key.digest, key.facts, {"fetch": FETCHED}, ActionReason("first"))
    assert _content_key(work, Content(tmp_path)) == (
        "06500c91b6b89bbfa51e7880070f8ad6309a9179ce19953c372a20f9b2be0ca7"
    )


@pytest.mark.parametrize(
    "fact", [Fact("file", "a b.cu"), Fact("input", "x"), Fact("env", "CFLAGS"), Fact("", "pip"), Fact("", "")]
)
def test_a_fact_is_read_as_it_was_written(fact):
    assert Fact.of_label(fact.label) == fact
