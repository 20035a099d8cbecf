"""SONAMEs lead to packages and folders; drivers' and compilers' libraries are known, also under mangled names."""

from __future__ import annotations

import pytest

from gpuforge.cuda import sonames
from gpuforge.cuda.libraries import (
    by_soname,
    compiler_runtime,
    is_driver,
    opener,
    toolkit_libraries,
)


@pytest.mark.parametrize(
    ("soname", "places"),
    [
        ("libcudart.so.13", [("nvidia-cuda-runtime", 13, "nvidia/cu13/lib")]),
        ("libcudart.so.12", [("nvidia-cuda-runtime-cu12", 12, "nvidia/cuda_runtime/lib")]),
        ("libcudart.so.12.4.127", [("nvidia-cuda-runtime-cu12", 12, "nvidia/cuda_runtime/lib")]),
        ("libcudart.so.11.0", [("nvidia-cuda-runtime-cu11", 11, "nvidia/cuda_runtime/lib")]),
        ("libcudart.so.11.5.117", [("nvidia-cuda-runtime-cu11", 11, "nvidia/cuda_runtime/lib")]),
        ("libcufft.so.11", [("nvidia-cufft-cu12", 12, "nvidia/cufft/lib")]),
        ("libcufft.so.12", [("nvidia-cufft", 13, "nvidia/cu13/lib")]),
        ("libnvrtc-builtins.so.13.1", [("nvidia-cuda-nvrtc", 13, "nvidia/cu13/lib")]),
        (
            "libcurand.so.10",
            [
                ("nvidia-curand-cu11", 11, "nvidia/curand/lib"),
                ("nvidia-curand-cu12", 12, "nvidia/curand/lib"),
                ("nvidia-curand", 13, "nvidia/cu13/lib"),
            ],
        ),
        ("libz.so.1", []),
        ("libcudart.so.10.2", []),
    ],
)
def test_packages(soname: str, places: list[tuple[str, int, str]]) -> None:
    found = by_soname(soname)
    assert [(f.package, f.cuda, f.folder) for f in found] == places
    assert all(f.kind == "toolkit" and f.first and f.last for f in found)


@pytest.mark.parametrize(
    "name", ["libcudnn.so.9", "libnccl.so.2", "libcusparseLt.so.0", "libnvshmem_host.so.3"]
)
def test_libraries_beside_the_toolkit_are_there_for_every_major_since_12(name: str) -> None:
    assert {12, 13} <= {library.cuda for library in by_soname(name)}


def test_what_a_package_needs_itself() -> None:
    (cusolver,) = by_soname("libcusolver.so.12")
    assert {"nvidia-cublas", "nvidia-cusparse", "nvidia-nvjitlink"} <= set(cusolver.requires)


def test_all_of_one_major() -> None:
    names = {library.soname for library in toolkit_libraries(13)}
    assert {"libcudart.so.13", "libcufft.so.12", "libcurand.so.10"} <= names
    assert "libcudart.so.12" not in names


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        ("libnvomp-fb1a2b9f.so", "libnvomp.so"),
        ("libnvcpumath-avx2-91375214.so", "libnvcpumath-avx2.so"),
        ("libgomp-e985bcbb.so.1.0.0", "libgomp.so.1.0.0"),
        ("libcudart.3eda8113.so.13", "libcudart.so.13"),
        ("libmvec-2-583a17db.28.so", "libmvec-2.28.so"),  # the hash goes before the first dot
        ("libglib-2-0a1b2c3d.0.so.0.5600.4", "libglib-2.0.so.0.5600.4"),
        ("libx.20240722.0.so", "libx.20240722.0.so"),
        ("libnvrtc-builtins.so.12.4", "libnvrtc-builtins.so.12.4"),
        ("libz.so.1", "libz.so.1"),
        ("core.cpython-311-x86_64-linux-gnu.so", "core.cpython-311-x86_64-linux-gnu.so"),
    ],
)
def test_mangling_is_undone(mangled: str, plain: str) -> None:
    assert sonames.plain_name(mangled) == plain


@pytest.mark.parametrize("name", ["libcuda.so.1", "libcuda.so", "libcuda-0a1b2c3d.so.1", "libnvidia-ml.so.1"])
def test_the_driver(name: str) -> None:
    assert is_driver(name)
    assert by_soname(name)[0].kind == "driver"


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("libnvhpcatm-406400d8.so", "nvhpc"),
        ("libacchost.so", "nvhpc"),
        ("libpgmath.so", "pgi"),
        ("libgomp.so.1", "gcc-openmp"),
        ("libomp.so.5", "llvm-openmp"),
        ("libiomp5.so", "intel-openmp"),
        ("libcudart.so.13", None),
        ("libcudartx.so", None),
        ("libnvcc.so", None),
    ],
)
def test_compilers_runtimes(name: str, whose: str | None) -> None:
    runtimes = compiler_runtime(name)
    assert (runtimes.name if runtimes else None) == whose
    assert not is_driver(name)


def test_libraries_that_open_others_by_name() -> None:
    nvrtc, cufft = opener("libnvrtc.so.13"), opener("libcufft.so.12")
    assert nvrtc is not None
    assert cufft is not None
    assert (nvrtc.opens, nvrtc.always) == (("libnvrtc-builtins.so",), True)
    assert not cufft.always
    assert opener("libcudart.so.13") is None


def test_a_name_that_no_file_can_have_is_nobodys() -> None:
    assert sonames.plain_name(name := "lib" + "-0a1b2c3d.a" * 100_000 + ".so") == name


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("libcudart.so.11.5.117", ("libcudart", "cudart", "libcudart.so", "11.5.117", "11", "libcudart.so.11")),
        ("libcudart.so.12", ("libcudart", "cudart", "libcudart.so", "12", "12", "libcudart.so.12")),
        ("libcudart.so", ("libcudart", "cudart", "libcudart.so", "", "", "libcudart.so")),
        ("libpython3.11.so.1.0", ("libpython3.11", "python3.11", "libpython3.11.so", "1.0", "1", "libpython3.11.so.1")),
        ("ext.cpython-311-x86_64-linux-gnu.so", (*["ext.cpython-311-x86_64-linux-gnu"] * 2,)),
        ("run", ("run", "run", "run", "", "", "run")),
        ("libx.so.", ("libx", "x", "libx.so", "", "", "libx.so.")),
    ],
)  # fmt: skip
def test_a_soname_is_taken_apart(name: str, parts: tuple[str, ...]) -> None:
    functions = (
        sonames.stem, sonames.bare, sonames.unversioned, sonames.version, sonames.major, sonames.cut_to_major,
    )  # fmt: skip
    assert tuple(function(name) for function in functions)[: len(parts)] == parts
