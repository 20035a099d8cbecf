"""`gpuforge build` when things go wrong: one clear message each, nothing half-written, nothing finished lost."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from builds import GPUFORGE, PYTHON, RECIPES, copy_recipe, edit, gpuforge


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return copy_recipe("saxpy", tmp_path)


@pytest.mark.network
def test_a_source_with_another_hash_leaves_nothing(tmp_path):
    recipe = shutil.copytree(RECIPES / "cufinufft", tmp_path / "cufinufft")
    edit(recipe, ("0ec2aec4", "00000000"))
    cache = tmp_path / "cache"
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": 0}
    done = gpuforge("build", recipe, "--jobs", 1, cache=cache, **nowhere)
    assert done.returncode == 3
    assert "cannot reach the package index http://127.0.0.1:9/simple" in done.stderr
    assert "not built: py3-cu12.4-x86_64, py3-cu13.0-x86_64" in done.stderr
    done = gpuforge("build", recipe, "--jobs", 1, cache=cache)
    assert done.returncode == 1
    assert "but the manifest says 00000000" in done.stderr
    assert not list(cache.glob("store/*/*/out/source"))


def test_a_shell_where_the_build_failed(recipe, tmp_path):
    dist = tmp_path / "dist"
    cell, cache = f"cp{PYTHON.replace('.', '')}-cu13.0-x86_64", tmp_path / "cache"
    given = ["--output", dist, "--manifest", recipe]
    before = gpuforge("shell", cell, *given, "--", "true", cache=cache)
    assert before.returncode == 2
    assert f"error: no action of {cell} failed when it last ran" in before.stderr
    source = recipe / "src" / "core.cpp"
    source.write_text(f'#error "broken"\n{source.read_text()}')
    build = ["build", recipe, "--cell", cell, "--output", dist, "--archs", "90"]
    assert gpuforge(*build, cache=cache).returncode == 1
    given += ["--archs", "90"]
    again = gpuforge("shell", cell, *given, "--", "sh", "-c", 'eval "$GPUFORGE_COMMAND"', cache=cache)
    assert again.returncode == 1
    assert 'core.cpp:1:2: error: #error "broken"' in again.stdout
    again = 'eval "$GPUFORGE_COMMAND" || sed -i 1d source/src/core.cpp && eval "$GPUFORGE_COMMAND"'
    mended = ["sh", "-c", again]
    assert gpuforge("shell", cell, *given, "--", *mended, cache=cache).returncode == 0


@pytest.mark.parametrize("size", ["4M", "200M"])
@pytest.mark.toolkit
@pytest.mark.network
def test_a_full_disk(recipe, tmp_path, size):
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    cache = tmp_path / "cache"
    cache.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", cache], check=False
    )
    if mounted.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        options = ("--cuda", 13, "--python", PYTHON, "-o", tmp_path / "dist")
        done = gpuforge("build", recipe, *options, cache=cache)
        assert done.returncode == 1
        assert "the disk is full" in done.stderr or "no space left in" in done.stderr
        assert not (tmp_path / "dist").exists()
        assert not [path for path in cache.glob("store/tmp/*") if path.is_dir()]
    finally:
        subprocess.run(["umount", cache], check=True)


@pytest.fixture
def slow(recipe: Path) -> Path:
    """A recipe whose build takes as long as it likes."""
    edit(recipe, ("[build]\n", '[build]\nbefore = [["sleep", "600"]]\n'))
    return recipe


@pytest.mark.toolkit
@pytest.mark.network
def test_ctrl_c_stops_the_children_and_keeps_what_is_finished(slow, tmp_path):
    env = {
        **os.environ,
        "GPUFORGE_CACHE_DIR": str(tmp_path / "cache"),
        "GPUFORGE_WORK": str(tmp_path / "work"),
    }
    command = [GPUFORGE, "build", str(slow), "--cuda", "13", "--python", PYTHON, "-o", str(tmp_path / "dist")]
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               preexec_fn=hear_ctrl_c)  # fmt: skip
    deadline = time.monotonic() + 120
    while not children(tmp_path, "sleep") and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert not children(tmp_path, "sleep")
    assert not (tmp_path / "dist").exists()
    dry = gpuforge("build", slow, "--cuda", "13", "--python", PYTHON, "--dry-run", "--explain",
                   cache=tmp_path / "cache")  # fmt: skip
    assert "reuse    fetch CUDA 13.0" in dry.stdout


def hear_ctrl_c() -> None:
    """Undo what a shell does to commands in the background, such as a CI's: they ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def children(place: Path, name: str) -> list[str]:
    """The processes of that name whose working directory is below `place`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            inside = process.joinpath("cwd").readlink().is_relative_to(place)
            if inside and (process / "comm").read_text().strip() == name:
                found.append(process.name)
        except OSError:
            continue
    return found
