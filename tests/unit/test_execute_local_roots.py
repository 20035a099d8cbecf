"""Working directories: their root is private, and one directory is for one action at a time."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from local_samples import pids, task

from gpuforge.errors import MissingError
from gpuforge.execute import workdir
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.runner import Exit


@pytest.mark.thorough
def test_two_runners_share_a_working_directory_one_after_the_other(tmp_path: Path) -> None:
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
def test_waiting_for_a_working_directory_ends_with_cancel(tmp_path: Path) -> None:
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


def test_the_working_root_is_private_or_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("name", "mode", "owner", "message"),
    [
        (
            "a place",
            0o700,
            None,
            "it has a space in its path, which breaks many builds\n"
            "  hint: set GPUFORGE_WORK to a folder of plain letters and digits",
        ),
        (
            "a:b",
            0o700,
            None,
            "it has the character ':' in its path, which breaks many builds\n"
            "  hint: set GPUFORGE_WORK to a folder of plain letters and digits",
        ),
        (
            "open",
            0o777,
            None,
            "others can write to it (mode 777)\n"
            "  hint: chmod go-w {folder}, or set GPUFORGE_WORK to a folder of your own",
        ),
        (
            "theirs",
            0o700,
            4711,
            "it belongs to another user (uid 4711)\n  hint: set GPUFORGE_WORK to a folder of your own",
        ),
    ],
)
def test_a_named_working_root_is_as_private(
    tmp_path: Path, name: str, mode: int, owner: int | None, message: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    folder.chmod(mode)
    if owner is not None:
        if os.geteuid():
            pytest.skip("giving a folder away needs root's rights")
        os.chown(folder, owner, -1)
    with pytest.raises(MissingError) as caught:
        workdir.root({"GPUFORGE_WORK": str(folder)})
    assert str(caught.value) == (
        f"the working directory {folder}, named by GPUFORGE_WORK, cannot be used: {message.format(folder=folder)}"
    )
