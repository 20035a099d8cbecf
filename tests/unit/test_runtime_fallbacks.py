"""Which of several shipped libraries is used: one with code for this GPU, else the highest level of this CPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from library_samples import ABI, compile_library
from runtime_samples import built_stub, stub  # noqa: F401  fixtures

from gpuforge.cuda.kernels import KernelImage
from gpuforge.manifest.model import CpuLevelName
from gpuforge.package import kernel_set
from gpuforge.package.contents import CompiledBy, CompiledLibrary, LibrarySet
from gpuforge.runtime import UnknownKernel, cpu, libraries
from gpuforge.runtime.arch import Arch
from gpuforge.runtime.cpu import LEVELS, CpuLevel
from gpuforge.runtime.driver import Probe, probe
from gpuforge.runtime.find import contents
from gpuforge.runtime.kernellibrary import KernelLibrary

pytestmark = pytest.mark.xdist_group("fallbacks")  # compiled once
GPU = (
    KernelImage("cubin", Arch(7, 5)),
    KernelImage("cubin", Arch(8, 0)),
    KernelImage("ptx", Arch(7, 5), "9.0"),
)
OLD = "fpu sse sse2 syscall"
V2 = f"{OLD} pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm"
V3 = f"{V2} fma movbe xsave avx f16c abm bmi1 avx2 bmi2"
V4 = f"{V3} avx512f avx512dq avx512cd avx512bw avx512vl"


def cpuinfo(folder: Path, flags: str) -> str:
    file = folder / "cpuinfo"
    file.write_text(
        f"processor\t: 0\nmodel name\t: one\nflags\t\t: {flags}\nbugs\t\t: none\n\nprocessor\t: 1\n"
    )
    return str(file)


def library(home: Path, name: str, *images: KernelImage, abi: str = ABI) -> CompiledLibrary[Path]:
    """A library whose `answer()` tells which one it is: of GPUs 100, of CPUs the place of their level."""
    level = images[0].built_for
    number = level.rank if isinstance(level, CpuLevel) else 100
    source = home / f"{name}.cpp"
    source.write_text(f'extern "C" int answer() {{ return {number}; }}\n')
    return CompiledLibrary(compile_library(home / f"{name}-{number}.so", source, abi=abi), images)


def pack(home: Path, name: str, libraries: Sequence[CompiledLibrary[Path]], **stands: object) -> None:
    made_by = CompiledBy("nvcc", "13.0.88") if name == "gpu-ops" else CompiledBy("g++", "12.2.0")
    made = LibrarySet(name=name, toolchain=made_by, toolkit="13.0", abi=ABI, **stands)  # type: ignore[arg-type]
    kernel_set.pack_libraries(home, made, libraries)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    pack(home, "gpu-ops", [library(home, "gpu-ops", *GPU)], fallbacks=("cpu-ops",))
    levels = [library(home, "cpu-ops", KernelImage("library", CpuLevel(name))) for name in LEVELS["x86_64"]]
    pack(home, "cpu-ops", levels, stands_in_for="gpu-ops")
    return home


def ops(
    home: Path, folder: Path, flags: str, driver: str = "/nowhere/libcuda.so.1", **env: str
) -> KernelLibrary:
    machine = probe((driver,))._replace(cpu=cpu.this_cpu(cpuinfo(folder, flags)))
    return KernelLibrary("gpu-ops", home=str(home), env=env, machine=machine)


@pytest.mark.parametrize(("flags", "expected"), [(OLD, 0), (V2, 1), (V3, 2), (V4, 3)])
def test_without_a_gpu_the_highest_level_of_the_cpu_is_taken(
    home: Path, tmp_path: Path, flags: str, expected: int
) -> None:
    assert ops(home, tmp_path, flags).load().answer() == expected


@pytest.mark.parametrize("level", [1, 2, 3])
def test_one_feature_that_is_lacking_is_enough_for_the_level_below(
    home: Path, tmp_path: Path, level: int
) -> None:
    for name in list(LEVELS["x86_64"].values())[level]:
        flags = " ".join(flag for flag in V4.split() if flag != name)
        assert ops(home, tmp_path, flags).load().answer() == level - 1, name


def test_a_gpu_that_the_library_is_for_comes_before_any_cpu(home: Path, tmp_path: Path, stub: str) -> None:  # noqa: F811
    assert ops(home, tmp_path, V4, stub).load().answer() == 100


@pytest.mark.parametrize("flags", [None, ""])
def test_where_the_system_tells_nothing_of_its_cpu_only_the_lowest_level_is_taken(
    home: Path, tmp_path: Path, flags: str | None
) -> None:
    file = cpuinfo(tmp_path, flags) if flags is not None else str(tmp_path / "nothing")
    own = KernelLibrary("gpu-ops", home=str(home), env={}, machine=Probe(None, cpu=cpu.this_cpu(file)))
    assert own.load().answer() == 0
    assert "is for x86-64-v2; /proc/cpuinfo does not tell what this CPU has" in own.explain()


def test_a_level_that_this_cpu_lacks_is_never_run(home: Path) -> None:
    """With the machine's own facts: what is taken was compiled for it, and runs."""
    here = cpu.this_cpu()
    own = KernelLibrary("cpu-ops", home=str(home), env={})
    runs = [name for name in LEVELS["x86_64"] if cpu.refusal(cpu.CpuLevel(name), here) is None]
    assert own.load().answer() == len(runs) - 1


@pytest.mark.parametrize(("name", "env"), [("cpu-ops", {}), ("gpu-ops", {"GPUFORGE_DISABLE_GPU": "1"})])
def test_the_driver_is_not_opened_where_no_gpu_is_asked_for(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str, env: dict[str, str]
) -> None:
    opened: list[object] = []
    monkeypatch.setattr(libraries, "probe", lambda: opened.append(name) or Probe(None))
    assert KernelLibrary(name, home=str(home), env=env).load().answer() >= 0
    assert not opened
    KernelLibrary("gpu-ops", home=str(home), env={}).load()
    assert opened, "it is where a GPU is"


def test_a_name_that_the_wheel_does_not_have_is_another_error_than_no_gpu(home: Path) -> None:
    with pytest.raises(UnknownKernel) as caught:
        KernelLibrary("gpu-opps", home=str(home), env={}).load()
    assert str(caught.value) == "this wheel has no kernel library 'gpu-opps'; it has: gpu-ops, cpu-ops"


def test_levels_are_those_of_the_manifest() -> None:
    from typing import get_args

    assert list(LEVELS["x86_64"]) == list(get_args(CpuLevelName))


def test_both_objects_are_one_library_to_users(home: Path) -> None:
    assert contents(str(home)).libraries == ("gpu-ops",)
    index = json.loads((home / "kernels/cpu-ops/index.json").read_text())
    assert [each["file"] for each in index["libraries"]] == [
        "libcpu-ops-x86-64.so",
        "libcpu-ops-x86-64-v2.so",
        "libcpu-ops-x86-64-v3.so",
        "libcpu-ops-x86-64-v4.so",
    ]
