"""The stub of the driver in a toolkit: the functions of its headers, in a library that linkers and loaders take."""

import ctypes
import platform
from pathlib import Path
from typing import get_args

import pytest

from gpuforge.binary.elf import linked_file
from gpuforge.cuda.choices import DriverLibrary
from gpuforge.errors import UsageError
from gpuforge.toolkits import stub_library

HEADER = """
#define cuMemAlloc                          cuMemAlloc_v2
    #define cuMemcpy                        __CUDA_API_PTDS(cuMemcpy)
#define cuStreamSynchronize                 __CUDA_API_PTSZ(cuStreamSynchronize)
#define CUDA_VERSION 13000
CUresult CUDAAPI cuInit(unsigned int Flags);
__CUDA_DEPRECATED CUresult CUDAAPI cuTexRefCreate(CUtexref *pTexRef);
CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
CUresult CUDAAPI cuWGLGetDevice(CUdevice *pDevice, HGPUNV hGpu);
typedef void (CUDA_CB *CUstreamCallback)(CUstream hStream);
"""
FUNCTIONS = {
    *("cuInit", "cuTexRefCreate", "cuMemAlloc", "cuMemAlloc_v2", "cuMemcpy", "cuMemcpy_ptds"),
    *("cuStreamSynchronize", "cuStreamSynchronize_ptsz"),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "include").mkdir()
    (tmp_path / "include/cuda.h").write_text(HEADER)
    return tmp_path


def test_a_toolkit_gets_a_stub_with_the_functions_of_its_header(tree):
    stub_library.write_driver_stub(tree, "aarch64")
    found = linked_file.read(tree / "lib/stubs/libcuda.so")
    assert found is not None
    assert (found.soname, found.needed, found.undefined) == ("libcuda.so.1", (), frozenset())
    assert found.defined == FUNCTIONS
    assert found.broken == ()


def test_a_stub_that_is_there_stays(tree):
    stub = tree / "lib/stubs/libcuda.so"
    stub.parent.mkdir(parents=True)
    stub.write_text("NVIDIA's own")
    stub_library.write_driver_stub(tree, "x86_64")
    assert stub.read_text() == "NVIDIA's own"


def test_without_the_drivers_header_there_is_none(tmp_path):
    stub_library.write_driver_stub(tmp_path, "x86_64")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(platform.machine() not in {"x86_64", "aarch64"}, reason="a stub for this machine")
@pytest.mark.parametrize("count", [1, 2, 700])
def test_it_can_be_loaded_and_every_function_reports_no_device(tmp_path, count):
    names = [f"cuFunction{number}" for number in range(count)]
    stub_library.write(tmp_path / "libcuda.so.1", "libcuda.so.1", names, platform.machine(), 100)
    library = ctypes.CDLL(str(tmp_path / "libcuda.so.1"))
    assert {getattr(library, name)(0) for name in names} == {100}
    with pytest.raises(AttributeError):
        _ = library.cuGone


def test_the_same_functions_give_the_same_bytes(tmp_path):
    for number, names in enumerate((["cuB", "cuA"], ["cuA", "cuB", "cuA"])):
        stub_library.write(tmp_path / str(number), "libx.so.1", names, "x86_64", 7)
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


def test_a_machine_that_is_not_known(tmp_path):
    with pytest.raises(UsageError, match=r"no stub of libx\.so\.1 for machine 'riscv64'"):
        stub_library.write(tmp_path / "x", "libx.so.1", [], "riscv64", 7)


def test_the_manifest_names_the_drivers_of_the_table():
    assert {each.library for each in stub_library.drivers().values()} == {*get_args(DriverLibrary)}
