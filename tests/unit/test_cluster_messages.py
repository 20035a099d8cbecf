"""What client and workers of a cluster write for each other, and which worker can do which action."""

import pickle
import platform
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from remote_samples import REASON, OnGpu, action, work

from gpuforge import digest
from gpuforge.cluster import abilities, inputs
from gpuforge.cluster.abilities import predicate, unable
from gpuforge.cluster.board import Board, Job, JobEnd, Run, new_name
from gpuforge.cluster.folder import FolderObjects
from gpuforge.cluster.inputs import Sender, programs_here, received
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import ActionError
from gpuforge.execute.outcome import ActionResult
from gpuforge.execute.runners.runner import Limits
from gpuforge.execute.store import FolderStore
from gpuforge.plan.action import FileInput
from gpuforge.toolchains import cpython


def test_a_job_can_be_sent_to_another_process_and_its_end_back(tmp_path):
    run = Run("r", "p", "c", Limits())
    of = action(inputs={"src": FileInput(tmp_path, "d", ("a",), (("a", "1"),))}, env={"A": "b"})
    job = Job(run, new_name(of.id), work(of), {"src": "key"})
    error = Diagnostic("it failed", Place("f", 1, 2), "do that")
    result = ActionResult("a", "failed", REASON, 1.5, None, error, ("x", "y"), 3, {"n": 1}, Path("/kept"))
    for each in (job, JobEnd("failed", result)):
        assert pickle.loads(pickle.dumps(each)) == each  # noqa: S301  its own
    with pytest.raises(TypeError):
        pickle.loads(pickle.dumps(of)).env["A"] = "c"  # noqa: S301


def test_a_jobs_name_begins_with_its_actions_as_dask_shows_it():
    assert new_name("cp311-cu13.0-x86_64/host-build").startswith("cp311-cu13.0-x86_64/host-build-")
    assert new_name("a") != new_name("a")


def test_a_job_is_taken_once_its_log_is_read_in_order_and_nothing_is_left(tmp_path):
    objects = FolderObjects(tmp_path)
    board = Board(objects, "run", "a/job")
    assert board.take("w1")
    assert not board.take("w2")
    assert board.taken_by() == "w1"
    board.log(0, b"a")
    board.log(1, b"b")
    assert [*board.logged(0)] == [b"a", b"b"]
    assert [*board.logged(1)] == [b"b"]
    board.clear(but="taken")
    assert (board.taken_by(), [*board.logged(0)]) == ("w1", [])
    board.clear()
    assert objects.names("runs") == []


def test_an_engine_names_an_ability_as_earlier_versions_did():
    for each in (
        abilities.identity(),
        abilities.machine(),
        abilities.MEMORY,
        abilities.Ability("", "cpus 2"),
    ):
        assert abilities.Ability.of_label(each.label) == each
    assert abilities.machine().label == f"machine {platform.machine()}"
    assert abilities.identity().label.startswith("gpuforge ")


def test_what_an_action_needs_and_what_a_worker_lacks():
    plain, contained = action(), action(image="sha256:1", step=OnGpu())
    machine = {abilities.identity(): 1.0, abilities.machine(): 1.0, abilities.MEMORY: 16e9}
    assert [*abilities.lacking(abilities.needed(plain, int(32e9)), machine)] == []
    assert [*map(predicate, abilities.lacking(abilities.needed(contained, int(32e9)), machine))] == [
        "has no container engine",
        "has 16 GB of memory, not 32",
        "has no GPU",
    ]
    assert [
        *abilities.lacking(
            abilities.needed(contained, None), machine | {abilities.CONTAINERS: 1, abilities.GPUS: 8}
        )
    ] == []
    others = {abilities.Ability("gpuforge", "0.0.9 (code 0) on Python 3.12"): 1.0, abilities.machine(): 1.0}
    needs = abilities.needed(plain, None)
    assert [*map(predicate, abilities.lacking(needs, others))] == [
        "has gpuforge 0.0.9 (code 0) on Python 3.12"
    ]
    assert predicate(next(abilities.lacking(needs, {}))) == "was started without gpuforge's preload"
    other = {abilities.identity(): 1.0, abilities.Ability("machine", "riscv64"): 1.0}
    assert [*map(predicate, abilities.lacking(needs, other))] == [
        f"runs on riscv64, not on {platform.machine()}"
    ]
    assert unable(needs, {}) == "a worker; none is there yet"
    assert unable(needs, {"w1": others, "w2": machine}) == ""
    assert unable(needs, {f"w{n}": others for n in range(5)}).endswith("; and 2 more")


def test_files_go_into_the_store_once_and_keep_their_names(tmp_path):
    folder = tmp_path / "src"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.sh").write_text("a")
    (folder / "a.sh").chmod(0o755)
    (folder / "sub/b").write_text("b")
    (folder / "other").write_text("not a member")
    members = ("a.sh", "sub/b")
    parts = tuple(digest.of_each(folder, [folder / name for name in members]).items())
    many, one = FileInput(folder, "d1", members, parts), FileInput(folder / "a.sh", "d2")
    store = FolderStore(tmp_path / "store")
    sender = Sender(store)
    keys = [sender.send(value, "act") for value in (many, one, many)]
    assert keys[0] == keys[2] != keys[1]
    tree = received(many, keys[0], store, "act")
    assert tree.members == members
    assert sorted(each.name for each in tree.path.rglob("*")) == ["a.sh", "b", "sub"]
    assert (tree.path / "a.sh").stat().st_mode & 0o100
    single = received(one, keys[1], store, "act")
    assert (single.path.name, single.members, single.path.read_text()) == ("a.sh", None, "a")
    with pytest.raises(ActionError, match="is no longer in the store"):
        received(one, "0" * 64, store, "act")
    (folder / "a.sh").write_text("changed")
    with pytest.raises(ActionError, match=r"a\.sh changed while act ran"):
        Sender(store).send(many, "act")


@pytest.mark.thorough
def test_programs_are_the_same_or_the_worker_is_unfit(tmp_path):
    python = cpython.ask(Path(sys.executable))
    assert python
    here = FileInput(python.path, python.identity, program="interpreter")
    itself = FileInput(Path("/elsewhere/python"), "gpuforge …", program="gpuforge")
    found = programs_here(action(inputs={"python": here, "gpuforge": itself}))
    assert {name: source.path for name, source in found.items()} == {
        "python": python.path,
        "gpuforge": Path(sys.executable),
    }
    other = replace(here, digest="CPython 3.2.1 x")
    absent = FileInput(tmp_path / "g++", "g++ (x)", program="compiler")
    with pytest.raises(inputs.UnfitError) as error:
        programs_here(action(inputs={"a": other, "b": absent}))
    first = error.value.diagnostics[0]
    assert first.message == f"has another {python.path} than the client and has no {absent.path}"
    assert first.hint == inputs.HINT
