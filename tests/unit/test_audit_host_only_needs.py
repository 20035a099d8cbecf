"""`host-only` and libraries: which of a GPU stack's may be needed, by which way, and what they load themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from audit_samples import elf, fatbin
from host_only_samples import CUDART, PTX, judged, refused
from object_samples import archive, relocatable


@pytest.mark.parametrize(
    "library",
    [
        "libnvrtc.so.13", "libnvJitLink.so.13", "libcublas.so.13", "libcufft.so.12", "libnccl.so.2", "libOpenCL.so.1",
        "libcudart.so.11.0", "libamdhip64.so.6", "libsycl.so.8", "libcudart-4554289f.so.13.0.96",
    ],
)  # fmt: skip
def test_libraries_of_a_gpu_stack_are_needed_only_by_permission(tmp_path: Path, library: str) -> None:
    name = re.sub(r"^lib|[-.][0-9a-f]{8}(?=\.so)|\.so.*", "", library)
    files = {"demo/x.so": elf(needed=["libc.so.6", library], undefined=["cudaMalloc"] * (name == "cudart"))}
    assert judged(tmp_path, files) == ([("GF601", (f"demo/x.so: needs {library}",))], [])
    found, proved = judged(tmp_path, files, f'needs = ["{name.lower()}"]')
    assert found == []
    assert proved[0].endswith(f"no library of a GPU stack NEEDED but {name.lower()}")
    assert judged(tmp_path, files, 'needs = ["cusparse"]')[0] == [("GF601", (f"demo/x.so: needs {library}",))]


@pytest.mark.parametrize(
    ("library", "whose"),
    [
        ("libcuda.so.1", ", of the driver"),
        ("libomptarget.so.19", ", a runtime of llvm-openmp"),
        ("libnvomp.so", ", a runtime of nvhpc"),
    ],
)
def test_the_driver_and_runtimes_of_compilers_are_named(tmp_path: Path, library: str, whose: str) -> None:
    assert refused(tmp_path, elf(needed=[library]), "demo/x.so") == [f"GF601 needs {library}{whose}"]


@pytest.mark.parametrize(
    "library", ["libgomp.so.1", "libomp.so.5", "libiomp5.so", "libstdc++.so.6", "libcurl.so.4"]
)
def test_libraries_of_hosts_need_no_permission(tmp_path: Path, library: str) -> None:
    assert judged(tmp_path, {"demo/x.so": elf(needed=[library])})[0] == []


def test_what_a_library_of_the_wheel_loads_counts_and_the_way_is_named(tmp_path: Path) -> None:
    files = {
        "demo/x.so": elf(needed=["liba.so"], runpath="$ORIGIN/../lib"),
        "lib/liba.so": elf(soname="liba.so", needed=["libb.so"], runpath="$ORIGIN"),
        "lib/libb.so": elf(soname="libb.so", needed=[CUDART], sections={".rodata": PTX}),
    }
    assert judged(tmp_path, files)[0] == [
        (
            "GF601",
            (
                "demo/x.so: PTX text, through liba.so → libb.so",
                f"demo/x.so: needs {CUDART}, through liba.so → libb.so",
            ),
        )
    ]
    files["lib/libb.so"] = elf(soname="libb.so", needed=[CUDART])
    assert judged(tmp_path, files, 'needs = ["cudart"]')[0] == []
    files["lib/libb.so"] = elf(soname="libb.so")[:200]
    found, proved = judged(tmp_path, files)
    assert [code for code, _ in found] == ["GF604"]
    assert found[0][1][0].startswith("lib/libb.so: it ends at byte 200")
    assert proved == []


def test_what_an_allowed_library_loads_is_its_own_business(tmp_path: Path) -> None:
    files = {
        "demo/x.so": elf(needed=["libcublas-0a1b2c3d.so.13"], runpath="$ORIGIN/../demo.libs"),
        "demo.libs/libcublas-0a1b2c3d.so.13": elf(
            soname="libcublas-0a1b2c3d.so.13",
            needed=["libcublasLt.so.13"],
            sections={".nv_fatbin": fatbin("sm_80")},
        ),
    }
    assert judged(tmp_path, files, 'needs = ["cublas"]')[0] == []
    assert judged(tmp_path, files)[0] == [
        (
            "GF601",
            (
                "demo/x.so: needs libcublas-0a1b2c3d.so.13",
                "demo/x.so: needs libcublasLt.so.13, through libcublas-0a1b2c3d.so.13",
            ),
        )
    ]


def test_symbols_that_the_file_or_its_libraries_have_are_not_wanted(tmp_path: Path) -> None:
    stubs = relocatable(gives=["cuInit", "cudaMalloc"])
    user = relocatable(wants=["cuInit", "cudaMalloc"])
    assert judged(tmp_path, {"demo/lib.a": archive({"user.o": user, "stubs.o": stubs})})[0] == []
    assert judged(tmp_path, {"demo/lib.a": archive({"user.o": user})}, 'needs = ["cudart", "cuda"]')[0] == []
    found, _ = judged(tmp_path, {"demo/lib.a": archive({"user.o": user})})
    assert found == [
        ("GF601", ("demo/lib.a: uses cuInit of libcuda", "demo/lib.a: uses cudaMalloc of libcudart"))
    ]


def test_what_code_may_open_is_told_and_no_error(tmp_path: Path) -> None:
    data = elf(sections={".rodata": b"\0libcuda.so.1\0libfoo.so\0mylibcuda.so\0/opt/lib/libOpenCL.so.1\0"})
    assert judged(tmp_path, {"demo/x.so": data}) == (
        [],
        [
            "core: 1 object read completely (x.so): no GPU code in a known format "
            "(packed data was not unpacked), no trace of a GPU compiler, no library of a GPU "
            "stack NEEDED; named in strings, so that code may open them: libOpenCL.so.1, libcuda.so.1"
        ],
    )
