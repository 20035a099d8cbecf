"""What must not be proved of platform tags: of each wheel that keeps its tag, the nearest wheels that do not."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from audit_samples import elf, wheel, with_ident
from proof_samples import MODULE, proved, tagged
from rule_cases.platform import needs_level

from gpuforge.audit import audit

GLIBC = {"libc.so.6": ["GLIBC_2.17"]}
RELR = (36, 0x100)
GNU_STACK, UNKNOWN = struct.pack("<I", 0x6474E551), struct.pack("<I", 0x65041580)
VERNEEDNUM = 0x6FFFFFFF


def two_libraries(number: int, version: str = "GLIBC_2.99") -> bytes:
    """Return an object that needs versions of two libraries, with this number of them in DT_VERNEEDNUM."""
    versions = {**GLIBC, "libm.so.6": [version]}
    data = elf(needed=["libm.so.6", "libc.so.6"], versions=versions)
    return data.replace(struct.pack("<qQ", VERNEEDNUM, 2), struct.pack("<qQ", VERNEEDNUM, number))


def uses_zlib(symbol: str, *needed: str) -> bytes:
    return elf(needed=needed or ["libz.so.1", "libc.so.6"], versions=GLIBC, undefined=[symbol])


def findings(path: Path) -> set[str]:
    return {finding.code for finding in audit([path]).findings}


@pytest.mark.parametrize(
    ("good", "nearest", "platform", "code"),
    [
        pytest.param(
            elf(versions=GLIBC),
            elf(versions=GLIBC, segment=needs_level(3)),
            "manylinux_2_17_x86_64",
            "GF505",
            id="the GNU property needs x86-64-v3",
        ),
        pytest.param(
            elf(versions=GLIBC),
            elf(versions=GLIBC, stack=7),
            "manylinux_2_17_x86_64",
            "GF503",
            id="the stack is executable",
        ),
        pytest.param(
            elf(versions=GLIBC, machine=183).replace(GNU_STACK, UNKNOWN),
            elf(versions=GLIBC, machine=62).replace(GNU_STACK, UNKNOWN),
            "manylinux_2_17_aarch64.manylinux_2_17_x86_64",
            "GF503",
            id="the stack is executable by default",
        ),
        pytest.param(
            elf(versions={"libc.so.6": ["GLIBC_2.17", "GLIBC_ABI_DT_RELR"]}, dynamic=[RELR]),
            elf(versions=GLIBC, dynamic=[RELR]),
            "manylinux_2_36_x86_64",
            "GF501",
            id="DT_RELR without its version, which glibc refuses",
        ),
        pytest.param(
            elf(versions={"libm.so.6": ["GLIBC_2.17"]}),
            elf(versions={"libm.so.6": ["GLIBC_2.17"]}, dynamic=[RELR]),
            "manylinux_2_35_x86_64",
            "GF501",
            id="DT_RELR, which an older glibc does not read",
        ),
        pytest.param(
            two_libraries(1, "GLIBC_2.17"),
            two_libraries(1),
            "manylinux_2_17_x86_64",
            "GF501",
            id="more versions than DT_VERNEEDNUM says",
        ),
        pytest.param(
            elf(versions=GLIBC),
            elf(needed=["libssl.so.3", "libc.so.6"], versions=GLIBC),
            "manylinux_2_17_x86_64",
            "GF201",
            id="a library that no policy has",
        ),
        pytest.param(
            elf(versions=GLIBC),
            with_ident(elf(versions=GLIBC), 7, 9),
            "manylinux_2_17_x86_64",
            "GF501",
            id="it is for FreeBSD",
        ),
        pytest.param(
            elf(versions=GLIBC),
            with_ident(elf(versions=GLIBC), 8, 5),
            "manylinux_2_17_x86_64",
            "GF501",
            id="no glibc knows the version of its OS ABI",
        ),
        pytest.param(
            uses_zlib("uncompress"),
            uses_zlib("uncompress2"),
            "manylinux_2_31_x86_64",
            "GF501",
            id="a symbol that the policy forbids",
        ),
        pytest.param(
            uses_zlib("uncompress2"),
            uses_zlib("zcalloc"),
            "manylinux_2_34_x86_64",
            "GF501",
            id="a symbol that this policy forbids, too",
        ),
        pytest.param(
            uses_zlib("uncompress2", "libc.so.6"),
            uses_zlib("uncompress2"),
            "manylinux_2_31_x86_64",
            "GF501",
            id="the symbol is of a library of the system, and not of another one",
        ),
        pytest.param(
            elf(needed=["ld-linux-x86-64.so.2", "libc.so.6"], versions=GLIBC),
            elf(needed=["ld-linux-aarch64.so.1", "libc.so.6"], versions=GLIBC),
            "manylinux_2_17_x86_64",
            "GF201",
            id="the dynamic linker of another processor",
        ),
    ],
)
def test_a_tag_that_objects_do_not_keep(
    tmp_path: Path, good: bytes, nearest: bytes, platform: str, code: str
) -> None:
    for data, holds in ((good, True), (nearest, False)):
        path = wheel(tmp_path, {MODULE: data}, name=tagged(*platform.split(".")))
        assert bool(proved("platform", path)) == holds
        assert (code in findings(path)) != holds


@pytest.mark.parametrize(("minor", "holds"), [(41, True), (99, False)])
def test_a_tag_beyond_the_newest_policy(tmp_path: Path, minor: int, holds: bool) -> None:
    data = elf(
        needed=["libstdc++.so.6", "libc.so.6"],
        versions={**GLIBC, "libstdc++.so.6": ["GLIBCXX_3.4.29"]},
    )
    path = wheel(tmp_path, {MODULE: data}, name=tagged(f"manylinux_2_{minor}_x86_64"))
    assert bool(proved("platform", path)) == holds
    assert "GF501" not in findings(path)


def test_musl_leaves_the_stack_alone(tmp_path: Path) -> None:
    data = elf(needed=["libc.musl-x86_64.so.1"]).replace(GNU_STACK, UNKNOWN)
    assert "GF503" not in findings(wheel(tmp_path, {MODULE: data}, name=tagged("musllinux_1_2_x86_64")))


@pytest.mark.parametrize(
    ("needed", "platforms", "found"),
    [
        pytest.param("ld-linux-x86-64.so.2", ["manylinux_2_17_x86_64"], True, id="its own loader"),
        pytest.param("ld-linux-aarch64.so.1", ["manylinux_2_17_x86_64"], False, id="another's loader"),
        pytest.param("libc.so", ["manylinux_2_17_x86_64"], False, id="musl's C library on glibc"),
        pytest.param("libc.musl-x86_64.so.1", ["linux_x86_64"], False, id="Alpine's C library beside glibc"),
        pytest.param("libstdc++.so.6", ["manylinux_2_17_x86_64"], True, id="libstdc++ on glibc"),
    ],
)
def test_a_library_of_another_system(tmp_path: Path, needed: str, platforms: list[str], found: bool) -> None:
    path = wheel(
        tmp_path, {MODULE: elf(needed=[needed, "libc.so.6"], versions=GLIBC)}, name=tagged(*platforms)
    )
    assert bool(proved("providers", path)) == found


@pytest.mark.parametrize(
    ("interpreter", "holds"),
    [("/lib64/ld-linux-x86-64.so.2", True), ("/nix/store/a-glibc/lib/ld-linux-x86-64.so.2", False)],
)
def test_a_program_that_names_a_loader_of_the_build_machine(
    tmp_path: Path, interpreter: str, holds: bool
) -> None:
    files = {"demo-1.0.data/scripts/tool": elf(interpreter=interpreter, versions=GLIBC)}
    path = wheel(tmp_path, files, name=tagged("manylinux_2_17_x86_64"))
    assert bool(proved("platform", path)) == holds
    assert ("GF501" in findings(path)) != holds


@pytest.mark.parametrize(
    ("library", "platforms", "is_there"),
    [
        pytest.param("libz.so.1", ["manylinux_2_17_x86_64", "musllinux_1_2_x86_64"], True, id="both have it"),
        pytest.param("libstdc++.so.6", ["manylinux_2_17_x86_64"], True, id="glibc's systems have it"),
        pytest.param(
            "libstdc++.so.6",
            ["manylinux_2_17_x86_64", "musllinux_1_2_x86_64"],
            False,
            id="musl's have it not",
        ),
        pytest.param(
            "libm.so.6",
            ["manylinux_2_17_x86_64", "musllinux_1_2_x86_64"],
            True,
            id="a part of either C library",
        ),
    ],
)
def test_a_wheel_for_both_c_libraries_has_what_both_systems_bring(
    tmp_path: Path, library: str, platforms: list[str], is_there: bool
) -> None:
    path = wheel(tmp_path, {MODULE: elf(needed=[library])}, name=tagged(*platforms))
    assert ("GF201" not in findings(path)) is is_there
    assert bool(proved("providers", path)) is is_there
