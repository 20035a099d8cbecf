"""SONAMEs lead to packages and folders; drivers' and compilers' libraries are known, also under mangled names."""

import re
from email.message import Message

import pytest
from cuda.pathfinder._dynamic_libs.descriptor_catalog import DESCRIPTOR_CATALOG

from gpuforge.cuda import carriers, libraries, sonames
from gpuforge.cuda.libraries import (
    CudaLibrary,
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
def test_packages(soname, places):
    found = by_soname(soname)
    assert [(f.package, f.cuda, f.folder) for f in found] == places
    assert all(f.kind == "toolkit" and f.first and f.last for f in found)


@pytest.mark.parametrize(
    "name", ["libcudnn.so.9", "libnccl.so.2", "libcusparseLt.so.0", "libnvshmem_host.so.3"]
)
def test_libraries_beside_the_toolkit_are_there_for_every_major_since_12(name):
    assert {12, 13} <= {library.cuda for library in by_soname(name)}


def test_what_a_package_needs_itself():
    (cusolver,) = by_soname("libcusolver.so.12")
    assert {"nvidia-cublas", "nvidia-cusparse", "nvidia-nvjitlink"} <= set(cusolver.requires)


def test_all_of_one_major():
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
def test_mangling_is_undone(mangled, plain):
    assert sonames.plain_name(mangled) == plain


@pytest.mark.parametrize("name", ["libcuda.so.1", "libcuda.so", "libcuda-0a1b2c3d.so.1", "libnvidia-ml.so.1"])
def test_the_driver(name):
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
def test_compilers_runtimes(name, whose):
    runtimes = compiler_runtime(name)
    assert (runtimes.name if runtimes else None) == whose
    assert not is_driver(name)


def test_libraries_that_open_others_by_name():
    nvrtc, cufft = opener("libnvrtc.so.13"), opener("libcufft.so.12")
    assert nvrtc is not None
    assert cufft is not None
    assert (nvrtc.opens, nvrtc.always) == (("libnvrtc-builtins.so",), True)
    assert not cufft.always
    assert opener("libcudart.so.13") is None


def test_a_name_that_no_file_can_have_is_nobodys():
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
def test_a_soname_is_taken_apart(name, parts):
    functions = (
        sonames.stem, sonames.bare, sonames.unversioned, sonames.version, sonames.major, sonames.cut_to_major,
    )  # fmt: skip
    assert tuple(function(name) for function in functions)[: len(parts)] == parts


@pytest.mark.parametrize(
    ("extra", "brings"),
    [("", ("nvidia-always", "nvidia-linux")), ("gpu", ("nvidia-extra",))],
)
def test_a_requirement_belongs_to_the_row_of_its_extra(extra, brings, monkeypatch):
    import refresh_carriers as script

    metadata = Message()
    for line in (
        "nvidia-always",
        'nvidia-linux; sys_platform == "linux" or extra == "gpu"',
        'nvidia-extra; extra == "gpu"',
        'nvidia-other; extra == "cpu"',
        'nvidia-windows; sys_platform == "win32" and extra == "gpu"',
        "numpy",
    ):
        metadata["Requires-Dist"] = line
    monkeypatch.setattr(script, "_wheel", lambda *_: None)
    monkeypatch.setattr(script, "metadata_of", lambda _: metadata)
    row = {"package": "demo", "known": ["1.0"], **({"extra": extra} if extra else {})}
    assert script.brings(row, frozenset()) == brings


NOT_OURS = {
    "libcurand.so.11": "of no release yet: the newest on PyPI, 10.4.5.25 of CUDA 13.5, has libcurand.so.10",
    "libcudla.so.1": "nvidia-cudla has wheels for ARM alone, and the table is made from those for x86-64",
    "libnvpl_fftw.so.0": "a library for ARM's CPUs, without CUDA",
}
EARLIER = {"cusparselt/lib"}  # of nvidia-cusparselt-cu12 before 0.7, which is met in the wild
UNDECLARED = {  # what a library loads or opens, and its package does not require
    ("nvidia-cublasmp", "nvshmem_host"),
    ("nvidia-libmathdx", "nvrtc"),  # by an extra of cuda-toolkit
    ("cutensor", "cublasLt"),
    ("cutensor", "cudart"),
    ("cutensor", "nccl"),
}
CATALOG = [pytest.param(each, id=each.name) for each in DESCRIPTOR_CATALOG if each.linux_sonames]


def folders(soname: str) -> set[str]:
    """The folders of site-packages in which our tables have a library, for CUDA 12 and 13."""
    older = {row.folder for row in carriers.other_libraries() if soname in row.sonames}
    return older | {entry.folder for entry in found(soname)}


def found(soname: str) -> list[CudaLibrary]:
    return [entry for entry in libraries.by_soname(soname) if entry.cuda in {12, 13}]


@pytest.mark.parametrize("theirs", CATALOG)
def test_each_library_of_nvidias_table_is_known_with_its_folders(theirs):
    for soname in theirs.linux_sonames:
        if theirs.packaged_with == "driver":
            assert libraries.is_driver(soname), soname
        elif soname in NOT_OURS:
            assert folders(soname) == set(), f"{soname} is there now: remove it from NOT_OURS"
        else:
            assert folders(soname) & set(theirs.site_packages_linux), soname
            assert folders(soname) - EARLIER <= set(theirs.site_packages_linux), soname


@pytest.mark.parametrize("theirs", CATALOG)
def test_what_a_library_loads_is_in_its_package_or_in_one_that_it_requires(theirs):
    catalog = {each.name: each for each in DESCRIPTOR_CATALOG}
    for entry in (each for soname in theirs.linux_sonames for each in found(soname)):
        for name in theirs.dependencies:
            sonames = catalog[name].linux_sonames
            brought = {each.package for s in sonames for each in found(s) if each.cuda == entry.cuda}
            declared = not brought or bool(brought & closure(entry))
            assert declared != ((re.sub(r"-cu\d+$", "", entry.package), name) in UNDECLARED), (entry, name)


def closure(entry: CudaLibrary) -> set[str]:
    """The package of a library and all that it requires, directly or not."""
    requires = {each.package: each.requires for each in libraries.toolkit_libraries(entry.cuda or 0)}
    seen: set[str] = set()
    pending = [entry.package]
    while pending:
        package = pending.pop()
        if package not in seen:
            seen.add(package)
            pending.extend(requires.get(package, ()))
    return seen
