"""`gpuforge build --runner docker`: real compilers in a real image, and what happens when things go wrong there."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from builds import DEVICES, GPUFORGE, copy_recipe, edit, gpuforge, record, run
from docker.errors import APIError

from gpuforge.containers.container import OWNER
from gpuforge.containers.engine import connect

IMAGE = "bookworm"
CELL = "cp311-cu13.0-x86_64"

pytestmark = [
    *(pytest.mark.docker, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("docker")),
    pytest.mark.usefixtures("bookworm_images"),
]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_recipe("saxpy", tmp_path_factory.mktemp("recipe"))


def build(recipe: Path, cache: Path, dist: Path, *more: str) -> subprocess.CompletedProcess[str]:
    runner = () if "--runner" in more else ("--runner", "docker", "--image", IMAGE)
    return gpuforge("build", recipe, *runner, "-o", dist, *more, cache=cache)


def wheels(dist: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(dist.glob("*.whl"))}


def test_a_matrix_compiles_kernels_once_and_a_cell_alone_gives_the_same_bytes(recipe, cache, tmp_path):
    done = build(recipe, cache, tmp_path / "all", "--cuda", "13", "--python", "3.11,3.13", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [w["cell"] for w in said["wheels"]] == [CELL, "cp313-cu13.0-x86_64"]
    kinds = [action["kind"] for action in said["actions"]]
    counts = tuple(kinds.count(kind) for kind in ("compile", "build", "test"))
    assert counts == (2, 2, 2), "the kernels and the library for the CPU once, the rest for each Python"
    assert len(said["tests"]) == 2
    assert said["cells"][0]["image"]["name"] == IMAGE
    made = wheels(tmp_path / "all")

    other = shutil.copytree(recipe, tmp_path / "elsewhere")
    alone = build(other, tmp_path / "another cache", tmp_path / "one", "--cell", CELL)
    assert alone.returncode == 0, alone.stderr
    ((name, data),) = wheels(tmp_path / "one").items()
    assert made[name] == data


@pytest.mark.skipif(not shutil.which("python3.11"), reason="needs Python 3.11, as the image has it")
def test_local_processes_with_the_same_compilers_make_the_same_bytes(recipe, cache, tmp_path):
    arguments = ("--cell", CELL, "--archs", "90", "--no-test")
    assert build(recipe, cache, tmp_path / "contained", *arguments).returncode == 0
    assert build(recipe, cache, tmp_path / "local", *arguments, "--runner", "local").returncode == 0
    ((name, contained),) = wheels(tmp_path / "contained").items()
    ((same, local),) = wheels(tmp_path / "local").items()
    found = [record(tmp_path / folder / name) for folder in ("contained", "local")]
    if found[0]["toolchains"] != found[1]["toolchains"]:
        pytest.skip(f"this machine has another compiler than the image: {found[1]['toolchains']['host']}")
    assert (name, contained) == (same, local)


WHERE = {  # the one libcudart of the process; static: there is none
    "pip": r"/site-packages/nvidia/cu13/lib/libcudart\.so\.13",
    "bundle": r"/site-packages/devices_cu13\.libs/libcudart-[0-9a-f]{8}\.so\.13",
    "system": r"/toolkit/lib/libcudart\.so\.13",
    "static": None,
}
# Run where a wheel is tested: a container of an image that has neither a compiler nor a toolkit.
LOOK = """
import json, os, shutil, devices
error, count = devices.count()
maps = {line.split()[-1] for line in open("/proc/self/maps") if "/libcuda" in line}
tools = [name for name in ("nvcc", "g++", "cc") if shutil.which(name)]
print("seen:", json.dumps([error, count, sorted(maps), tools, os.path.exists("/usr/local/cuda")]))
"""


@pytest.mark.parametrize("linkage", WHERE)
def test_each_linkage_works_in_a_clean_container(linkage, cache, tmp_path):
    project = shutil.copytree(DEVICES, tmp_path / "devices")
    edit(project, ('linkage = "pip"', f'linkage = "{linkage}"'))
    with (project / "gpuforge.toml").open("a") as manifest:
        manifest.write(f"\n[test]\ncommand = {json.dumps(['python', '-c', LOOK])}\n")
    done = build(project, cache, tmp_path / "dist", "--cell", CELL, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [wheel["findings"] for wheel in said["wheels"]] == [[]]
    log = max((cache / "logs").rglob(f"{CELL}-test-[0-9a-f]*.log"), key=lambda path: path.stat().st_mtime)
    seen = [line for line in log.read_text().splitlines() if line.startswith("seen: ")][-1]
    error, count, maps, tools, cuda = json.loads(seen.removeprefix("seen: "))
    assert (error in {35, 100}, count, tools, cuda) == (True, 0, [], False)  # no driver, no device
    runtimes = [path for path in maps if "libcudart" in path]
    wanted = WHERE[linkage]
    assert len(runtimes) == (wanted is not None)
    assert wanted is None or re.search(wanted + "$", runtimes[0])


def test_a_compile_error_is_shown_and_the_other_cells_go_on(recipe, cache, tmp_path):
    broken = shutil.copytree(recipe, tmp_path / "broken")
    source = broken / "src" / "core.cpp"
    source.write_text(
        source.read_text() + "\n#if PY_VERSION_HEX >= 0x030D0000\n#error not on this Python\n#endif\n"
    )
    done = build(broken, cache, tmp_path / "dist", "--cuda", "13", "--python", "3.11,3.13")
    assert done.returncode == 1
    assert "not on this Python" in done.stderr
    assert "not built: cp313-cu13.0-x86_64" in done.stderr
    assert len(wheels(tmp_path / "dist")) == 1


def test_two_builds_at_once_do_everything_once(recipe, cache, tmp_path):
    new = shutil.copytree(recipe, tmp_path / "new")
    for source in (new / "src" / "core.cpp", new / "kernels" / "saxpy.cu"):
        source.write_text(source.read_text() + "\n// nobody has compiled this\n")
    asked = [["3.11"], ["3.13"], ["3.11,3.13"]]
    command = [GPUFORGE, "build", str(new), "--runner", "docker", "--image", IMAGE, "--cuda", "13", "--json"]
    builds = [
        subprocess.Popen(
            [*command, "--python", *python, "-o", str(tmp_path / f"dist{at}")],
            env={**os.environ, "GPUFORGE_CACHE_DIR": str(cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for at, python in enumerate(asked)
    ]
    said = [json.loads(build.communicate(timeout=600)[0]) for build in builds]
    assert [build.returncode for build in builds] == [0, 0, 0]
    ran = [a["id"] for each in said for a in each["actions"] if a["state"] == "done"]
    assert sorted(ran) == sorted(set(ran))
    assert {"compile", "build", "package", "test"} <= {
        a["kind"] for each in said for a in each["actions"] if a["state"] == "done"
    }
    assert wheels(tmp_path / "dist0") | wheels(tmp_path / "dist1") == wheels(tmp_path / "dist2")


def test_a_full_disk_keeps_what_is_finished(recipe, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    cache = tmp_path / "small"
    cache.mkdir()
    # Room for gpuforge's environment and for what fetches and builds leave, none for the toolkit beside them.
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400M,mode=700", "tmpfs", cache], check=False
    )
    if mounted.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        done = build(recipe, cache, tmp_path / "dist", "--cell", CELL, "--json")
        assert done.returncode == 1
        states = {a["id"]: a["state"] for a in json.loads(done.stdout)["actions"]}
        errors = [a["error"] for a in json.loads(done.stdout)["actions"] if a["state"] == "failed"]
        assert errors
        unclear = [
            each for each in errors if "the disk is full" not in each and "no space left in" not in each
        ]
        assert not unclear
        assert not (tmp_path / "dist").exists()
        assert not [path for path in cache.glob("store/tmp/*") if path.is_dir()]

        subprocess.run(["mount", "-o", "remount,size=3G", cache], check=True)
        again = build(recipe, cache, tmp_path / "dist", "--cell", CELL, "--json")
        assert again.returncode == 0, again.stderr
        now = {a["id"]: a["state"] for a in json.loads(again.stdout)["actions"]}
        finished = [name for name, state in states.items() if state == "done"]
        assert [now[name] for name in finished] == ["reused"] * len(finished)
        assert len(wheels(tmp_path / "dist")) == 1
    finally:
        subprocess.run(["umount", cache], check=True)


def test_an_image_without_a_compiler_is_refused_before_anything_runs(recipe):
    done = run(GPUFORGE, "build", recipe, "--runner", "docker", "--image", f"{IMAGE}-test", "--cuda", "13")
    assert done.returncode == 3
    assert f"no usable g++: looked at image {IMAGE}-test; found: nothing by that name there" in done.stderr
    assert "gpuforge images list" in done.stderr


def test_what_a_killed_build_leaves_is_cleared_by_the_next(recipe, cache, tmp_path):
    slow = shutil.copytree(recipe, tmp_path / "slow")
    edit(slow, ("[build]\n", '[build]\nbefore = [["sleep", "300"]]\n'))
    command = [GPUFORGE, "build", str(slow), "--runner", "docker", "--image", IMAGE, "--cell", CELL]
    env = {**os.environ, "GPUFORGE_CACHE_DIR": str(cache)}
    with closing(connect()) as client:

        def sleeping() -> list[object]:
            found = client.containers.list(filters={"label": OWNER}, ignore_removed=True)
            its = [c for c in found if c.labels[OWNER].split()[1] == str(process.pid)]
            return [c for c in its if any("sleep" in line for line in _processes(c))]

        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 240
        while not sleeping() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        assert sleeping()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert sleeping()  # nobody was there to stop it
        done = build(recipe, cache, tmp_path / "dist", "--cell", CELL)
        assert done.returncode == 0, done.stderr
        assert not sleeping()


def _processes(container: object) -> list[str]:
    try:
        return [" ".join(line) for line in container.top()["Processes"] or []]  # type: ignore[attr-defined]
    except APIError:
        return []
