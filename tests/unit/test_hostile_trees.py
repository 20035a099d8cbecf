"""Folders that somebody else fills: sources and outputs with links, pipes, depths and sizes that are meant to harm."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hostile_names import make_maze

from gpuforge import digest, tree
from gpuforge.actions.cell_actions import Plan, lower
from gpuforge.cli.build_report import cache_use
from gpuforge.errors import ActionError, UsageError
from gpuforge.execute import entry
from gpuforge.execute.entry import survey
from gpuforge.execute.outcome import ActionReason, ActionResult
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.action import MOST_OF_RESULT, FileInput, StepResult
from gpuforge.plan.cell import Choice, select
from gpuforge.plan.site import Machine


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def plan_of(file: ManifestFile, machine: Machine) -> Plan:
    return lower(file, select(file, "x86_64", Choice(cuda=["13"], python=["3.11"])).cells, machine)


def deep(folder: Path) -> None:
    """Make folders in folders: too many for recursion, and their whole path is longer than system calls take."""
    folder.mkdir(exist_ok=True)
    code = "import os, sys; os.chdir(sys.argv[1])\n"
    code += "for _ in range(1100): os.mkdir('deeper'); os.chdir('deeper')"
    subprocess.run([sys.executable, "-c", code, folder], check=True)


OVERLAY = '\n[build]\noverlay = ["over"]\n'
LINKS = [
    "ln -s /etc/passwd {0}/a",
    "ln -s /etc {0}/a",
    "ln -s ../../outside {0}/a",
    "ln -s ../.. {0}/a",
    "mkdir {0}/sub; ln -s .. {0}/sub/up; ln -s sub/up/../../outside {0}/a",
    "ln -s b {0}/a; ln -s c {0}/b; ln -s ../../outside {0}/c",
]


@pytest.mark.parametrize("make", [*LINKS, "rmdir {0}; ln -s /etc {0}", "rmdir {0}; ln -s ../../private {0}"])
@pytest.mark.parametrize("add", [OVERLAY, '\n[test]\ncommand = ["pytest"]\nsources = ["over"]\n'])
def test_no_link_of_an_overlay_or_of_a_tests_sources_leads_out(recipe, machine, add, make):
    """Files of the host were printed in a container's test, and shipped in wheels."""
    file = recipe(add=add, header="over/one.txt")
    (file.folder / "over/one.txt").unlink()
    file.folder.with_name("outside").write_text("secret")
    file.folder.with_name("private").mkdir()
    (file.folder.parent / "private/key").write_text("secret")
    subprocess.run(["sh", "-c", make.format(file.folder / "over")], check=True)
    with pytest.raises(UsageError, match="leads out of"):
        plan_of(file, machine)


@pytest.mark.parametrize("add", [OVERLAY, '\n[test]\ncommand = ["pytest"]\nsources = ["over"]\n', ""])
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_special_files_are_refused_at_once(recipe, machine, add, kind, monkeypatch):
    file = recipe(add=add, header="over/one.txt")
    monkeypatch.chdir(file.folder / "over")
    if kind == "pipe":
        os.mkfifo("special")
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind("special")
    else:
        try:
            os.mknod("special", 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero, which never ends
        except PermissionError:
            pytest.skip("only root makes devices")
    with pytest.raises(UsageError, match=f"special is a {kind}, and sources are files and folders"):
        plan_of(file, machine)


def test_no_overlay_leads_out_by_a_path_that_is_too_long(recipe, machine):
    """os.path.realpath takes this link for one within the folder; what `build` holds is in no source tree."""
    file = recipe(add='\n[build]\noverlay = ["build/escape"]\n', header="build/escape/one.txt")
    (file.folder / "build/escape/one.txt").unlink()
    (file.folder / "build/escape").rmdir()
    file.folder.with_name("private").mkdir()
    file.folder.with_name("private").joinpath("key").write_text("secret")
    make_maze(file.folder / "build", "../../private")
    assert (file.folder / "build/escape/key").read_text() == "secret"
    assert Path(os.path.realpath(file.folder / "build/escape")).is_relative_to(file.folder)
    with pytest.raises(UsageError, match="leads out of"):
        plan_of(file, machine)


@pytest.mark.parametrize(
    ("links", "leads_out"),
    [
        (["a->b/c", "b->.", "c->x"], False),
        (["a->b/../..", "b->."], True),
        (["a->gone/.."], False),
        (["a->gone/../.."], True),
        (["a->b", "b->a"], False),
        (["a->b/c", "b->/"], True),
        (["a->../{0}/b"], True),  # it comes back, but only as long as the folder has this name
    ],
)
def test_links_are_followed_as_the_kernel_follows_them(tmp_path, links, leads_out):
    for name, _, target in (each.partition("->") for each in links):
        (tmp_path / name).symlink_to(target.format(tmp_path.name))
    assert tree.leaves(tmp_path, "a") is leads_out


def test_a_loop_of_links_in_an_overlay_is_copied_as_it_is(tmp_path):
    (tmp_path / "over/sub").mkdir(parents=True)
    (tmp_path / "over/sub/loop").symlink_to("..")
    (tmp_path / "over/self").symlink_to("self")
    for _ in range(2):
        tree.copy(tmp_path / "over", tmp_path / "copy")
    assert sorted(each.path for each in tree.walk(tmp_path / "copy")) == ["self", "sub", "sub/loop"]


def test_the_root_itself_may_be_a_link_as_the_inputs_of_an_action_are(tmp_path):
    (tmp_path / "stored/sub").mkdir(parents=True)
    (tmp_path / "stored/sub/file").write_text("x")
    (tmp_path / "input").symlink_to("stored")
    assert [each.path for each in tree.walk(tmp_path / "input")] == ["sub", "sub/file"]
    assert tree.read(tmp_path / "input", "sub/file", 9) == b"x"


def test_names_may_be_any_bytes(recipe, machine):
    file = recipe()
    for name in (b"new\nline.h", b"esc\x1b[31m.h", b"latin-\xe9.h", b"\xed\xb3\xbf.h"):
        Path(os.fsdecode(os.fsencode(file.folder / "src") + b"/" + name)).write_text("x")
    inputs = [each for action in plan_of(file, machine).actions for each in action.inputs.values()]
    names = {name for each in inputs if isinstance(each, FileInput) for name in each.members or ()}
    assert {"src/new\nline.h", "src/latin-\udce9.h"} <= names


def test_a_source_that_becomes_a_link_after_the_check_is_not_followed(tmp_path):
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "project/src/passwd").write_text("own")
    (tmp_path / "project/src").rename(tmp_path / "project/was")
    (tmp_path / "project/src").symlink_to("/etc")
    with pytest.raises(OSError, match="it is a link, or lies behind one"):
        tree.copy(tmp_path / "project", tmp_path / "copy", ["src/passwd"])
    with pytest.raises(OSError, match="it leads out of its folder"):
        digest.of_each(tmp_path / "project", [tmp_path / "project/src/passwd"])
    (tmp_path / "project/src").unlink()
    (tmp_path / "project/src").mkdir()
    os.mkfifo(tmp_path / "project/src/passwd")
    with pytest.raises(OSError, match="it is a pipe, not a file"):
        digest.of_each(tmp_path / "project", [tmp_path / "project/src/passwd"])
    with pytest.raises(OSError, match="it is a pipe, not a file"):
        tree.copy(tmp_path / "project", tmp_path / "copy", ["src/passwd"])


@pytest.mark.thorough
def test_a_link_that_is_swapped_all_the_time_never_shows_what_lies_outside(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_text("secret")
    (tmp_path / "own/sub").mkdir(parents=True)
    (tmp_path / "own/sub/file").write_text("own")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            for one, other in (
                ("own/sub", "real"),
                ("link", "own/sub"),
                ("own/sub", "link"),
                ("real", "own/sub"),
            ):
                (tmp_path / one).rename(tmp_path / other)

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    for number in range(400):
        with suppress(OSError):
            tree.copy(tmp_path / "own", tmp_path / f"copy{number}")
            seen |= {
                path.read_text()
                for path in (tmp_path / f"copy{number}").glob("sub/file")
                if not path.parent.is_symlink()
            }
        with suppress(OSError), tree.reading(tmp_path / "own", "sub/file", follow=True) as handle:
            seen.add(os.read(handle, 99).decode())
    ended.set()
    thread.join()
    assert seen == {"own"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        *((make, "is a link that leads out of them") for make in LINKS),
        ("mkfifo {0}/x", "x of the outputs is a pipe"),
        ("rmdir {0}; mkfifo {0}", "is a pipe"),
        ("rmdir {0}; ln -s /etc {0}", "the output wheel is a link, to /etc"),
        ("truncate -s 7E {0}/x 2>/dev/null || truncate -s 15T {0}/x", "more than 64 GB"),
    ],
)
def test_outputs_that_are_meant_to_harm_are_refused(tmp_path, make, words):
    (tmp_path / "out/wheel").mkdir(parents=True)
    (tmp_path / "outside").write_text("secret")
    subprocess.run(["sh", "-c", make.format(tmp_path / "out/wheel")], check=True)
    with pytest.raises(ActionError, match=words):
        survey(tmp_path / "out", ["wheel"], links_out=False)


def test_an_environments_links_lead_to_its_interpreter(tmp_path):
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/python").symlink_to("/usr/bin/python3")
    assert survey(tmp_path, ["env"], links_out=True)[0].link == "/usr/bin/python3"


def test_reading_outputs_ends_with_an_interrupt(tmp_path):
    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(entry.MOST_BYTES)
    with pytest.raises(InterruptedError):
        survey(tmp_path, ["large"], stop=lambda: True)


@pytest.mark.thorough
def test_what_lies_too_deep_to_be_used_is_an_error_and_can_be_removed(tmp_path):
    """It would be left out without a word, and no folder around it could be removed."""
    deep(tmp_path / "wheel")
    with pytest.raises(OSError, match="longer than 2000 bytes") as raised:
        survey(tmp_path, ["wheel"])
    assert raised.value.errno == errno.ENAMETOOLONG
    (tmp_path / "wheel/locked").mkdir(mode=0)
    tree.remove(tmp_path / "wheel")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_a_link_is_removed_and_what_it_names_stays(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("x")
    (tmp_path / "link").symlink_to("mine")
    (tmp_path / "tree/sub").mkdir(parents=True)
    (tmp_path / "tree/sub/link").symlink_to(tmp_path / "mine")
    deep(tmp_path / "tree/deep")
    tree.remove(tmp_path / "link")
    tree.remove(tmp_path / "tree")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "file"]


def test_what_is_mounted_in_a_working_directory_is_not_removed(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/file").write_text("x")
    inner = tmp_path / "work/a b/in"
    inner.mkdir(parents=True)
    mount = subprocess.run(["mount", "--bind", tmp_path / "home", inner], check=False, capture_output=True)
    if mount.returncode:
        pytest.skip("only root mounts")
    try:
        with pytest.raises(OSError, match="something is mounted there"):
            tree.remove(tmp_path / "work")
    finally:
        subprocess.run(["umount", inner], check=True)
    assert (tmp_path / "home/file").read_text() == "x"
    tree.remove(tmp_path / "work")


@pytest.mark.parametrize(
    "make",
    [
        "mkfifo {0}",
        "ln -s /dev/zero {0}",
        "ln -s /etc/passwd {0}",
        "mkdir {0}",
        "truncate -s 1T {0}",
        """echo '{{"error": null, "counts": 5}}' > {0}""",
        """echo '{{"error": {{"message": 5, "place": null, "hint": []}}, "counts": {{}}}}' > {0}""",
        """echo '{{"error": {{"message": "m", "place": [1, 2, 3, 4], "hint": ""}}, "counts": {{}}}}' > {0}""",
        """echo '{{"error": null, "counts": {{"compiler_cache": 5}}}}' > {0}""",
        """echo '{{"error": null, "counts": {{"compiler_cache": {{"hits": "1", "steps": [], "notes": 7}}}}}}' > {0}""",
        """echo '{{"error": {{"message": "x", "place": null, "hint": ""}}, "counts": {{}}, "notes": [7]}}' > {0}""",
        "yes '[' | head -c 500000 > {0}",
    ],
)
def test_a_steps_result_that_a_build_has_forged_is_no_result(tmp_path, make):
    file = tmp_path / "step-result.json"
    subprocess.run(["sh", "-c", make.format(file)], check=True)
    found = StepResult.read(file)
    assert found.error is None
    assert cache_use(ActionResult("a", "done", ActionReason("first"), counts=found.counts)) is None


def test_a_steps_result_is_read_up_to_a_limit(tmp_path):
    (tmp_path / "result").write_text(json.dumps({"error": None, "counts": {"x": "y" * MOST_OF_RESULT}}))
    assert StepResult.read(tmp_path / "result") == StepResult()
