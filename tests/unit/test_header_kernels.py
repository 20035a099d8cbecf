"""A host in C loads and launches kernels with gpuforge_kernels.h, through the driver that stands in for libcuda."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from header_samples import compile_program
from runtime_samples import write_set

from gpuforge.runtime import KernelSet, UnknownKernel
from gpuforge.runtime.layout import kernel_home

SOURCE = Path(__file__).with_name("saxpy_host.c")

pytestmark = [pytest.mark.xdist_group("header"), pytest.mark.thorough]  # compiled once


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(tmp_path_factory.mktemp("host"), SOURCE)


def host(program: Path, home: Path, driver: str, **env: str) -> tuple[int, str]:
    """Run the program where nothing of the user's own environment is seen."""
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [program, home, "pkg", "default-kernels", driver],
        env={"PATH": os.defpath, "GPUFORGE_KERNEL_HOME": str(home / "user"), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_set(tmp_path / "home" / "kernels" / "default-kernels")
    return tmp_path / "home"


def test_a_kernel_is_loaded_and_launched(program, home, stub):
    assert host(program, home, stub) == (0, "device 0: right\n")


KERNEL = {"name": "saxpy", "parameters": [{"type": "float *", "size": 8}]}


def listed(home: Path, *symbols: str) -> None:
    """List kernels `saxpy` with these symbols in the index."""
    file = home / "kernels" / "default-kernels" / "index.json"
    index = json.loads(file.read_text())
    index["modules"][0]["kernels"] = [{**KERNEL, "symbol": symbol} for symbol in symbols]
    file.write_text(json.dumps(index))


def test_a_kernel_with_cpps_linkage_is_found_by_its_name(program, home, stub):
    listed(home, "_Z5saxpymfPKfPf")
    assert host(program, home, stub) == (0, "device 0: right\n")
    file = home / "mine.cubin"
    file.write_text("a fatbin")
    env = {"GPUFORGE_KERNELS_PKG_DEFAULT_KERNELS": str(file)}
    assert host(program, home, stub, **env) == (0, "device 0: right\n")
    listed(home, "_Z5saxpyother")  # the environment's file has it by its name
    assert host(program, home, stub, **env) == (0, "device 0: right\n")
    status, printed = host(program, home, stub)
    assert (status, printed.splitlines()[0].partition(": cuLib")[0]) == (
        4,
        "cubin sm_90: has no kernel saxpy",
    )


@pytest.mark.parametrize("name", ["daxpy", "ns::saxpy"])
def test_a_name_that_means_no_kernel_is_named_as_python_does(program, home, stub, name):
    file = home / "kernels" / "default-kernels" / "index.json"
    listed(home, "_Z5daxpyPf", "_ZN2ns5saxpyEPf")
    file.write_text(
        file.read_text().replace('"name": "saxpy", "parameters"', f'"name": "{name}", "parameters"')
    )
    with pytest.raises(UnknownKernel) as error:
        KernelSet(file.parent, package="pkg", env={}, driver=stub).function("saxpy")
    assert host(program, home, stub) == (4, f"{error.value}\n")


def test_a_driver_without_cudas_libraries_loads_a_module(program, home, old_stub):
    (home / "kernels" / "default-kernels" / "index.json").write_text(
        (home / "kernels" / "default-kernels" / "index.json").read_text().replace("13.0", "11.4")
    )
    assert host(program, home, old_stub, STUB_VERSION="11040") == (0, "device 0: right\n")


def test_the_environment_names_what_the_driver_refuses(program, home, stub):
    file = home / "mine.cubin"
    file.write_text("nonsense")
    assert host(program, home, stub, GPUFORGE_KERNELS_PKG_DEFAULT_KERNELS=str(file)) == (
        0,
        f"environment file ({file}): kernel saxpy: cuLibraryLoadData failed: CUDA_ERROR_STUBBED (200): "
        "words of the stub\n"
        "What to do: the kernel's file is damaged: install the wheel again, or compile yours again\n"
        "device 0: right\n",
    )


@pytest.mark.parametrize(
    ("env", "place"),
    [
        ({"GPUFORGE_KERNEL_HOME": "{root}/rel"}, "rel"),
        ({"GPUFORGE_KERNEL_HOME": "", "XDG_CACHE_HOME": "{root}/cache"}, "cache/gpuforge/kernels"),
        ({"GPUFORGE_KERNEL_HOME": "", "XDG_CACHE_HOME": "x", "HOME": "{root}"}, ".cache/gpuforge/kernels"),
        ({"GPUFORGE_KERNEL_HOME": "", "XDG_CACHE_HOME": "x", "HOME": "h"}, ""),
    ],
)
def test_the_users_build_is_looked_for_where_python_does(program, home, tmp_path, monkeypatch, env, place):
    given = {name: value.format(root=tmp_path) for name, value in env.items()}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", given.get("HOME", "/nothing"))
    assert kernel_home(given) == (str(tmp_path / place) if place else "/nonexistent/.cache/gpuforge/kernels")
    for folder in {"x/gpuforge/kernels", "h/.cache/gpuforge/kernels", place}:
        own = write_set(tmp_path / folder / "user" / "pkg" / "default-kernels")
        (own / "index.json").write_text("no JSON")
    status, printed = host(program, home, "libnothing.so", **given)
    assert status == 4
    assert re.findall(r"user build \((.*?)\)", printed) == (
        [str(tmp_path / place / "user" / "pkg" / "default-kernels")] if place else []
    )


@pytest.mark.parametrize(
    ("env", "reasons"),
    [
        ({"GPUFORGE_DISABLE_GPU": "1"}, "switched off (GPUFORGE_DISABLE_GPU=1)\n"),
        ({"STUB_DEVICES": "0"}, "the driver sees no GPU\n"),
        ({"STUB_VERSION": "10020"}, "{driver} is for CUDA 10.2; this runtime needs 11.0 or newer\n"),
        (
            {"STUB_INIT": "803"},
            "cuInit failed: CUDA_ERROR_STUBBED (803): words of the stub\n"
            "What to do: restart the machine: libcuda and the kernel module differ in version\n",
        ),
        (
            {"STUB_RETAIN": "46"},
            "GPU 0: cuDevicePrimaryCtxRetain failed: CUDA_ERROR_STUBBED (46): words of the stub\n"
            "What to do: another process uses the GPU exclusively: see `nvidia-smi -q -d COMPUTE`\n",
        ),
        (
            {"STUB_CAPABILITY": "86"},
            "cubin sm_75: runs on 7.x from 7.5; this device is 8.6\n"
            "cubin sm_90: runs on 9.x from 9.0; this device is 8.6\n"
            "PTX compute_90: is for 9.0 and newer; this device is 8.6\n",
        ),
        (
            {"STUB_LOAD": "218"},
            "cubin sm_90: kernel saxpy: cuLibraryLoadData failed: CUDA_ERROR_STUBBED (218): words of the stub\n"
            "ptxas fatal: stub says no\n"
            "What to do: read the log of the driver's compiler, which refused the PTX\n"
            "PTX compute_90: kernel saxpy: cuLibraryLoadData failed: CUDA_ERROR_STUBBED (218): words of the stub\n"
            "ptxas fatal: stub says no\n"
            "What to do: read the log of the driver's compiler, which refused the PTX\n"
            "cubin sm_75: runs on 7.x from 7.5; this device is 9.0\n",
        ),
    ],
)  # fmt: skip
def test_a_kernel_that_cannot_be_had_is_reasons(program, home, stub, env, reasons):
    assert host(program, home, stub, **env) == (4, reasons.format(driver=stub))


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("10020", "{} is for CUDA 10.2; this runtime needs 11.0 or newer\n"),
        ("13000", "{} cannot be used as the NVIDIA driver: it lacks cuLaunchKernel\n"),
    ],
)
def test_the_version_is_compared_before_functions(program, home, stub_without_launches, version, problem):
    found = host(program, home, stub_without_launches, STUB_VERSION=version)
    assert found == (4, problem.format(stub_without_launches))


def test_a_machine_without_a_driver(program, home):
    assert host(program, home, "libcuda-is-not-here.so.1") == (
        4,
        "no NVIDIA driver (libcuda-is-not-here.so.1: cannot open shared object file: No such file or directory)\n",
    )


def test_a_library_that_is_no_driver(program, home):
    code, text = host(program, home, "libm.so.6")
    assert (code, text[:63]) == (4, "libm.so.6 cannot be used as the NVIDIA driver: it lacks cuInit,")


def test_a_driver_that_hangs_is_waited_for_once(program, home, stub):
    code, text = host(  # for 60 seconds at most
        program, home, stub, STUB_HANG="600", GPUFORGE_DRIVER_TIMEOUT="0.2", ASAN_OPTIONS="detect_leaks=0"
    )
    assert (code, text) == (
        4,
        "the NVIDIA driver did not answer within 0.2 seconds: `nvidia-smi` and `dmesg` say what is wrong with it; "
        "a restart of the machine may be needed\n",
    )


def test_a_driver_that_never_opens_does_not_keep_a_program_from_its_end(program, home):
    os.mkfifo(home / "libcuda.so.1")
    driver, env = str(home / "libcuda.so.1"), {"GPUFORGE_DRIVER_TIMEOUT": "0.2"}
    status, printed = host(program, home, driver, ASAN_OPTIONS="detect_leaks=0", **env)
    assert status == 4
    assert "the NVIDIA driver did not answer within 0.2 seconds" in printed


def test_a_changed_file_is_not_given_to_the_driver(program, home, stub):
    (home / "kernels" / "default-kernels" / "saxpy.fatbin").write_bytes(b"a fatbin of others")
    code, text = host(program, home, stub)
    assert code == 4
    assert "the file is damaged, install the wheel again" in text
