"""What Halide's PR 5546 asks of a cache of GPU kernels, asked of gpuforge's with hundreds of Halide's kernels in it.

With a driver that stands in and, where there is a GPU, with the real one. `halide_ramp.ptx` is what Halide 21 wrote.
`GPUFORGE_HALIDE_PTX` names a folder with hundreds that `halide_many.py` had it write.
"""

import array
import ctypes
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from runtime_samples import compile_stub, counter

from gpuforge.binary import ptx
from gpuforge.cuda.kernels import KernelImage
from gpuforge.package import kernel_set
from gpuforge.package.contents import CompiledBy, CompiledModule, ModuleSet
from gpuforge.runtime import KernelSet, KernelUnavailable
from gpuforge.runtime.cache import CacheFolder, KernelCache

pytestmark = pytest.mark.thorough
COUNT = 300
SIZE, BLOCK = 1024, 16


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hundreds of kernels as PTX: Halide's own, or one of Halide's with other names and other constants."""
    if folder := os.environ.get("GPUFORGE_HALIDE_PTX"):
        return Path(folder)
    folder_of_texts = tmp_path_factory.mktemp("halide")
    text = Path(__file__).with_name("halide_ramp.ptx").read_text()
    for number in range(COUNT):
        other = text.replace("ramp1_", f"ramp{number}_")
        other = other.replace("0f3F800000", f"0f{struct.pack('>f', number).hex().upper()}")
        (folder_of_texts / f"k{number:03}.ptx").write_text(other)
    return folder_of_texts


@pytest.fixture(scope="session")
def kernels_folder(compiled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a kernel set."""
    modules, sources = [], tmp_path_factory.mktemp("sources")
    (sources / "pipelines").mkdir()
    for file in sorted(compiled.glob("*.ptx")):
        data = file.read_bytes()
        found = ptx.standalone(data, len(data))
        assert found
        images = tuple(KernelImage(e.kind, e.arch, e.isa) for e in found.entries)
        source = f"pipelines/{file.stem}.py"
        (sources / source).write_text("")
        modules.append(CompiledModule(source, file, images))
    assert len(modules) >= COUNT
    made = ModuleSet(name="ramps", toolchain=CompiledBy("halide", "21.0.0"), toolkit="12.4")
    target = tmp_path_factory.mktemp("sets")
    return kernel_set.pack_modules(target, made, modules, sources)


@dataclass
class Driver:
    """A driver, real or not, two contexts of it, and a kernel set that uses them."""

    file: str
    real: bool
    folder: Path
    kernels: KernelSet
    contexts: tuple[int, int]
    compiled: list[str] = field(default_factory=list)  # what the cache's compile step was called for

    def load(self, number: int, context: int | None = None, **keys: Any) -> Any:
        module = f"k{number:03}"
        text = (self.folder / f"{module}.fatbin").read_text()
        (entry,) = re.findall(r"\.visible \.entry (\w+)\(", text)
        return self.kernels.function(entry, module=module, context=context, **keys)

    def works(self, number: int, kernel: Any) -> bool:
        """Launch a kernel; the driver that stands in computes something else."""
        if not self.real:
            return True
        result = array.array("f", bytes(4 * SIZE))
        with kernel.memory(4 * SIZE) as memory:
            kernel.launch(SIZE // BLOCK, BLOCK, memory)
            memory.read(result)
        return list(result) == [3.0 * x + number for x in range(SIZE)]

    def counts(self, name: str) -> int | None:
        return None if self.real else counter(self.file, name)


@pytest.fixture(params=["stand-in", pytest.param("gpu", marks=pytest.mark.gpu)])
def driver(
    request: pytest.FixtureRequest, tmp_path: Path, kernels_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Driver]:
    real = request.param == "gpu"
    env = {"GPUFORGE_KERNEL_HOME": str(tmp_path / "home")}
    if real:
        file, contexts = "libcuda.so.1", _contexts()
    else:
        release = tmp_path / "version"
        release.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Nov 3\n")
        monkeypatch.setattr("gpuforge.runtime.driver.RELEASE_FILE", release)
        monkeypatch.setenv("STUB_CAPABILITY", "90")
        file, contexts = str(compile_stub(tmp_path)), (0x33, 0x34)
    found = Driver(file, real, kernels_folder, KernelSet(kernels_folder, env=env, driver=file), contexts)
    cache = KernelCache.of_user(env)
    cache.hook = lambda key, compile: found.compiled.append(key.label) or compile()  # noqa: A006
    yield found
    for context in contexts:
        found.kernels.release(context=context)
    found.kernels.release()


def _contexts() -> tuple[int, int]:
    """Two contexts of the real driver's, neither of which is current."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("no NVIDIA driver")
    assert cuda.cuInit(0) == 0
    made = []
    for _ in range(2):
        handle, popped = ctypes.c_void_p(), ctypes.c_void_p()
        assert cuda.cuCtxCreate_v2(ctypes.byref(handle), 0, 0) == 0
        assert cuda.cuCtxPopCurrent_v2(ctypes.byref(popped)) == 0
        made.append(handle.value or 0)
    return made[0], made[1]


def test_1_a_kernel_in_two_contexts_is_two_modules_and_compiled_once(driver):
    first, second = (driver.load(1, context) for context in driver.contexts)
    assert first is not second
    assert driver.works(1, first)
    assert driver.works(1, second)
    assert driver.compiled == ["k001 (PTX)"]
    assert driver.counts("stub_loads") in {2, None}


def test_2_threads_and_contexts_do_not_cross(driver):
    def work(seed: int) -> bool:
        numbers = [(seed * 7 + n) % 40 for n in range(40)]
        return all(driver.works(n, driver.load(n, driver.contexts[(seed + n) % 2])) for n in numbers)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert sorted(driver.compiled) == [f"k{n:03} (PTX)" for n in range(40)]  # each once, whoever asked first
    assert driver.counts("stub_loads") in {80, None}


def test_3_hundreds_of_kernels(driver):
    held = [driver.load(number) for number in range(COUNT)]
    assert all(driver.works(number, kernel) for number, kernel in enumerate(held))
    assert len(driver.compiled) == COUNT
    again = [driver.load(number) for number in range(COUNT)]
    assert all(a is b for a, b in zip(held, again, strict=True))
    assert len(driver.compiled) == COUNT


def test_4_what_is_held_survives_a_release(driver):
    kernel = driver.load(2, driver.contexts[0])
    driver.kernels.release(context=driver.contexts[0])
    assert driver.counts("stub_unloads") in {0, None}
    assert driver.works(2, kernel)
    del kernel
    assert driver.counts("stub_unloads") in {1, None}


def test_5_a_second_release_does_nothing(driver):
    driver.load(3)
    for _ in range(3):
        driver.kernels.release()
        driver.kernels.release(context=driver.contexts[0])
    assert driver.counts("stub_unloads") in {1, None}
    assert driver.works(3, driver.load(3))


def test_6_the_end_of_one_context_leaves_the_others(driver):
    gone, kept = driver.contexts
    driver.load(4, gone)
    other = driver.load(4, kept)
    driver.kernels.release(context=gone)
    if driver.real:
        cuda = ctypes.CDLL("libcuda.so.1")
        assert cuda.cuCtxDestroy_v2(ctypes.c_void_p(gone)) == 0
    assert driver.works(4, other)
    assert driver.works(4, driver.load(4, kept))
    assert driver.works(4, driver.load(4))
    assert driver.compiled == ["k004 (PTX)"]


RELEASE_ALONE = """
import json, sys
from gpuforge.runtime import KernelSet
kernels = KernelSet(sys.argv[1], driver=sys.argv[2])
kernels.release()
kernels.release(context=0x33)
print(json.dumps([line.split()[-1] for line in open("/proc/self/maps") if "libcuda" in line]))
"""


def test_7_release_opens_no_driver(driver, kernels_folder):
    command = [sys.executable, "-c", RELEASE_ALONE, str(kernels_folder), driver.file]
    assert json.loads(subprocess.run(command, check=True, capture_output=True).stdout) == []


def test_8_a_failure_is_not_remembered(driver, tmp_path, kernels_folder):
    damaged = shutil.copytree(kernels_folder, tmp_path / "damaged" / "ramps")
    whole = (damaged / "k005.fatbin").read_bytes()
    (damaged / "k005.fatbin").write_bytes(whole[:-40])
    driver.kernels = KernelSet(damaged, env=driver.kernels.env, driver=driver.file)
    for _ in range(2):
        with pytest.raises(KernelUnavailable, match="k005"):
            driver.load(5)
    assert not list(CacheFolder(Path(driver.kernels.env["GPUFORGE_KERNEL_HOME"]) / "cache", 1 << 30).files())
    (damaged / "k005.fatbin").write_bytes(whole)
    assert driver.works(5, driver.load(5))


def test_9_the_cache_has_a_limit_and_entries_that_can_be_removed(driver):
    """The compile step that can be replaced is what counts here: `KernelCache.hook`."""
    for number in range(20):
        driver.load(number)
    folder = CacheFolder(Path(driver.kernels.env["GPUFORGE_KERNEL_HOME"]) / "cache", 1 << 30)
    files = list(folder.files())
    assert len(files) == 20
    assert folder.remove(files[0].digest)
    assert not folder.remove(files[0].digest)
    half = sum(file.size for file in files[1:]) // 2
    assert folder.prune(half) == [file for file in files[1:] if file not in set(folder.files())]
    assert 0 < sum(file.size for file in folder.files()) <= half
