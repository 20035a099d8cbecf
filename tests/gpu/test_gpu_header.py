"""A host in C, without Python, loads the installed saxpy wheel's kernels on a real GPU with gpuforge_kernels.h."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.gpu
SOURCE = Path(__file__).parents[1] / "unit" / "saxpy_host.c"


@pytest.fixture(scope="module")
def runtime() -> ModuleType:
    module: ModuleType = pytest.importorskip("saxpy._gpuforge", reason="the saxpy wheel is not installed")
    machine = module.probe()
    if not machine.devices:
        pytest.skip(str(machine.problem))
    return module


@pytest.fixture(scope="module", params=["c", "c++"])
def program(
    request: pytest.FixtureRequest, runtime: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    compiler, standard, form = {"c": ("gcc", "c99", "-xc"), "c++": ("g++", "c++11", "-xc++")}[request.param]
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    shown = subprocess.run(
        [sys.executable, "-m", "saxpy._gpuforge", "include"], capture_output=True, text=True, check=False
    )
    if shown.returncode:
        pytest.skip("the saxpy wheel was built without c-header = true")
    target = tmp_path_factory.mktemp("host") / "saxpy_host"
    strict = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{shown.stdout.strip()}"]
    subprocess.run([compiler, *strict, form, SOURCE, "-o", target, "-pthread", "-ldl"], check=True)
    return target


def run(program: Path, runtime: ModuleType, **env: str) -> subprocess.CompletedProcess[str]:
    home = Path(runtime.__file__ or "").parent
    return subprocess.run(
        [program, home, "saxpy", "default-kernels"],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_shipped_kernel_computes_right(program, runtime):
    done = run(program, runtime)
    assert (done.returncode, done.stdout, done.stderr) == (0, "device 0: right\n", "")


def test_ptx_alone_computes_right(program, runtime, tmp_path):
    ptx = tmp_path / "saxpy.ptx"
    ptx.write_text(PTX)
    done = run(program, runtime, GPUFORGE_KERNELS_SAXPY_DEFAULT_KERNELS=str(ptx))
    assert (done.returncode, done.stdout) == (0, "device 0: right\n")


def test_what_the_driver_refuses_is_told_and_passed_over(program, runtime, tmp_path):
    file = tmp_path / "mine.cubin"
    file.write_text("nonsense")
    done = run(program, runtime, GPUFORGE_KERNELS_SAXPY_DEFAULT_KERNELS=str(file))
    # a driver may load lazily, and refuse the file when its kernel is asked for
    said = re.escape(f"environment file ({file}): kernel saxpy: ")
    assert re.match(f"{said}cuLibrary(LoadData|GetKernel) failed: CUDA_ERROR_", done.stdout)
    assert done.stdout.endswith("device 0: right\n")


PTX = """\
.version 7.0
.target sm_52
.address_size 64
.visible .entry saxpy(.param .u64 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .f32 %f<4>;
    .reg .b64 %d<8>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    cvt.u64.u32 %d1, %r1;
    ld.param.u64 %d2, [n];
    setp.ge.u64 %p, %d1, %d2;
    @%p bra end;
    ld.param.u64 %d3, [x];
    ld.param.u64 %d4, [y];
    cvta.to.global.u64 %d3, %d3;
    cvta.to.global.u64 %d4, %d4;
    shl.b64 %d5, %d1, 2;
    add.u64 %d3, %d3, %d5;
    add.u64 %d4, %d4, %d5;
    ld.param.f32 %f1, [a];
    ld.global.f32 %f2, [%d3];
    ld.global.f32 %f3, [%d4];
    fma.rn.f32 %f3, %f1, %f2, %f3;
    st.global.f32 [%d4], %f3;
end:
    ret;
}
"""
