"""A driver that stands in for libcuda, and a kernel set to load with it: for the tests of the runtime."""

import ctypes
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpuforge.runtime import Kernel, KernelSet

SOURCE = Path(__file__).with_name("driver_stub.c")


def compile_stub(folder: Path, *flags: str) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to make the library that stands in for the driver")
    library = folder / "libcuda.so.1"
    command = ["gcc", "-shared", "-fPIC", "-O1", *flags, str(SOURCE), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


@pytest.fixture(scope="session")
def built_stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_stub(tmp_path_factory.mktemp("stub"))


@pytest.fixture(scope="session")
def built_old_stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_stub(tmp_path_factory.mktemp("old-stub"), "-DOLD")


@pytest.fixture
def stub(built_stub: Path, tmp_path: Path) -> str:
    """A driver of its own for each test: what opened is kept for the life of the process."""
    return str(shutil.copy(built_stub, tmp_path / "libcuda.so.1"))


@pytest.fixture
def old_stub(built_old_stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A driver for CUDA 11.4: no CUlibrary, no cuLaunchKernelEx."""
    monkeypatch.setenv("STUB_VERSION", "11040")
    return str(shutil.copy(built_old_stub, tmp_path / "libcuda.so.1"))


@pytest.fixture(scope="session")
def stub_without_launches(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A driver that lacks a function that is required. It does not open: nothing of it is kept."""
    return str(compile_stub(tmp_path_factory.mktemp("lacking-stub"), "-DcuLaunchKernel=cuLaunch"))


@pytest.fixture
def kernels(stub: str, tmp_path: Path) -> KernelSet:
    return KernelSet(write_set(tmp_path / "default-kernels"), env={}, driver=stub)


@pytest.fixture
def kernel(kernels: KernelSet) -> Kernel:
    return kernels.function("saxpy")


@pytest.fixture
def listed(stub: str, tmp_path: Path) -> Kernel:
    """The kernel of a set whose index has the sizes of its parameters, and not their types."""
    folder = write_set(tmp_path / "listed", parameters=["", "", "", ""])
    return KernelSet(folder, env={}, driver=stub).function("saxpy")


def write_set(
    folder: Path, fatbin: bytes = b"a fatbin", *, parameters: list[str] | None = None, **changes: Any
) -> Path:
    """With `parameters`, the C++ types of those of saxpy are in the index."""
    folder.mkdir(parents=True)
    (folder / "saxpy.fatbin").write_bytes(fatbin)
    images = [
        {"kind": "cubin", "arch": "sm_75"},
        {"kind": "cubin", "arch": "sm_90"},
        {"kind": "ptx", "arch": "compute_90", "isa": "9.0"},
    ]
    types = zip(parameters or [], (8, 4, 8, 8), strict=False)
    entry = {
        "symbol": "saxpy",
        "name": "saxpy",
        "parameters": [{"type": t, "size": size} for t, size in types],
    }
    entries = [entry] if parameters else []
    module = {"name": "saxpy", "source": "kernels/saxpy.cu", "digest": "00", "file": "saxpy.fatbin",
              "sha256": hashlib.sha256(fatbin).hexdigest(), "images": images, "kernels": entries}  # fmt: skip
    index = {"schema": 1, "name": folder.name, "kind": "module", "toolkit": "13.0", "modules": [module],
             "toolchain": {"family": "nvcc", "version": "13.0.88"}}  # fmt: skip
    (folder / "index.json").write_text(json.dumps({**index, **changes}))
    return folder


def counter(stub: str, name: str) -> int:
    return ctypes.c_int.in_dll(ctypes.CDLL(stub), name).value
