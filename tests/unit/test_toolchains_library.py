"""What a user's machine is told of compilers agrees with what gpuforge itself knows of them."""

import re

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from gpuforge.runtime.placeholders import fill
from gpuforge.runtime.userbuild.compilers import families, holds, numbers
from gpuforge.toolchains import detect, registry
from gpuforge.toolchains.user_compilers import bounds

OUTPUTS = {
    "g++": [
        "g++-14 (Debian 14.2.0-1) 14.2.0\nCopyright (C) 2022 Free Software Foundation, Inc.\n",
        "g++ (GCC) 14.2.1 20250110 (Red Hat 14.2.1-7)\nCopyright (C) 2024 Free Software Foundation, Inc.\n",
    ],
    "clang++": [
        "Debian clang version 19.1.7 (3)\nTarget: x86_64-pc-linux-gnu\n",
        "clang version 20.1.0\n",
        "Apple clang version 15.0.0 (clang-1500.3.9.4)\n",
    ],
    "nvcc": [
        "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n"
        "Build cuda_13.0.r13.0/compiler.36424714_0\n",
    ],
    "nvc++": ["\nnvc++ 24.7-0 64-bit target on x86-64 Linux -tp haswell \nNVIDIA Compilers and Tools\n"],
}


@pytest.mark.parametrize("family", detect.families(), ids=lambda family: family.name)
def test_versions_are_read_alike(family):
    for output in (text for texts in OUTPUTS.values() for text in texts):
        parsed = family.parse(output)
        found = re.search(family.answers, output)
        assert bool(parsed) == bool(found), (family, output)
        if parsed and found:
            assert Version(found["version"]).release == parsed[0].release


@pytest.mark.parametrize(
    "text", ["", ">=11,<15", "==12.*", "!=12.2.*,>9", "~=12.1", "==12.2", "<=12", "===12.2.0"]
)
def test_ranges_hold_for_the_versions_that_packaging_takes(text):
    for version in ("9.4.0", "11", "12.0", "12.1.9", "12.2.0", "12.2", "12.10.1", "13.0.88", "15.0", "24.7"):
        if text.startswith("===") and version != "12.2.0":
            continue  # compares texts
        ours = all(holds(bound.operator, bound.numbers, numbers(version)) for bound in bounds(text))
        assert ours == SpecifierSet(text).contains(version), (text, version)


def test_a_range_with_more_than_numbers_is_refused():
    with pytest.raises(ValueError, match="invalid literal"):
        bounds(">=12.0rc1")


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("ID=ubuntu\nID_LIKE=debian\n", ["ubuntu", "debian"]),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', ["rocky", "rhel", "fedora", "centos"]),
        ("ID=debian\n", ["debian"]),
        ("", []),
    ],
)
def test_a_distribution_is_known_by_what_it_is_like(release, expected):
    assert families(release) == expected


def test_clangs_offloading_is_for_the_users_gpu_or_left_out():
    made = registry.toolchain("clang++").library
    assert made
    call = made(["a.cpp"], ["-fopenmp", "-fopenmp-targets=nvptx64-nvidia-cuda"])
    assert (call.version, call.runtimes) == (">=16", ("libomp.so.5", "libomptarget.so"))
    values = {"compiler": ["clang++"], "folders": [], "abi": ["a.c"], "sources": ["a.cpp"], "output": ["o"]}
    words = ["-O2", "-fPIC", "-shared"]
    rest = ["-fopenmp", "a.c", "a.cpp", "-o", "o"]
    here = {"arch": ["90"], "cuda": ["/cuda"]}
    assert fill(call.argv, {**values, **here}) == [
        *("clang++", *words, "--offload-arch=sm_90", "--cuda-path=/cuda", "-foffload-lto", *rest)
    ]
    assert fill(call.argv, {**values, "arch": [], "cuda": []}) == ["clang++", *words, "-foffload-lto", *rest]


def test_words_are_repeated_or_left_out():
    argv = ["{compiler}", "-gpu=cc{arch}", "-I{folders}", "{sources}", "-o", "{output}", "{unknown}"]
    values = {"compiler": ["g++"], "arch": [], "folders": ["a", "b"], "sources": ["x", "y"], "output": ["o"]}
    assert fill(argv, values) == ["g++", "-Ia", "-Ib", "x", "y", "-o", "o", "{unknown}"]
    assert fill(["-gpu=cc{arch}"], {"arch": ["90"]}) == ["-gpu=cc90"]
    assert fill(["cc {output} {folders}"], values) == ["cc o a", "cc o b"]


def test_offloading_is_told_by_the_flags():
    library = registry.toolchain("g++").library
    assert library
    assert library([], ["-fopenacc"]).offload == "nvptx-none"
    assert library([], ["-fopenmp", "-foffload=nvptx-none"]).offload == "nvptx-none"
    assert (library([], ["-fopenmp"]).offload, library([], ["-fopenmp"]).runtimes) == ("", ("libgomp.so.1",))
    assert library([], ["-O3"]).runtimes == ()
