"""Working directories: their root is private, and one directory is for one action at a time."""

import os
import subprocess
import threading
import time

import pytest
from local_samples import pids, task

from gpuforge.errors import MissingError
from gpuforge.execute import workdir
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.runner import Exit


@pytest.mark.thorough
def test_two_runners_share_a_working_directory_one_after_the_other(tmp_path):
    code = "import os, time; open('mine', 'x'); t = time.monotonic(); time.sleep(0.3); print(t, time.monotonic())"
    spans = []
    threads = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        asked = task(folder, code)
        threads.append(threading.Thread(target=LocalRunner(root=tmp_path).run, args=(asked,)))
        spans.append(asked.log)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (a, b), (c, d) = sorted([float(x) for x in log.read_text().split()[-2:]] for log in spans)
    assert a < b <= c < d


@pytest.mark.thorough
def test_waiting_for_a_working_directory_ends_with_cancel(tmp_path):
    first, second = LocalRunner(root=tmp_path), LocalRunner(root=tmp_path)
    (tmp_path / "b").mkdir()
    asked = task(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    holder = threading.Thread(target=first.run, args=(asked,))
    holder.start()
    pids(asked.log)
    ends = list[Exit]()
    waiter = threading.Thread(target=lambda: ends.append(second.run(task(tmp_path / "b", "print()"))))
    waiter.start()
    time.sleep(0.15)
    second.cancel()
    waiter.join()
    assert ends[0].cancelled
    first.cancel()
    holder.join()


def test_the_working_root_is_private_or_another_one(tmp_path, monkeypatch):
    monkeypatch.setattr(workdir, "DEFAULT", tmp_path / "gpuforge")
    own = tmp_path / f"gpuforge-{os.geteuid()}"
    assert workdir.root({}) == tmp_path / "gpuforge"
    assert (tmp_path / "gpuforge").stat().st_mode & 0o777 == 0o700
    (tmp_path / "gpuforge").chmod(0o777)
    assert workdir.root({}) == own
    own.rmdir()
    own.symlink_to(tmp_path)
    with pytest.raises(MissingError) as caught:
        workdir.root({})
    assert str(caught.value) == (
        f"{tmp_path}/gpuforge and {own} belong to somebody else or can be written by others\n"
        "  hint: set GPUFORGE_WORK to a folder of your own"
    )
    assert workdir.root({"GPUFORGE_WORK": str(tmp_path / "x/y")}) == tmp_path / "x/y"
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingError) as caught:
        workdir.root({"GPUFORGE_WORK": str(tmp_path / "file")})
    assert str(caught.value) == (
        f"the working directory {tmp_path}/file, named by GPUFORGE_WORK, cannot be made: File exists\n"
        "  hint: set GPUFORGE_WORK to a folder you can write to"
    )


ODD = "which breaks many builds\n  hint: set GPUFORGE_WORK to a folder of plain letters and digits"


@pytest.mark.parametrize(
    ("make", "name", "message"),
    [
        ("mkdir -m 700 '{0}/a b'", "a b", f"it has a space in its path, {ODD}"),
        ("mkdir -m 700 {0}/a:b", "a:b", f"it has the character ':' in its path, {ODD}"),
        ("mkdir -m 777 {0}/w", "w", "others can write to it (mode 777)\n  hint: chmod go-w {0}/w, or {own}"),
        ("mkdir -m 770 {0}/w", "w", "others can write to it (mode 770)\n  hint: chmod go-w {0}/w, or {own}"),
        (
            "mkdir {0}/real; ln -s real {0}/w",
            "w",
            "it is a link, to real\n  hint: set GPUFORGE_WORK to what it names, or {own}",
        ),
        (
            "mkdir -m 777 {0}/a; mkdir {0}/a/w; chmod 700 {0}/a/w; ln -s a/w {0}/x; ln -s x {0}/w",
            "w",
            "it is a link, to x\n  hint: set GPUFORGE_WORK to what it names, or {own}",
        ),
        pytest.param(
            "mkdir {0}/w; chown 4711 {0}/w",
            "w",
            "it belongs to another user (uid 4711)\n  hint: {own}",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away"),
        ),
    ],
)
def test_a_named_working_root_that_others_could_change_or_builds_cannot_use_is_refused(
    tmp_path, make, name, message
):
    subprocess.run(["sh", "-c", make.format(tmp_path)], check=True)
    with pytest.raises(MissingError) as caught:
        workdir.root({"GPUFORGE_WORK": str(tmp_path / name)})
    why = message.format(tmp_path, own="set GPUFORGE_WORK to a folder of your own")
    head = f"the working directory {tmp_path}/{name}, named by GPUFORGE_WORK, cannot be used"
    assert str(caught.value) == f"{head}: {why}"


@pytest.mark.parametrize(("mode", "is_refused"), [(0o777, True), (0o1777, False), (0o755, False)])
def test_a_work_folder_below_one_that_everybody_can_change_is_refused(tmp_path, mode, *, is_refused):
    """They could rename it, and put their own in its place."""
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(mode)
    (tmp_path / "way").symlink_to(above)
    for folder in (above / "new/w", tmp_path / "way/new/w"):
        if not is_refused:
            assert workdir.root({"GPUFORGE_WORK": str(folder)}) == folder
            continue
        with pytest.raises(MissingError) as caught:
            workdir.root({"GPUFORGE_WORK": str(folder)})
        assert "above it (mode 777)\n  hint: chmod go-w " in str(caught.value)
        assert not above.joinpath("new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_work_folder_below_another_users_is_refused(tmp_path):
    (tmp_path / "theirs/w").mkdir(parents=True)
    os.chown(tmp_path / "theirs", 4711, -1)
    with pytest.raises(MissingError, match=r"theirs, above it, belongs to another user \(uid 4711\)"):
        workdir.root({"GPUFORGE_WORK": str(tmp_path / "theirs/w")})
