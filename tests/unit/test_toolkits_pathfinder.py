"""NVIDIA's own table of libraries (cuda-pathfinder) and ours say the same, or the difference has its reason here."""

from __future__ import annotations

import re

import pytest
from cuda.pathfinder._dynamic_libs.descriptor_catalog import DESCRIPTOR_CATALOG, DescriptorSpec

from gpuforge.cuda import carriers, libraries
from gpuforge.cuda.libraries import CudaLibrary

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
def test_each_library_of_nvidias_table_is_known_with_its_folders(theirs: DescriptorSpec) -> None:
    for soname in theirs.linux_sonames:
        if theirs.packaged_with == "driver":
            assert libraries.is_driver(soname), soname
        elif soname in NOT_OURS:
            assert folders(soname) == set(), f"{soname} is there now: remove it from NOT_OURS"
        else:
            assert folders(soname) & set(theirs.site_packages_linux), soname
            assert folders(soname) - EARLIER <= set(theirs.site_packages_linux), soname


@pytest.mark.parametrize("theirs", CATALOG)
def test_what_a_library_loads_is_in_its_package_or_in_one_that_it_requires(theirs: DescriptorSpec) -> None:
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
