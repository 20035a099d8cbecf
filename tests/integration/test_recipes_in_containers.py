"""Recipes built in a container without a network and tested in a clean one, with compilers of packages or the image."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from builds import RECIPES, gpuforge

IMAGE = "bookworm"
NIGHTLY = "GPUFORGE_NIGHTLY"
pytestmark = [
    *(pytest.mark.docker, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("docker")),
    pytest.mark.usefixtures("bookworm_images"),
    pytest.mark.skipif(NIGHTLY not in os.environ, reason=f"builds for ten minutes: set {NIGHTLY}=1"),
]


def build(recipe: Path, work: Path, *more: str) -> subprocess.CompletedProcess[str]:
    options = ("--runner", "docker", "--image", IMAGE, "-o", work / "dist", *more)
    return gpuforge("build", recipe, *options, cache=work / "cache")


@pytest.mark.parametrize(
    ("name", "wheel"),
    [
        ("cython-opencl", r"ellipse-1\.0-cp311-cp311-manylinux[\w.]+_x86_64\.whl"),
        ("halide", r"softlens-0\.1\.0-py3-none-manylinux[\w.]+_x86_64\.whl"),
        ("iree", r"rowsoftmax-0\.1\.0-py3-none-any\.whl"),
        ("neuron", r"ringnet-0\.1\.0-py3-none-manylinux[\w.]+_x86_64\.whl"),
    ],
)
def test_a_recipe_is_built_proved_and_tested(name, wheel, tmp_path):
    python = ["--python", "3.11"] if name == "cython-opencl" else []
    done = build(RECIPES / name, tmp_path, "--json", *python)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    (made,) = result["wheels"]
    assert re.fullmatch(wheel, Path(made["path"]).name)
    assert made["findings"] == []
    assert [cell["image"]["name"] for cell in result["cells"]] == [IMAGE]
    (test,) = result["tests"]
    assert test["state"] == "passed"
    assert test["counts"]["passed"] > 0
    assert test["counts"].get("failed", 0) == 0


def test_what_a_failed_build_left_in_its_container_is_kept(tmp_path):
    recipe = shutil.copytree(RECIPES / "cython-opencl", tmp_path / "recipe")
    kernel = recipe / "kernels/anomaly.h"
    kernel.write_text(f"{kernel.read_text()}\n#error not today\n")
    done = build(recipe, tmp_path, "--python", "3.11", "--keep-failed")
    assert done.returncode == 1
    assert "not today" in done.stderr
    (kept,) = (tmp_path / "dist/.failed").iterdir()
    assert str(kept) in done.stderr
    assert list(kept.rglob("_native.c*"))  # what Cython had written
    assert {path.owner() for path in kept.rglob("*") if not path.is_symlink()} == {tmp_path.owner()}
