"""Compilers are found by path, on PATH and by versioned name; what does not fit is named with its reason."""

import os
from pathlib import Path

import pytest
from packaging.version import Version

from gpuforge.cuda.targets import targets
from gpuforge.errors import MissingError, UsageError
from gpuforge.toolchains import nvcc
from gpuforge.toolchains.detect import detect
from gpuforge.toolchains.host_compilers import parse_clangxx, parse_gxx, parse_nvcxx

GXX = "{name} (Debian {version}-1) {version}\nCopyright (C) 2022 Free Software Foundation, Inc.\n"
NVCC = (
    "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2025 NVIDIA Corporation\n"
    "Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler.36424714_0\n"
)
NVCXX = "\nnvc++ 24.7-0 64-bit target on x86-64 Linux -tp haswell \nNVIDIA Compilers and Tools\n"


def stub(folder: Path, name: str, says: str, *, status: int = 0) -> Path:
    """Make a program that answers to anything with `says`."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{says}END\nexit {status}\n")
    program.chmod(0o755)
    return program


def gxx_stub(folder: Path, name: str, version: str) -> Path:
    return stub(folder, name, GXX.format(name=name, version=version))


def test_the_plain_name_wins_while_it_fits(tmp_path):
    plain = gxx_stub(tmp_path, "g++", "12.2.0")
    gxx_stub(tmp_path, "g++-14", "14.2.0")
    stub(tmp_path, "gcc", "")

    found = detect("g++", search=[tmp_path])

    assert (found.path, found.version, found.c_path) == (plain, Version("12.2.0"), tmp_path / "gcc")
    assert found.identity == "g++ (Debian 12.2.0-1) 12.2.0"


def test_else_the_newest_that_fits(tmp_path):
    gxx_stub(tmp_path / "a", "g++", "12.2.0")
    gxx_stub(tmp_path / "a", "g++-9", "9.4.0")
    gxx_stub(tmp_path / "b", "g++-13", "13.3.0")
    gxx_stub(tmp_path / "a", "g++-15", "15.1.0")
    stub(tmp_path / "b", "gcc-13", "")

    found = detect("g++", specifier="!=12.*,<15", search=[tmp_path / "a", tmp_path / "b"])

    assert (found.path.name, found.c_path) == ("g++-13", tmp_path / "b" / "gcc-13")


def test_the_identity_does_not_depend_on_the_name(tmp_path):
    names = [
        detect("g++", path=str(gxx_stub(tmp_path, name, "14.2.0"))).identity for name in ("g++", "g++-14")
    ]
    assert names[0] == names[1]


def test_path_is_searched_without_a_list(tmp_path, monkeypatch):
    gxx_stub(tmp_path, "g++-14", "14.2.0")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert detect("g++", path="g++-14").path == tmp_path / "g++-14"
    assert detect("g++", specifier="==14.2.0").path == tmp_path / "g++-14"


def test_nothing_fits_says_where_and_what_was_found(tmp_path):
    gxx_stub(tmp_path, "g++", "12.2.0")
    stub(tmp_path, "g++-14", "clang version 14.0.0\n")
    (tmp_path / "g++-15").write_text("not executable")

    with pytest.raises(MissingError) as caught:
        detect("g++", specifier=">=13", search=[tmp_path])

    assert str(caught.value) == (
        f"no usable g++ >=13: looked at {tmp_path}; found: {tmp_path}/g++: version 12.2.0 is not >=13; "
        f"{tmp_path}/g++-15: is not an executable file; "
        f"{tmp_path}/g++-14: is not g++ (it says 'clang version 14.0.0')\n"
        "  hint: install a version that is >=13 (Debian and others have several), or widen the range"
    )


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda p: None, "there is no such file"),
        (lambda p: p.mkdir(), "is not an executable file"),
        (
            lambda p: stub(p.parent, p.name, "broken\n", status=3),
            "--version failed with exit status 3: broken",
        ),
        (lambda p: (p.write_bytes(b"\x7fELF junk"), p.chmod(0o755)), "cannot be run (Exec format error)"),
    ],
)
def test_an_explicit_path_that_cannot_be_used(tmp_path, make, reason):
    path = tmp_path / "g++"
    make(path)  # type: ignore[operator]
    with pytest.raises(MissingError) as caught:
        detect("g++", path=str(path))
    assert str(caught.value).splitlines()[0] == f"no usable g++: looked at {path}; found: {path}: {reason}"


def test_a_name_that_is_not_on_path():
    with pytest.raises(MissingError, match=r"looked at g\+\+-77; found: no program named g\+\+-77 on PATH"):
        detect("g++", path="g++-77")


def test_bad_calls():
    with pytest.raises(UsageError, match="unknown compiler 'icc'"):
        detect("icc")
    with pytest.raises(UsageError, match="not a version range: 'new'"):
        detect("g++", specifier="new")


@pytest.mark.parametrize(
    ("parse", "output", "version", "identity"),
    [
        (
            parse_gxx,
            GXX.format(name="g++-14", version="14.2.0"),
            "14.2.0",
            "g++ (Debian 14.2.0-1) 14.2.0",
        ),
        (
            parse_gxx,
            "g++ (GCC) 14.2.1 20250110 (Red Hat 14.2.1-7)\nCopyright (C) 2024 Free Software Foundation, Inc.\n",
            "14.2.1",
            "g++ (GCC) 14.2.1 20250110 (Red Hat 14.2.1-7)",
        ),
        (
            parse_clangxx,
            "Debian clang version 19.1.7 (3)\nTarget: x86_64-pc-linux-gnu\nThread model: posix\n",
            "19.1.7",
            "Debian clang version 19.1.7 (3); x86_64-pc-linux-gnu",
        ),
        (parse_clangxx, "clang version 20.1.0\n", "20.1.0", "clang version 20.1.0"),
        (
            nvcc.parse,
            NVCC,
            "13.0.88",
            "Cuda compilation tools, release 13.0, V13.0.88; Build cuda_13.0.r13.0/compiler.36424714_0",
        ),
        (
            parse_nvcxx,
            NVCXX,
            "24.7.post0",
            "nvc++ 24.7-0 64-bit target on x86-64 Linux -tp haswell",
        ),
    ],
)
def test_what_compilers_say(parse, output, version, identity):
    assert parse(output) == (Version(version), identity)  # type: ignore[operator]


@pytest.mark.parametrize("parse", [parse_gxx, parse_clangxx, nvcc.parse, parse_nvcxx])
@pytest.mark.parametrize(
    "output", ["", "Apple clang version 15.0.0 (clang-1500.3.9.4)\n", "icc (ICC) 2021.1 Beta\n"]
)
def test_what_others_say_is_no_answer(parse, output):
    assert parse(output) is None  # type: ignore[operator]


def test_the_module_command_line():
    argv = nvcc.module_argv("${in:toolkit}/bin/nvcc", source="k.cu", output="k.fatbin", host="/usr/bin/g++-12",
                            includes=["inc"], targets=targets(["80", "90a", "100f"], "120"), flags=["-O3"])  # fmt: skip
    assert argv == (
        "${in:toolkit}/bin/nvcc",
        "-fatbin",
        "-std=c++17",
        "-ccbin=/usr/bin/g++-12",
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_100f,code=sm_100f",
        "-gencode=arch=compute_120,code=compute_120",
        "-Iinc",
        "-O3",
        "-o",
        "k.fatbin",
        "k.cu",
    )
