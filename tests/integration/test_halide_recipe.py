"""recipes/halide from end to end: built with PyPI's halide, audited, tested, and refused with two runtimes."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from builds import GPUFORGE, RECIPES, environment, install_to, run

from gpuforge.audit import audit
from gpuforge.manifest.load import load
from gpuforge.plan.expectation import expectation

RECIPE = RECIPES / "halide"
pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("recipes")]
TARGETS = ("compute_80", "compute_50", "x86-64-v3")
OBJECT = re.compile(r"\[\[objects\]\].*?(?=\n\[wheel\])", re.DOTALL)
SPLIT = """\
[[objects]]
name = "{name}"
role = "fallback"
kind = "library"
sources = ["pipelines/{name}.py"]
toolchain = "pipelines"
abi = {{ version = "1", headers = ["pipelines/filters.h"] }}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Path:
    """The wheel, whose tests have run in an environment of its own."""
    dist = tmp_path_factory.mktemp("dist")
    done = run(GPUFORGE, "build", RECIPE, "-o", dist, GPUFORGE_CACHE_DIR=store)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = dist.glob("softlens-0.1.0-py3-none-*.whl")
    return found


def test_there_is_a_library_for_each_target_and_the_audit_finds_no_error(wheel):
    with zipfile.ZipFile(wheel) as archive:
        index = json.loads(archive.read("softlens/_gpuforge/kernels/filters/index.json"))
    images = [image for library in index["libraries"] for image in library["images"]]
    assert [(image["kind"], image["arch"], image.get("isa", "")) for image in images] == [
        ("ptx", "compute_80", "7.0"),
        ("ptx", "compute_50", "4.0"),
        ("library", "x86-64-v3", ""),
        ("library", "", ""),
    ]
    assert index["toolchain"]["family"] == "halide"
    assert index["toolchain"]["version"].startswith("21.")
    report = audit([wheel], expectation=expectation(load(RECIPE)))
    assert [f for f in report.findings if f.severity == "error"] == []


def test_nothing_of_cuda_is_needed_and_the_runtime_is_there_once(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    libraries = sorted(tmp_path.glob("softlens/_gpuforge/kernels/filters/*.so"))
    assert len(libraries) == len(TARGETS) + 1
    for file in libraries:
        dynamic = subprocess.run(["readelf", "-dW", file], capture_output=True, text=True, check=True).stdout
        assert {*re.findall(r"NEEDED.*\[(.*?)\]", dynamic)} <= {"libc.so.6", "libdl.so.2", "libpthread.so.0"}
        names = subprocess.run(["nm", "-D", file], capture_output=True, text=True, check=True).stdout
        assert len(re.findall(r" [TW] halide_error$", names, re.MULTILINE)) == 1
        assert {"blur", "unsharp"} <= {*re.findall(r" T (\w+)$", names, re.MULTILINE)}
        assert (b"libcuda.so.1\0" in file.read_bytes()) == ("compute" in file.name)


def test_the_kernel_cache_holds_hundreds_that_halide_compiled(tmp_path):
    """The nine points of PR 5546, with 300 pipelines in place of copies of one; a driver stands in."""
    unit = Path(__file__).parents[1] / "unit"
    python = environment(tmp_path / "venv", "halide==21.*")
    texts = tmp_path / "ptx"
    texts.mkdir()
    subprocess.run([python, unit / "halide_many.py", texts, "300"], check=True)
    assert len({file.read_bytes() for file in texts.glob("*.ptx")}) == 300
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", "stand-in"]
    done = run(*command, unit / "test_halide_kernels.py", GPUFORGE_HALIDE_PTX=texts)
    assert done.returncode == 0, done.stdout
    assert "9 passed" in done.stdout


def test_the_library_for_this_cpu_is_chosen_and_works(wheel, tmp_path):
    settings: dict[str, Any] = {
        "PYTHONPATH": install_to(tmp_path / "site", wheel),
        "GPUFORGE_DISABLE_GPU": 1,
    }
    program = "import numpy, softlens; print(softlens.where(), softlens.blur(numpy.ones((40, 50)))[20, 20])"
    assert run(sys.executable, "-c", program, **settings).stdout == "cpu 1.0\n"
    explained = run(sys.executable, "-m", "softlens._gpuforge", "explain", **settings).stdout
    assert all(target in explained for target in TARGETS)


def test_an_object_for_each_pipeline_would_bring_two_runtimes_and_is_refused(tmp_path, store):
    recipe = tmp_path / "recipe"
    shutil.copytree(RECIPE, recipe)
    manifest = recipe / "gpuforge.toml"
    split = "\n".join(SPLIT.format(name=name) for name in ("blur", "unsharp"))
    manifest.write_text(OBJECT.sub(split, manifest.read_text()))
    done = run(GPUFORGE, "build", recipe, "-o", tmp_path / "dist", "--no-test", GPUFORGE_CACHE_DIR=store)
    assert done.returncode == 1
    assert "GF111" in done.stdout + done.stderr
    assert not list((tmp_path / "dist").glob("*.whl"))
