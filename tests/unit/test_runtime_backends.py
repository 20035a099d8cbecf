"""One kernel set with sources for several back ends: which is used, what is compiled once, and how each is called."""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime_samples import counter, write_set
from set_samples import CUDA, NVRTC, OPENCL_C, install_set, nvrtc_stub

from gpuforge.runtime import KernelSet, KernelUnavailable, UnknownKernel, backends
from gpuforge.runtime.arch import Arch
from gpuforge.runtime.backends import nvrtc as finder
from gpuforge.runtime.backends.nvrtc import Nvrtc, key_of
from gpuforge.runtime.backends.system import load
from gpuforge.runtime.cache import KernelCache
from gpuforge.runtime.explain import as_text, facts_of
from gpuforge.runtime.recipe import Sources
from gpuforge.runtime.signature import plain_entry
from gpuforge.runtime.values import KINDS, ImageKind, Module, Reason, Refused

Made = Callable[..., KernelSet]


@pytest.fixture(autouse=True)
def no_opencl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide pyopencl, should it be installed: what it compiles is tested with a real device elsewhere."""
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    found = "gpuforge.runtime.backends.opencl.devices._devices"
    monkeypatch.setattr(found, {})  # which another test may have found


@pytest.fixture
def nvrtc(tmp_path: Path) -> Path:
    return nvrtc_stub(tmp_path / "nvrtc")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Make a set as a new process sees it: nothing is in memory, and `nvrtc` is the only NVRTC."""

    def make(*toolchains: Any, driver: str = "libnothing.so", nvrtc: object = "0", **env: str) -> KernelSet:
        site = tmp_path / f"site{len(list(tmp_path.glob('site*')))}" / "packages"
        home = install_set(site, *toolchains)
        monkeypatch.setattr("gpuforge.runtime.cache._caches", {})
        own = {"GPUFORGE_KERNEL_HOME": str(tmp_path / "home"), "GPUFORGE_NVRTC": str(nvrtc), **env}
        return KernelSet(home / "kernels" / "ops", package="demo", env=own, driver=driver)

    return make


def hooked(env: Any) -> list[str]:
    """Count what the kernel cache has compiled."""
    compiled: list[str] = []
    KernelCache.of_user(env).hook = lambda key, compile: (  # noqa: A006
        compiled.append(f"{key.label} by {key.toolchain} for {key.arch}") or compile()
    )
    return compiled


@pytest.mark.thorough
def test_nvrtc_compiles_at_first_use_and_once(made, stub, nvrtc):
    kernels = made(NVRTC, driver=stub, nvrtc=nvrtc)
    first = hooked(kernels.env)
    kernel = kernels.function("saxpy")
    assert kernel.backend == "cuda"
    assert kernels.function("saxpy") is kernel
    size = nvrtc.stat().st_size
    assert first == [f"mod/scale.cu by nvrtc 12.4 of {size} bytes for sm_90"]
    (entry,) = Path(kernels.env["GPUFORGE_KERNEL_HOME"]).rglob("*.kernel")
    assert entry.read_bytes().endswith(
        b"a fatbin of mod/scale.cu|" + CUDA.encode() + b"|mod/scale.h=#define SCALE(a, x) ((a) * (x))\n"
        b"|scale.h=#define SCALE(a, x) ((a) * (x))\n|-std=c++17|--gpu-architecture=sm_90"
    )

    again = made(NVRTC, driver=stub, nvrtc=nvrtc)
    second = hooked(again.env)
    again.function("saxpy")
    assert second == []
    anew = shutil.copy(stub, nvrtc.parent / "libcuda.so.1")  # nothing is loaded into this one
    without = made(NVRTC, driver=str(anew), nvrtc=nvrtc)
    third = hooked(without.env)
    without.function("saxpy", cache=False)
    assert len(third) == 1


def test_what_nvrtc_refuses_is_a_reason_with_its_log_and_the_cpu_does_the_work(made, stub, nvrtc, tmp_path):
    home = install_set(tmp_path / "wrong" / "packages", NVRTC, cuda="an error here\n")
    env = {"GPUFORGE_KERNEL_HOME": str(tmp_path / "home"), "GPUFORGE_NVRTC": str(nvrtc)}
    kernels = KernelSet(home / "kernels" / "ops", package="demo", env=env, driver=stub)
    assert kernels.function("saxpy").backend == "cpu"
    (refused,) = [c for c in kernels.candidates() if c.label.startswith("cached")]
    assert refused.accepted  # `candidates` judges; what was tried is told by `explain`
    assert "op.cu(1): error: an identifier is expected" in as_text(facts_of(kernels))
    kernels._kernels.clear()
    kernels.function("saxpy")  # failures are not kept: it was compiled again
    assert counter(str(nvrtc), "stub_compiled") == 2


@pytest.mark.parametrize(
    ("headers", "files"),
    [
        ({"a/cfg.h": "#define V 1\n", "b/cfg.h": "#define V 2\n"}, ("a/x.cu", "b/x.cu")),
        ({}, ("x.cu", "y.cu")),
    ],
    ids=["another header beside it", "another name, for __FILE__"],
)
def test_equal_sources_that_compile_to_different_code_have_different_keys(tmp_path, headers, files):
    digests = {}
    for name, text in {**headers, **dict.fromkeys(files, CUDA)}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        digests[name] = hashlib.sha256(text.encode()).hexdigest()
    modules = [Module(name, name, str(tmp_path / name), digests[name], ()) for name in files]
    sources = Sources("", "nvrtc", (), "", str(tmp_path), {}, {name: digests[name] for name in headers})
    compiler = Nvrtc("", (13, 0), "13.0.88", (Arch(9, 0),))
    first, second = [key_of(module, sources, compiler, (9, 0)) for module in modules]
    assert first.digest != second.digest


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("change", "argv"),
    [("another header", None), ("another option", ("--gpu-architecture=sm_{arch}", "-use_fast_math"))],
)
def test_a_change_of_what_decides_on_the_code_compiles_again(made, stub, nvrtc, monkeypatch, change, argv):
    made(NVRTC, driver=stub, nvrtc=nvrtc).function("saxpy")
    if argv is None:
        monkeypatch.setattr("set_samples.HEADER", "#define SCALE(a, x) ((x) * (a))\n")
    changed = NVRTC if argv is None else type(NVRTC)(**{**vars_of(NVRTC), "argv": argv})
    kernels = made(changed, driver=stub, nvrtc=nvrtc)
    compiled = hooked(kernels.env)
    kernels.function("saxpy")
    assert len(compiled) == 1, change


def vars_of(recipe: Any) -> dict[str, Any]:
    return {name: getattr(recipe, name) for name in recipe.__dataclass_fields__}


@pytest.fixture
def cpu(made: Made) -> Any:
    return made().function("saxpy")


@pytest.mark.parametrize("array_of", [lambda n: array("f", range(n)), lambda n: np.arange(n, dtype="f4")])
def test_a_library_for_the_cpu_is_launched_as_kernels_are(cpu, array_of):
    x = array_of(1000)
    with cpu.upload(x) as device:
        cpu.launch(4, 256, ctypes.c_ulonglong(1000), np.float32(3), device)
        result = array_of(1000)
        device.read(result)
    assert list(result) == [3.0 * i for i in range(1000)]
    again = cpu.bind(4, 256, np.uint64(1000), ctypes.c_float(2), x)  # in place
    again()
    again()
    assert list(x) == [4.0 * i for i in range(1000)]


def test_a_kernel_for_the_cpu_knows_its_parameters_from_the_sources_in_the_wheel(cpu):
    x = np.ones(2, "f4")
    for arguments in ((), (np.uint64(2),), (np.uint64(2), np.float32(2), x, x)):
        with pytest.raises(
            TypeError, match=r"^saxpy\(unsigned long long, float, float \*\) takes 3 arguments"
        ):
            cpu.launch(1, 1, *arguments)
    with pytest.raises(TypeError, match=r"^argument 2: an array of float64 \(numpy.ndarray\) is given"):
        cpu.launch(1, 1, np.uint64(2), np.float32(2), np.ones(2))
    with pytest.raises(TypeError, match=r"^argument 1: numpy.float64 is given, and the parameter is float"):
        cpu.launch(1, 1, np.uint64(2), np.float64(2), x)
    assert list(x) == [1, 1]


class _Complex(ctypes.Structure):
    _fields_ = (("real", ctypes.c_float), ("imaginary", ctypes.c_float))


@pytest.mark.thorough
def test_a_structure_of_two_floats_is_passed_as_a_complex_number(tmp_path):
    source = tmp_path / "turn.c"
    source.write_text("void turn(float _Complex by, float _Complex *x) { *x *= by; }\n")
    library = tmp_path / "turn.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", source, "-o", library], check=True)
    x = np.array([2 + 3j], "c8")
    load(str(library), plain_entry("turn")).launch(1, 1, _Complex(0, 1), x)
    assert list(x) == [-3 + 2j]


def test_a_function_that_the_library_does_not_have(made):
    with pytest.raises(
        UnknownKernel, match=r"^module scale of kernel set ops has no kernel 'nothing'\n"
    ) as caught:
        made().function("nothing")
    last = next(line for line in str(caught.value).splitlines() if line.startswith("CPU library: "))
    assert last.endswith("""has no function 'nothing': declare it extern "C\"""")


def test_a_name_that_a_source_mentions_may_be_a_kernel_of_it(made):
    """It is compiled on another machine, and the library for the CPU lacks it here."""
    with pytest.raises(KernelUnavailable, match="has no function 'SCALE'"):
        made().function("SCALE")
    kernels = made()
    source = next(
        Path(file.file) for place in kernels.places() if place.sources for file in place.files("scale")
    )
    source.write_text("#define JOIN(a, b) a##b\n")  # it is not the wheel's any more: nobody knows what it has
    with pytest.raises(KernelUnavailable, match="has no function 'nothing'"):
        kernels.function("nothing")


def test_nothing_that_compiles_is_a_reason_each(made, stub):
    kernels = made(driver=stub, nvrtc="/nothing/libnvrtc.so.12")
    assert kernels.function("saxpy").backend == "cpu"
    assert as_text(facts_of(kernels)) == (
        "kernel set ops: compiled on the user's machine\n"
        "  driver: supports CUDA up to 13.0\n"
        "  GPU 0: Stub 0, compute capability 9.0\n"
        "  module scale, from mod/scale.cu\n"
        "    used     CPU library               needs no GPU\n"
        "    refused  user build                nothing was compiled yet: python -m demo._gpuforge compile\n"
        "    refused  cached build CUDA source  no NVRTC (/nothing/libnvrtc.so.12: cannot open shared object "
        "file: No such file or directory)\n"
        "    refused  OpenCL source             no pyopencl: pip install demo[opencl]"
    )


def test_an_nvrtc_that_does_not_start_is_a_reason_with_its_file(nvrtc, monkeypatch):
    monkeypatch.setenv("STUB_NVRTC_VERSION", "1")
    assert finder.find({"GPUFORGE_NVRTC": str(nvrtc)}, (12, 4), "") == Reason(
        "not-the-library",
        {"library": str(nvrtc), "what": "NVRTC", "problem": "nvrtcVersion failed (nvrtcResult 11)"},
    )


def test_a_set_that_nothing_here_can_run_says_why_of_each(tmp_path):
    home = install_set(tmp_path / "packages", cpu=False)
    kernels = KernelSet(home / "kernels" / "ops", package="demo", env={}, driver="libnothing.so")
    with pytest.raises(KernelUnavailable) as caught:
        kernels.function("saxpy")
    assert caught.value.reasons == (
        "no NVIDIA driver (libnothing.so: cannot open shared object file: No such file or directory)",
        "user build: nothing was compiled yet: python -m demo._gpuforge compile",
        "OpenCL source: no pyopencl: pip install demo[opencl]",
    )


def test_what_takes_time_to_find_is_not_looked_for_when_the_user_has_a_build(made, stub, monkeypatch):
    """pyopencl takes a third of a second to import."""
    kernels = made(driver=stub)
    named = kernels.places()[-1].file
    monkeypatch.setattr("gpuforge.runtime.backends.nvrtc.find", None)
    monkeypatch.setattr("gpuforge.runtime.backends.opencl.devices.devices", None)
    again = KernelSet(
        kernels._folder, package="demo", driver=stub, env={**kernels.env, "GPUFORGE_KERNELS_DEMO_OPS": named}
    )
    assert again.function("saxpy").backend == "cpu"


def test_a_damaged_source_is_never_compiled(made, stub, nvrtc):
    kernels = made(NVRTC, driver=stub, nvrtc=nvrtc)
    source = Path(kernels.places()[1].path) / "mod" / "scale.cu"
    source.write_text(CUDA + "// changed\n")
    compiled = hooked(kernels.env)
    assert kernels.function("saxpy").backend == "cpu"
    assert compiled == []
    assert "scale.cu: its sha256 is" in kernels.explain()


def test_the_newest_nvrtc_that_the_driver_takes_is_used(tmp_path, nvrtc, monkeypatch):
    packages = tmp_path / "packages"
    for place in ("nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"):
        (packages / place).parent.mkdir(parents=True)
    shutil.copy(nvrtc, packages / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
    (packages / "nvidia/cu13/lib/libnvrtc.so.13").write_text("not a library")
    (packages / "nvidia_cuda_nvrtc_cu12-12.4.127.dist-info").mkdir()
    (packages / "nvidia_cuda_nvrtc_cu11-11.8.89.dist-info").mkdir()
    monkeypatch.setattr("sys.path", [str(packages), *sys.path])
    found = finder.find({}, (12, 4), "")
    assert isinstance(found, finder.Nvrtc)
    assert (found.label, found.version) == ("nvrtc 12.4.127", (12, 4))
    assert str(finder.find({"GPUFORGE_NVRTC": "0"}, (12, 4), "")) == "switched off (GPUFORGE_NVRTC=0)"


def test_sets_of_one_process_do_not_mix(made, stub, nvrtc):
    first, second = made(NVRTC, driver=stub, nvrtc=nvrtc), made(OPENCL_C, GPUFORGE_DISABLE_GPU="1")
    assert [s.function("saxpy").backend for s in (first, second)] == ["cuda", "cpu"]
    with pytest.raises(UnknownKernel):
        first.function("scale")


METAL = '''
"""Metal's images."""

from types import SimpleNamespace

from ...values import Reason, Verdict


def look(machine, places, env):
    return [place.contents.name for place in places]


def judge(image, build, here):
    found = here.machine.found.get("Metal")
    missing = None if found else Reason("not-looked-for", {"what": "Metal"})
    return Verdict.of(here.off or missing, Reason("no-gpu-needed"))


def make(request, image, module, place):
    return SimpleNamespace(backend=f"{image.kind} of {request.machine.found['Metal']}", name=request.name)
'''


def test_a_back_end_is_one_folder_and_a_row_for_it_and_for_its_kind_of_image(tmp_path, monkeypatch):
    folder = tmp_path / "backends" / "metal"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(METAL)
    monkeypatch.setattr(backends, "__path__", [*backends.__path__, str(folder.parent)])
    monkeypatch.setitem(sys.modules, "gpuforge.runtime.backends.metal", None)  # as it was before, at the end
    monkeypatch.delitem(sys.modules, "gpuforge.runtime.backends.metal")
    monkeypatch.setitem(backends.BACKENDS, "Metal", backends.Backend("Metal", "metal"))
    monkeypatch.setitem(KINDS, "metallib", ImageKind("metallib", "Metal", of_toolkit=False))
    code = tmp_path / "s" / "ops.metallib"
    module = {
        "name": "ops",
        "source": "ops.metal",
        "file": code.name,
        "sha256": hashlib.sha256(b"x").hexdigest(),
        "images": [{"kind": "metallib", "arch": ""}],
        "kernels": [],
    }
    own = write_set(tmp_path / "s", toolkit="", modules=[module])
    code.write_bytes(b"x")
    kernels = KernelSet(own, env={}, driver="libnothing.so")
    assert kernels.function("saxpy").backend == "metallib of ['s']"
    assert "used     metallib  needs no GPU\n" in kernels.explain()
    off = KernelSet(own, env={"GPUFORGE_DISABLE_GPU": "1"}, driver="libnothing.so")
    assert "refused  metallib  switched off (GPUFORGE_DISABLE_GPU=1)" in off.explain()


WITH_FP16 = "#include <cuda_fp16.h>\n" + CUDA


@pytest.mark.thorough
def test_headers_of_cuda_are_nvrtcs_own_where_it_has_them(tmp_path):
    nvrtc = finder.find({"GPUFORGE_NVRTC": str(nvrtc_stub(tmp_path / "new", "-DBUNDLED"))}, (12, 4), "")
    assert isinstance(nvrtc, Nvrtc)
    code = finder.compile_cubin(nvrtc, "op.cu", WITH_FP16.encode(), {}, ["-w"])
    found = re.search(rb"[|]-w[|]--use-bundled-headers=(/[^|]+)$", code)
    assert found
    assert not Path(os.fsdecode(found[1])).exists()
    assert finder.compile_cubin(nvrtc, "op.cu", CUDA.encode(), {}, ["-w"]).endswith(b"|-w")


@pytest.mark.thorough
def test_an_nvrtc_without_headers_of_cuda_is_a_reason_that_names_one_with_them(tmp_path):
    nvrtc = finder.find({"GPUFORGE_NVRTC": str(nvrtc_stub(tmp_path / "old"))}, (12, 4), "")
    assert isinstance(nvrtc, Nvrtc)
    with pytest.raises(Refused) as caught:
        finder.compile_cubin(nvrtc, "op.cu", WITH_FP16.encode(), {}, [])
    assert str(caught.value) == (
        f"op.cu: includes cuda_fp16.h, which is no file of the package, and {nvrtc.label} does not have CUDA's "
        "headers; NVRTC has them from 13.3 on, for drivers of CUDA 13: pip install 'nvidia-cuda-nvrtc>=13.3'"
    )
    with pytest.raises(Refused, match="an identifier is expected"):  # another mistake is not about headers
        finder.compile_cubin(nvrtc, "op.cu", b"error", {}, [])


@pytest.mark.thorough
def test_headers_that_cannot_be_unpacked_are_a_reason(tmp_path, monkeypatch):
    nvrtc = finder.find({"GPUFORGE_NVRTC": str(nvrtc_stub(tmp_path / "new", "-DBUNDLED"))}, (12, 4), "")
    assert isinstance(nvrtc, Nvrtc)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nothing"))
    with pytest.raises(Refused, match=r"CUDA's headers cannot be unpacked: .* No such file or directory"):
        finder.compile_cubin(nvrtc, "op.cu", WITH_FP16.encode(), {}, [])
