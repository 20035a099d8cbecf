"""Rules about the platform, the package and the sources in it: the cases beyond the plainest."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from audit_samples import elf, read, wheel
from rule_cases.platform import ABI3, ANY_PYTHON, GLIBC, NOISE, ONE_PYTHON, module

from gpuforge.audit import audit, policy
from gpuforge.audit.link.graph import build
from gpuforge.audit.rules import files as rules_of_files
from gpuforge.audit.rules import platform_tags


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
