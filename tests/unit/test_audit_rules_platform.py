"""Rules about the platform, the package and the sources in it: the cases beyond the plainest."""

from __future__ import annotations

import json
import random
import struct
import time
from hashlib import sha256
from pathlib import Path

import pytest
from audit_cases import Case, hold
from audit_samples import elf, read, wheel
from document_samples import RECIPE

from gpuforge.audit import audit, policy
from gpuforge.audit.link.graph import build
from gpuforge.audit.rules import files as rules_of_files
from gpuforge.audit.rules import platform_tags

ABI3 = "demo-1.0-cp310-abi3-manylinux_2_17_x86_64.whl"
ANY_PYTHON = "demo-1.0-py3-none-manylinux_2_17_x86_64.whl"
GLIBC = {"libc.so.6": ["GLIBC_2.2.5"]}
ONE_PYTHON = "demo-1.0-cp312-none-manylinux_2_17_x86_64.whl"
PT_NOTE, TEXTREL, FLAGS = 4, 22, 30


def module(*undefined: str) -> bytes:
    return elf(strings=["PyInit_ext"], undefined=undefined)


def needs_level(level: int) -> tuple[int, bytes]:
    data = struct.pack("<III", 0xC0008002, 4, 1 << (level - 1)) + bytes(4)
    return PT_NOTE, struct.pack("<III", 4, len(data), 5) + b"GNU\0" + data


WHEEL = "demo-1.0.dist-info/WHEEL"
TWICE = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nRoot-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_17_x86_64\n"
NOISE = random.Random(0).randbytes(1 << 20)  # noqa: S311 - only has to be incompressible
SOURCES = "demo/_gpuforge/sources/m/"


def recipe(**change: object) -> bytes:
    source = {"file": "a.cpp", "sha256": sha256(b"// a\n").hexdigest()}
    held = {**RECIPE, "fallbacks": [], "cpu": "", "sources": [source], "includes": []}
    return json.dumps(held | change).encode()


CASES = {
    "two lines of Root-Is-Purelib": Case(
        "GF706", "warning", ("Root-Is-Purelib: true, false",), {"demo/__init__.py": b"", WHEEL: TWICE},
        {WHEEL: TWICE.replace(b"Root-Is-Purelib: true\n", b"")},
    ),
    "top-level packages of tests and samples": Case(
        "GF716", "warning", ("tests/: Python files: 2", "samples/: Python files: 1"),
        {"demo/a.py": b"", "tests/__init__.py": b"", "tests/test_a.py": b"", "samples/x.py": b""},
        {"tests/__init__.py": None, "tests/test_a.py": None, "samples/x.py": None,
         "demo/tests/__init__.py": b"", "tests/data.json": b""},
    ),
    "segments for pages of 4 KiB on a processor that may have larger ones": Case(
        "GF511", "warning", ("demo/ext.so: 4 KiB",),
        {"demo/ext.so": elf(machine=183, page=1 << 12)}, {"demo/ext.so": elf(machine=183)},
        name="demo-1.0-cp312-cp312-manylinux_2_17_aarch64.whl",
    ),
    "segments for pages of 4 KiB beside those of x86-64, which has no larger ones": Case(
        "GF511", "warning", ("demo/arm.so: 16 KiB",),
        {"demo/arm.so": elf(machine=183, page=1 << 14), "demo/ext.so": elf(page=1 << 12)}, {"demo/arm.so": None},
    ),
    "a module for one version in an abi3 wheel": Case(
        "GF504", "error",
        ("demo/ext.cpython-310-x86_64-linux-gnu.so: for CPython 3.10 alone: uses PyFrame_GetBack",),
        {"demo/ext.cpython-310-x86_64-linux-gnu.so": module("PyFrame_GetBack", "PyLong_Type", "free")},
        {"demo/ext.cpython-310-x86_64-linux-gnu.so": None, "demo/ext.abi3.so": module("PyLong_Type")}, name=ABI3,
    ),
    "what a library of the stable ABI may define": Case(
        "GF504", "warning", ("demo/ext.abi3.so: uses PyDate_FromDate",),
        {
            "demo/ext.abi3.so": elf(
                strings=["PyInit_ext"], undefined=["PyDate_FromDate"], needed=["libhelp.abi3.so.6"]
            )
        },
        {"demo/ext.abi3.so": module("PyLong_Type")}, name=ABI3,
    ),
    "one that wants nothing else": Case(
        "GF504", "warning", ("demo/ext.cpython-310-x86_64-linux-gnu.so: for CPython 3.10 alone",),
        {"demo/ext.cpython-310-x86_64-linux-gnu.so": module("PyLong_Type")},
        {"demo/ext.cpython-311-x86_64-linux-gnu.so": module("PyLong_Type")}, name=ABI3,
    ),
    "a module, and a library that is named like one": Case(
        "GF504", "warning", ("demo/ext.cpython-310-x86_64-linux-gnu.so: for CPython 3.10 alone",),
        {"demo/ext.cpython-310-x86_64-linux-gnu.so": module()}, {"demo/ext.cpython-310-x86_64-linux-gnu.so": elf()},
        name=ABI3,
    ),
    "a module for another version": Case(
        "GF504", "error", ("demo/ext.cpython-312-x86_64-linux-gnu.so: for CPython 3.12 alone",),
        {"demo/ext.cpython-312-x86_64-linux-gnu.so": module()},
        {"demo/ext.cpython-311-x86_64-linux-gnu.so": module(), "demo/ext.cpython-312-x86_64-linux-gnu.so": None},
    ),
    "a module for another version, under a tag without an ABI": Case(
        "GF504", "error", ("demo/ext.cpython-310-x86_64-linux-gnu.so: for CPython 3.10 alone",),
        {"demo/ext.cpython-310-x86_64-linux-gnu.so": module("PyLong_Type")},
        {"demo/ext.cpython-310-x86_64-linux-gnu.so": None, "demo/ext.so": module("_PyObject_MakeTpCall")},
        name=ONE_PYTHON,
    ),
    "a symbol that is not in the stable ABI": Case(
        "GF504", "error", ("demo/ext.abi3.so: uses _PyObject_MakeTpCall",),
        {"demo/ext.abi3.so": module("_PyObject_MakeTpCall")},
        {"demo/ext.abi3.so": module("PyLong_Type")}, name=ANY_PYTHON,
    ),
    "a symbol of a later stable ABI": Case(
        "GF504", "error", ("demo/ext.abi3.so: uses PyBuffer_Release",),
        {"demo/ext.abi3.so": module("PyBuffer_Release")}, {"demo/ext.abi3.so": module("PyLong_Type")}, name=ABI3,
    ),
    "packed relocations without their version": Case(
        "GF501", "error", ("demo/ext.so: DT_RELR",),
        {"demo/ext.so": elf(versions=GLIBC, dynamic=[(36, 0x100)])},
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.2.5", "GLIBC_ABI_DT_RELR"]}, dynamic=[(36, 0x100)])},
        name="demo-1.0-cp311-cp311-manylinux_2_36_x86_64.whl",
    ),
    "no stack segment": Case(
        "GF503", "error", ("demo/ext.so: has no PT_GNU_STACK",),
        {"demo/ext.so": elf().replace(b"\x51\xe5\x74\x64", b"\x80\x15\x04\x65")}, {"demo/ext.so": elf()},
    ),
    "a library of newer systems": Case(
        "GF501", "error", ("libmvec.so.1, NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libmvec.so.1", "libc.so.6"])},
        {"demo/ext.so": elf(needed=["libm.so.6", "libc.so.6"])},
    ),
    "a newer processor": Case(
        "GF505", "warning", ("demo/ext.so: x86-64-v3: required by its GNU property",),
        {"demo/ext.so": elf(segment=needs_level(3))}, {"demo/ext.so": elf(segment=needs_level(1))},
    ),
    "a runtime for a newer processor": Case(
        "GF505", "warning", ("libnvcpumath-avx2.so (for avx2), NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libnvcpumath-avx2.so"])}, {"demo/ext.so": elf(needed=["libnvcpumath.so"])},
    ),
    "relocations in code": Case(
        "GF506", "warning", ("demo/a.so", "demo/b.so"),
        {"demo/a.so": elf(dynamic=[(TEXTREL, 0)]), "demo/b.so": elf(dynamic=[(FLAGS, 4)])},
        {"demo/a.so": elf(dynamic=[(FLAGS, 8)]), "demo/b.so": elf()},
    ),
    "no RELRO": Case(
        "GF507", "info", ("demo/ext.so",), {"demo/ext.so": elf(segment=(0, b""))}, {"demo/ext.so": elf()},
    ),
    "debug information of kernels, but for what ptxas always writes": Case(
        "GF508", "info", ("demo/k.cubin: 1,024 KiB",),
        {"demo/k.cubin": elf(machine=190, sections={".debug_info": NOISE})},
        {"demo/k.cubin": elf(machine=190, sections={".debug_frame": NOISE})},
    ),
    "debug information": Case(
        "GF508", "info", ("demo/ext.so: 1,024 KiB",),
        {"demo/ext.so": elf(sections={".debug_info": NOISE})}, {"demo/ext.so": elf(sections={".text": NOISE})},
    ),
    "debug information before what patchelf has moved": Case(
        "GF508", "info", ("demo/ext.so: 1,024 KiB",),
        {"demo/ext.so": elf(sections={".debug_info": NOISE, ".rodata": b"moved"})},
        {"demo/ext.so": elf(sections={".text": NOISE})},
    ),
    "sources that include by absolute path": Case(
        "GF603", "error", ("demo/_gpuforge/sources/m/a.h: /build/x.h", f"{SOURCES}recipe.json: /home/me/include"),
        {
            f"{SOURCES}recipe.json": recipe(flags=["-I/home/me/include", "-I/usr/include", "-DX=1"]),
            f"{SOURCES}a.cpp": b"// a\n", f"{SOURCES}a.h": b'#include "/build/x.h"\n#include <x.h>\n',
        },
        {f"{SOURCES}recipe.json": recipe(), f"{SOURCES}a.h": b"#include <x.h>\n"},
    ),
    "purelib": Case(
        "GF706", "warning", ("shared objects: 1, such as demo/ext.so",),
        {"demo/ext.so": elf()}, {"demo/ext.so": None, "demo-1.0.data/platlib/demo/ext.so": elf()}, purelib=True,
    ),
    "stored twice": Case(
        "GF707", "warning", ("demo/a.so: 1,024 KiB, the same as demo/b.so",),
        {"demo/a.so": elf(sections={".x": NOISE}), "demo/b.so": elf(sections={".x": NOISE})},
        {"demo/b.so": elf(sections={".y": NOISE})},
    ),
    "a left-over build folder": Case(
        "GF715", "warning",
        ("demo/python/build/lib.linux-x86_64-cpython-310: 1 file, 0 KiB", "demo/CMakeFiles: 1 file, 0 KiB"),
        {
            "demo/python/build/lib.linux-x86_64-cpython-310/demo/core.cpython-310-x86_64-linux-gnu.so": elf(),
            "demo/CMakeFiles/x.dir/x.o": b"",
        },
        {
            "demo/python/build/lib.linux-x86_64-cpython-310/demo/core.cpython-310-x86_64-linux-gnu.so": None,
            "demo/CMakeFiles/x.dir/x.o": None, "demo/build/core.so": elf(), "demo/build/lib/libx.so": elf(),
        },
    ),
    "stored twice, with a SONAME": Case(
        "GF707", "warning", ("demo/libx.so: 1,024 KiB, the same as demo/libx.so.1",),
        {name: elf(soname="libx.so.1", sections={".x": NOISE}) for name in ("demo/libx.so", "demo/libx.so.1")},
        {"demo/libx.so": elf(soname="libx.so.1", sections={".y": NOISE})},
    ),
    "a program under several names": Case(
        "GF707", "info", ("demo/bin/a: 1,024 KiB, the same as demo/bin/a-3.21",),
        {name: elf(sections={".x": NOISE}, interpreter="/lib64/x") for name in ("demo/bin/a", "demo/bin/a-3.21")},
        {"demo/bin/a": elf(sections={".y": NOISE}, interpreter="/lib64/x")},
    ),
    "a glibc object under a musl tag": Case(
        "GF501", "error", ("demo/ext.so: is linked with glibc",),
        {"demo/ext.so": elf(versions=GLIBC)}, {"demo/ext.so": elf(needed=["libc.musl-x86_64.so.1"])},
        name="demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
    ),
    "a library for both under a musl tag, and a program": Case(
        "GF501", "error", ("demo/tool: is linked with glibc",),
        {"demo/ext.so": elf(), "demo/tool": elf(interpreter="/lib64/ld-linux-x86-64.so.2")},
        {"demo/tool": elf(interpreter="/lib/ld-musl-x86_64.so.1")},
        name="demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
    ),
    "a musl object under a glibc tag": Case(
        "GF501", "error", ("demo/ext.so: is linked with musl",),
        {"demo/ext.so": elf(needed=["libc.so"])}, {"demo/ext.so": elf(needed=["libm.so", "libc.so"])},
    ),
    "one for either": Case(
        "GF501", "warning", ("demo/musl/ext.so: is linked with musl",),
        {"demo/glibc/ext.so": elf(versions=GLIBC), "demo/musl/ext.so": elf(needed=["libc.so"])},
        {"demo/musl/ext.so": elf(needed=[])},
    ),
    "what systems with musl do not bring": Case(
        "GF201", "warning", ("libstdc++.so.6, NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libstdc++.so.6", "libz.so.1", "libm.so.6", "libc.musl-x86_64.so.1"])},
        {"demo/ext.so": elf(needed=["libz.so.1", "libm.so.6", "libc.musl-x86_64.so.1"])},
        name="demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
    ),
    "what systems with musl do not bring, in a wheel for either": Case(
        "GF201", "warning", ("libgcc_s.so.1, NEEDED by demo/musl/ext.so",),
        {
            "demo/glibc/ext.so": elf(needed=["libgcc_s.so.1", "libc.so.6"], versions=GLIBC),
            "demo/musl/ext.so": elf(needed=["libgcc_s.so.1", "libc.musl-x86_64.so.1"]),
        },
        {"demo/musl/ext.so": elf(needed=["libc.musl-x86_64.so.1"])},
        name="demo-1.0-cp311-cp311-manylinux_2_17_x86_64.musllinux_1_2_x86_64.whl",
    ),
    "all for another machine": Case(
        "GF501", "error", ("demo/ext.so: is for aarch64",),
        {"demo/ext.so": elf(machine=183, versions={"libc.so.6": ["GLIBC_2.99"]})}, {"demo/ext.so": elf(machine=62)},
    ),
    "some for another machine": Case(
        "GF501", "warning", ("demo/ext.so: is for aarch64",),
        {"demo/a.so": elf(), "demo/ext.so": elf(machine=183)}, {"demo/ext.so": elf(machine=190)},
    ),
    "one of Android's among them": Case(
        "GF501", "warning", ("demo/ext.so: is for aarch64",),
        {"demo/a.so": elf(), "demo/ext.so": elf(needed=["libc.so"], machine=183)},
        {"demo/ext.so": elf(needed=["libdl.so", "libc.so"])},
    ),
    "a processor with several names": Case(
        "GF501", "error", ("demo/ext.so: is for aarch64",),
        {"demo/ext.so": elf(machine=183)}, {"demo/ext.so": elf(machine=40)},
        name="demo-1.0-cp311-cp311-linux_armv6l.whl",
    ),
    "a tag between two policies": Case(
        "GF501", "error", ("demo/ext.so: requires GLIBC_2.27",),
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.27"], "libstdc++.so.6": ["GLIBCXX_3.4.22"]})},
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.25"], "libstdc++.so.6": ["GLIBCXX_3.4.22"]})},
        name="demo-1.0-cp311-cp311-manylinux_2_25_x86_64.whl",
    ),
    "a tag beyond all policies": Case(
        "GF501", "error", ("demo/ext.so: requires GLIBC_2.99",),
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.99"], "libstdc++.so.6": ["GLIBCXX_3.4.99"]})},
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.90"], "libstdc++.so.6": ["GLIBCXX_3.4.99"]})},
        name="demo-1.0-cp311-cp311-manylinux_2_98_x86_64.whl",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_rule_speaks_where_it_must_and_nowhere_else(tmp_path: Path, case: Case) -> None:
    hold(case, tmp_path)


def test_code_chooses_between_objects_that_are_there_for_both_c_libraries_and_no_others(
    tmp_path: Path,
) -> None:
    path, musl = "$ORIGIN/../demo.libs", "libc.musl-x86_64.so.1"
    files = {
        "demo/a.cpython-311-x86_64-linux-gnu.so": elf(
            needed=["libx-0a1b2c3d.so.1", "liby-0a1b2c3d.so", "libc.so.6"], runpath=path, versions=GLIBC
        ),
        "demo/a.cpython-311-x86_64-linux-musl.so": elf(needed=["libx-1a2b3c4d.so.1", musl], runpath=path),
        "demo/b.so": elf(needed=["libz-0a1b2c3d.so", "libc.so.6"], runpath=path, versions=GLIBC),
        "demo/bin/helper": elf(needed=[musl]),
        "demo.libs/libx-0a1b2c3d.so.1": elf(soname="libx-0a1b2c3d.so.1", versions=GLIBC),
        "demo.libs/libx-1a2b3c4d.so.1": elf(soname="libx-1a2b3c4d.so.1", needed=[musl]),
        "demo.libs/liby-0a1b2c3d.so": elf(soname="liby-0a1b2c3d.so", versions=GLIBC),  # of nothing but a
        "demo.libs/libz-0a1b2c3d.so": elf(soname="libz-0a1b2c3d.so", versions=GLIBC),
    }
    said = {}
    for tag in ("musllinux_1_2_x86_64", "manylinux_2_17_x86_64"):
        report = audit([wheel(tmp_path, files, name=f"demo-1.0-cp311-cp311-{tag}.whl")])
        found = [f for f in report.findings if "are linked with" in f.message]
        said[tag[:5]] = {f.severity: {file.rpartition("/")[2] for file in f.files} for f in found}
    assert said["musll"] == {
        "error": {"b.so", "libz-0a1b2c3d.so"},
        "warning": {"a.cpython-311-x86_64-linux-gnu.so", "libx-0a1b2c3d.so.1", "liby-0a1b2c3d.so"},
    }
    assert said["manyl"] == {
        "error": {"helper"},
        "warning": {"a.cpython-311-x86_64-linux-musl.so", "libx-1a2b3c4d.so.1"},
    }


@pytest.mark.parametrize("family", ["manylinux", "musllinux"])
def test_a_library_of_no_policy_is_told_with_the_policies_of_its_system(tmp_path: Path, family: str) -> None:
    name = f"demo-1.0-cp311-cp311-{family}_1_2_x86_64.whl"
    report = audit([wheel(tmp_path, {"demo/ext.so": elf(needed=["libnuma.so.1"])}, name=name)])
    (found,) = (f for f in report.findings if f.code == "GF201")
    assert f"the {family} policies do not promise them" in found.message


def test_modules_for_several_versions_are_chosen_from(tmp_path: Path) -> None:
    files = {f"demo/ext.cpython-{v}-x86_64-linux-gnu.so": module() for v in ("310", "311")}
    assert audit([wheel(tmp_path, files, name=ANY_PYTHON)]).findings == ()


@pytest.mark.parametrize(
    ("python", "severity"),
    [
        (">=3.11,<3.15", "warning"),
        ("~=3.11.2", "warning"),
        (">=3.10", "error"),
        ("", "error"),
        ("none", "error"),
    ],
)
def test_what_requires_python_keeps_away_needs_no_stable_abi(
    tmp_path: Path, python: str, severity: str
) -> None:
    files = {"demo/ext.abi3.so": module("PyBuffer_Release")}
    (found,) = audit([wheel(tmp_path, files, name=ABI3, python=python)]).findings
    assert (found.code, found.severity) == ("GF504", severity)


def test_nvidias_packages_lie_beside_each_other(tmp_path: Path) -> None:
    name = "nvidia_demo_cu12-1.0-py3-none-manylinux_2_17_x86_64.whl"
    files = {"nvidia/cu12/lib/libdemo.so.0": elf(soname="libdemo.so.0")}
    assert audit([wheel(tmp_path, files, name=name, purelib=True)]).findings == ()


def test_a_tag_of_one_python_promises_no_other(tmp_path: Path) -> None:
    files = {f"demo/{n}.so": module("_PyObject_MakeTpCall") for n in ("a.cpython-312-x86_64-linux-gnu", "b")}
    assert audit([wheel(tmp_path, files, name=ONE_PYTHON)]).findings == ()


def test_what_takes_the_room(tmp_path: Path) -> None:
    files = {"demo/ext.so": elf(sections={".x": NOISE}), "demo/a.py": b"pass\n"}
    found = rules_of_files.sizes(read(wheel(tmp_path, files)))
    assert found["sections"][0] == (".x", len(NOISE))
    assert found["files"][0][0] == "demo/ext.so"
    assert found["device code"] == []


def test_pypi_accepts_100_mebibytes(tmp_path: Path) -> None:
    facts = read(wheel(tmp_path, {"demo/a.py": b"pass\n"}))
    found = {
        size: [f.what for f in rules_of_files.large_wheel.check(build([facts._replace(size=size)]))]
        for size in (100 << 20, (100 << 20) + 1)
    }
    assert [*found.values()] == [[], ["The wheel is 101 MiB. PyPI accepts 100 MiB by default."]]


def test_the_floor_of_a_wheel_whose_tag_promises_nothing_is_said(tmp_path: Path) -> None:
    files = {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.28"]})}
    (held,) = audit([wheel(tmp_path, files, name="demo-1.0-cp311-cp311-linux_x86_64.whl")]).wheels
    assert [p.text for p in held.proofs if p.topic == "platform"] == [
        "linux_x86_64 promises nothing; manylinux_2_28 has the glibc and libstdc++ that the objects need; "
        "highest required: GLIBC 2.28 (ext.so)"
    ]


@pytest.mark.parametrize("version", ["2_999999999", "2_" + "9" * 5000, "99999_1"])
def test_a_tag_of_no_glibc_promises_nothing(version: str) -> None:
    assert policy.of_tag(f"manylinux_{version}_x86_64") == (None, "x86_64")


@pytest.mark.parametrize(
    ("name", "foreign"),
    [
        ("demo/x.DLL", True),
        ("demo/x.dll.so", False),
        ("demo/macOS-arm64/tool", True),
        ("demo/win32/bin/tool", True),
        ("demo/darwin.old/tool", True),
        ("demo/win32/v1.2/tool", False),
        ("demo/winter/tool", True),
        ("demo/linux/tool", False),
        ("darwin", False),
    ],
)
def test_members_for_other_systems(name: str, foreign: bool) -> None:
    assert platform_tags._is_foreign(name) == foreign


def test_names_of_many_folders_are_read_once() -> None:
    """65,535 bytes is the longest name in a zip file; the square of its folders would take minutes."""
    begun = time.process_time()
    for end in ("x.", "x/.", "x"):
        platform_tags._is_foreign("win/" * 16_000 + end)
        platform_tags._is_foreign("x/" * 32_000 + end)
        platform_tags._is_foreign("win-" * 16_000 + "/" + end)
    assert time.process_time() - begun < 2
