"""What is not required is not there: wheels that are given together, and what their metadata requires."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import TAGS, elf, said, torch, wheel

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines


@pytest.mark.parametrize(("requires", "code"), [([], "GF201"), (["base==1.0"], "GF202")])
@pytest.mark.parametrize(
    ("needed", "file"),
    [
        ("libgomp.so.1", "base/lib/libgomp.so.1"),
        ("libfoo.so.1", "base/lib/libfoo-0a1b2c3d.so.1"),
        ("libOpenCL.so.1", "base/.libs/libOpenCL.so.1"),
    ],
)
def test_what_a_package_has_is_not_for_those_that_do_not_require_it(
    tmp_path: Path, needed: str, file: str, requires: list[str], code: str
) -> None:
    name = file.rpartition("/")[2]
    lib = {"base/ext.so": elf(needed=[name], runpath="$ORIGIN/lib:$ORIGIN/.libs"), file: elf(soname=needed)}
    other = wheel(tmp_path, lib, name=f"base-1.0-{TAGS}.whl")
    one = wheel(tmp_path, {"demo/lib.so": elf(needed=[needed])}, requires=requires)
    found = {f.code: f.severity for f in audit([one, other]).findings if f.wheel == one.name}
    assert found[code] == "warning"
    assert not {"GF201", "GF202"} - {code} & found.keys()


@pytest.mark.parametrize(
    ("requires", "codes"),
    [(["torch<3,>=2.2"], set()), (["torch>=2.15"], {"GF204", "GF710"}), ([], {"GF201"})],
)
def test_a_package_given_brings_what_it_says_itself(
    tmp_path: Path, requires: list[str], codes: set[str]
) -> None:
    marker = "; platform_system == 'Linux' and platform_machine == 'x86_64'"
    torch = wheel(
        tmp_path,
        {
            "torch/lib/libc10.so": elf(soname="libc10.so"),
            "torch/_C.so": elf(needed=["libc10.so"], rpath="$ORIGIN/lib"),
        },
        name=f"torch-2.7.1-{TAGS}.whl",
        requires=[
            f"nvidia-cuda-runtime-cu12==12.6.77{marker}",
            "nvidia-nccl-cu13; extra == 'other'",
            "sympy>=1.13.3",
        ],
    )
    one = wheel(tmp_path, {"demo/ext.so": elf(needed=["libc10.so", "libcudart.so.12"])}, requires=requires)
    report = audit([one, torch])
    found = {f.code for f in report.findings if f.wheel == one.name and f.severity == "error"}
    assert found == codes
    known = report.graph.declared[one.name]
    expected = {"torch", "nvidia-cuda-runtime-cu12"}
    assert (known.keys() == expected) == (codes == set())


@pytest.mark.parametrize(
    ("code", "codes"),
    [
        ({}, ["GF202"]),
        (
            {
                "libdensity/load.py": b"ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'libdensity.so.0'))\n"
            },
            [],
        ),
        (
            {
                "density/ext.abi3.so": elf(
                    needed=["libdensity.so.0"], rpath="$ORIGIN/../libdensity", strings=["PyInit_ext"]
                )
            },
            [],
        ),
    ],
)
def test_a_package_without_code_is_not_imported(
    tmp_path: Path, code: dict[str, bytes], codes: list[str]
) -> None:
    lib = {"libdensity/libdensity.so.0": elf(soname="libdensity.so.0")}
    other = wheel(tmp_path, lib | code, name=f"density_cu12-1.0-{TAGS}.whl")
    one = wheel(tmp_path, {"demo/ext.so": elf(needed=["libdensity.so.0"])}, requires=["density-cu12"])
    found = [f.code for f in audit([one, other]).findings if f.wheel == one.name and f.code < "GF3"]
    assert found == codes


@pytest.mark.parametrize(
    ("requires", "unmet"),
    [
        (["torch==2.9.1"], "requires 'torch==2.9.1'; this audit has torch 2.4.1"),
        (["torch>=2.4", "numpy"], ""),
        (["torch==2.9.1; extra == 'gpu'"], ""),
        (["torch==2.9.1; platform_system == 'Windows'"], ""),
    ],
)
def test_wheels_that_are_given_fit_one_another(requires: list[str], unmet: str, tmp_path: Path) -> None:
    own = wheel(tmp_path, {"demo/ext.so": elf()}, requires=requires)
    found = said(audit([own, torch(tmp_path)]), "GF710")
    assert [(f.wheel, f.severity, lines(f)) for f in found] == (
        [(own.name, "error", (unmet,))] if unmet else []
    )
    newer = wheel(tmp_path, {}, name=f"torch-2.9.1-{TAGS}.whl")
    assert not said(audit([own, torch(tmp_path), newer]), "GF710")
    assert not said(audit([own]), "GF710")


def test_what_a_wheel_that_is_given_requires_is_read_there(tmp_path: Path) -> None:
    own = wheel(tmp_path, {"demo/a.so": elf()}, requires=["nvidia-cublas-cu12", "other", "torch>=2.11"])
    other = wheel(tmp_path, {"other/b.py": b""}, name="other-1.0-py3-none-any.whl", requires=["nvidia-cufft"])
    (found,) = said(audit([own, other, torch(tmp_path)]), "GF104")
    assert (found.wheel, lines(found)) == (
        own.name,
        (
            "CUDA 12: nvidia-cublas-cu12, by 'nvidia-cublas-cu12'",
            "CUDA 12: nvidia-cuda-runtime-cu12, by 'torch>=2.11 → nvidia-cuda-runtime-cu12'",
            "CUDA 13: nvidia-cufft, by 'other → nvidia-cufft'",
        ),
    )
    above = wheel(
        tmp_path, {"above/b.py": b""}, name="above-1.0-py3-none-any.whl", requires=["demo", "nvidia-cufft"]
    )
    (found,) = said(audit([above, own, other, torch(tmp_path)]), "GF104")
    assert found.wheel == own.name


@pytest.mark.parametrize(
    ("requires", "subject"),
    [
        ([], [("demo/ext.so: liba.so (other, by RUNPATH $ORIGIN/../other)",)]),
        (["other"], []),
        (["between; extra == 'all'"], []),
    ],
)
def test_a_wheel_that_is_given_has_to_be_required(
    requires: list[str], subject: list[tuple[str, ...]], tmp_path: Path
) -> None:
    files = {"demo/ext.so": elf(needed=["liba.so"], runpath="$ORIGIN/../other")}
    own = wheel(tmp_path, files, requires=requires)
    between = wheel(tmp_path, {}, name="between-1.0-py3-none-any.whl", requires=["other"])
    other = wheel(tmp_path, {"other/liba.so": elf(soname="liba.so")}, name=f"other-1.0-{TAGS}.whl")
    assert [lines(f) for f in said(audit([own, between, other]), "GF203")] == subject


def test_a_plugin_finds_the_wheel_that_brings_it(tmp_path: Path) -> None:
    plugin = wheel(tmp_path, {"demo/p/plugin.so": elf(needed=["liba.so"], runpath="$ORIGIN/..")})
    host = {"demo/liba.so": elf(soname="liba.so")}
    name = f"host-1.0-{TAGS}.whl"
    assert said(audit([plugin, wheel(tmp_path, host, name=name)]), "GF203")
    bringing = wheel(tmp_path, host, name=name, requires=["demo; extra == 'gpu'"])
    assert not said(audit([plugin, bringing]), "GF203")


def test_a_wheels_own_file_is_its_own_also_where_another_wheel_has_the_same_place(tmp_path: Path) -> None:
    files = {
        "demo/ext.so": elf(needed=["liba.so"], runpath="$ORIGIN"), "demo/liba.so": elf(soname="liba.so"),
    }  # fmt: skip
    old, new = (wheel(tmp_path, files, name=f"demo-{version}-{TAGS}.whl") for version in ("1.0", "2.0"))
    report = audit([old, new])
    assert not said(report, "GF203")
    owners = {
        e.provider.object.wheel
        for e in report.graph.edges
        if e.provider.object and e.loader.wheel == old.name
    }
    assert owners == {old.name}


def test_a_path_to_another_packages_folder_leaves_the_next_one_its_turn(tmp_path: Path) -> None:
    path = "$ORIGIN/../nvidia/cufile/lib:$ORIGIN/../nvidia/cu13/lib"
    files = {"demo/ext.so": elf(needed=["libcufile.so.0"], runpath=path)}
    report = audit([wheel(tmp_path, files, requires=["nvidia-cufile"])])
    assert [f.code for f in report.findings] == ["GF305"]  # the folder is that of nvidia-cufile-cu12


@pytest.mark.parametrize("order", [1, -1])
def test_of_a_file_that_two_wheels_put_in_one_place_the_required_one_is_meant(
    order: int, tmp_path: Path
) -> None:
    files = {"demo/ext.so": elf(needed=["libnccl.so.2"], runpath="$ORIGIN/../nvidia/nccl/lib")}
    own = wheel(tmp_path, files, requires=["nvidia-nccl-cu12"])
    both = [
        wheel(
            tmp_path,
            {"nvidia/nccl/lib/libnccl.so.2": elf(soname="libnccl.so.2", strings=[cuda])},
            name=f"nvidia_nccl_{cuda}-2.27-py3-none-manylinux_2_17_x86_64.whl",
        )
        for cuda in ("cu12", "cu13")
    ]
    assert not said(audit([own, *both[::order]]), "GF203")


@pytest.mark.parametrize(
    ("requires", "wheels"), [(["plain", "other"], []), (["plain"], [f"plain-1.0-{TAGS}.whl"])]
)
def test_whose_rpath_leads_to_a_wheel_may_require_it(
    requires: list[str], wheels: list[str], tmp_path: Path
) -> None:
    ext = elf(needed=["libplain.so"], rpath="$ORIGIN/../plain:$ORIGIN/../other")
    files = {
        "demo": {"demo/ext.so": ext},
        "plain": {"plain/libplain.so": elf(soname="libplain.so", needed=["liba.so"])},
        "other": {"other/liba.so": elf(soname="liba.so")},
    }
    paths = [
        wheel(tmp_path, held, name=f"{name}-1.0-{TAGS}.whl", requires=requires if name == "demo" else [])
        for name, held in files.items()
    ]
    assert [f.wheel for f in said(audit(paths), "GF203")] == wheels
