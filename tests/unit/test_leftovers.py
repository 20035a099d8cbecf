"""What a killed gpuforge leaves behind, and folders that others could change."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuforge import disk, locks
from gpuforge.cli import folders
from gpuforge.cli.dist import put
from gpuforge.errors import MissingError
from gpuforge.execute import workdir

HALF = """
import sys, time
from pathlib import Path
from gpuforge import disk
with disk.appearing(Path(sys.argv[1])) as stream:
    stream.write(b"half")
    stream.flush()
    print("written", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def half_written(tmp_path: Path) -> Callable[[], subprocess.Popen[bytes]]:
    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", HALF, str(tmp_path / "dist/demo-1.0.whl")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    return start


def test_half_a_wheel_of_a_killed_run_is_gone_after_the_next(tmp_path, half_written):
    dead, alive = half_written(), half_written()
    (tmp_path / "dist/.users.part").write_text("mine")
    (tmp_path / "dist/.link.gpuforge.part").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "dist/.pipe.gpuforge.part")
    try:
        dead.kill()
        dead.communicate()
        assert len(list((tmp_path / "dist").glob(".demo*.part"))) == 2
        disk.sweep(tmp_path / "dist")
        assert len(list((tmp_path / "dist").glob(".demo*.part"))) == 1  # that of the one that lives
        (tmp_path / "source.whl").write_text("whole")
        put(tmp_path / "source.whl", tmp_path / "dist", "cell", {})
    finally:
        alive.kill()
        alive.communicate()
    disk.sweep(tmp_path / "dist")
    assert sorted(each.name for each in (tmp_path / "dist").iterdir()) == [
        ".link.gpuforge.part",
        ".users.part",
        "source.whl",
    ]
    assert (tmp_path / "dist/source.whl").stat().st_mode & 0o777 == 0o644


KILLED = """
import sys
from pathlib import Path
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.runner import Task
from gpuforge.plan.action import Action
code = "import sys, time; open('half', 'w'); print('on', flush=True); time.sleep(100)"
top = Path(sys.argv[1])
action = Action("cell/act", "build", "do it", (sys.executable, "-c", code))
LocalRunner(project="one", environ={"GPUFORGE_WORK": str(top / "work")}).run(Task(action, {}, top / "out", top / "log"))
"""


@pytest.mark.thorough
def test_working_directories_of_a_killed_run_are_gone_after_the_next_of_any_project(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)])
    left = tmp_path / "work/one/cell-act"
    while not (left / "half").exists():
        assert process.poll() is None
        time.sleep(0.02)
    assert workdir.project_folder(tmp_path / "work", "two").is_dir()
    assert (left / "half").exists()  # it is in use
    process.send_signal(signal.SIGKILL)
    process.wait()
    users = tmp_path / "work/mine/poetry"
    users.mkdir(parents=True)
    users.with_name("poetry.lock").touch()
    workdir.project_folder(tmp_path / "work", "two")
    assert sorted(each.name for each in left.parent.iterdir()) == [".gpuforge-work", "cell-act.lock"]
    assert users.is_dir()
    claim = locks.claim(left.with_name("cell-act.lock"))
    assert claim is not None


def test_a_cache_that_every_user_can_write_to_is_refused(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(MissingError) as caught:
        folders.check(tmp_path / "dist", tmp_path / "cache", {})
    assert str(caught.value) == (
        f"the cache folder {tmp_path}/cache, which is the default, cannot be used: "
        f"every user can write to it\n"
        f"  hint: chmod o-w {tmp_path}/cache, or set GPUFORGE_CACHE_DIR to a folder of your own"
    )


def test_a_lock_is_of_one_holder_until_it_is_released_and_its_file_stays(tmp_path):
    held = locks.claim(tmp_path / "new" / "lock")
    assert held
    assert locks.claim(tmp_path / "new" / "lock") is None
    held.release()
    held.release()  # again, as `with` does: nothing else is closed
    with locks.wait(tmp_path / "new" / "lock"):
        assert locks.claim(tmp_path / "new" / "lock") is None
    assert (tmp_path / "new" / "lock").is_file()
