"""Wheels that are given together, or in parts: what one has loaded is there for the next, and what is not is said."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from audit_samples import STATIC_CUDART, elf, fatbin, wheel

from gpuforge.audit import audit
from gpuforge.audit.findings import Finding
from gpuforge.audit.judge import Report
from gpuforge.audit.link.graph import build
from gpuforge.audit.read.wheel import read
from gpuforge.audit.report.sentences import lines

TAGS = "cp311-cp311-manylinux_2_17_x86_64"
RUNTIME = "$ORIGIN/../../nvidia/cuda_runtime/lib"


def said(report: Report, code: str) -> list[Finding]:
    return [f for f in report.findings if f.code == code]


def torch(folder: Path) -> Path:
    files = {
        "torch/_C.cpython-311-x86_64-linux-gnu.so": elf(
            needed=["libtorch_python.so"], runpath="$ORIGIN/lib", strings=["PyInit__C"]
        ),
        "torch/lib/libtorch_python.so": elf(
            soname="libtorch_python.so", needed=["libc10.so", "libgomp-0a1b2c3d.so.1"], runpath="$ORIGIN"
        ),
        "torch/lib/libc10.so": elf(soname="libc10.so", needed=["libcudart.so.12"], runpath=RUNTIME),
        "torch/lib/libgomp-0a1b2c3d.so.1": elf(soname="libgomp.so.1"),
    }
    return wheel(folder, files, name=f"torch-2.4.1-{TAGS}.whl", requires=["nvidia-cuda-runtime-cu12"])


def test_one_library_for_each_of_several_variants_is_no_library_twice(tmp_path: Path) -> None:
    files = {
        f"demo/{variant}/{name}": elf(soname=name, needed=needed, runpath="$ORIGIN")
        for variant in ("gpu11.1", "gpu11.6")
        for name, needed in (("libcollective.so", ["libnccl.so.2"]), ("libnccl.so.2", []))
    }
    assert not said(audit([wheel(tmp_path, files)]), "GF108")


def test_the_names_of_cudas_errors_are_no_cuda_runtime(tmp_path: Path) -> None:
    names = b"\0cudaErrorCudartUnloading\0"  # of bindings, and in the debug information of CUDA code
    files = {
        f"demo/{name}.so": elf(sections={section: names})
        for name, section in (("a", ".rodata"), ("b", ".debug_str"))
    }
    assert not said(audit([wheel(tmp_path, files)]), "GF103")


def test_a_grafted_driver_is_no_cuda_runtime(tmp_path: Path) -> None:
    driver = "libcuda-0a1b2c3d.so.510.108.03"
    path = f"$ORIGIN:{RUNTIME.replace('../..', '..')}"
    files = {
        "demo/a.so": elf(needed=[driver, "libcudart.so.12"], runpath=path),
        f"demo/{driver}": elf(sections={".rodata": STATIC_CUDART}),
    }
    report = audit([wheel(tmp_path, files, requires=["nvidia-cuda-runtime-cu12"])])
    assert not said(report, "GF103")
    assert said(report, "GF207")


def test_a_library_of_an_old_toolkit_has_its_static_runtime_by_design(tmp_path: Path) -> None:
    library = "libnvjpeg-0a1b2c3d.so.10"  # of CUDA 10, which no package on PyPI brings
    files = {
        "demo/a.so": elf(
            needed=[library, "libcudart.so.12"], runpath=f"$ORIGIN:{RUNTIME.replace('../..', '..')}"
        ),
        f"demo/{library}": elf(soname=library, sections={".rodata": STATIC_CUDART}),
    }
    assert not said(audit([wheel(tmp_path, files, requires=["nvidia-cuda-runtime-cu12"])]), "GF103")


def test_a_hashed_library_of_two_wheels_is_one_image(tmp_path: Path) -> None:
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


def test_torch_is_imported_before_what_is_linked_with_it(tmp_path: Path) -> None:
    files = {
        "demo/ext.so": elf(
            needed=["libcudart.0a1b2c3d.so.12", "libc10.so", "libgomp.so.1"], runpath="$ORIGIN/../demo.libs"
        ),
        "demo.libs/libcudart.0a1b2c3d.so.12": elf(soname="libcudart.so.12"),
    }
    own = wheel(tmp_path, files, requires=["torch==2.4.1"])
    for report in (audit([own]), audit([own, torch(tmp_path)])):
        mine = [f for f in report.findings if f.wheel == own.name]
        assert {f.code for f in mine if f.severity != "info"} == {"GF102", "GF210"}
        (found,) = said(report, "GF102")
        assert lines(found)[0].startswith("demo.libs/libcudart.0a1b2c3d.so.12, loaded by demo/ext.so")
        assert lines(found)[1].startswith("libcudart.so.12 (nvidia-cuda-runtime-cu12), loaded by ")
    assert "loaded by torch/lib/libc10.so" in lines(found)[1]


def test_an_old_torch_has_its_own_cudart_in_the_process(tmp_path: Path) -> None:
    files = {"demo/ext.so": elf(needed=["libcudart.so.11.0", "libnvToolsExt.so.1", "libc10.so"])}
    assert audit([wheel(tmp_path, files, requires=["torch==1.13.1"])]).worst() is None
    newer = audit([wheel(tmp_path, files, requires=["torch==2.0.1"])])
    assert newer.worst() is None  # there they are of packages that torch 2.0 requires
    other = audit([wheel(tmp_path, files, requires=["torch==2.1.0"])])
    assert {f.code for f in other.findings} == {"GF204"}


def test_a_package_called_like_a_library_brings_it(tmp_path: Path) -> None:
    files = {"demo/ext.so": elf(needed=["libtvm_ffi.so"])}
    assert audit([wheel(tmp_path, files, requires=["apache-tvm-ffi>=0.1"])]).worst() is None
    assert audit([wheel(tmp_path, files, requires=["apache-tvm"])]).worst() == "warning"


@pytest.mark.parametrize("needed", ["libcuvs.so", "libcuvs_c.so"])
def test_a_package_of_libraries_is_imported_first_also_when_it_is_given(tmp_path: Path, needed: str) -> None:
    own = wheel(
        tmp_path,
        {"cuvs/ext.so": elf(needed=[needed])},
        name=f"cuvs_cu13-1.0-{TAGS}.whl",
        requires=["libcuvs-cu13"],
    )
    theirs = wheel(
        tmp_path, {f"libcuvs/lib64/{needed}": elf(soname=needed)}, name=f"libcuvs_cu13-26.10-{TAGS}.whl"
    )
    assert audit([own]).worst() is audit([own, theirs]).worst() is None


def test_parts_of_one_release_may_have_it(tmp_path: Path) -> None:
    files = {"demo/ext.so": elf(needed=["libonnxruntime.so"], runpath="$ORIGIN")}
    (found,) = said(audit([wheel(tmp_path, files, requires=["demo-core==1.0"])]), "GF201")
    assert (found.severity, "demo-core" in found.message) == ("info", True)
    (found,) = said(audit([wheel(tmp_path, files, requires=["demo-core==2.0"])]), "GF201")
    assert found.severity == "warning"
    core = wheel(tmp_path, {"core/a.so": elf()}, name=f"demo_core-1.0-{TAGS}.whl")
    report = audit([wheel(tmp_path, files, requires=["demo-core==1.0"]), core])
    assert [f.severity for f in said(report, "GF201")] == ["warning"]


def test_cuquantum_is_nvidias_own(tmp_path: Path) -> None:
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


def test_what_a_module_has_loaded_is_there_for_what_is_opened_later(tmp_path: Path) -> None:
    runpath = "$ORIGIN/../nvidia/cuda_runtime/lib"
    plugin = {"demo/libplugin.so": elf(needed=["libcudart.so.12"])}
    module = {"demo/ext.so": elf(needed=["libcudart.so.12"], runpath=runpath, strings=["PyInit_ext"])}
    requires = ["nvidia-cuda-runtime-cu12"]
    assert said(audit([wheel(tmp_path, plugin, requires=requires)]), "GF202")[0].severity == "error"
    both = wheel(tmp_path, plugin | module, requires=requires)
    assert said(audit([both]), "GF202")[0].severity == "warning"
    program = {
        "demo/libplugin.so": elf(needed=["libcudart.so.12"], interpreter="/lib64/ld-linux-x86-64.so.2")
    }
    assert said(audit([wheel(tmp_path, program | module, requires=requires)]), "GF202")[0].severity == "error"


def test_the_same_library_under_two_names_in_two_wheels(tmp_path: Path) -> None:
    whole = elf(soname="libfoo.so.1", sections={".data": b"the same"})
    one = wheel(tmp_path, {"a/libfoo.so.1": whole}, name=f"a-1.0-{TAGS}.whl")
    two = wheel(tmp_path, {"b.libs/libfoo-0a1b2c3d.so.1": whole}, name=f"b-1.0-{TAGS}.whl")
    three = wheel(tmp_path, {"c/libfoo.so.1": whole}, name=f"c-1.0-{TAGS}.whl")
    (found,) = said(audit([two, one, three]), "GF108")  # by NEEDED the linker takes the third for the first
    assert (found.severity, found.wheel) == ("info", two.name)
    assert lines(found) == (f"b.libs/libfoo-0a1b2c3d.so.1: a/libfoo.so.1 of {one.name}",)


def test_the_same_library_in_the_same_place_is_one_file(tmp_path: Path) -> None:
    files = {"nvidia/cudnn/lib/libcudnn.so.9": elf(soname="libcudnn.so.9", sections={".data": b"the same"})}
    twelve, thirteen = (wheel(tmp_path, files, name=f"nvidia_cudnn_cu{n}-9.28-{TAGS}.whl") for n in (12, 13))
    assert not {"GF108", "GF709"} & {f.code for f in audit([twelve, thirteen]).findings}


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


def test_the_systems_openmp_runtime_meets_a_grafted_one_whoever_else_has_one(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("project", "requires", "whose"),
    [
        ("nvidia_cuda_runtime_cu12", ["nvidia-cuda-runtime-cu12"], "nvidia-cuda-runtime-cu12"),
        ("base", [], f"base-1.0-{TAGS}.whl"),
        ("demo", [], None),
    ],
)
def test_what_python_code_loads_is_said_to_be_whose_it_is(
    tmp_path: Path, project: str, requires: list[str], whose: str | None
) -> None:
    soname = "libcudart.so.12" if requires else "libtool.so"
    text = f"ctypes.CDLL(os.path.join(sys.prefix, 'lib', '{soname}'))\n".encode()
    files = {"demo/ext.so": elf(needed=[soname]), "demo/__init__.py": text}
    lib = {f"{project}/lib/{soname}": elf(soname=soname)}
    wheels = [
        wheel(
            tmp_path,
            files | (lib if project == "demo" else {}),
            name=f"demo-1.0-{TAGS}.whl",
            requires=requires,
        )
    ]
    if project != "demo":
        wheels.append(wheel(tmp_path, lib, name=f"{project}-1.0-{TAGS}.whl"))
    (found,) = said(audit(wheels), "GF205")
    assert lines(found) == (f"{soname} ({whose or 'in this wheel'}), NEEDED by demo/ext.so",)


def test_a_file_of_the_system_is_one_by_all_its_names(tmp_path: Path) -> None:
    def runtimes(*needed: str) -> list[tuple[str, ...]]:
        files = {f"demo/{number}.so": elf(needed=[name]) for number, name in enumerate(needed)}
        return [lines(f) for f in said(audit([wheel(tmp_path, files)]), "GF105")]

    assert runtimes("libgomp.so.1", "libgomp.so.1.0.0") == []
    (found,) = runtimes("libgomp.so.1.0.0", "libgomp.so.1", "libiomp5.so")
    assert found == (
        "libgomp.so.1 (the system), loaded by demo/1.so",
        "libiomp5.so (the system), loaded by demo/2.so",
    )


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


def _renamed(path: Path, info: str | None = None, text: tuple[str, str] = ("", "")) -> Path:
    """Rewrite a wheel with another name for its .dist-info folder, and other words in METADATA."""
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in held.items():
            changed = data.replace(*(t.encode() for t in text)) if text[0] else data
            archive.writestr(name.replace("demo-1.0.dist-info", info or "demo-1.0.dist-info"), changed)
    return path


@pytest.mark.parametrize(
    ("info", "text", "problems"),
    [
        ("other-1.0.dist-info", ("", ""), ["the .dist-info folder is of 'other', the file name of 'demo'"]),
        ("demo-1.1.dist-info", ("", ""), ["the .dist-info folder is of version 1.1, the file name of 1.0"]),
        (None, ("Name: demo", "Name: other"), ["METADATA is of 'other', the file name of 'demo'"]),
        (None, ("Version: 1.0\nReq", "Version: 2.0\nReq"), ["METADATA is of version 2.0, the file name of 1.0"]),
        (None, ("Name: demo\n", ""), ["METADATA gives no name"]),
        (None, ("Name: demo", "Name: DEMO"), []),
        (None, ("Version: 1.0\nReq", "Version: 1.0.0\nReq"), []),
        ("Demo-1.dist-info", ("", ""), []),
    ],
)  # fmt: skip
def test_metadata_and_file_name_are_of_one_release(
    tmp_path: Path, info: str | None, text: tuple[str, str], problems: list[str]
) -> None:
    path = _renamed(wheel(tmp_path, {"demo/ext.so": elf()}, requires=["numpy"]), info, text)
    found = said(audit([path]), "GF704")
    assert [line for f in found for line in lines(f)] == problems


def test_a_tag_that_is_none_is_no_traceback(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"demo/ext.so": elf()}, tags=["py3-none-any", "10-none-any", "cp311"])
    (found,) = said(audit([path]), "GF502")
    assert "10-none-any: in WHEEL only" in lines(found)


@pytest.mark.parametrize(
    ("platform", "differs"),
    [("manylinux2014_x86_64", False), ("manylinux_2_17_x86_64", False), ("manylinux_2_28_x86_64", True)],
)
def test_both_names_of_a_platform_are_one_tag(tmp_path: Path, platform: str, differs: bool) -> None:
    tags = [f"py3-none-{platform}", "py3-none-manylinux_2_17_x86_64"]
    path = wheel(
        tmp_path, {"demo/ext.so": elf()}, name="demo-1.0-py3-none-manylinux2014_x86_64.whl", tags=tags
    )
    assert bool(said(audit([path]), "GF502")) == differs


def test_a_folder_of_binaries_is_one_unit(tmp_path: Path) -> None:
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


PATHS = b"import ctypes, os\nctypes.CDLL(os.path.join(root, 'libx.so'))\n"


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        (b"import ctypes\nctypes.CDLL('libx.so')\n", "error"),  # the linker looks there, too
        (b"import ctypes\nctypes.CDLL(None).getpid()\n", "error"),
        (b"import ctypes.util as u, os.path\nctypes.CDLL(u.find_library('c'))\n", "error"),
        (PATHS, "info"),
    ],
)
def test_python_code_that_loads_nothing_helps_nobody(tmp_path: Path, text: bytes, severity: str) -> None:
    files = {
        "demo/lib/libx.so": elf(soname="libx.so"),
        "demo/ext.so": elf(needed=["libx.so", "libelse.so"]),
        "demo/a.py": text,
    }
    found = [f for f in audit([wheel(tmp_path, files)]).findings if f.code in ("GF202", "GF205")]
    assert [f.severity for f in found] == [severity]


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        (b"import ctypes, os\nctypes.CDLL(os.path.join(root, name))\n", "warning"),  # it may be this one
        (b"import ctypes, os\nctypes.CDLL(os.path.join(root, 'liby.so'))\n", "error"),  # it is another one
    ],
)
def test_who_names_what_he_loads_loads_nothing_else(tmp_path: Path, text: bytes, severity: str) -> None:
    lib = {"demo/lib/libx.so": elf(soname="libx.so"), "demo/ext.so": elf(needed=["libx.so"])}
    for package, wanted in (("demo", severity), ("other", "error")):  # a package opens its own
        report = audit([wheel(tmp_path, {**lib, f"{package}/a.py": text})])
        assert [f.severity for f in said(report, "GF202")] == [wanted]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # torch opens what it is given, and no other
        (b"libs = ['c10']\ntorch.ops.load_library(path)\n", "GF201"),
        (b"ctypes.CDLL(find('c10'))\n", "GF205"),
        (b"load_nvidia_dynamic_lib('cublas')\n", "GF201"),
    ],
)
def test_what_a_framework_opens_helps_nobody_else(tmp_path: Path, text: bytes, code: str) -> None:
    files = {"demo/ext.so": elf(needed=["libc10.so"]), "demo/a.py": text}
    assert [f.code for f in audit([wheel(tmp_path, files)]).findings] == [code]


LOADER = b"for name in listed():\n    ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)\n"


@pytest.mark.parametrize(
    ("beside", "code"),
    [
        ({}, "GF202"),
        ({"demo/libs.json": b'{"libraries": ["libcublas.so.12"]}'}, "GF205"),
        ({"demo/other.py": b"WANTED = ('cublas',)\n"}, "GF205"),
        ({"else/libs.json": b'{"libraries": ["libcublas.so.12"]}'}, "GF202"),
        ({"demo/tools/build.py": b"WANTED = ('cublas',)\n"}, "GF202"),
    ],
)
def test_a_loader_of_a_list_loads_what_is_listed(tmp_path: Path, beside: dict[str, bytes], code: str) -> None:
    files = {"demo/ext.so": elf(needed=["libcublas.so.12"]), "demo/load.py": LOADER, **beside}
    report = audit([wheel(tmp_path, files, requires=["nvidia-cublas-cu12"])])
    assert [f.code for f in report.findings] == [code]


def test_a_program_starts_with_nothing_imported(tmp_path: Path) -> None:
    program = elf(needed=["libc10.so"], interpreter="/lib64/ld-linux-x86-64.so.2")
    report = audit([wheel(tmp_path, {"demo/bin/tool": program}, requires=["torch"])])
    assert [f.severity for f in said(report, "GF202")] == ["error"]
    assert (
        audit([wheel(tmp_path, {"demo/x.so": elf(needed=["libc10.so"])}, requires=["torch"])]).worst() is None
    )


STARTER = b"import os, subprocess\nos.environ['LD_LIBRARY_PATH'] = libs\nsubprocess.call([tool])\n"


@pytest.mark.parametrize(
    ("file", "text", "severity"),
    [
        ("demo/run.py", STARTER, "warning"),
        ("other/run.py", STARTER, "error"),
        ("demo/run.py", STARTER.replace(b"LD_LIBRARY_PATH", b"PATH"), "error"),
        ("demo/run.py", b"print(os.environ['LD_LIBRARY_PATH'])\n", "error"),
    ],
)
def test_python_code_may_start_programs(tmp_path: Path, file: str, text: bytes, severity: str) -> None:
    program = elf(needed=["libx.so"], interpreter="/lib64/ld-linux-x86-64.so.2")
    files = {"demo/bin/tool": program, "demo/lib/libx.so": elf(soname="libx.so"), file: text}
    assert [f.severity for f in said(audit([wheel(tmp_path, files)]), "GF202")] == [severity]


@pytest.mark.parametrize(
    ("file", "code", "severity"),
    [
        ("demo/worker", {}, "warning"),
        ("demo/worker", {"demo/__init__.py": b"x = 1\n"}, "error"),
        ("demo/bin/worker", {}, "error"),
    ],
)
def test_a_program_in_a_wheel_without_code_is_started_by_others(
    tmp_path: Path, file: str, code: dict[str, bytes], severity: str
) -> None:
    program = elf(needed=["libx.so"], interpreter="/lib64/ld-linux-x86-64.so.2")
    report = audit([wheel(tmp_path, {file: program, "demo/lib/libx.so": elf(soname="libx.so"), **code})])
    assert [f.severity for f in said(report, "GF202")] == [severity]


@pytest.mark.parametrize(("strings", "codes"), [((), []), (("another",), ["GF202"])])
def test_a_linkers_name_finds_what_the_library_finds(
    tmp_path: Path, strings: tuple[str, ...], codes: list[str]
) -> None:
    library = elf(soname="libx.so.1", needed=["libnccl.so.2"])
    files = {
        "demo/__init__.py": b"x = 1\n",
        "demo/ext.so": elf(needed=["libx.so.1"], rpath="$ORIGIN/lib:$ORIGIN/../nvidia/nccl/lib"),
        "demo/lib/libx.so.1": library,
        "demo/lib/libx.so": elf(soname="libx.so.1", needed=["libnccl.so.2"], strings=strings),
    }
    found = audit([wheel(tmp_path, files, requires=["nvidia-nccl-cu12"])]).findings
    assert [f.code for f in found if f.severity != "info"] == codes


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        (b"demo/lib/libx.so.4,libx.so.4.6.0,0\n", []),
        (b"demo/lib/libx.so.4,../lib/libx.so,0\ndemo/lib/libx.so,libx.so.4.6.0,0\n", []),
        (b"demo/lib/libx.so.4,libx.so,0\ndemo/lib/libx.so,libx.so.4,0\nno line\n", ["GF202"]),
        (b"", ["GF202"]),
    ],
)
def test_symbolic_links_may_be_made_after_installation(
    tmp_path: Path, lines: bytes, codes: list[str]
) -> None:
    files = {
        "demo/__init__.py": b"x = 1\n",
        "demo/ext.so": elf(needed=["libx.so.4"], runpath="$ORIGIN/lib"),
        "demo/lib/libx.so.4.6.0": elf(soname="libx.so.4"),
        "demo-1.0.dist-info/symlinks.txt": lines,
    }
    assert [f.code for f in audit([wheel(tmp_path, files)]).findings] == codes


SCRIPT, CONSOLE = "demo-1.0.data/scripts/tool", "demo-1.0.dist-info/entry_points.txt"


@pytest.mark.parametrize(
    ("beside", "severity"),
    [
        # code that is not known here
        ({SCRIPT: b"#!python\nfrom runner.run import start\nstart()\n"}, "warning"),
        ({SCRIPT: b"#!python\nimport os, sys\nos.execv(sys.argv[1], [])\n"}, "error"),
        ({SCRIPT: b"#!python\nfrom demo.run import start\n", "demo/run.py": b"start = 1\n"}, "error"),
        ({SCRIPT: b"#!python\nfrom demo.run import start\n", "demo/run.py": STARTER}, "warning"),
        ({SCRIPT: b"#!/bin/sh\n"}, "error"),
        ({SCRIPT[:-4] + "other": b"#!python\nfrom runner.run import start\n"}, "error"),
        # as auditwheel makes them
        ({SCRIPT: b"#!python\nimport os, sysconfig\nos.execv(tool, [])\n"}, "error"),
        (
            {
                CONSOLE: b"[console_scripts]\ntool = demo:start\n",
                "demo-1.0.data/purelib/demo.py": b"start = 1\n",
            },
            "error",
        ),
        ({CONSOLE: b"[console_scripts]\ntool = runner.run:start\n"}, "warning"),
        (
            {CONSOLE: b"[console_scripts]\nother = runner.run:start\n[demo]\ntool = runner.run:start\n"},
            "error",
        ),
        ({CONSOLE: b"[console_scripts]\ntool = demo.run:start\n", "demo/run.py": STARTER}, "warning"),
        ({CONSOLE: b"[console_scripts]\ntool = demo.run:start\n", "demo/run.py": b"start = 1\n"}, "error"),
    ],
)
def test_what_is_called_like_a_program_may_start_it(
    tmp_path: Path, beside: dict[str, bytes], severity: str
) -> None:
    program = elf(needed=["libx.so"], interpreter="/lib64/ld-linux-x86-64.so.2")
    files = {"prefix/bin/tool": program, "prefix/lib/libx.so": elf(soname="libx.so"), **beside}
    (found,) = said(audit([wheel(tmp_path, files)]), "GF202")
    assert found.severity == severity
    assert ("LD_LIBRARY_PATH" in found.message) == (severity == "warning")


@pytest.mark.parametrize(
    ("file", "code", "severity"),
    [
        ("libpart.so", {}, "warning"),  # who loads libcore.so has a path to both
        ("parts/libpart.so", {}, "error"),
        ("libpart.so", {"demo/__init__.py": b"x = 1\n"}, "error"),
    ],
)
def test_a_wheel_of_libraries_is_for_others(
    tmp_path: Path, file: str, code: dict[str, bytes], severity: str
) -> None:
    data = "demo-1.0.data/data/lib"
    files = {
        f"{data}/libcore.so": elf(soname="libcore.so"), f"{data}/{file}": elf(needed=["libcore.so"]), **code
    }  # fmt: skip
    assert [f.severity for f in said(audit([wheel(tmp_path, files)]), "GF202")] == [severity]


def test_a_required_package_may_have_what_its_folder_is_searched_for(tmp_path: Path) -> None:
    files = {"PyQt5/QtCore.abi3.so": elf(needed=["libQt5Core.so.5"], runpath="$ORIGIN/Qt5/lib")}
    one = wheel(tmp_path, files, requires=["PyQt5-Qt5>=5.15.2", "PyQt5-sip"])
    (found,) = audit([one]).findings
    assert (found.code, found.severity) == ("GF201", "info")
    assert "folders of pyqt5-qt5, which the wheel requires" in found.message
    lib = {"PyQt5/Qt5/lib/libQt5Core.so.5": elf(soname="libQt5Core.so.5")}
    other = wheel(tmp_path, lib, name="pyqt5_qt5-5.15.2-py3-none-manylinux_2_17_x86_64.whl")
    assert audit([one, other]).findings == ()
    (found,) = audit([wheel(tmp_path, files, requires=["PyQt5-sip"])]).findings
    assert (found.code, found.severity) == ("GF201", "warning")


@pytest.mark.parametrize(
    ("package", "folder"),
    [
        ("nvidia-cusparselt-cu12==0.6.3", "cusparselt/lib"),
        ("nvidia-cusparselt-cu13==0.8.1", "nvidia/cusparselt/lib"),
        ("nvidia-cusparselt-cu13>=0.10", "nvidia/cu13/lib"),
    ],
)
def test_a_package_may_have_had_another_folder(tmp_path: Path, package: str, folder: str) -> None:
    paths = "$ORIGIN/../cusparselt/lib:$ORIGIN/../nvidia/cusparselt/lib:$ORIGIN/../nvidia/cu13/lib"
    for runpath in (f"$ORIGIN/../{folder}", paths):
        files = {"demo/ext.so": elf(needed=["libcusparseLt.so.0"], runpath=runpath)}
        found = audit([wheel(tmp_path, files, requires=[package])]).findings
        assert [f.code for f in found if f.severity == "error"] == []


@pytest.mark.parametrize(
    ("machine", "requires", "lost"),
    [
        (
            "aarch64",
            "torch==2.8.0",
            {"libtorch_cuda.so (torch)", "libcudart.so.12 (nvidia-cuda-runtime-cu12)"},
        ),
        ("x86_64", "torch==2.8.0", set()),
    ],
)
def test_torch_had_no_cuda_for_arm(tmp_path: Path, machine: str, requires: str, lost: set[str]) -> None:
    name = f"demo-1.0-cp311-cp311-manylinux_2_17_{machine}.whl"
    files = {"demo/ext.so": elf(needed=["libtorch_cpu.so", "libtorch_cuda.so", "libcudart.so.12"])}
    found = said(audit([wheel(tmp_path, files, name=name, requires=[requires])]), "GF201")
    assert {s.partition(",")[0] for f in found for s in lines(f)} == lost


@pytest.mark.parametrize(("needed", "codes"), [("librmm.so", []), ("libz.so.1", ["GF202"])])
def test_an_extra_that_is_linked_with_is_imported(tmp_path: Path, needed: str, codes: list[str]) -> None:
    files = {"demo/ext.so": elf(needed=[needed, "librapids_logger.so"])}
    one = wheel(tmp_path, files, requires=["rmm-cu13; extra == 'gpu'"])
    assert [f.code for f in audit([one]).findings] == codes


@pytest.mark.parametrize(("requires", "severity"), [("torch==1.0", "warning"), ("demo-core==1.0", "info")])
def test_a_package_whose_libraries_are_known_has_no_others(
    tmp_path: Path, requires: str, severity: str
) -> None:
    files = {"demo/ext.so": elf(needed=["libavutil.so.58"])}
    (found,) = said(audit([wheel(tmp_path, files, requires=[requires])]), "GF201")
    assert found.severity == severity


@pytest.mark.parametrize("needed", [[], ["libnuma.so.1"]])
@pytest.mark.parametrize(("requires", "severity"), [(["ops==1.0"], "warning"), ([], "error")])
def test_a_required_package_may_load_its_own_library(
    tmp_path: Path, requires: list[str], severity: str, needed: list[str]
) -> None:
    text = b"import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'lib', 'libcue.so'))\n"
    lib = {"ops/__init__.py": text, "ops/lib/libcue.so": elf(soname="libcue.so", needed=needed)}
    other = wheel(tmp_path, lib, name="ops-1.0-py3-none-manylinux_2_17_x86_64.whl")
    one = wheel(
        tmp_path, {"demo/ext.so": elf(needed=["libcue.so"]), "demo/a.py": b"import ops\n"}, requires=requires
    )
    assert [f.severity for f in said(audit([one, other]), "GF202")] == [severity]


def test_one_object_of_a_wheel_may_search_for_all(tmp_path: Path) -> None:
    files = {
        "demo/ext.so": elf(needed=["libpart-core.so"], runpath="$ORIGIN/../part"),
        "demo/plugins/a.so": elf(needed=["libpart-core.so"]),
    }
    (found,) = audit([wheel(tmp_path, files, requires=["part==1.5.0"])]).findings
    assert (found.code, found.severity, len(found.files)) == ("GF201", "info", 2)


@pytest.mark.parametrize(
    ("requires", "severity"),
    [
        (["intel-sycl-rt"], "info"),
        ([], "warning"),
        (["mpich; extra == 'mpi'"], "warning"),
        (["numpy", "intelhex"], "warning"),
    ],
)
def test_required_packages_may_use_the_environments_own_lib_folder(
    tmp_path: Path, requires: list[str], severity: str
) -> None:
    files = {
        "demo/ext.so": elf(needed=["libsycl.so.9"], rpath="$ORIGIN/../../.."),
        "demo/libcore.so": elf(soname="libcore.so", needed=["libsycl.so.9"]),
    }
    found = said(audit([wheel(tmp_path, files, requires=requires)]), "GF201")
    assert [(f.severity, len(f.files)) for f in found] == [(severity, 2)]


@pytest.mark.parametrize(
    ("needed", "said_so"),
    [
        ("libnvonnxparser.so.11", "tensorrt-cu12-libs or tensorrt-cu13-libs would"),
        ("libgomp.so.1", "no known package brings them"),
    ],
)
def test_a_library_that_a_package_has_loaded_is_no_unknown_one(
    tmp_path: Path, needed: str, said_so: str
) -> None:
    (found,) = audit([wheel(tmp_path, {"demo/ext.so": elf(needed=[needed])})]).findings
    assert (found.code, found.severity) == ("GF201", "warning")
    assert said_so in found.message


@pytest.mark.parametrize(
    ("requires", "found"),
    [("torchvision (>=0.4)", []), ("torchvision==0.15.2", ["GF201"])],  # of which nobody here knows the torch
)
def test_torchvision_brings_torch(tmp_path: Path, requires: str, found: list[str]) -> None:
    files = {"demo/ext.so": elf(needed=["libc10.so", "libtorch_cuda.so", "libcudart.so.13"])}
    report = audit([wheel(tmp_path, files, requires=[requires])])
    assert [f.code for f in report.findings if f.severity == "error"] == found


def test_a_grafted_cudart_of_another_major_is_told_once(tmp_path: Path) -> None:
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


def test_a_package_of_a_library_is_asked_to_load_it(tmp_path: Path) -> None:
    files = {
        "demo/__init__.py": b"import nvidia.libnvcomp\n\nnvidia.libnvcomp.load_library()\nfrom demo.ext import *\n",
        "demo/ext.so": elf(needed=["libnvcomp.so.5"]),
    }
    report = audit([wheel(tmp_path, files, requires=["nvidia-libnvcomp-cu12==5.1.0.21"])])
    assert [(f.code, f.severity) for f in report.findings] == [("GF205", "info")]
    other = files | {"demo/__init__.py": b"import nvidia.libcufile\n\nnvidia.libcufile.load_library()\n"}
    report = audit([wheel(tmp_path, other, requires=["nvidia-libnvcomp-cu12==5.1.0.21"])])
    assert [(f.code, f.severity) for f in report.findings] == [("GF202", "error")]


def test_a_package_with_another_name_than_its_folder_has_its_library_there(tmp_path: Path) -> None:
    files = {"demo/lib/libdemo.so": elf(needed=["libz3.so"], runpath="$ORIGIN/../../z3/lib")}
    assert audit([wheel(tmp_path, files, requires=["z3-solver<4.15.5,>=4.13.0"])]).worst() is None
    assert said(audit([wheel(tmp_path, files)]), "GF203")


@pytest.mark.parametrize(
    ("requires", "needed", "found"),
    [
        ("torch==1.8.1", ["libc10.so", "libtorch_cpu.so", "libcudart.so.10.2"], []),
        ("torch==1.4.0", ["libc10.so", "libtorch.so", "libcudart.so.10.1"], []),
        ("torch==1.1.0", ["libc10.so", "libcaffe2.so", "libcudart.so.9.0"], []),
        ("torch==1.8.1", ["libc10.so", "libcudart.so.10.1"], ["GF201"]),  # of another release
        ("tensorflow==1.15.5", ["libtensorflow_framework.so.1"], []),
        ("tensorflow (<1.14.0,>=1.13.0)", ["libtensorflow_framework.so"], []),
        ("tensorflow>=1.13", ["libtensorflow_framework.so"], ["GF201"]),
        ("tensorflow>=1.15", ["libtensorflow_framework.so.1"], ["GF201"]),
    ],
)
def test_old_frameworks_have_loaded_themselves_too(
    tmp_path: Path, requires: str, needed: list[str], found: list[str]
) -> None:
    report = audit([wheel(tmp_path, {"demo/ext.so": elf(needed=needed)}, requires=[requires])])
    assert [f.code for f in report.findings] == found


def test_a_package_may_bring_those_that_are_named_after_it(tmp_path: Path) -> None:
    files = {"demo/ext.so": elf(needed=["libnvinfer.so.10"])}
    (found,) = audit([wheel(tmp_path, files, requires=["tensorrt<10.1"])]).findings
    assert (found.code, found.severity) == ("GF201", "info")
    assert "tensorrt, which the wheel requires, may bring tensorrt-cu12-libs" in found.message


@pytest.mark.parametrize(
    ("needed", "codes"), [(["libcudart.so.13"], ["GF202"]), (["libcudart.so.13", "libtorch.so"], [])]
)
def test_who_does_not_link_with_the_torch_of_an_extra_does_not_import_it(
    tmp_path: Path, needed: list[str], codes: list[str]
) -> None:
    report = audit(
        [wheel(tmp_path, {"demo/ext.so": elf(needed=needed)}, requires=["torch>=2.11; extra == 'torch'"])]
    )
    assert [f.code for f in report.findings] == codes


@pytest.mark.parametrize(
    ("requires", "expected"),
    [(["pytest; extra == 'dev'"], True), (["kernels"], False), (["torch==2.8.0"], False)],
)
def test_who_needs_torch_gets_the_newest_where_nothing_is_required(
    tmp_path: Path, requires: list[str], expected: bool
) -> None:
    files = {"demo/ext.so": elf(needed=["libtorch.so", "libcudart.so.12"])}
    assert bool(said(audit([wheel(tmp_path, files, requires=requires)]), "GF204")) == expected


def test_libraries_of_one_torch_alone_come_with_that_torch(tmp_path: Path) -> None:
    files = {"demo/ext.so": elf(needed=["libtorch_cuda_cu.so"])}
    assert audit([wheel(tmp_path, files, requires=["torch==1.13.1"])]).findings == ()
    assert said(audit([wheel(tmp_path, files, requires=["torch>=1.13"])]), "GF201") != []


def test_a_library_that_is_loaded_before_brings_what_it_needs(tmp_path: Path) -> None:
    text = b"os.environ['DEMO_DYNLIBS'] = str(Path(found) / 'libcustatevec.so.1')\n"
    files = {
        "demo/sim.so": elf(needed=["libcustatevec.so.1", "libcublas.so.11"]),
        "demo/other.so": elf(needed=["libcublasLt.so.11"]),
        "demo/a.py": b"from pathlib import Path\n" + text,
    }
    report = audit([wheel(tmp_path, files, requires=["custatevec-cu11", "nvidia-cublas-cu11"])])
    assert [(f.severity, f.files) for f in said(report, "GF202")] == [
        ("error", ("demo/other.so",)), ("warning", ("demo/sim.so",))
    ]  # fmt: skip


def test_cuquantum_for_python_brings_its_libraries(tmp_path: Path) -> None:
    text = b"from pathlib import Path\nos.environ['DEMO_DYNLIBS'] = str(Path(found) / 'libcustatevec.so.1')\n"
    files = {"demo/sim.so": elf(needed=["libcustatevec.so.1", "libcublas.so.12"]), "demo/a.py": text}
    requires = ["cuquantum-python-cu12>=24.11", "nvidia-cublas-cu12~=12.0"]
    assert audit([wheel(tmp_path, files, requires=requires)]).worst() == "warning"
    assert audit([wheel(tmp_path, files, requires=requires[1:])]).worst() == "error"


def test_debug_information_in_a_file_of_its_own_is_not_damaged(tmp_path: Path) -> None:
    files = {"demo/ext.so": elf(), "demo/ext.so.debug": elf()[:-16]}
    assert not said(audit([wheel(tmp_path, files)]), "GF705")
    assert said(audit([wheel(tmp_path, {"demo/ext.so": elf()[:-16]})]), "GF705")


def test_who_lists_a_folder_loads_all_of_a_package(tmp_path: Path) -> None:
    text = b"for path in glob.glob(folder + '/nvidia/' + 'cublas' + '/lib/*'):\n    ctypes.CDLL(path)\n"
    files = {"demo/libx.so": elf(needed=["libcublas.so.12", "libcublasLt.so.12"]), "demo/a.py": text}
    (found,) = [f for f in audit([wheel(tmp_path, files)]).findings if f.code in ("GF201", "GF205")]
    assert (found.code, len(lines(found))) == ("GF205", 2)


def test_compiled_code_may_be_told_what_to_open(tmp_path: Path) -> None:
    text = b"import os\nfrom pathlib import Path\nos.environ['DEMO_DYNLIBS'] = str(Path(found) / 'libcublas.so.12')\n"
    files = {"demo/libx.so": elf(needed=["libcublas.so.12"]), "demo/a.py": text}
    (found,) = audit([wheel(tmp_path, files, requires=["nvidia-cublas-cu12"])]).findings
    assert (found.code, found.severity) == ("GF205", "info")
    files["demo/a.py"] = text.replace(b"DEMO_DYNLIBS", b"LD_LIBRARY_PATH")  # read when the process starts
    assert [f.code for f in audit([wheel(tmp_path, files)]).findings] == ["GF201"]


@pytest.mark.parametrize(
    ("release", "codes"), [("==25.10.*", []), ("<26.10", []), ("==26.10.*", ["GF203"]), ("", ["GF203"])]
)
def test_what_a_carrier_brings_is_that_of_the_release(tmp_path: Path, release: str, codes: list[str]) -> None:
    files = {"demo/libx.so": elf(needed=["libnccl.so.2"], runpath="$ORIGIN/../nvidia/nccl/lib")}
    one = wheel(tmp_path, files, requires=[f"libraft-cu12{release}"])
    assert [f.code for f in audit([one]).findings] == codes


def test_a_release_between_those_that_are_known_is_taken(tmp_path: Path) -> None:
    files = {"demo/libx.so": elf(needed=["libucp.so.0"])}
    one = wheel(tmp_path, files, requires=["libucx-cu12<1.19,>=1.15.0"])
    assert audit([one]).worst() is None


def test_a_library_that_one_release_of_a_carrier_has(tmp_path: Path) -> None:
    path = "$ORIGIN/../libkvikio/lib64"
    files = {"demo/libx.so": elf(needed=["libkvikio.so", "libnvcomp.so.4"], runpath=path)}
    assert audit([wheel(tmp_path, files, requires=["libkvikio-cu12==25.6.*"])]).worst() is None
    (found,) = audit([wheel(tmp_path, files, requires=["libkvikio-cu12==26.10.*"])]).findings
    assert (found.code, lines(found)) == (
        "GF201",
        ("libnvcomp.so.4 (nvidia-nvcomp-cu12), NEEDED by demo/libx.so",),
    )


@pytest.mark.parametrize(
    "code",
    [
        b'# if `ctypes.CDLL("foo")` fails\ntorch.ops.load_library(path)\n',  # a comment opens nothing
        b'ctypes.CDLL("other.so")\ntorch.ops.load_library(path)\n',
    ],
)
def test_a_library_that_a_variable_says_may_be_any(tmp_path: Path, code: bytes) -> None:
    files = {
        "demo/lib/libx.so": elf(soname="libx.so"),
        "demo/lib/_x.so": elf(needed=["libx.so"], strings=["PyInit__x"]),
        "demo/a.py": code,
    }
    (found,) = said(audit([wheel(tmp_path, files)]), "GF202")
    assert found.severity == "warning"
    files["demo/a.py"] = b'ctypes.CDLL("other.so")\n'
    (found,) = said(audit([wheel(tmp_path, files)]), "GF202")
    assert found.severity == "error"


def test_a_program_finds_the_libraries_of_packages_by_their_folders(tmp_path: Path) -> None:
    needed = ["libcuopt_mathopt.so", "libcudss.so.0", "libcudss.so.7"]  # no table has the last one
    requires = ["libcuopt-mathopt-cu12==26.10.*", "nvidia-cudss-cu12"]
    path = "$ORIGIN/../../libcuopt_mathopt/lib64:$ORIGIN/../../nvidia/cu12/lib"
    found = elf(needed=needed, runpath=path, interpreter="/lib64/ld-linux-x86-64.so.2")
    assert audit([wheel(tmp_path, {"demo/bin/tool": found}, requires=requires)]).worst() == "info"
    (lost,) = said(
        audit(
            [
                wheel(
                    tmp_path,
                    {"demo/bin/tool": elf(needed=needed, interpreter="/lib64/ld-linux-x86-64.so.2")},
                    requires=requires,
                )
            ]
        ),
        "GF202",
    )
    assert (lost.severity, len(lines(lost))) == ("error", len(needed))


def test_a_variant_for_another_cuda_is_not_chosen(tmp_path: Path) -> None:
    variants = {
        f"demo/libx_cuda{version}.so": elf(needed=[f"libcudart.so.{version[:2]}", "libcusparse.so.12"])
        for version in ("120", "130")
    }
    # libcusparse.so.12 is in CUDA 12 and 13
    report = audit([wheel(tmp_path, variants, requires=["torch>=2.11"])])
    assert said(report, "GF104") == []


def test_ops_for_tensorflow_are_opened_after_it(tmp_path: Path) -> None:
    files = {"demo/ops.so": elf(needed=["libtensorflow_framework.so.2"])}
    assert audit([wheel(tmp_path, files, requires=["tensorflow<2.22,>=2.21.0"])]).worst() is None
    assert audit([wheel(tmp_path, files, requires=["tensorflow-cpu"])]).worst() is None
    assert audit([wheel(tmp_path, files)]).worst() == "error"


def test_cubins_beside_each_other_are_chosen_by_name(tmp_path: Path) -> None:
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
def test_two_majors_may_come_by_requirements_alone(
    requires: list[str], subject: list[str], tmp_path: Path
) -> None:
    found = said(audit([wheel(tmp_path, {"demo/ext.so": elf()}, requires=requires)]), "GF104")
    assert [(f.severity, *lines(f)) for f in found] == ([("warning", *subject)] if subject else [])


def test_a_wheels_own_libraries_have_a_major_too(tmp_path: Path) -> None:
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
        ("8.8", "9.2", ("CUDA 12: libcudart, opened at run time", "CUDA 13: libcudart, linked statically")),
        ("8.8", "8.5", ()),
        ("9.0", "9.2", ()),
        ("99.9", "9.2", ()),  # nobody knows the toolkit
    ],
)
def test_cuda_majors_that_no_needed_entry_names(
    one: str, other: str, majors: tuple[str, ...], tmp_path: Path
) -> None:
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


def test_the_runtime_that_others_bring_is_no_other_one(tmp_path: Path) -> None:
    code = {".nv_fatbin": fatbin("sm_80", "compute_90:8.8")}
    needs = elf(sections=code, needed=["libcudart.so.12"])
    libs = {"b/libx_cuda12.so": elf(sections=code)}  # one of several to choose from
    static = elf(sections={".nv_fatbin": fatbin("sm_80", "compute_90:9.2"), ".rodata": STATIC_CUDART + b"\0"})
    own = wheel(tmp_path, {"a/ext.so": static, "a/ext2.so": static}, name=f"a-1.0-{TAGS}.whl")
    both = audit([own, wheel(tmp_path, {"b/ext.so": needs, **libs}, name=f"b-1.0-{TAGS}.whl")])
    assert not said(both, "GF104")  # and what it needs, nothing provides: GF201


@pytest.mark.parametrize(
    ("requires", "unmet"),
    [
        (["torch==2.9.1"], "'torch==2.9.1', where torch 2.4.1 is given"),
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


def test_an_older_torch_that_is_given_brings_no_file_twice(tmp_path: Path) -> None:
    own = wheel(tmp_path, {"demo/a.so": elf()}, requires=["nvidia-nccl-cu12", "torch"])
    assert [f.wheel for f in said(audit([own]), "GF709")] == [own.name]
    assert not said(audit([own, torch(tmp_path)]), "GF709")


def test_what_torch_has_loaded_is_one_image_with_its_package_that_is_given(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    "folder", ["$ORIGIN/../lib/python3.11/site-packages", "$ORIGIN/../lib64/python3.11/site-packages"]
)
def test_a_program_finds_the_packages_of_its_python(folder: str, tmp_path: Path) -> None:
    program = elf(needed=["liba.so"], runpath=f"{folder}/demo", interpreter="/lib64/ld-linux-x86-64.so.2")
    files = {"demo-1.0.data/scripts/demo": program, "demo/liba.so": elf(soname="liba.so")}
    assert not said(audit([wheel(tmp_path, files)]), "GF202")
    files["demo-1.0.data/scripts/demo"] = program.replace(b"/python3.11/", b"/pythonx.yz/")
    assert said(audit([wheel(tmp_path, files)]), "GF202")


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


def test_a_library_with_the_checksum_of_another_is_no_copy_of_it(tmp_path: Path) -> None:
    files = {
        "demo/libx.so": elf(soname="libx.so.1", needed=["libother.so.1"]),
        "demo/libx.so.1": elf(soname="libx.so.1", needed=["libnuma.so.1"]),
    }
    facts = read(wheel(tmp_path, files))
    graph = build([facts._replace(checksums=dict.fromkeys(facts.members, 1))])
    assert {(e.loader.name, e.needed) for e in graph.edges} == {
        ("libx.so", "libother.so.1"), ("libx.so.1", "libnuma.so.1")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (b"", "Libraries with the same name are in several places."),
        (b"CDLL(join(dirname(__file__), 'libgomp.so.1'))", "Modules that are imported together"),
    ],
)
def test_who_opens_a_library_by_its_path_may_come_last(code: bytes, told: str, tmp_path: Path) -> None:
    library = {"libgomp.so.1": elf(soname="libgomp.so.1")}
    paths = [
        wheel(tmp_path, files, name=f"{name}-1.0-{TAGS}.whl", requires=["d"])
        for name, files in {
            "a": {"a/a.so": elf(needed=["libgomp.so.1"], runpath="$ORIGIN/../d")},
            "b": {"b/b.so": elf(needed=["libgomp.so.1"], runpath="$ORIGIN"), "b/libgomp.so.1": elf()},
            "c": {"c/c.so": elf(needed=["libgomp.so.1"], runpath="$ORIGIN/../d"), "c/__init__.py": code},
            "d": {f"d/{name}": data for name, data in library.items()},
        }.items()
    ]
    (found,) = said(audit(paths), "GF105")
    assert found.message.startswith(told)


@pytest.mark.parametrize("file", [SCRIPT, CONSOLE])
def test_a_script_of_empty_lines_takes_no_time(file: str, tmp_path: Path) -> None:
    """It took minutes: each line was searched to the end of the file."""
    files = {"demo/ext.so": elf(needed=["libnuma.so.1"]), file: b"#!python" + b"\n" * 200_000}
    assert said(audit([wheel(tmp_path, files)]), "GF201")


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
