"""Where builds are looked for, and what is said when one of them cannot be used."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from runtime_samples import write_set

import gpuforge
from gpuforge.runtime import KernelSet, KernelUnavailable
from gpuforge.runtime.driver import Attempt
from gpuforge.runtime.layout import user_folder, variable

VARIABLE = "GPUFORGE_KERNELS_PKG_DEFAULT_KERNELS"


def kernel_set(tmp_path: Path, stub: str, **env: str) -> KernelSet:
    env = {"GPUFORGE_KERNEL_HOME": str(tmp_path / "home"), **env}
    shipped = write_set(tmp_path / "wheel" / "default-kernels")
    return KernelSet(shipped, package="pkg", env=env, driver=stub)


def used(kernels: KernelSet) -> str:
    kernels.function("saxpy")
    return next(line for line in kernels.explain().splitlines() if line.startswith("    used")).strip()


def test_names():
    assert variable("a.b", "my-set") == "GPUFORGE_KERNELS_A_B_MY_SET"
    assert user_folder("pkg", "s", {"GPUFORGE_KERNEL_HOME": "/h"}) == "/h/user/pkg/s"
    assert user_folder("pkg", "s", {"XDG_CACHE_HOME": "/x"}) == "/x/gpuforge/kernels/user/pkg/s"


@pytest.mark.parametrize("content", [None, b"nonsense"], ids=["missing", "refused-by-the-driver"])
def test_the_environment_names_what_cannot_be_used(tmp_path, stub, content):
    file = tmp_path / "mine.cubin"
    if content is not None:
        file.write_bytes(content)
    kernels = kernel_set(tmp_path, stub, **{VARIABLE: str(file)})
    with pytest.warns(RuntimeWarning, match="the environment names kernels that are not used") as caught:
        kernels.function("saxpy")
    assert str(caught[0].message).endswith(". Used instead: cubin sm_90")
    assert caught[0].filename == __file__
    kernels.function("saxpy")  # and says so once
    assert f"refused  environment{' file' if content else ''} ({file})  " in kernels.explain()


def test_a_damaged_user_build_is_passed_over_and_explained(tmp_path, stub):
    user = write_set(tmp_path / "home" / "user" / "pkg" / "default-kernels")
    (user / "index.json").write_text("{")
    kernels = kernel_set(tmp_path, stub)
    with pytest.warns(RuntimeWarning) as caught:
        assert used(kernels).startswith("used     cubin sm_90  ")
    (warning,) = [str(warning.message) for warning in caught]
    assert warning.startswith(f"user build ({user}): {user}/index.json: is damaged: ")
    assert warning.endswith(". Used instead: cubin sm_90")
    (line,) = [line for line in kernels.explain().splitlines() if "user build" in line]
    assert line.split(maxsplit=4)[:4] == ["refused", "user", "build", f"({user})"]
    assert line.split(maxsplit=4)[4].startswith(f"{user}/index.json: is damaged: ")


def test_a_damaged_file_of_the_user_is_passed_over_when_it_is_loaded(tmp_path, stub):
    user = write_set(tmp_path / "home" / "user" / "pkg" / "default-kernels")
    (user / "saxpy.fatbin").write_bytes(b"other bytes")
    with pytest.warns(RuntimeWarning, match=r"^user build .*: its sha256 is .*Used instead: cubin sm_90$"):
        assert used(kernel_set(tmp_path, stub)).startswith("used     cubin sm_90  ")


def test_an_error_lists_every_place_tried(tmp_path, stub, monkeypatch):
    user = write_set(tmp_path / "home" / "user" / "pkg" / "default-kernels", b"a fatbin of mine")
    monkeypatch.setenv("STUB_CAPABILITY", "86")
    kernels = kernel_set(tmp_path, stub, **{VARIABLE: "/nowhere"})
    with pytest.raises(KernelUnavailable) as error:
        kernels.function("saxpy")
    place = f"({user}/saxpy.fatbin)"
    assert error.value.reasons == (
        f"environment (/nowhere): {VARIABLE} names /nowhere, which is neither a folder with an index.json "
        "nor a .fatbin, .cubin, .ptx or .so file",
        f"user build cubin sm_75 {place}: runs on 7.x from 7.5; this device is 8.6",
        f"user build cubin sm_90 {place}: runs on 9.x from 9.0; this device is 8.6",
        f"user build PTX compute_90 {place}: is for 9.0 and newer; this device is 8.6",
        "cubin sm_75: runs on 7.x from 7.5; this device is 8.6",
        "cubin sm_90: runs on 9.x from 9.0; this device is 8.6",
        "PTX compute_90: is for 9.0 and newer; this device is 8.6",
    )


@pytest.mark.thorough
def test_a_dead_driver_does_not_hang(tmp_path, stub, monkeypatch):
    monkeypatch.setenv("STUB_HANG", "5")
    monkeypatch.setenv("GPUFORGE_DRIVER_TIMEOUT", "0.2")
    kernels = kernel_set(tmp_path, stub)
    monkeypatch.setattr(Attempt, "lost", False)
    waits, join = list[float | None](), threading.Thread.join

    def noted(thread: threading.Thread, timeout: float | None = None) -> None:
        waits.append(timeout)
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", noted)
    for _ in range(3):
        with pytest.raises(KernelUnavailable) as error:
            kernels.function("saxpy")
    assert [seconds for seconds in waits if seconds != 0] == [0.2], "it is waited for once"
    assert error.value.reasons == (
        "the NVIDIA driver did not answer within 0.2 seconds: `nvidia-smi` and `dmesg` say what is wrong with it; "
        "a restart of the machine may be needed",
    )
    while "did not answer" in kernels.explain():
        time.sleep(0.1)
    kernels.function("saxpy")  # it was slow, not dead


def test_a_device_that_another_process_has(tmp_path, stub, monkeypatch):
    monkeypatch.setenv("STUB_RETAIN", "46")
    kernels = kernel_set(tmp_path, stub)
    with pytest.raises(KernelUnavailable) as error:
        kernels.function("saxpy")
    assert error.value.reasons == (
        "GPU 0: cuDevicePrimaryCtxRetain failed: CUDA_ERROR_STUBBED (46): words of the stub\n"
        "What to do: another process uses the GPU exclusively: see `nvidia-smi -q -d COMPUTE`",
    )
    monkeypatch.delenv("STUB_RETAIN")
    kernels.function("saxpy")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An installed wheel as far as the runtime sees it."""
    home = tmp_path / "site" / "pkg"
    shutil.copytree(Path(gpuforge.__file__).parent / "runtime", home / "_gpuforge")
    (home / "__init__.py").touch()
    write_set(home / "_gpuforge" / "kernels" / "default-kernels")
    return tmp_path / "site"


def run(package: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pkg._gpuforge", *arguments]
    env = {"PATH": os.environ["PATH"], "HOME": str(package), **env}
    return subprocess.run(command, cwd=package, env=env, capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_explain_from_the_command_line(package, stub):
    ran = run(package, "explain", LD_LIBRARY_PATH=str(Path(stub).parent))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "    used     cubin sm_90     built for this very architecture\n" in ran.stdout


@pytest.mark.thorough
def test_explain_as_data(package, stub):
    ran = run(package, "explain", "--json", "default-kernels", LD_LIBRARY_PATH=str(Path(stub).parent))
    data = json.loads(ran.stdout)
    assert data["machine"] == {
        "cuda": "13.0",
        "problem": None,
        "devices": [{"ordinal": 0, "name": "Stub 0", "capability": "9.0"}],
    }
    (verdict,) = data["sets"][0]["modules"][0]["verdicts"]
    first = verdict["candidates"][0]
    assert verdict["devices"] == [0]
    assert {k: v for k, v in first.items() if k != "place"} == {
        "verdict": "used",
        "origin": "shipped",
        "image": "cubin sm_90",
        "reason": {"kind": "exact", "text": "built for this very architecture"},
    }


@pytest.mark.thorough
def test_explain_of_a_set_that_is_not_there(package):
    ran = run(package, "explain", "nope")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: no kernel set or library nope in this package; it has: default-kernels\n"


def test_importing_opens_nothing_and_loads_little(package):
    """With nothing but the interpreter: no site, no environment. Each module costs time at the start of a program."""
    program = (
        f"import sys; sys.path.insert(0, {str(package)!r}); before = set(sys.modules); "
        "import pkg._gpuforge; pkg._gpuforge.KernelSet.shipped('default-kernels'); "
        "loaded = [name for name in set(sys.modules) - before if not name.startswith('pkg')]; "
        "print(len(loaded), 'ctypes' in loaded, 'typing' in loaded)"
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    count, *loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["False", "False"]
    assert int(count) <= 20, "modules of the standard library"


def test_a_relative_home_is_refused_with_a_warning_and_the_next_is_used(tmp_path, monkeypatch, stub):
    monkeypatch.chdir(tmp_path)
    env = {"GPUFORGE_KERNEL_HOME": "home"}
    write_set(Path(user_folder("demo", "s", env)), b"another fatbin")
    kernels = KernelSet(write_set(tmp_path / "s"), package="demo", env=env, driver=stub)
    with pytest.warns(RuntimeWarning) as caught:
        assert kernels.function("saxpy").backend == "cuda"
    assert [str(warning.message) for warning in caught] == [
        "user build: GPUFORGE_KERNEL_HOME=home: expected an absolute path. Used instead: cubin sm_90"
    ]
