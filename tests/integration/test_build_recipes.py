"""`gpuforge build` on the real recipes: real compilers, the toolkit from PyPI, real installs of the wheels."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RECIPES = Path(__file__).parents[2] / "recipes"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.xdist_group("build")]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for this module, so that toolkit and sources are fetched once."""
    return tmp_path_factory.mktemp("cache")


def gpuforge(*arguments: object, cache: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("gpuforge")), *map(str, arguments)]
    env = {**os.environ, "GPUFORGE_CACHE_DIR": str(cache)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=cwd)
    assert "Traceback" not in done.stderr + done.stdout
    return done


def build(recipe: Path, *arguments: object, cache: Path) -> dict[str, Any]:
    done = gpuforge("build", recipe, "--cuda", "13", *arguments, "--json", cache=cache)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def ran(result: dict[str, Any]) -> set[str]:
    return {action["id"] for action in result["actions"] if action["state"] == "done"}


@pytest.fixture
def saxpy(tmp_path: Path) -> Path:
    return shutil.copytree(
        RECIPES / "saxpy", tmp_path / "saxpy", ignore=shutil.ignore_patterns("dist", "build")
    )


def test_saxpy_is_built_once_and_proved(saxpy: Path, tmp_path: Path, cache: Path) -> None:
    first = build(saxpy, "--python", PYTHON, "-o", tmp_path / "dist", cache=cache)
    cell = f"cp{PYTHON.replace('.', '')}-cu13.0-x86_64"
    assert f"{cell}/audit" in ran(first)
    (wheel,) = first["wheels"]
    assert (wheel["cell"], wheel["findings"]) == (cell, [])
    (test,) = first["tests"]
    assert (test["cell"], test["state"], test["counts"]) == (cell, "passed", {"passed": 15})

    again = build(saxpy, "--python", PYTHON, "-o", tmp_path / "dist", cache=cache)
    assert ran(again) == set()
    assert all(action["reason"].startswith(("reused:", "not needed:")) for action in again["actions"])
    assert again["wheels"] == first["wheels"]

    kernel = saxpy / "kernels" / "saxpy.cu"
    kernel.write_text(kernel.read_text() + "// changed\n")
    touched = build(saxpy, "--python", PYTHON, "-o", tmp_path / "dist", cache=cache)
    kernels = "cu13.0/kernels/default-kernels"
    ends = {f"{cell}/{name}" for name in ("wheel", "audit", "test")}  # what it declares is as before
    assert ran(touched) == {f"{kernels}/kernels/saxpy.cu", kernels} | ends
    reason = next(a["reason"] for a in touched["actions"] if a["id"] == f"{kernels}/kernels/saxpy.cu")
    assert reason == "runs: kernels/saxpy.cu changed"


def test_saxpy_has_the_same_bytes_in_another_folder_from_another_cache(
    saxpy: Path, tmp_path: Path, cache: Path
) -> None:
    here = build(saxpy, "--python", PYTHON, "-o", tmp_path / "one", cache=cache)
    other = shutil.copytree(saxpy, tmp_path / "elsewhere" / "other-name")
    there = build(other, "--python", PYTHON, "-o", tmp_path / "two", cache=tmp_path / "other-cache")
    # Nothing was reused, but for what this build itself had made: the backend asks for nothing more.
    others = {each["id"]: each["reason"] for each in there["actions"] if each["id"] not in ran(there)}
    assert set(others) <= {f"py{PYTHON}/backend-requirements", f"py{PYTHON}/environment"}
    assert set(others.values()) <= {"reused: its inputs were made again, with the same content"}
    assert [w["sha256"] for w in here["wheels"]] == [w["sha256"] for w in there["wheels"]]


def test_saxpy_installs_and_computes_where_there_is_no_gpu(saxpy: Path, tmp_path: Path, cache: Path) -> None:
    result = build(saxpy, "--python", PYTHON, "-o", tmp_path / "dist", cache=cache)
    python = install(tmp_path, result["wheels"][0]["path"])
    env = {"PATH": "/usr/bin:/bin", "GPUFORGE_DISABLE_GPU": "1"}
    done = subprocess.run(
        [python, "-m", "saxpy"], capture_output=True, text=True, check=False, env=env, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "1000000 numbers on cpu: right" in done.stdout
    assert "cubin sm_90" in done.stdout
    explained = subprocess.run(
        [python, "-m", "saxpy._gpuforge", "explain", "--json"],
        capture_output=True, text=True, check=True, env=env, cwd=tmp_path,
    )  # fmt: skip
    (verdict,) = json.loads(explained.stdout)["sets"][0]["modules"][0]["verdicts"]
    assert {c["reason"]["kind"] for c in verdict["candidates"]} == {"own-code", "switched-off"}


@pytest.mark.skipif(
    "GPUFORGE_NIGHTLY" not in os.environ, reason="compiles for minutes: set GPUFORGE_NIGHTLY=1"
)
def test_cufinufft_needs_nothing_but_the_packages_it_declares(tmp_path: Path, cache: Path) -> None:
    result = build(RECIPES / "cufinufft", "--archs", "90", "-o", tmp_path / "dist", cache=cache)
    (wheel,) = result["wheels"]
    assert [each["code"] for each in wheel["findings"]] == ["GF712"]  # the version of a quick try
    assert Path(wheel["path"]).name.startswith("cufinufft_cu13-2.5.0+try.sm90-py3-none-manylinux_2_")
    assert [(test["state"], test["counts"]["passed"]) for test in result["tests"]] == [("passed", 3)]
    python = install(tmp_path, wheel["path"])
    program = "import cufinufft; print(open('/proc/self/maps').read())"
    done = subprocess.run(
        [python, "-I", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    paths = {
        line.split()[-1] for line in done.stdout.splitlines() if "libcudart" in line or "libcufft" in line
    }
    site = f"/lib/python{PYTHON}/site-packages/nvidia/cu13/lib"
    assert paths == {f"{tmp_path}/venv{site}/libcudart.so.13", f"{tmp_path}/venv{site}/libcufft.so.12"}


def install(tmp_path: Path, wheel: str) -> Path:
    """Install a wheel with what it declares into a new environment; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        f"--python={python}",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run([*pip, wheel], check=True)
    return python
