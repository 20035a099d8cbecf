"""recipes/saxpy with its kernels in a wheel of its own: built, installed by pip, found, refused, removed, audited."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from builds import GPUFORGE, PYTHON, copy_recipe, edit, environment, run

pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("build")]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_recipe("saxpy", tmp_path_factory.mktemp("split"))
    edit(folder, ('naming = ["suffix"]', 'kernels = "own"'))
    return folder


@pytest.fixture(scope="module")
def dist(project: Path, store: Path) -> Path:
    folder = project.parent / "dist"
    done = run(
        GPUFORGE, "build", project, "--cuda", "13", "--python", PYTHON, "-o", folder, GPUFORGE_CACHE_DIR=store
    )
    assert done.returncode == 0, done.stderr
    assert "2 of 2 wheels" in done.stdout
    assert "✓ test: installed bare on Python" in done.stdout
    assert "✓ test: installed [cuda13] on Python" in done.stdout
    return folder


@pytest.fixture(scope="module")
def site(dist: Path) -> Path:
    """The package installed alone."""
    environment(dist.parent / "env", "--no-index", f"--find-links={dist}", "saxpy")
    return dist.parent / "env"


def pip(env: Path, *words: str, dist: Path) -> None:
    found = ["--no-index", f"--find-links={dist}"] if words[0] == "install" else ["--yes"]
    command = [sys.executable, "-m", "pip", f"--python={env}", "--quiet", *words, *found]
    subprocess.run(command, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})


def explained(env: Path) -> str:
    return run(env / "bin" / "python", "-m", "saxpy._gpuforge", "explain", GPUFORGE_DISABLE_GPU="1").stdout


def test_the_kernels_come_and_go_with_their_wheel(site, dist):
    assert explained(site).startswith(
        "kernel set default-kernels: cannot be used\n"
        "  the kernels are in wheels of their own, and none is installed: "
        "pip install 'saxpy[cuda13]' or 'saxpy[cuda12]' or 'saxpy[cuda11]'\n"
    )
    assert run(site / "bin" / "python", "-m", "saxpy").stdout.endswith("1000000 numbers on cpu: right\n")

    pip(site, "install", "saxpy[cuda13]", dist=dist)
    shown = explained(site)
    assert "kernel set default-kernels: made by nvcc 13.0" in shown
    rows = [line.split("  ") for line in shown.splitlines() if line.startswith("    refused")]
    assert ["cubin sm_90 of saxpy-kernels-cu13", "switched off (GPUFORGE_DISABLE_GPU=1)"] in [
        [word.strip() for word in row if word][1:] for row in rows
    ]

    (about,) = site.glob("lib/python*/site-packages/saxpy_kernels_cu13/_gpuforge/wheel.json")
    text = about.read_text()
    about.write_text(json.dumps({**json.loads(text), "version": "0.0.9"}))
    assert (
        "saxpy-kernels-cu13 is of version 0.0.9, and this package of 0.1.0: pip install 'saxpy[cuda13]'\n"
        in explained(site)
    )
    about.write_text(text)
    assert explained(site) == shown

    pip(site, "uninstall", "saxpy-kernels-cu13", dist=dist)
    assert "and none is installed" in explained(site)


def test_they_are_found_by_an_isolated_python_without_its_site(site, dist):
    pip(site, "install", "saxpy[cuda13]", dist=dist)
    (packages,) = site.glob("lib/python*/site-packages")
    program = (
        f"import sys; sys.path.insert(0, {str(packages)!r})\n"
        "from saxpy._gpuforge import KernelSet\n"
        "print(KernelSet.shipped('default-kernels').places()[-1].wheel)"
    )
    done = run(site / "bin" / "python", "-I", "-S", "-c", program)
    assert (done.stdout, done.stderr) == ("saxpy-kernels-cu13\n", "")


def test_the_audit_judges_both_together(dist, project):
    wheels = sorted(dist.glob("*.whl"))
    assert [path.name.partition("-")[0] for path in wheels] == ["saxpy", "saxpy_kernels_cu13"]
    done = run(GPUFORGE, "audit", *wheels, "--manifest", project / "gpuforge.toml", "--format", "json")
    assert done.returncode == 0, done.stdout
    proved = json.loads(done.stdout)["proved"]
    assert any(line.startswith("host-only: core: 1 object read completely") for line in proved)
    assert any(line.startswith("GPU code: fatbin containers as declared") for line in proved)
