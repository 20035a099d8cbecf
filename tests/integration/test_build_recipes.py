"""`gpuforge build` on the real recipes: real compilers, the toolkit from PyPI, real installs of the wheels."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import builds
import pytest
from builds import CELL, PYTHON, RECIPES, environment, run

pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.xdist_group("build")]


def build(recipe: Path, *arguments: object, cache: Path) -> dict[str, Any]:
    return builds.build(recipe, "--cuda", "13", *arguments, cache=cache)


def ran(result: dict[str, Any]) -> set[str]:
    return {action["id"] for action in result["actions"] if action["state"] == "done"}


@pytest.fixture
def saxpy(tmp_path: Path) -> Path:
    return builds.copy_recipe("saxpy", tmp_path)


def test_saxpy_is_built_once_and_proved(saxpy, tmp_path, store):
    kernel = saxpy / "kernels" / "saxpy.cu"
    kernel.write_text(kernel.read_text() + "// which no other test builds\n")
    first = build(saxpy, "--python", PYTHON, "-o", tmp_path / "dist", cache=store)
    assert f"{CELL}/audit" in ran(first)
    (wheel,) = first["wheels"]
    assert (wheel["cell"], wheel["findings"]) == (CELL, [])
    (test,) = first["tests"]
    assert (test["cell"], test["state"], test["counts"]) == (CELL, "passed", {"passed": 15})

    again = build(saxpy, "--python", PYTHON, "-o", tmp_path / "dist", cache=store)
    assert ran(again) == set()
    assert all(action["reason"].startswith(("reused:", "not needed:")) for action in again["actions"])
    assert again["wheels"] == first["wheels"]

    kernel.write_text(kernel.read_text() + "// changed\n")
    touched = build(saxpy, "--python", PYTHON, "-o", tmp_path / "dist", cache=store)
    kernels = "cu13.0/kernels/default-kernels"
    ends = {f"{CELL}/{name}" for name in ("wheel", "audit", "test")}  # what it declares is as before
    assert ran(touched) == {f"{kernels}/kernels/saxpy.cu", kernels} | ends
    reason = next(a["reason"] for a in touched["actions"] if a["id"] == f"{kernels}/kernels/saxpy.cu")
    assert reason == "runs: kernels/saxpy.cu changed"


def test_saxpy_has_the_same_bytes_in_another_folder_from_another_cache(saxpy, tmp_path, store):
    here = build(saxpy, "--python", PYTHON, "-o", tmp_path / "one", cache=store)
    other = shutil.copytree(saxpy, tmp_path / "elsewhere" / "other-name")
    there = build(other, "--python", PYTHON, "-o", tmp_path / "two", cache=tmp_path / "other-cache")
    # Nothing was reused, but for what this build itself had made: the backend asks for nothing more.
    others = {each["id"]: each["reason"] for each in there["actions"] if each["id"] not in ran(there)}
    assert set(others) <= {f"py{PYTHON}/backend-requirements", f"py{PYTHON}/environment"}
    assert set(others.values()) <= {"reused: its inputs were made again, with the same content"}
    assert [w["sha256"] for w in here["wheels"]] == [w["sha256"] for w in there["wheels"]]


def test_saxpy_installs_and_computes_where_there_is_no_gpu(saxpy, tmp_path, store):
    result = build(saxpy, "--python", PYTHON, "-o", tmp_path / "dist", cache=store)
    python = environment(tmp_path / "venv", result["wheels"][0]["path"])
    env = {"PATH": "/usr/bin:/bin", "GPUFORGE_DISABLE_GPU": "1"}
    done = run(python, "-m", "saxpy", env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1000000 numbers on cpu: right" in done.stdout
    assert "cubin sm_90" in done.stdout
    explained = run(python, "-m", "saxpy._gpuforge", "explain", "--json", env=env, cwd=tmp_path)
    (verdict,) = json.loads(explained.stdout)["sets"][0]["modules"][0]["verdicts"]
    assert {c["reason"]["kind"] for c in verdict["candidates"]} == {"own-code", "switched-off"}


@pytest.mark.skipif(
    "GPUFORGE_NIGHTLY" not in os.environ, reason="compiles for minutes: set GPUFORGE_NIGHTLY=1"
)
def test_cufinufft_needs_nothing_but_the_packages_it_declares(tmp_path, store):
    result = build(RECIPES / "cufinufft", "--archs", "90", "-o", tmp_path / "dist", cache=store)
    (wheel,) = result["wheels"]
    assert [each["code"] for each in wheel["findings"]] == ["GF712"]  # the version of a quick try
    assert Path(wheel["path"]).name.startswith("cufinufft_cu13-2.5.0+try.sm90-py3-none-manylinux_2_")
    assert [(test["state"], test["counts"]["passed"]) for test in result["tests"]] == [("passed", 3)]
    python = environment(tmp_path / "venv", wheel["path"])
    program = "import cufinufft; print(open('/proc/self/maps').read())"
    done = run(python, "-I", "-c", program, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    paths = {
        line.split()[-1] for line in done.stdout.splitlines() if "libcudart" in line or "libcufft" in line
    }
    site = f"/lib/python{PYTHON}/site-packages/nvidia/cu13/lib"
    assert paths == {f"{tmp_path}/venv{site}/libcudart.so.13", f"{tmp_path}/venv{site}/libcufft.so.12"}
