"""Which of several shipped libraries is used: one with code for this GPU, else the highest level of this CPU."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from library_samples import ABI, compile_library
from runtime_samples import built_stub, stub  # noqa: F401  fixtures

from gpuforge.cuda.kernels import KernelImage
from gpuforge.manifest.model import CpuLevelName
from gpuforge.package import kernel_set
from gpuforge.package.contents import CompiledBy, CompiledLibrary, LibrarySet
from gpuforge.runtime import KernelUnavailable, UnknownKernel, cpu, libraries
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
def test_without_a_gpu_the_highest_level_of_the_cpu_is_taken(home, tmp_path, flags, expected):
    assert ops(home, tmp_path, flags).load().answer() == expected


@pytest.mark.parametrize("level", [1, 2, 3])
def test_one_feature_that_is_lacking_is_enough_for_the_level_below(home, tmp_path, level):
    for name in list(LEVELS["x86_64"].values())[level]:
        flags = " ".join(flag for flag in V4.split() if flag != name)
        assert ops(home, tmp_path, flags).load().answer() == level - 1, name


def test_a_gpu_that_the_library_is_for_comes_before_any_cpu(home, tmp_path, stub):  # noqa: F811
    assert ops(home, tmp_path, V4, stub).load().answer() == 100


def test_each_library_is_explained(home, tmp_path, stub, monkeypatch):  # noqa: F811
    monkeypatch.setenv("STUB_CAPABILITY", "86")
    assert ops(home, tmp_path, V2, stub).explain() == (
        "kernel library gpu-ops\n"
        "  used     gpu-ops cubin sm_80        built for 8.0, whose code 8.6 runs too\n"
        "  fits     gpu-ops PTX compute_75     the driver compiles it for 8.6 when it is first loaded\n"
        "  fits     cpu-ops library x86-64-v2  compiled for x86-64-v2, which this CPU has\n"
        "  fits     cpu-ops library x86-64     compiled for x86-64, which this CPU has\n"
        "  refused  gpu-ops cubin sm_75        runs on 7.x from 7.5; this device is 8.6\n"
        "  refused  cpu-ops library x86-64-v3  is for x86-64-v3; this CPU lacks abm, avx, avx2, bmi1, bmi2, f16c, fma, "
        "movbe, xsave\n"
        "  refused  cpu-ops library x86-64-v4  is for x86-64-v4; this CPU lacks abm, avx, avx2, bmi1, bmi2, f16c, fma, "
        "movbe, xsave, avx512bw, avx512cd, avx512dq, avx512f, avx512vl"
    )


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"STUB_CAPABILITY": "70"}, "runs on 8.x from 8.0; this device is 7.0"),
        (
            {"STUB_VERSION": "12040"},
            "code of CUDA 13.0 needs a driver for CUDA 13 or newer; this one is for 12.4",
        ),
        ({"STUB_DEVICES": "0"}, "the driver sees no GPU"),
    ],
)
def test_a_gpu_or_driver_that_does_not_fit_gives_way(home, tmp_path, stub, monkeypatch, variables, reason):  # noqa: F811
    monkeypatch.setenv("STUB_CAPABILITY", "80")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    own = ops(home, tmp_path, V2, stub)
    assert own.load().answer() == 1
    (told,) = [c for c in own.candidates() if c.image and c.image.built_for == Arch(8, 0)]
    assert str(told.reason) == reason


def test_a_gpu_that_is_switched_off_is_not_looked_for(home, tmp_path):
    own = ops(home, tmp_path, V3, GPUFORGE_DISABLE_GPU="1")
    assert own.load().answer() == 2
    assert "switched off (GPUFORGE_DISABLE_GPU=1)" in own.explain()


def test_a_damaged_library_gives_way_to_the_next(home, tmp_path, stub):  # noqa: F811
    here = Path(shutil.copytree(home, tmp_path / "home"))
    file = here / "kernels/gpu-ops/libgpu-ops.so"
    file.write_bytes(file.read_bytes()[:-1])
    own = ops(here, tmp_path, V3, stub)
    assert own.load().answer() == 2
    size = file.stat().st_size
    assert (
        f"refused  shipped                    {file}: has {size} bytes and should have {size + 1}"
        in own.explain()
    )


def test_a_library_of_another_abi_is_not_among_them(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    pack(home, "gpu-ops", [library(home, "gpu-ops", *GPU)], fallbacks=("cpu-ops",))
    levels = [library(home, "cpu-ops", KernelImage("library", CpuLevel("x86-64")), abi="2-def")]
    pack(home, "cpu-ops", levels, stands_in_for="gpu-ops")
    with pytest.raises(KernelUnavailable) as caught:
        ops(home, tmp_path, V3).load()
    file = home / "kernels/cpu-ops/libcpu-ops-x86-64.so"
    assert caught.value.reasons == (
        "gpu-ops cubin sm_75: no usable NVIDIA GPU",
        "gpu-ops cubin sm_80: no usable NVIDIA GPU",
        "gpu-ops PTX compute_75: no usable NVIDIA GPU",
        f"shipped: {file}: was compiled for the ABI 2-def, and this package has 1-abc",
    )


@pytest.mark.parametrize("flags", [None, ""])
def test_where_the_system_tells_nothing_of_its_cpu_only_the_lowest_level_is_taken(home, tmp_path, flags):
    file = cpuinfo(tmp_path, flags) if flags is not None else str(tmp_path / "nothing")
    own = KernelLibrary("gpu-ops", home=str(home), env={}, machine=Probe(None, cpu=cpu.this_cpu(file)))
    assert own.load().answer() == 0
    assert "is for x86-64-v2; /proc/cpuinfo does not tell what this CPU has" in own.explain()


def test_another_kind_of_machine_runs_no_level_of_x86(monkeypatch):
    machine = cpu.Cpu("aarch64", frozenset({"asimd"}))
    assert str(cpu.refusal(cpu.CpuLevel("x86-64"), machine)) == "is for x86-64; this machine is aarch64"
    assert cpu.refusal(cpu.CpuLevel(), machine) is None


def test_a_level_that_this_cpu_lacks_is_never_run(home):
    """With the machine's own facts: what is taken was compiled for it, and runs."""
    here = cpu.this_cpu()
    own = KernelLibrary("cpu-ops", home=str(home), env={})
    runs = [name for name in LEVELS["x86_64"] if cpu.refusal(cpu.CpuLevel(name), here) is None]
    assert own.load().answer() == len(runs) - 1


@pytest.mark.parametrize(("name", "env"), [("cpu-ops", {}), ("gpu-ops", {"GPUFORGE_DISABLE_GPU": "1"})])
def test_the_driver_is_not_opened_where_no_gpu_is_asked_for(home, monkeypatch, name, env):
    opened: list[object] = []
    monkeypatch.setattr(libraries, "probe", lambda: opened.append(name) or Probe(None))
    assert KernelLibrary(name, home=str(home), env=env).load().answer() >= 0
    assert not opened
    KernelLibrary("gpu-ops", home=str(home), env={}).load()
    assert opened, "it is where a GPU is"


def test_a_name_that_the_wheel_does_not_have_is_another_error_than_no_gpu(home):
    with pytest.raises(UnknownKernel) as caught:
        KernelLibrary("gpu-opps", home=str(home), env={}).load()
    assert str(caught.value) == "this wheel has no kernel library 'gpu-opps'; it has: gpu-ops, cpu-ops"


def test_levels_are_those_of_the_manifest():
    from typing import get_args

    assert list(LEVELS["x86_64"]) == list(get_args(CpuLevelName))


def test_both_objects_are_one_library_to_users(home):
    assert contents(str(home)).libraries == ("gpu-ops",)
    index = json.loads((home / "kernels/cpu-ops/index.json").read_text())
    assert [each["file"] for each in index["libraries"]] == [
        "libcpu-ops-x86-64.so",
        "libcpu-ops-x86-64-v2.so",
        "libcpu-ops-x86-64-v3.so",
        "libcpu-ops-x86-64-v4.so",
    ]
