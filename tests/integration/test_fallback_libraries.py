"""Fallback libraries by nvcc and for levels of CPUs: built by the real compilers, audited, installed and used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from builds import GPUFORGE, install_to, run

pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("build")]
FILES = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools>=70"]\nbuild-backend = "setuptools.build_meta"\n'
    '[project]\nname = "ops"\nversion = "1.0"\n[tool.setuptools]\npackages = ["ops"]\n',
    "ops/__init__.py": "",
    "kernels/ops.h": '#ifdef __cplusplus\nextern "C"\n#endif\nint ops_where(void);\n',
    "kernels/ops.cu": '#include "ops.h"\n__global__ void fill(int *x) { *x = 1; }\n'
    "int ops_where(void) { int *x = 0; if (cudaMalloc(&x, 4)) return -1; fill<<<1, 1>>>(x); return cudaFree(x); }\n",
    "kernels/ops.cpp": '#include "ops.h"\nint ops_where(void) { return 7; }\n',
    "gpuforge.toml": """\
schema = 1
[package]
name = "ops"
abi = "none"
[build]
cuda = false
[toolchains.host]
compiler = "g++"
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


def test_a_wheel_with_libraries_for_gpus_and_cpus(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    command = [GPUFORGE, "build", tmp_path, "--no-test", "-o", tmp_path / "out"]
    manifest = tmp_path / "gpuforge.toml"
    manifest.write_text(FILES["gpuforge.toml"].partition("[audit]")[0])
    refused = run(*command)
    assert (refused.returncode, "the audit found errors: GF103" in refused.stderr) == (1, True), (
        refused.stderr
    )
    manifest.write_text(FILES["gpuforge.toml"])
    built = run(*command)
    assert built.returncode == 0, built.stdout + built.stderr
    said = built.stdout + built.stderr
    assert "of sm_75 sm_80 sm_90 sm_100 sm_120 + compute_75 (PTX 9.0)" in said
    assert "libcudart.so.13 ← nvidia-cuda-runtime" in said
    assert "kernel sets: cpu-ops, ops, static-ops: files and images match the index" in said
    assert "GF103" not in said, "accepted, with a reason"
    (wheel,) = (tmp_path / "out").glob("*.whl")
    site = install_to(tmp_path / "site", wheel)
    program = (
        "from ops._gpuforge import KernelLibrary as K; l = K.shipped('ops'); "
        "print(l.load().ops_where()); print(l.explain())"
    )
    done = run(sys.executable, "-c", program, GPUFORGE_DISABLE_GPU=1, PYTHONPATH=site)
    answer, _, used, *_ = done.stdout.splitlines()
    assert (answer, used[:34]) == ("7", "  used     cpu-ops library x86-64-")
    assert "refused  ops PTX compute_75" in done.stdout
