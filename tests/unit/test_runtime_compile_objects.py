"""`compile` of several objects on a machine without a GPU: what can be compiled is, and the rest is named."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from library_samples import answer, install, program, run, toolchain
from set_samples import NVRTC, install_set

pytestmark = pytest.mark.thorough

# An nvcc that compiles with g++, for the CPU, and keeps the arguments that it was called with.
NVCC = """case "$1" in --version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit;; esac
echo "$@" > "$(dirname "$0")/arguments"
for word; do case "$word" in -arch=*|-cudart=*|-Xlinker=*|-Xcompiler=*) ;; *) set -- "$@" "$word";; esac; shift; done
exec g++ -fPIC "$@"
"""
NO_GPU = "this machine has no GPU to compile for: switched off (GPUFORGE_DISABLE_GPU=1)"


def _site(tmp_path: Path, *toolchains: object) -> Path:
    """A package with the library `answers`, and the set `a-set` that needs a GPU, which comes first."""
    site = tmp_path / "site"
    install(site, *toolchains)  # type: ignore[arg-type]
    other = tmp_path / "other"
    other.mkdir()
    sources = install_set(other / "site", NVRTC, cpu=False) / "sources" / "ops"
    target = site / "demo" / "_gpuforge" / "sources" / "a-set"
    shutil.copytree(sources, target)
    file = target / "recipe.json"
    file.write_text(file.read_text().replace('"name": "ops"', '"name": "a-set"'))
    return site


def test_an_object_that_needs_a_gpu_does_not_stop_the_others(tmp_path: Path) -> None:
    site = _site(tmp_path, toolchain("host", "g++"))
    done = run(site, "compile")
    assert (done.returncode, done.stderr) == (3, f"error: a-set: not compiled: {NO_GPU}\n")
    assert done.stdout.startswith("answers: ")
    assert done.stdout.endswith(" (toolchain host), is used from now on\n")
    assert answer(site) == 42


def test_each_object_that_is_not_compiled_is_named(tmp_path: Path) -> None:
    site = _site(tmp_path, toolchain("host", "g++", version=">=1000"))
    done = run(site, "compile", PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines() == [
        f"error: a-set: not compiled: {NO_GPU}",
        "error: answers: not compiled: no g++ >=1000: install g++",
    ]


def test_a_failure_counts_more_than_a_missing_gpu(tmp_path: Path) -> None:
    site = _site(tmp_path, toolchain("host", "g++", "-DANSWER=)"))
    assert run(site, "compile").returncode == 1


def test_nvcc_without_a_gpu_compiles_for_the_lowest_architecture_of_the_wheel(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, toolchain("device", "nvcc"))
    nvcc = program(tmp_path / "bin", "nvcc", NVCC)
    done = run(site, "compile", PATH=f"{nvcc.parent}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (0, "")
    assert "-arch=sm_80" in (nvcc.parent / "arguments").read_text()
    assert done.stdout.endswith(
        " for sm_80 (no GPU here: the lowest architecture of the wheel, with PTX for newer GPUs), "
        "is used from now on\n"
    )


def test_a_plug_ins_compiler_of_a_toolkit_is_called_as_nvcc_is(tmp_path: Path) -> None:
    site = tmp_path / "site"
    argv = (*toolchain("device", "nvcc").argv, "-DOF={cuda}")
    install(site, replace(toolchain("device", "nvcc"), family="plugged", argv=argv))
    nvcc = program(tmp_path / "bin", "nvcc", NVCC)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda.h").touch()
    done = run(site, "compile", PATH=f"{nvcc.parent}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (0, "")
    arguments = (nvcc.parent / "arguments").read_text().split()
    assert {"-arch=sm_80", f"-DOF={tmp_path}"} <= {*arguments}


def test_nvcc_without_a_gpu_and_a_wheel_that_names_no_architecture(tmp_path: Path) -> None:
    site = tmp_path / "site"
    recipe = install(site, toolchain("device", "nvcc")) / "sources" / "answers" / "recipe.json"
    recipe.write_text(recipe.read_text().replace('"80"', '"90a"'))
    nvcc = program(tmp_path / "bin", "nvcc", NVCC)
    done = run(site, "compile", PATH=f"{nvcc.parent}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (3, f"error: answers: not compiled: {NO_GPU}\n")


def test_a_relative_home_is_refused(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, toolchain("host", "g++"))
    done = run(site, "compile", GPUFORGE_KERNEL_HOME="rel")
    assert (done.returncode, done.stderr) == (
        2,
        "error: GPUFORGE_KERNEL_HOME=rel: expected an absolute path\n",
    )
    assert not (site / "rel").exists()
