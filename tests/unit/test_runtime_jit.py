"""PTX is compiled once on a machine: the second process takes the machine code from the kernel cache."""

import shutil
from pathlib import Path

import pytest
from runtime_samples import counter, write_set

from gpuforge.runtime import KernelSet, KernelUnavailable, UnknownKernel
from gpuforge.runtime import driver as driver_facts
from gpuforge.runtime.cache import KernelCache


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A GPU that none of the shipped machine code is for, and a driver that tells its release."""
    release = tmp_path / "version"
    release.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@host)\n"
        "GCC version:  gcc version 12.2.0\n"
    )
    monkeypatch.setattr(driver_facts, "RELEASE_FILE", release)
    monkeypatch.setenv("STUB_CAPABILITY", "120")
    return {"GPUFORGE_KERNEL_HOME": str(tmp_path / "home")}


class Machine:
    """Starts processes, as far as the runtime can tell: each has a driver and a kernel cache of its own."""

    def __init__(self, tmp_path: Path, stub: str, env: dict[str, str]) -> None:
        self.env = env
        self._folder = tmp_path
        self._stub = stub
        self._count = 0
        write_set(tmp_path / "default-kernels")

    def function(self, name: str = "saxpy", **keys: bool) -> tuple[str, KernelSet]:
        self._count += 1
        own = self._folder / str(self._count) / "libcuda.so.1"
        own.parent.mkdir()
        shutil.copy(self._stub, own)
        kernels = KernelSet(self._folder / "default-kernels", env=self.env, driver=str(own))
        kernels.function(name, **keys)  # type: ignore[arg-type]
        return str(own), kernels


@pytest.fixture
def processes(tmp_path: Path, stub: str, machine: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Machine:
    of_user = KernelCache.of_user

    def anew(env: dict[str, str]) -> KernelCache:
        monkeypatch.setattr("gpuforge.runtime.cache._caches", {})
        return of_user(env)

    monkeypatch.setattr(KernelCache, "of_user", anew)
    return Machine(tmp_path, stub, machine)


def test_the_second_process_compiles_nothing(processes):
    first, _ = processes.function()
    second, _ = processes.function()
    assert (counter(first, "stub_links"), counter(second, "stub_links")) == (1, 0)
    assert counter(second, "stub_loads") == 1


def test_a_new_driver_compiles_anew(processes):
    processes.function()
    driver_facts.RELEASE_FILE.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Nov 3\n"
    )
    second, _ = processes.function()
    assert counter(second, "stub_links") == 1


def test_a_driver_that_does_not_tell_its_release_compiles_by_itself(processes, tmp_path):
    driver_facts.RELEASE_FILE.unlink()
    first, _ = processes.function()
    assert (counter(first, "stub_links"), counter(first, "stub_loads")) == (0, 1)
    assert not (tmp_path / "home").exists()


def test_code_for_this_very_gpu_is_never_linked(processes, monkeypatch):
    monkeypatch.setenv("STUB_CAPABILITY", "90")
    first, _ = processes.function()
    assert (counter(first, "stub_links"), counter(first, "stub_loads")) == (0, 1)


def test_without_the_cache_it_is_compiled_and_not_kept(processes, tmp_path):
    processes.function(cache=False)
    assert list((tmp_path / "home").rglob("*.kernel")) == []
    second, _ = processes.function()
    third, _ = processes.function(cache=False)
    assert (counter(second, "stub_links"), counter(third, "stub_links")) == (1, 1)


def test_a_linker_that_fails_leaves_it_to_the_driver(processes, monkeypatch):
    monkeypatch.setenv("STUB_LINK", "209")
    first, _ = processes.function()
    assert (counter(first, "stub_links"), counter(first, "stub_loads")) == (0, 1)


def test_a_damaged_entry_is_compiled_again(processes, tmp_path):
    processes.function()
    (entry,) = (tmp_path / "home").rglob("*.kernel")
    entry.write_bytes(entry.read_bytes()[:-1])
    second, _ = processes.function()
    third, _ = processes.function()
    assert (counter(second, "stub_links"), counter(third, "stub_links")) == (1, 0)


def test_an_entry_that_the_driver_refuses_is_dropped_and_compiled_once_more(processes, tmp_path, monkeypatch):
    """Every load fails: it was tried from the cache, compiled anew, and as it is shipped; nothing bad is kept."""
    processes.function()
    monkeypatch.setenv("STUB_LOAD", "209")
    with pytest.raises(KernelUnavailable, match="ptxas fatal: stub says no"):
        processes.function()
    refused = tmp_path / "2" / "libcuda.so.1"
    assert (counter(str(refused), "stub_links"), counter(str(refused), "stub_loads")) == (1, 3)
    assert list((tmp_path / "home").rglob("*.kernel")) == []


def test_a_kernel_that_is_not_there_is_no_reason_to_compile_again(processes, tmp_path):
    processes.function()
    with pytest.raises(UnknownKernel, match="CUDA_ERROR_NOT_FOUND"):
        processes.function("daxpy")
    assert counter(str(tmp_path / "2" / "libcuda.so.1"), "stub_links") == 0
