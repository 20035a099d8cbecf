"""`host-only` is a proof: what GPU compilers leave is found wherever it lies, and what cannot be read is not proved."""

import io
import json
import re
from contextlib import redirect_stdout
from typing import get_args

import golden
import pytest
from audit_samples import elf, fatbin, wheel
from draws import draws
from host_only_samples import CUDART, MANIFEST, PTX, judged, refused
from hypothesis import given
from hypothesis import strategies as st
from object_samples import archive, relocatable

from gpuforge.audit import audit
from gpuforge.audit.evidence import GapKind
from gpuforge.audit.host import collect
from gpuforge.audit.rules import roles
from gpuforge.cli.main import run
from gpuforge.expectation import expecting
from gpuforge.manifest.load import load
from gpuforge.plan.expectation import expectation

HOST = relocatable(gives=["f"])
NVC = relocatable({".debug_str": b"NVC++ 22.1-0\0"}, comment=b"")
UNNAMED = "GF604 neither .comment nor debug info names its compiler, which may be one for GPUs"
BITCODE = b"BC\xc0\xde" + bytes(64)
SLIM = relocatable({".gnu.lto_.lto.5ea1": b"\x0b\0\0\0\x01\0"}, code=b"")
FAT = relocatable({".gnu.lto_.lto.5ea1": b"\x0b\0\0\0\0\0"})


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (NVC, ['GF601 made by the NVIDIA HPC compilers (debug info "NVC++ 22.1-0")']),
        (
            relocatable({".debug_str": b"NVC++ 22.1-0\0"}, compressed=[".debug_str"]),
            ['GF601 made by the NVIDIA HPC compilers (debug info "NVC++ 22.1-0")'],
        ),
        (
            relocatable(wants=["__c_mzero4"], sources=["nvc++Qx.ll"], comment=b"\0pgcc init_set_link_acc.s\0"),
            [
                'GF601 made by the NVIDIA HPC compilers (.comment "pgcc init_set_link_acc.s", symbol __c_mzero4, '
                "source nvc++Qx.ll)"
            ],
        ),
        (relocatable(comment=b""), [UNNAMED]),
        (
            relocatable(comment=b"\0Linker: LLD 14.0.6\0"),
            [UNNAMED],
        ),
        (
            relocatable({".nv_fatbin": fatbin("sm_80")}, wants=["__cudaRegisterFatBinary"]),
            [
                "GF601 GPU code for sm_80",
                "GF601 made by a CUDA compiler (section .nv_fatbin, symbol __cudaRegisterFatBinary)",
            ],
        ),
        (
            relocatable(wants=["GOACC_parallel_keyed"]),
            ["GF601 made by GCC's offloading (OpenACC, OpenMP target) (symbol GOACC_parallel_keyed)"],
        ),
        (
            relocatable({".gnu.target_lto_.decls.1": b"x"}),
            ["GF601 made by GCC's offloading (OpenACC, OpenMP target) (section .gnu.target_lto_.decls.1)"],
        ),
        (relocatable(wants=["acc_copyin"]), ["GF601 made by an OpenACC compiler (symbol acc_copyin)"]),
        (
            relocatable({"__CLANG_OFFLOAD_BUNDLE__openmp-nvptx64": b"x"}),
            ["GF601 made by clang's offloading (OpenMP target) (section __CLANG_OFFLOAD_BUNDLE__openmp-nvptx64)"],
        ),
        (
            relocatable({".hip_fatbin": b"__CLANG_OFFLOAD_BUNDLE__\x02" + bytes(7)}),
            ["GF601 a clang offload bundle", "GF601 made by a HIP compiler (section .hip_fatbin)"],
        ),
        (relocatable(wants=["__sycl_register_lib"]), ["GF601 made by a SYCL compiler (symbol __sycl_register_lib)"]),
        (relocatable({".rodata": PTX}), ["GF601 PTX text"]),
        (relocatable({".rodata": PTX}, compressed=[".rodata"]), ["GF601 PTX text"]),
        (relocatable({".rodata": b"\x7fTileIR\0\x0d\x01"}), ["GF601 Tile IR of CUDA"]),
        (
            relocatable({".data": b"\x7fELF\2\1\1\x33" + bytes(8) + b"\2\0\xbe\0"}),
            ["GF601 machine code of an NVIDIA GPU (a cubin)"],
        ),
        (relocatable({".a": b"\x03\x02\x23\x07\x00\x05\x01\x00"}), ["GF601 SPIR-V"]),
        (relocatable({".a": b"\x10\xff\x10\xad\x01\0\0\0"}), ["GF601 an LLVM offload binary"]),
        (relocatable(wants=["cudaMalloc", "cudaFree"]), ["GF601 uses cudaMalloc, cudaFree of libcudart"]),
        (relocatable(wants=["cublasCreate_v2"]), ["GF601 uses cublasCreate_v2 of libcublas"]),
        (relocatable(machine=190), ["GF601 machine code of an NVIDIA GPU (a cubin)"]),
        (relocatable(machine=251), ["GF604 its code is for machine 251, and wheels are not made for that CPU"]),
        (SLIM, ["GF604 it has only bytecode of GCC (-flto), which is compiled later"]),
        (BITCODE, ["GF604 it is LLVM bitcode, which is compiled later"]),
        (HOST[:-8], [f"GF604 damaged: it ends at byte {len(HOST) - 8}, before {len(HOST)}"]),
        (b"MZ" + bytes(58) + b"\x40\0\0\0PE\0\0", ["GF604 it is a binary of Windows, which is not read"]),
    ],
)  # fmt: skip
def test_an_object_with_something_of_a_gpu_compiler(tmp_path, data, lines):
    assert refused(tmp_path, data) == lines


@pytest.mark.parametrize(
    "data",
    [
        HOST,
        FAT,
        relocatable(comment=b"", code=b""),  # nothing was compiled
        relocatable(comment=b"", sources=["x.asm"]),
        relocatable({".debug_str": b"GNU AS 2.40\0"}, comment=b""),
        relocatable({".debug_str": b"clang version 14.0.6\0"}, comment=b""),
        relocatable(wants=["GOMP_parallel"]),  # OpenMP on the CPU
        relocatable(gives=["__offload_func_table"]),  # of crtoffloadbegin.o, which -fopenmp alone brings
        relocatable(gives=["GOACC_parallel", "acc_init", "GOMP_target_ext"]),  # as libgomp itself does
        relocatable(weak=["cudaMalloc"]),  # used if it happens to be there
        relocatable(wants=["acc_sum", "cudd_init", "custom", "clang_parse", "hipster", "currentTime"]),
        relocatable({".rodata": b".version %d.%d\n.target sm_%d\0.target sm_80\0__CLANG_OFFLOAD_BUNDLE__\0"}),
    ],
)
def test_host_code_is_proved(tmp_path, data):
    assert judged(tmp_path, {"demo/x.o": data}) == (
        [],
        [
            "core: 1 object read completely (x.o): "
            "no GPU code in a known format (packed data was not unpacked), no trace of a GPU compiler, "
            "no library of a GPU stack NEEDED"
        ],
    )


@pytest.mark.parametrize("name", ["demo/x.txt", "demo/x.py", "demo/x", "demo/x.so", "demo/x.json"])
def test_the_name_of_a_file_hides_nothing(tmp_path, name):
    assert refused(tmp_path, NVC, name) == [
        'GF601 made by the NVIDIA HPC compilers (debug info "NVC++ 22.1-0")'
    ]
    found, _ = judged(tmp_path, {name: elf(needed=["libcublas.so.13"])})
    assert found == [("GF601", (f"{name}: needs libcublas.so.13",))]


@pytest.mark.parametrize("style", ["gnu", "bsd"])
def test_every_member_of_an_archive_is_read(tmp_path, style):
    good = {f"a_rather_long_name_{n}.o": HOST for n in range(9)}
    found, proved = judged(tmp_path, {"demo/lib.a": archive(good, style=style), "demo/x.o": HOST})
    assert found == []
    assert proved == [
        "core: 1 object and 9 archive members read completely (lib.a, x.o): "
        "no GPU code in a known format (packed data was not unpacked), "
        "no trace of a GPU compiler, no library of a GPU stack NEEDED"
    ]
    bad = archive(
        {**good, "last.o": NVC, "inner.a": archive({"deep.o": relocatable(comment=b"")})}, style=style
    )
    assert refused(tmp_path, bad, "demo/lib.a") == [
        'GF601 made by the NVIDIA HPC compilers (debug info "NVC++ 22.1-0") in 1 of 11 members (last.o)',
        "GF604 1 of 11 members (inner.a/deep.o): neither .comment nor debug info names its compiler, "
        "which may be one for GPUs",
    ]


def test_members_of_a_thin_archive_are_read_where_they_lie(tmp_path):
    thin = archive({"x.o": b"", "../other/y.o": b""}, style="thin")
    files = {"demo/lib.a": thin, "demo/x.o": HOST, "other/y.o": NVC}
    found, _ = judged(tmp_path, files)
    assert found == [
        (
            "GF601",
            (
                'demo/lib.a: made by the NVIDIA HPC compilers (debug info "NVC++ 22.1-0") '
                "in 1 of 2 members (../other/y.o)",
            ),
        )
    ]
    found, _ = judged(tmp_path, {name: data for name, data in files.items() if name != "other/y.o"})
    assert found == [("GF604", ("demo/lib.a: other/y.o is not in the wheel",))]
    assert refused(tmp_path, archive({"../../y.o": b""}, style="thin"), "demo/lib.a") == [
        "GF604 the thin archive names ../../y.o, which is outside of the wheel"
    ]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (archive({"x.o": HOST})[:-4], "GF604 the archive ends in the middle of the member at byte"),
        (archive({"x.o": BITCODE}), "GF604 1 of 1 members (x.o): it is LLVM bitcode"),
        (
            archive({"x.o": HOST[:300]}),
            "GF604 1 of 1 members (x.o): damaged: 7 section headers do not fit into it",
        ),
        (archive({}), "GF602 'demo/*' of the object 'core': demo/lib.a, with no object in it"),
        (
            archive({"notes": b"text"}),
            "GF602 'demo/*' of the object 'core': demo/lib.a, with no object in it",
        ),
    ],
)
def test_an_archive_that_proves_nothing(tmp_path, data, line):
    (said,) = refused(tmp_path, data, "demo/lib.a")
    assert said.startswith(line)


@pytest.mark.parametrize("style", ["gnu", "bsd", "thin"])
def test_an_archive_may_be_given_by_itself(tmp_path, style):
    (tmp_path / "gpuforge.toml").write_text(MANIFEST.replace("demo/*", "*.a"))
    (tmp_path / "lib.a").write_bytes(archive({"x.o": NVC}, style=style))
    report = audit([tmp_path / "lib.a"], expectation=expectation(load(tmp_path)))
    expected = {"thin": "GF604"}.get(style, "GF601")  # the members of a thin one are not in what was given
    assert [f.code for f in report.findings if f.code.startswith("GF6")] == [expected]
    assert report.problems == ()


def test_each_reason_that_proves_nothing_has_a_sentence():
    assert set(roles.REASONS) == set(get_args(GapKind))


def test_archives_in_archives_have_an_end(tmp_path):
    data = archive({"x.o": HOST})
    for _ in range(8):
        data = archive({"a": data})
    assert refused(tmp_path, data, "demo/lib.a") == [
        "GF604 1 of 1 members (a/a/a/a): it is the 4th archive in another"
    ]


def test_python_files_prove_nothing(tmp_path):
    found, proved = judged(tmp_path, {"demo/a.py": b"1", "demo/b.py": b"2", "other/x.o": HOST})
    assert (found, proved) == (
        [("GF602", ("'demo/*' of the object 'core': only demo/a.py, demo/b.py, with no object in them",))],
        [],
    )


def test_a_library_without_section_headers_is_read(tmp_path):
    data = bytearray(elf(needed=["libc.so.6", CUDART], strings=["GOACC_parallel_keyed"]))
    data[40:48] = bytes(8)
    data[58:64] = bytes(6)
    assert refused(tmp_path, bytes(data), "demo/x.so") == [
        "GF601 made by GCC's offloading (OpenACC, OpenMP target) (symbol GOACC_parallel_keyed)",
        f"GF601 needs {CUDART}",
    ]


def test_an_accepted_file_is_not_listed_as_proved(tmp_path):
    accepted = '[audit]\nignore = [{ rule = "GF604", file = "demo/*", reason = "nasm" }]\n'
    assert judged(tmp_path, {"demo/x.o": relocatable(comment=b"")}, accepted) == ([], [])


def test_without_host_only_objects_nothing_more_is_read(tmp_path, monkeypatch):
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(collect, "FileReader", never)
    monkeypatch.setattr(collect, "part", never)
    audit([wheel(tmp_path, {"demo/x.o": NVC})])
    audit([wheel(tmp_path, {"demo/x.o": NVC})], expectation=expecting("80"))


def test_a_missing_wheel_is_no_crash(tmp_path):
    (tmp_path / "gpuforge.toml").write_text(MANIFEST)
    report = audit([tmp_path / "none.whl"], expectation=expectation(load(tmp_path)))
    assert len(report.problems) == 1


def test_the_report_as_a_user_reads_it(tmp_path):
    members = {f"member_{n}.cpp.o": NVC for n in range(5)}
    files = {
        "demo/__init__.py": b"",
        "demo/libold.a": archive({**members, "plain.o": HOST, "later.o": BITCODE}),
        "demo/core.so": elf(needed=["liba.so"], runpath="$ORIGIN"),
        "demo/liba.so": elf(soname="liba.so", needed=[CUDART]),
    }
    manifest = MANIFEST.replace('["demo/*"]', '["demo/lib*.a", "demo/core*.so", "demo/*.py"]')
    (tmp_path / "gpuforge.toml").write_text(manifest)
    out = io.StringIO()
    with redirect_stdout(out):
        run(["audit", str(wheel(tmp_path, files)), "--manifest", str(tmp_path), "--format", "json"])
    found = [f for f in json.loads(out.getvalue())["findings"] if f["code"].startswith("GF6")]
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    golden.hold("audit/host_only.json", text)


@pytest.mark.thorough
@draws(200)
@given(st.data())
def test_no_changed_byte_is_a_crash(data):
    content = bytearray(archive({"a.o": NVC, "b.o": HOST}))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(8, len(content) - 1))] = data.draw(st.integers(0, 255))
    evidence = collect.FileReader(lambda _: bytes(content)).file("x.a")
    assert evidence.archive
    assert evidence.parts


# `host-only` and libraries: which of a GPU stack's may be needed, by which way, and what they load themselves.


@pytest.mark.parametrize(
    "library",
    [
        "libnvrtc.so.13", "libnvJitLink.so.13", "libcublas.so.13", "libcufft.so.12", "libnccl.so.2", "libOpenCL.so.1",
        "libcudart.so.11.0", "libamdhip64.so.6", "libsycl.so.8", "libcudart-4554289f.so.13.0.96",
    ],
)  # fmt: skip
def test_libraries_of_a_gpu_stack_are_needed_only_by_permission(tmp_path, library):
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
def test_the_driver_and_runtimes_of_compilers_are_named(tmp_path, library, whose):
    assert refused(tmp_path, elf(needed=[library]), "demo/x.so") == [f"GF601 needs {library}{whose}"]


@pytest.mark.parametrize(
    "library", ["libgomp.so.1", "libomp.so.5", "libiomp5.so", "libstdc++.so.6", "libcurl.so.4"]
)
def test_libraries_of_hosts_need_no_permission(tmp_path, library):
    assert judged(tmp_path, {"demo/x.so": elf(needed=[library])})[0] == []


def test_what_a_library_of_the_wheel_loads_counts_and_the_way_is_named(tmp_path):
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


def test_what_an_allowed_library_loads_is_its_own_business(tmp_path):
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


def test_symbols_that_the_file_or_its_libraries_have_are_not_wanted(tmp_path):
    stubs = relocatable(gives=["cuInit", "cudaMalloc"])
    user = relocatable(wants=["cuInit", "cudaMalloc"])
    assert judged(tmp_path, {"demo/lib.a": archive({"user.o": user, "stubs.o": stubs})})[0] == []
    assert judged(tmp_path, {"demo/lib.a": archive({"user.o": user})}, 'needs = ["cudart", "cuda"]')[0] == []
    found, _ = judged(tmp_path, {"demo/lib.a": archive({"user.o": user})})
    assert found == [
        ("GF601", ("demo/lib.a: uses cuInit of libcuda", "demo/lib.a: uses cudaMalloc of libcudart"))
    ]


def test_what_code_may_open_is_told_and_no_error(tmp_path):
    data = elf(sections={".rodata": b"\0libcuda.so.1\0libfoo.so\0mylibcuda.so\0/opt/lib/libOpenCL.so.1\0"})
    assert judged(tmp_path, {"demo/x.so": data}) == (
        [],
        [
            "core: 1 object read completely (x.so): no GPU code in a known format "
            "(packed data was not unpacked), no trace of a GPU compiler, no library of a GPU "
            "stack NEEDED; named in strings, so that code may open them: libOpenCL.so.1, libcuda.so.1"
        ],
    )
