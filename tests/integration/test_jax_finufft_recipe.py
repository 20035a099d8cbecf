"""recipes/jax-finufft: CUDA wheels from PyPI's sdist, beside JAX; a front package; a cache shared with cufinufft."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from gpuforge.wheel import metadata

RECIPES = Path(__file__).parents[2] / "recipes"
GPUFORGE = Path(sys.executable).with_name("gpuforge")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
NIGHTLY = "GPUFORGE_NIGHTLY"
nightly = pytest.mark.skipif(
    NIGHTLY not in os.environ,
    reason=f"compiles FINUFFT for half an hour, fetches 6 GB of CUDA: set {NIGHTLY}=1",
)
pytestmark = [
    *(pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("build")),
    nightly,
]
CPU = """
import numpy, jax, jax.numpy as jnp, jax_finufft
from jax_finufft import lowering
assert lowering.jax_finufft_gpu is None, "no CUDA is installed"
x = numpy.linspace(-3, 3, 50); c = numpy.exp(1j * x)
with jax.enable_x64(True):
    found = jax.jit(lambda c, x: jax_finufft.nufft1(8, c, x, eps=1e-9, iflag=1))(jnp.asarray(c), jnp.asarray(x))
wanted = numpy.exp(1j * numpy.outer(numpy.arange(-4, 4), x)) @ c
assert numpy.abs(numpy.asarray(found) - wanted).max() < 1e-7
assert "libcudart" not in open("/proc/self/maps").read()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both recipes, which have FINUFFT in common, and an empty cache."""
    folder = tmp_path_factory.mktemp("finufft")
    for name in ("jax-finufft", "cufinufft"):
        shutil.copytree(RECIPES / name, folder / name, ignore=shutil.ignore_patterns("dist", "build"))
    return folder


def build(place: Path, name: str, *arguments: str) -> dict[str, Any]:
    command = [
        GPUFORGE,
        "build",
        place / name,
        "--cuda",
        "13",
        "--archs",
        "90",
        "-o",
        place / "dist",
        "--json",
    ]
    env = {**os.environ, "GPUFORGE_CACHE_DIR": str(place / "cache")}
    done = subprocess.run(
        [*map(str, command), *arguments], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture(scope="module")
def built(place: Path) -> dict[str, Any]:
    return build(place, "jax-finufft", "--python", PYTHON)


def one(built: dict[str, Any], start: str) -> Path:
    return next(path for each in built["wheels"] if (path := Path(each["path"])).name.startswith(start))


def test_the_wheel_is_proved_beside_jax_and_passes_its_tests(built: dict[str, Any]) -> None:
    assert [finding for wheel in built["wheels"] for finding in wheel["findings"]] == []
    assert {test["state"] for test in built["tests"]} == {"passed"}
    text = metadata.of_wheel(one(built, "jax_finufft_cu13"))
    required = metadata.fields(text, "Requires-Dist")
    assert [line for line in required if line.startswith(("jax>", "jax<"))] == [
        "jax>=0.5.0",
        "jax>=0.8,<0.13",
    ]
    assert metadata.fields(text, "Provides-Extra") == ["test", "cuda13", "cuda13-local"]
    of_nvidia = [line for line in required if line.startswith("nvidia-")]
    assert {Requirement(line).name for line in of_nvidia} == {"nvidia-cuda-runtime", "nvidia-cufft"}
    assert all(line.endswith('extra == "cuda13"') for line in of_nvidia)
    assert Path(built["wheels"][0]["path"]).stat().st_size < 20e6, "no static libraries"


def test_without_cuda_it_imports_and_the_cpu_computes(built: dict[str, Any], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, one(built, "jax_finufft_cu13")], check=True)
    clean = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [python, "-I", "-c", CPU], capture_output=True, text=True, check=False, env=clean, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_the_front_package_installs_the_wheel_of_the_chosen_major(
    built: dict[str, Any], tmp_path: Path
) -> None:
    front = one(built, "jax_finufft_cuda-")
    wanted = f"jax-finufft-cuda[cuda13-local] @ {front.as_uri()}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--quiet",
        "--ignore-installed",
        "--report",
        "-",
    ]
    done = subprocess.run(
        [*command, "--find-links", str(front.parent), wanted], capture_output=True, text=True, check=True
    )
    chosen = {each["metadata"]["name"] for each in json.loads(done.stdout)["install"]}
    assert {"jax-finufft-cuda", "jax-finufft-cu13", "jax-cuda13-plugin"} <= chosen
    assert not [name for name in chosen if "cu12" in name or name.startswith("nvidia")]


def test_cufinufft_finds_in_the_cache_what_jax_finufft_compiled(place: Path, built: dict[str, Any]) -> None:
    result = build(place, "cufinufft", "--no-test")
    (use,) = [action["compiler_cache"] for action in result["actions"] if "compiler_cache" in action]
    assert use["hits"] >= 50, use
