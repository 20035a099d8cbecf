"""recipes/jax-finufft: wheels for both CUDA majors from PyPI's sdist, beside JAX; a front package; a shared cache."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import builds
import pytest
from packaging.requirements import Requirement

from gpuforge.wheel import metadata

NIGHTLY = "GPUFORGE_NIGHTLY"
nightly = pytest.mark.skipif(
    NIGHTLY not in os.environ,
    reason=f"compiles FINUFFT for an hour, fetches 15 GB of CUDA: set {NIGHTLY}=1",
)
pytestmark = [
    *(pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("build")),
    nightly,
]
MAJORS = {  # what NVIDIA calls its packages of each
    "12": {"nvidia-cuda-runtime-cu12", "nvidia-cufft-cu12"},
    "13": {"nvidia-cuda-runtime", "nvidia-cufft"},
}
of_each_major = pytest.mark.parametrize("major", MAJORS)
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
        builds.copy_recipe(name, folder)
    return folder


def build(place: Path, name: str, *arguments: str) -> dict[str, Any]:
    return builds.build(
        place / name, "--archs", "90", "-o", place / "dist", *arguments, cache=place / "cache"
    )


@pytest.fixture(scope="module")
def built(place: Path) -> dict[str, Any]:
    return build(place, "jax-finufft", "--cuda", "12,13", "--python", builds.PYTHON)


def one(built: dict[str, Any], start: str) -> Path:
    return next(path for each in built["wheels"] if (path := Path(each["path"])).name.startswith(start))


def test_the_wheels_are_proved_beside_jax_and_pass_their_tests(built):
    found = {w["path"]: [finding["code"] for finding in w["findings"]] for w in built["wheels"]}
    # the version of a quick try; the front package is listed with each cell
    assert list(found.values()) == [["GF712"]] * 3
    assert [test["state"] for test in built["tests"]] == ["passed"] * 4  # two releases of JAX for each major
    for test in built["tests"]:
        of_jax = [each for each in test["tested_with"] if each.startswith(("jax ", "jaxlib ", "jax_cuda"))]
        assert len(of_jax) == 4, of_jax  # with its plug-in for this CUDA major, in two packages
        assert {".".join(each.split(" ")[1].split(".")[:2]) for each in of_jax} == {test["axes"]["jax"]}


@of_each_major
def test_a_wheel_requires_the_jax_it_was_tested_with_and_the_libraries_it_needs(built, major):
    wheel = one(built, f"jax_finufft_cu{major}")
    text = metadata.of_wheel(wheel)
    required = metadata.fields(text, "Requires-Dist")
    assert [line for line in required if line.startswith(("jax>", "jax<"))] == [
        "jax>=0.5.0",
        "jax>=0.8,<0.13",
    ]
    assert metadata.fields(text, "Provides-Extra") == ["test", f"cuda{major}", f"cuda{major}-local"]
    of_nvidia = [line for line in required if line.startswith("nvidia-")]
    assert {Requirement(line).name for line in of_nvidia} == MAJORS[major]
    assert all(line.endswith(f'extra == "cuda{major}"') for line in of_nvidia)
    assert wheel.stat().st_size < 20e6, "no static libraries"


@of_each_major
def test_without_cuda_it_imports_and_the_cpu_computes(built, major, tmp_path):
    python = builds.environment(tmp_path / "venv", one(built, f"jax_finufft_cu{major}"))
    done = builds.run(python, "-I", "-c", CPU, env={"PATH": "/usr/bin:/bin"}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", ["cuda12", "cuda12-local", "cuda13", "cuda13-local"])
def test_the_front_package_installs_the_wheel_of_the_chosen_major(built, extra, tmp_path):
    front, major = one(built, "jax_finufft_cuda-"), extra[4:6]
    other = ({"12", "13"} - {major}).pop()
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
    command += ["--report", str(tmp_path / "report.json"), "--find-links", str(front.parent)]
    subprocess.run([*command, f"jax-finufft-cuda[{extra}] @ {front.as_uri()}"], check=True)
    report = json.loads((tmp_path / "report.json").read_text())
    chosen = {each["metadata"]["name"] for each in report["install"]}
    assert {"jax-finufft-cuda", f"jax-finufft-cu{major}", f"jax-cuda{major}-plugin"} <= chosen
    assert not [name for name in chosen if f"cu{other}" in name or f"cuda{other}" in name]
    assert MAJORS[major] <= chosen or extra.endswith("-local")
    assert not (extra.endswith("-local") and [name for name in chosen if name.startswith("nvidia-")])


@of_each_major
def test_beside_jax_and_cupy_one_cuda_major_comes_into_the_process(built, major):
    beside = ("--with", f"jax[cuda{major}]", "--with", f"cupy-cuda{major}x")
    wheel = one(built, f"jax_finufft_cu{major}")
    report = builds.audit(wheel, *beside, "--expect", "90")
    assert [each for each in report["findings"] if each["severity"] != "info"] == []
    names = [x["name"] for x in report["together"]["libraries"] if x["kind"] == "CUDA runtime"]
    assert {name.partition(".so.")[2] for name in names} - {""} == {major}  # CuPy has one without a name


def test_cufinufft_finds_in_the_cache_what_jax_finufft_compiled(place, built):
    result = build(place, "cufinufft", "--cuda", "13", "--no-test")
    (use,) = [action["compiler_cache"] for action in result["actions"] if "compiler_cache" in action]
    assert use["hits"] >= 50, use
