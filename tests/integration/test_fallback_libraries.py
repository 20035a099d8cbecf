"""Fallback libraries by nvcc and clang++, and for levels of CPUs: built by the real compilers, audited and used.

docs/kernel-libraries.md describes them.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from builds import GPUFORGE, install_to, run

pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("build")]
HEAD = """\
schema = 1
[package]
name = "ops"
abi = "none"
[build]
cuda = false
[toolchains.host]
compiler = "g++"
"""
FILES = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools>=70"]\nbuild-backend = "setuptools.build_meta"\n'
    '[project]\nname = "ops"\nversion = "1.0"\n[tool.setuptools]\npackages = ["ops"]\n',
    "ops/__init__.py": "",
    "kernels/ops.h": '#ifdef __cplusplus\nextern "C"\n#endif\nint ops_where(void);\n',
    "kernels/ops.cu": '#include "ops.h"\n__global__ void fill(int *x) { *x = 1; }\n'
    "int ops_where(void) { int *x = 0; if (cudaMalloc(&x, 4)) return -1; fill<<<1, 1>>>(x); return cudaFree(x); }\n",
    "kernels/ops.cpp": '#include "ops.h"\nint ops_where(void) { return 7; }\n',
    "gpuforge.toml": HEAD
    + """\
[toolchains.device]
compiler = "nvcc"
[cuda.13]
toolkit = "13.0"
archs = "common"
[[objects]]
name = "ops"
role = "fallback"
kind = "library"
sources = ["kernels/*.cu"]
toolchain = "device"
abi = { version = "1", headers = ["kernels/ops.h"] }
[[objects]]
name = "static-ops"
role = "fallback"
kind = "library"
sources = ["kernels/*.cu"]
toolchain = "device"
flags = ["-cudart=static"]
abi = { version = "1", headers = ["kernels/ops.h"] }
[[objects]]
name = "cpu-ops"
role = "fallback"
kind = "library"
sources = ["kernels/*.cpp"]
headers = ["kernels/ops.h"]
toolchain = "host"
stands-in-for = "ops"
cpu = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]
[wheel]
naming = ["plain"]
[audit]
ignore = [{ rule = "GF103", file = "*/static-ops/*", reason = "static-ops is compiled so on purpose" }]
""",
}


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def gpuforge_build(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(GPUFORGE, "build", folder, "--no-test", "-o", folder / "out")


def run_installed(folder: Path, program: str, **env: str) -> list[str]:
    """Install the wheel, and return what the program prints."""
    (wheel,) = (folder / "out").glob("*.whl")
    site = install_to(folder / "site", wheel)
    done = run(sys.executable, "-c", program, PYTHONPATH=site, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_wheel_with_libraries_for_gpus_and_cpus(tmp_path):
    write(tmp_path, FILES)
    manifest = tmp_path / "gpuforge.toml"
    manifest.write_text(FILES["gpuforge.toml"].partition("[audit]")[0])
    refused = gpuforge_build(tmp_path)
    assert (refused.returncode, "the audit found errors: GF103" in refused.stderr) == (1, True), (
        refused.stderr
    )
    manifest.write_text(FILES["gpuforge.toml"])
    built = gpuforge_build(tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    said = built.stdout + built.stderr
    assert "of sm_75 sm_80 sm_90 sm_100 sm_120 + compute_75 (PTX 9.0)" in said
    assert "libcudart.so.13 ← nvidia-cuda-runtime" in said
    assert "kernel sets: cpu-ops, ops, static-ops: files and images match the index" in said
    assert "GF103" not in said, "accepted, with a reason"
    program = (
        "from ops._gpuforge import KernelLibrary as K; l = K.shipped('ops'); "
        "print(l.load().ops_where()); print(l.explain())"
    )
    lines = run_installed(tmp_path, program, GPUFORGE_DISABLE_GPU="1")
    answer, _, used, *_ = lines
    assert (answer, used[:34]) == ("7", "  used     cpu-ops library x86-64-")
    assert any("refused  ops PTX compute_75" in line for line in lines)


OFFLOADING = """\
[toolchains.offload]
compiler = "clang++"
path = "CLANG"
flags = ["-fopenmp", "-fopenmp-targets=nvptx64"]
[cuda.12]
toolkit = "12.4"
archs = ["80", "90"]
[[objects]]
name = "ops"
role = "fallback"
kind = "library"
sources = ["kernels/*.cpp"]
toolchain = "offload"
abi = { version = "1", headers = ["kernels/ops.h"] }
[[objects]]
name = "cpu-ops"
role = "fallback"
kind = "library"
sources = ["kernels/*.cpp"]
headers = ["kernels/ops.h"]
toolchain = "host"
stands-in-for = "ops"
[[objects]]
name = "tool"
role = "fallback"
kind = "program"
sources = ["kernels/*.cpp", "kernels/tool/main.cpp"]
toolchain = "offload"
abi = { version = "1", headers = ["kernels/ops.h"] }
[[objects]]
name = "cpu-tool"
role = "fallback"
kind = "program"
sources = ["kernels/*.cpp", "kernels/tool/main.cpp"]
headers = ["kernels/ops.h"]
toolchain = "host"
stands-in-for = "tool"
[wheel]
naming = ["plain"]
exclude = ["omp", "omptarget"]
"""
SUM = """\
#include "ops.h"
int ops_where(void) {
    int sum = 0;
    #pragma omp target teams distribute parallel for map(tofrom: sum) reduction(+: sum)
    for (int i = 0; i < 10; ++i) sum += i;
    return sum;
}
"""
MAIN = """\
#include "../ops.h"
#include <cstdio>
int main() { std::printf("sum %d\\n", ops_where()); }
"""
PROGRAM = """\
from ops._gpuforge import KernelLibrary, KernelProgram
from ops._gpuforge.driver import Device, Probe
ops = KernelLibrary.shipped("ops")
ops.machine = Probe((12, 4), (Device(0, "H100", (9, 0)),))
print(ops.load().ops_where())
tool = KernelProgram.shipped("tool")
tool.machine = ops.machine
print(tool.run(capture_output=True, text=True, check=True).stdout.strip())
print(ops.explain())
print(tool.explain())
"""


@pytest.fixture(scope="module")
def clang() -> str:
    """A clang++ that offloads; GPUFORGE_TEST_CLANG names one."""
    found = [os.environ.get("GPUFORGE_TEST_CLANG", ""), *(f"clang++-{major}" for major in range(22, 15, -1))]
    program = next((shutil.which(name) for name in found if name and shutil.which(name)), None)
    if program is None:
        pytest.skip("no clang++ 16 or later: apt-get install clang-19 clang-tools-19 libomp-19-dev")
    return program


def test_machine_code_that_llvms_openmp_does_not_load_is_not_packed(tmp_path, clang):
    answer = subprocess.run([clang, "--version"], capture_output=True, text=True, check=True).stdout
    if int(answer.partition("clang version ")[2].partition(".")[0]) > 20:
        pytest.skip("this clang++ has an OpenMP runtime that loads it")
    manifest = HEAD + OFFLOADING.replace("CLANG", clang)
    manifest = manifest.replace('[cuda.12]\ntoolkit = "12.4"', '[cuda.13]\ntoolkit = "13.0"')
    write(
        tmp_path, {**FILES, "kernels/ops.cpp": SUM, "kernels/tool/main.cpp": MAIN, "gpuforge.toml": manifest}
    )
    built = gpuforge_build(tmp_path)
    assert built.returncode == 1
    assert re.search(r"header of CUDA 13, which libomptarget\.so\.\d\S+ does not load", built.stderr)


def test_a_library_and_a_program_by_clangs_offloading_are_given_up_where_they_cannot_load(tmp_path, clang):
    manifest = HEAD + OFFLOADING.replace("CLANG", clang)
    sources = {"kernels/ops.cpp": SUM, "kernels/tool/main.cpp": MAIN}
    write(tmp_path, {**FILES, **sources, "gpuforge.toml": manifest})
    built = gpuforge_build(tmp_path)
    said = built.stdout + built.stderr
    assert built.returncode == 0, said
    assert "GPU code: fatbin containers as declared: 2 of sm_80 sm_90, no PTX" in said
    assert "kernel sets: cpu-ops, cpu-tool, ops, tool: files and images match the index" in said
    assert "warning GF201" in said
    lines = run_installed(tmp_path, PROGRAM)
    assert lines[:2] == ["45", "sum 45"]
    shown = "\n".join(lines)
    for name in ("ops", "tool"):
        if f"used     {name} cubin sm_90" not in shown:
            # the loader does not find libomptarget, as on most machines
            assert re.search(rf"used     shipped +cpu-{name}, made by g", shown)
            assert re.search(rf"refused  {name} cubin sm_90 +cannot be loaded: libomptarget\.so", shown)
