"""What meets in one process: libraries that are there twice, CUDA runtimes of two majors, and what only looks so."""

from pathlib import Path

import pytest
from audit_samples import RUNTIME, STATIC_CUDART, TAGS, elf, fatbin, read, said, torch, wheel

from gpuforge.audit import audit
from gpuforge.audit.link.graph import build
from gpuforge.audit.report.sentences import lines
from gpuforge.audit.together import together


def test_one_library_for_each_of_several_variants_is_no_library_twice(tmp_path):
    files = {
        f"demo/{variant}/{name}": elf(soname=name, needed=needed, runpath="$ORIGIN")
        for variant in ("gpu11.1", "gpu11.6")
        for name, needed in (("libcollective.so", ["libnccl.so.2"]), ("libnccl.so.2", []))
    }
    assert not said(audit([wheel(tmp_path, files)]), "GF108")


def test_the_names_of_cudas_errors_are_no_cuda_runtime(tmp_path):
    names = b"\0cudaErrorCudartUnloading\0"  # of bindings, and in the debug information of CUDA code
    files = {
        f"demo/{name}.so": elf(sections={section: names})
        for name, section in (("a", ".rodata"), ("b", ".debug_str"))
    }
    assert not said(audit([wheel(tmp_path, files)]), "GF103")


def test_a_grafted_driver_is_no_cuda_runtime(tmp_path):
    driver = "libcuda-0a1b2c3d.so.510.108.03"
    path = f"$ORIGIN:{RUNTIME.replace('../..', '..')}"
    files = {
        "demo/a.so": elf(needed=[driver, "libcudart.so.12"], runpath=path),
        f"demo/{driver}": elf(sections={".rodata": STATIC_CUDART}),
    }
    report = audit([wheel(tmp_path, files, requires=["nvidia-cuda-runtime-cu12"])])
    assert not said(report, "GF103")
    assert said(report, "GF207")


def test_a_library_of_an_old_toolkit_has_its_static_runtime_by_design(tmp_path):
    library = "libnvjpeg-0a1b2c3d.so.10"  # of CUDA 10, which no package on PyPI brings
    files = {
        "demo/a.so": elf(
            needed=[library, "libcudart.so.12"], runpath=f"$ORIGIN:{RUNTIME.replace('../..', '..')}"
        ),
        f"demo/{library}": elf(soname=library, sections={".rodata": STATIC_CUDART}),
    }
    assert not said(audit([wheel(tmp_path, files, requires=["nvidia-cuda-runtime-cu12"])]), "GF103")


def test_a_hashed_library_of_two_wheels_is_one_image(tmp_path):
    cudart = "libcudart-4554289f.so.13.0.96"
    one, two = (
        wheel(
            tmp_path,
            {
                f"{name}/ext.so": elf(needed=[cudart], runpath=f"$ORIGIN/../{name}.libs"),
                f"{name}.libs/{cudart}": elf(soname=cudart),
            },
            name=f"{name}-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
        )
        for name in ("one", "two")
    )
    assert not {"GF102", "GF108"} & {f.code for f in audit([one, two]).findings}


@pytest.mark.parametrize(("code", "count"), [(b"", 1), (b"CDLL(os.path.join(LIBS, 'libcudart.so.13'))\n", 2)])
def test_a_process_has_one_library_of_a_soname_unless_code_opens_another_by_its_path(tmp_path, code, count):
    cudart = "libcudart.so.13"
    one, two = (
        wheel(
            tmp_path,
            {
                f"{name}/__init__.py": code if name == "two" else b"",
                f"{name}/ext.so": elf(needed=[cudart], runpath="$ORIGIN", strings=["PyInit_ext"]),
                f"{name}/{cudart}": elf(soname=cudart),
            },
            name=f"{name}-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
        )
        for name in ("one", "two")
    )
    graph = build([read(one), read(two)])
    assert len(together(graph).of_kind("CUDA runtime")) == count


def test_an_old_torch_has_its_own_cudart_in_the_process(tmp_path):
    files = {"demo/ext.so": elf(needed=["libcudart.so.11.0", "libnvToolsExt.so.1", "libc10.so"])}
    assert audit([wheel(tmp_path, files, requires=["torch==1.13.1"])]).worst() is None
    newer = audit([wheel(tmp_path, files, requires=["torch==2.0.1"])])
    assert newer.worst() is None  # there they are of packages that torch 2.0 requires
    other = audit([wheel(tmp_path, files, requires=["torch==2.1.0"])])
    assert {f.code for f in other.findings} == {"GF204"}


def test_parts_of_one_release_may_have_it(tmp_path):
    files = {"demo/ext.so": elf(needed=["libonnxruntime.so"], runpath="$ORIGIN")}
    (found,) = said(audit([wheel(tmp_path, files, requires=["demo-core==1.0"])]), "GF201")
    assert (found.severity, "demo-core" in found.message) == ("info", True)
    (found,) = said(audit([wheel(tmp_path, files, requires=["demo-core==2.0"])]), "GF201")
    assert found.severity == "warning"
    core = wheel(tmp_path, {"core/a.so": elf()}, name=f"demo_core-1.0-{TAGS}.whl")
    report = audit([wheel(tmp_path, files, requires=["demo-core==1.0"]), core])
    assert [f.severity for f in said(report, "GF201")] == ["warning"]


def test_cuquantum_is_nvidias_own(tmp_path):
    files = {
        "demo/ext.so": elf(
            needed=["libcustatevec.so.1", "libcudart.so.12"],
            runpath="$ORIGIN/../cuquantum/lib:$ORIGIN/../nvidia/cuda_runtime/lib",
        )
    }
    own = wheel(tmp_path, files, requires=["cuquantum-cu12", "nvidia-cuda-runtime-cu12"])
    static = elf(soname="libcustatevec.so.1", sections={".rodata": STATIC_CUDART})
    theirs = wheel(
        tmp_path, {"cuquantum/lib/libcustatevec.so.1": static}, name=f"custatevec_cu12-1.15.0-{TAGS}.whl"
    )
    assert audit([own]).worst() is None
    assert said(audit([own, theirs]), "GF103") == []


def test_the_same_library_under_two_names_in_two_wheels(tmp_path):
    whole = elf(soname="libfoo.so.1", sections={".data": b"the same"})
    one = wheel(tmp_path, {"a/libfoo.so.1": whole}, name=f"a-1.0-{TAGS}.whl")
    two = wheel(tmp_path, {"b.libs/libfoo-0a1b2c3d.so.1": whole}, name=f"b-1.0-{TAGS}.whl")
    three = wheel(tmp_path, {"c/libfoo.so.1": whole}, name=f"c-1.0-{TAGS}.whl")
    (found,) = said(audit([two, one, three]), "GF108")  # by NEEDED the linker takes the third for the first
    assert (found.severity, found.wheel) == ("info", two.name)
    assert lines(found) == (f"b.libs/libfoo-0a1b2c3d.so.1: a/libfoo.so.1 of {one.name}",)


def test_the_same_library_in_the_same_place_is_one_file(tmp_path):
    files = {"nvidia/cudnn/lib/libcudnn.so.9": elf(soname="libcudnn.so.9", sections={".data": b"the same"})}
    twelve, thirteen = (wheel(tmp_path, files, name=f"nvidia_cudnn_cu{n}-9.28-{TAGS}.whl") for n in (12, 13))
    assert not {"GF108", "GF709"} & {f.code for f in audit([twelve, thirteen]).findings}


def test_the_systems_openmp_runtime_meets_a_grafted_one_whoever_else_has_one(tmp_path):
    def having(project: str, gomp: str) -> Path:
        files = {
            f"{project}/ext.so": elf(needed=[gomp], runpath="$ORIGIN/lib"),
            f"{project}/lib/{gomp}": elf(soname=gomp),
        }
        return wheel(tmp_path, files, name=f"{project}-1.0-{TAGS}.whl")

    boost = wheel(tmp_path, {"boost/lib.so": elf(needed=["libgomp.so.1"])}, name=f"boost-1.0-{TAGS}.whl")
    (found,) = said(
        audit([boost, having("learn", "libgomp-e985bcbb.so.1"), having("torch", "libgomp.so.1")]), "GF105"
    )
    assert [s for s in lines(found) if "boost" in s] == [
        "libgomp.so.1 (the system), loaded by boost/lib.so of boost 1.0"
    ]


def test_a_file_of_the_system_is_one_by_all_its_names(tmp_path):
    def runtimes(*needed: str) -> list[tuple[str, ...]]:
        files = {f"demo/{number}.so": elf(needed=[name]) for number, name in enumerate(needed)}
        return [lines(f) for f in said(audit([wheel(tmp_path, files)]), "GF105")]

    assert runtimes("libgomp.so.1", "libgomp.so.1.0.0") == []
    (found,) = runtimes("libgomp.so.1.0.0", "libgomp.so.1", "libiomp5.so")
    assert found == (
        "libgomp.so.1 (the system), loaded by demo/1.so",
        "libiomp5.so (the system), loaded by demo/2.so",
    )


def test_a_folder_of_binaries_is_one_unit(tmp_path):
    folder = tmp_path / "lib"
    (folder / "sub").mkdir(parents=True)
    (folder / "ext.so").write_bytes(
        elf(needed=["liba.so", "libb.so", "libcudart.so.12", "libelse.so"], runpath="$ORIGIN/sub")
    )
    (folder / "sub" / "liba.so").write_bytes(elf(soname="liba.so", sections={".nv_fatbin": fatbin("sm_90")}))
    (folder / "libb.so").write_bytes(elf(soname="libb.so", rpath="/build"))
    (folder / "notes.txt").write_text("beside them")
    report = audit([folder])
    (held,) = report.wheels
    assert (held.facts.name, held.facts.form, len(held.facts.objects)) == ("lib", "folder", 3)
    found = {(f.code, f.severity): lines(f) for f in report.findings if f.severity != "info"}
    assert found.pop(("GF202", "warning")) == ("libb.so (libb.so), NEEDED by ext.so",)
    assert found.keys() == {("GF302", "warning"), ("GF403", "warning")}


def test_a_grafted_cudart_of_another_major_is_told_once(tmp_path):
    grafted = "libcudart-987eca32.so.11.7.99"
    files = {
        "ext.so": elf(needed=[grafted, "libc10.so"], runpath="$ORIGIN/demo.libs", strings=["PyInit_ext"]),
        f"demo.libs/{grafted}": elf(soname=grafted),
    }
    (found,) = said(audit([wheel(tmp_path, files, requires=["torch>=2.11"])]), "GF104")
    assert found.severity == "error"
    assert lines(found) == (
        f"CUDA 11: {grafted}, loaded by ext.so",
        "CUDA 13: libcudart.so.13, loaded by import torch",
    )


def test_debug_information_in_a_file_of_its_own_is_not_damaged(tmp_path):
    files = {"demo/ext.so": elf(), "demo/ext.so.debug": elf()[:-16]}
    assert not said(audit([wheel(tmp_path, files)]), "GF705")
    assert said(audit([wheel(tmp_path, {"demo/ext.so": elf()[:-16]})]), "GF705")


def test_a_variant_for_another_cuda_is_not_chosen(tmp_path):
    variants = {
        f"demo/libx_cuda{version}.so": elf(needed=[f"libcudart.so.{version[:2]}", "libcusparse.so.12"])
        for version in ("120", "130")
    }
    # libcusparse.so.12 is in CUDA 12 and 13
    report = audit([wheel(tmp_path, variants, requires=["torch>=2.11"])])
    assert said(report, "GF104") == []


def test_cubins_beside_each_other_are_chosen_by_name(tmp_path):
    cubin = bytearray(64)
    cubin[:9] = b"\x7fELF\x02\x01\x01\x41\x08"
    cubin[16:20] = (2).to_bytes(2, "little") + (190).to_bytes(2, "little")
    cubin[48:52] = (0x06005A02).to_bytes(4, "little")
    report = audit([wheel(tmp_path, {"demo/k_sm90.cubin": bytes(cubin)})])
    assert {e.target for d in report.wheels[0].facts.device for c in d.containers for e in c.entries} == {
        "sm_90"
    }
    assert said(report, "GF403") == []


@pytest.mark.parametrize(
    ("requires", "subject"),
    [
        (
            ["nvidia-cublas-cu12", "torch>=2.11"],
            [
                "CUDA 12: nvidia-cublas-cu12, by 'nvidia-cublas-cu12'",
                "CUDA 13: nvidia-cublas, nvidia-cuda-runtime, nvidia-cudnn-cu13 and 7 more, by 'torch>=2.11'",
            ],
        ),
        (["nvidia-cublas-cu12", "torch<2.11"], []),
        (["nvidia-cublas-cu12; extra == 'cuda'", "torch>=2.11"], []),
        # who names both will choose
        (["nvidia-cublas-cu12", "nvidia-cublas", "cuda-toolkit[cufft]==13.*"], []),
        (["nvidia-cuda-nvrtc-cu12", "torch>=2.11"], []),  # compiles, and runs nothing
        (["nvidia-nccl-cu12", "torch>=2.11"], []),  # the same file as CUDA 13's: GF709
    ],
)
def test_two_majors_may_come_by_requirements_alone(requires, subject, tmp_path):
    found = said(audit([wheel(tmp_path, {"demo/ext.so": elf()}, requires=requires)]), "GF104")
    assert [(f.severity, *lines(f)) for f in found] == ([("warning", *subject)] if subject else [])


def test_a_wheels_own_libraries_have_a_major_too(tmp_path):
    files = {
        "demo/libcudart-24af1308.so.12.1.55": elf(soname="libcudart-24af1308.so.12.1.55"),
        "demo/libnvrtc-d540eb83.so.12.1.55": elf(soname="libnvrtc-d540eb83.so.12.1.55"),
        "demo/libx.so": elf(needed=["libcudart-24af1308.so.12.1.55"], runpath="$ORIGIN"),
    }
    (found,) = said(audit([wheel(tmp_path, files, requires=["torch>=2.2"])]), "GF104")
    assert found.severity == "warning"
    assert lines(found)[0] == "CUDA 12: libcudart-24af1308.so.12.1.55, in the wheel"
    assert lines(found)[1].startswith("CUDA 13: nvidia-cublas, ")
    assert not said(audit([wheel(tmp_path, files, requires=["torch>=2.2,<2.11"])]), "GF104")
    files["demo/libcudart.so.13"] = elf(soname="libcudart.so.13")  # there is one to choose for each
    assert not said(audit([wheel(tmp_path, files, requires=["torch>=2.2"])]), "GF104")


@pytest.mark.parametrize(
    ("one", "other", "majors"),
    [
        (
            "8.8",
            "9.2",
            ("CUDA 12: libcudart.so.12 (opened at run time)", "CUDA 13: libcudart.so.13 (linked statically)"),
        ),
        ("8.8", "8.5", ()),
        ("9.0", "9.2", ()),
        ("99.9", "9.2", ()),  # nobody knows the toolkit
    ],
)
def test_cuda_majors_that_no_needed_entry_names(one, other, majors, tmp_path):
    """A plugin that opens CUDA's libraries, as jax's, beside modules with a static runtime, as CuPy's."""
    opens = elf(sections={".nv_fatbin": fatbin("sm_80", f"compute_90:{one}")})
    static = elf(
        sections={".nv_fatbin": fatbin("sm_80", f"compute_90:{other}"), ".rodata": STATIC_CUDART + b"\0"}
    )
    report = audit(
        [
            wheel(tmp_path, {"jax_plugins/x.so": opens}, name=f"plugin-1.0-{TAGS}.whl"),
            wheel(tmp_path, {"demo/ext.so": static}),
        ]
    )
    found = said(report, "GF104")
    assert [(f.severity, f.across) for f in found] == ([("warning", True)] if majors else [])
    assert [tuple(line.partition(", loaded")[0] for line in lines(f)) for f in found] == (
        [majors] if majors else []
    )


def test_the_runtime_that_others_bring_is_no_other_one(tmp_path):
    code = {".nv_fatbin": fatbin("sm_80", "compute_90:8.8")}
    needs = elf(sections=code, needed=["libcudart.so.12"])
    libs = {"b/libx_cuda12.so": elf(sections=code)}  # one of several to choose from
    static = elf(sections={".nv_fatbin": fatbin("sm_80", "compute_90:9.2"), ".rodata": STATIC_CUDART + b"\0"})
    own = wheel(tmp_path, {"a/ext.so": static, "a/ext2.so": static}, name=f"a-1.0-{TAGS}.whl")
    both = audit([own, wheel(tmp_path, {"b/ext.so": needs, **libs}, name=f"b-1.0-{TAGS}.whl")])
    assert not said(both, "GF104")  # and what it needs, nothing provides: GF201


def test_an_older_torch_that_is_given_brings_no_file_twice(tmp_path):
    own = wheel(tmp_path, {"demo/a.so": elf()}, requires=["nvidia-nccl-cu12", "torch"])
    assert [f.wheel for f in said(audit([own]), "GF709")] == [own.name]
    assert not said(audit([own, torch(tmp_path)]), "GF709")


def test_what_torch_has_loaded_is_one_image_with_its_package_that_is_given(tmp_path):
    folder, name = "nvidia/cuda_runtime/lib", "libcudart.so.12"
    runtime = wheel(
        tmp_path,
        {
            f"{folder}/{name}": elf(soname=name),
            "nvidia/cublas/lib/libcublas.so.12": elf(soname="libcublas.so.12"),
        },
        name="nvidia_cublas_cu12-12.4.1-py3-none-manylinux_2_17_x86_64.whl",
    )
    own = wheel(
        tmp_path,
        {
            "demo/ext.so": elf(
                needed=["libc10.so", "libcublas.so.12"],
                runpath="$ORIGIN/../nvidia/cublas/lib",
                strings=["PyInit_ext"],
            )
        },
        requires=["torch==2.4.1"],
    )
    assert not said(audit([own]), "GF109")
    assert not said(audit([own, torch(tmp_path), runtime]), "GF109")


def test_a_library_with_the_checksum_of_another_is_no_copy_of_it(tmp_path):
    files = {
        "demo/libx.so": elf(soname="libx.so.1", needed=["libother.so.1"]),
        "demo/libx.so.1": elf(soname="libx.so.1", needed=["libnuma.so.1"]),
    }
    facts = read(wheel(tmp_path, files))
    graph = build([facts._replace(checksums=dict.fromkeys(facts.members, 1))])
    assert {(e.loader.name, e.needed) for e in graph.edges} == {
        ("libx.so", "libother.so.1"), ("libx.so.1", "libnuma.so.1")
    }  # fmt: skip
