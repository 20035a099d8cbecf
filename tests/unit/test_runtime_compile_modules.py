"""`compile` for a set of modules: nvcc, NVRTC, OpenCL or g++, whichever is there, in the order of the recipe."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from library_samples import ended, printed, program, run, toolchain
from runtime_samples import compile_stub
from set_samples import NVRTC, OPENCL_C, install_set, nvrtc_stub

from gpuforge.package.contents import UserToolchain
from gpuforge.toolchains import nvcc

pytestmark = pytest.mark.thorough

# An nvcc that makes "a fatbin" of what it was called with: the stand-in for the driver loads it.
NVCC = """case "$1" in --version) echo "nvcc: NVIDIA (R) Cuda compiler driver
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0"; exit;; esac
for word; do [ "$last" = -o ] && out=$word; last=$word; done
printf 'a fatbin by nvcc of %s' "$*" > "$out"
"""
USE = """
import json, sys
from array import array
from demo._gpuforge import KernelSet
kernels = KernelSet.shipped("ops")
kernel = kernels.function("saxpy")
first = next(c for c in kernels.candidates("scale") if c.accepted)
print(json.dumps({"backend": kernel.backend, "used": first.label, "place": first.build.place}))
"""


def recipe_of_nvcc() -> UserToolchain:
    call, family = nvcc.module((), ""), nvcc.NVCC
    return UserToolchain(
        name="device",
        family="nvcc",
        version="",
        argv=call.argv,
        programs=family.programs.pattern,
        answers=family.answers,
        makes="module",
        sources=("mod/scale.cu",),
        install={"": "install CUDA"},
        of_toolkit=True,
    )


# As much of pyopencl as finding a device takes.
PYOPENCL = """
from types import SimpleNamespace as Of
class Error(Exception): pass
device_type = Of(GPU=4, ACCELERATOR=8, CPU=2)
DEVICE = Of(name="a CPU", type=2, extensions="", driver_version="1", platform=Of(name="P", version="3.0"))
def get_platforms(): return [Of(get_devices=lambda: [DEVICE])]
"""
HOST = toolchain("host", "g++", sources=("mod/scale.cpp",))


class User:
    """A user with a wheel of the set `ops`, whose machine has what is asked for."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.site = tmp_path / "site"
        self.env: dict[str, str] = {"GPUFORGE_NVRTC": "0"}
        install_set(self.site, recipe_of_nvcc(), NVRTC, OPENCL_C, HOST)

    def gpu(self) -> None:
        (self.tmp_path / "driver").mkdir()
        compile_stub(self.tmp_path / "driver")
        self.env |= {"GPUFORGE_DISABLE_GPU": "0", "LD_LIBRARY_PATH": str(self.tmp_path / "driver")}

    def nvcc(self) -> None:
        program(self.tmp_path / "bin", "nvcc", NVCC)
        self.env["PATH"] = f"{self.tmp_path / 'bin'}:/usr/bin:/bin"

    def nvrtc(self) -> None:
        self.env["GPUFORGE_NVRTC"] = str(nvrtc_stub(self.tmp_path / "nvrtc"))

    def compile(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return run(self.site, "compile", *arguments, **self.env)

    def use(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(printed(self.site, USE, **self.env))
        return found

    def said(self, text: str) -> str:
        """Return a message without the folders of this test."""
        return text.replace(str(self.tmp_path), "TMP")


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def test_nvcc_comes_first_where_there_is_a_gpu(user):
    user.gpu()
    user.nvcc()
    user.nvrtc()
    done = user.compile()
    assert (done.returncode, done.stderr) == (0, "")
    assert "/ops, made by nvcc 13.0.88 (toolchain device) for sm_90, is used from now on" in done.stdout
    found = user.use()
    assert (found["backend"], found["used"]) == ("cuda", "user build cubin sm_90")
    assert b"-arch=sm_90" in Path(found["place"]).read_bytes()
    removed = user.compile("--remove")
    assert removed.stdout == (
        "ops: your build was removed; in use: cached build CUDA source, nvrtc 12.4 of "
        f"{Path(user.env['GPUFORGE_NVRTC']).stat().st_size} bytes compiles it for sm_90 when it is first loaded; "
        "it is kept\n"
    )


def test_others_cannot_write_to_what_is_made_and_an_index_that_they_can_write_to_is_not_used(user):
    user.gpu()
    user.nvcc()
    before = os.umask(0)
    try:
        assert user.compile().returncode == 0
    finally:
        os.umask(before)
    found = user.use()
    assert found["used"] == "user build cubin sm_90"
    images = Path(found["place"]).parent
    assert {path.name: path.stat().st_mode & 0o777 for path in images.iterdir()} == {
        "index.json": 0o644,
        "scale.cubin": 0o644,
    }
    (images / "index.json").chmod(0o666)
    assert not user.use()["used"].startswith("user build")
    problem = f"{images}/index.json can be written by other users (chmod o-w {images}/index.json)"
    assert problem in run(user.site, "explain", **user.env).stdout


def test_nvrtc_is_taken_without_nvcc_and_its_code_is_the_kernel_caches(user):
    user.gpu()
    user.nvrtc()
    assert user.use()["used"] == "cached build CUDA source"  # compiled at first use
    entries = [path.read_bytes() for path in user.tmp_path.rglob("*.kernel")]
    done = user.compile()
    assert (done.returncode, done.stderr) == (0, "")
    assert "(toolchain rtc) for sm_90, is used from now on" in done.stdout
    found = user.use()
    assert found["used"] == "user build cubin sm_90"
    assert entries[0].endswith(Path(found["place"]).read_bytes())
    assert [path.read_bytes() for path in user.tmp_path.rglob("*.kernel")] == entries  # compiled once


@pytest.mark.parametrize(
    ("first", "arguments"),
    [({}, ["--toolchain", "newer"]), ({"version": "<12", "accepts": (("<", (12,)),)}, [])],
)
def test_each_of_two_toolchains_of_one_compiler_has_its_own_flags(user, first, arguments):
    """The second one is named, or the first does not take this machine's NVRTC."""
    user.gpu()
    user.nvrtc()
    shutil.rmtree(user.site)
    install_set(user.site, replace(NVRTC, **first), replace(NVRTC, name="newer", argv=("-DNEWER",)))
    done = user.compile(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "(toolchain newer), is used from now on" in done.stdout
    assert Path(user.use()["place"]).read_text().endswith("|-DNEWER")


def test_without_a_gpu_gxx_makes_the_library_for_the_cpu(user):
    user.nvcc()
    user.nvrtc()
    done = user.compile()
    assert (done.returncode, done.stderr) == (0, "")
    assert "made by g++ " in done.stdout
    assert user.use()["used"] == "user build library"
    assert (
        user.compile("--remove").stdout == "ops: your build was removed; in use: CPU library, needs no GPU\n"
    )


def test_nothing_fits_is_one_line_that_names_each(user):
    done = user.compile("--toolchain", "rtc")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "error: ops: not compiled: this machine has no GPU to compile for: switched off (GPUFORGE_DISABLE_GPU=1)\n"
    )
    done = user.compile("--toolchain", "cl")
    assert done.stderr.startswith("error: ops: not compiled: no opencl (")
    user.env["GPUFORGE_DISABLE_GPU"] = "0"
    (user.site / "pyopencl.py").write_text("raise ModuleNotFoundError(name='pyopencl')", encoding="utf-8")
    done = user.compile("--toolchain", "cl")
    assert done.stderr == "error: ops: not compiled: no opencl: pip install demo[opencl]\n"
    (user.tmp_path / "scale.cl").touch()
    done = user.compile("--toolchain", "cl", user.tmp_path / "scale.cl")
    assert done.stderr.startswith(
        "error: ops: not compiled: no opencl (`compile` takes no sources of yours for it): "
    )


def test_what_opencl_compiles_goes_nowhere_else_than_into_the_cache(user):
    (user.site / "pyopencl.py").write_text(PYOPENCL, encoding="utf-8")
    output = user.tmp_path / "out"
    user.env["GPUFORGE_DISABLE_GPU"] = "0"
    done = user.compile("--toolchain", "cl", "--output", output)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: ops: what OpenCL compiles goes into the kernel cache and not to --output; "
        "name another toolchain with --toolchain: device, rtc, host\n"
    )
    assert not output.exists()


def test_what_nvrtc_refuses_changes_nothing(user):
    user.gpu()
    user.nvrtc()
    mine = user.tmp_path / "scale.cu"
    mine.write_text("an error\n")
    done = user.compile(mine)
    assert (done.returncode, done.stdout) == (1, "")
    size = Path(user.env["GPUFORGE_NVRTC"]).stat().st_size
    assert user.said(done.stderr).startswith(
        f"error: ops: nvrtc 12.4 of {size} bytes refuses scale.cu: op.cu(1): error: an identifier is expected; "
        "all it printed: TMP/builds/user/demo/ops-"
    )
    assert user.use()["used"] == "cached build CUDA source"


def test_a_source_of_the_users_takes_the_place_of_the_packages(user):
    user.gpu()
    user.nvrtc()
    mine = user.tmp_path / "scale.cu"
    mine.write_text('#include "scale.h"\n// mine\n')
    assert user.compile(mine).returncode == 0
    code = Path(user.use()["place"]).read_text()
    assert "// mine" in code
    assert "__global__" not in code
    library = user.tmp_path / "scale.cpp"
    library.write_text('extern "C" void saxpy(void) {}\n')
    assert "made by g++" in user.compile(library).stdout  # no other toolchain compiles it


def test_two_sources_of_the_users_for_one_module_are_refused(user):
    user.gpu()
    user.nvrtc()
    mine = [user.tmp_path / folder / f"scale.{suffix}" for folder in "ab" for suffix in ("cu", "cpp")]
    for source in mine:
        source.parent.mkdir(exist_ok=True)
        source.write_text(f'extern "C" int of_{source.parent.name}(void) {{ return 1; }}\n')
    done = user.compile(*mine[::2])
    assert (done.returncode, done.stdout) == (2, "")
    assert user.said(done.stderr) == (
        "error: ops: TMP/a/scale.cu and TMP/b/scale.cu would both give the module 'scale': rename one of them\n"
    )
    assert user.compile(*mine[1::2]).returncode == 0  # both are in one library


def test_an_output_folder_activates_nothing_and_the_variable_uses_it(user):
    user.gpu()
    user.nvrtc()
    for _ in range(2):
        done = user.compile("--output", user.tmp_path / "out")
        assert done.stdout.endswith(f"GPUFORGE_KERNELS_DEMO_OPS={user.tmp_path / 'out' / 'ops'} uses it\n")
    assert user.use()["used"] == "cached build CUDA source"
    user.env["GPUFORGE_KERNELS_DEMO_OPS"] = str(user.tmp_path / "out" / "ops")
    assert user.use()["used"] == "environment cubin sm_90"


def test_a_build_for_an_earlier_release_is_warned_of_and_made_anew(user):
    """Who compiled kernels must not compute with others without a word."""

    def warning() -> str:
        return ended(user.site, USE, **user.env).stderr

    assert warning() == ""
    assert user.compile().returncode == 0
    assert warning() == ""
    shutil.rmtree(user.site / "demo")
    install_set(user.site, NVRTC, HOST)
    assert (
        "RuntimeWarning: user build: your build was made for an earlier release, and other sources are installed now: "
        "python -m demo._gpuforge compile. Used instead: CPU library\n"
    ) in warning()
    assert user.compile().returncode == 0
    assert warning() == ""


def test_a_source_for_the_cpu_alone_is_not_a_module(user):
    """The set's first source is C++, and has a name that no module has."""
    shutil.rmtree(user.site)
    host = replace(HOST, sources=("mod/host.cpp", "mod/scale.cpp"))
    home = install_set(user.site, NVRTC, host, more={"host.cpp": 'extern "C" int more(void) { return 1; }\n'})
    done = user.compile("--remove")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "ops: there was no build of yours; in use: CPU library, needs no GPU\n"
    mine = user.tmp_path / "host.cpp"
    mine.write_text("}")
    done = user.compile(mine)
    assert done.returncode == 1
    assert re.match(r"error: ops: g\+\+ .* failed with exit status 1: .*; in use: CPU library, ", done.stderr)
    assert user.compile().returncode == 0
    (home / "kernels" / "ops-cpu" / "libops-cpu.so").unlink()
    done = user.compile("--remove")
    assert (done.returncode, done.stdout) == (0, "ops: your build was removed; no kernels are in use\n")


def test_each_module_of_a_set_is_described(user):
    shutil.rmtree(user.site)
    rtc = replace(NVRTC, sources=("mod/scale.cu", "mod/shift.cu"))
    install_set(user.site, rtc, more={"shift.cu": "// shift\n"}, cpu=False)
    user.gpu()
    user.nvrtc()
    assert user.compile().returncode == 0
    mine = user.tmp_path / "scale.cu"
    mine.write_text("an error\n")
    done = user.compile(mine)
    assert re.search(
        r"; in use: scale: user build cubin sm_90 \(\S*/scale\.cubin\), built for this very architecture; "
        r"shift: user build cubin sm_90 \(\S*/shift\.cubin\), built for this very architecture\n$",
        done.stderr,
    )
    assert "; in use: cached build CUDA source, nvrtc 12.4 " in user.compile("--remove").stdout


def test_a_machine_without_a_gpu_compiles_for_one_that_is_named(user):
    user.nvrtc()
    done = user.compile("--arch", "90")
    assert (done.returncode, done.stderr) == (0, "")
    assert "(toolchain rtc) for sm_90 (no such GPU is here), is used from now on" in done.stdout
    user.env["GPUFORGE_NVRTC"] = "0"  # on the node with the GPU, nothing can compile
    user.gpu()
    found = user.use()
    assert (found["backend"], found["used"]) == ("cuda", "user build cubin sm_90")


def test_a_build_for_another_gpu_is_not_used(user):
    user.nvrtc()
    assert user.compile("--arch", "8.0").returncode == 0
    user.env["GPUFORGE_NVRTC"] = "0"
    user.gpu()
    assert user.use()["used"] != "user build cubin sm_80"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--arch", "90a"), "argument --arch: '90a' is not a compute capability such as 90"),
        (("--arch", "new"), "argument --arch: 'new' is not a compute capability such as 90"),
        (
            ("--arch", "90", "--toolchain", "host"),
            "error: ops: --arch does not go with the toolchain host, which takes none",
        ),
    ],
)
def test_an_architecture_that_is_none_and_a_toolchain_without_one_are_errors(user, arguments, error):
    done = user.compile(*arguments)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(error)


def test_with_an_architecture_no_library_for_the_cpu_is_made_instead(user):
    done = user.compile("--arch", "90")
    assert (done.returncode, done.stdout) == (3, "")
    assert "host" not in done.stderr
