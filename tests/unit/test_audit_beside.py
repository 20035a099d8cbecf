"""A wheel judged together with what it must live beside."""

import sys
import zipfile
from pathlib import Path

import pytest
from audit_samples import STATIC_CUDART, elf, fatbin, wheel
from rule_cases.processes import HASHED, USERS_BUILD

from gpuforge.actions.audit import is_for, resolve
from gpuforge.audit import against, audit
from gpuforge.audit.beside import Neighbour, judged
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.judge import Ignore
from gpuforge.audit.read.input import Beside, Input
from gpuforge.audit.report.sentences import lines
from gpuforge.binary.elf import header
from gpuforge.binary.mangled import readable
from gpuforge.cli.main import run
from gpuforge.errors import UsageError
from gpuforge.expectation import Expectation
from gpuforge.wheel.package_index import reason

CU13 = "$ORIGIN/../nvidia/cu13/lib"
CUDART = "demo.libs/libcudart-0a1b2c3d.so.13.0.96"
OWN = {
    "demo/ext.so": elf(needed=["libcudart-0a1b2c3d.so.13.0.96"], runpath="$ORIGIN/../demo.libs"),
    CUDART: elf(soname="libcudart-0a1b2c3d.so.13.0.96"),
}
OTHER = {"other/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)}


def neighbour(folder: Path) -> Neighbour:
    name = "other-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    (folder / "other").mkdir()
    path = wheel(folder / "other", OTHER, name=name, requires=["nvidia-cuda-runtime"])
    return Neighbour("other[cuda13]", ("other ==1.0", "nvidia-cuda-runtime ==13.0.96"), (path,))


def test_what_both_bring_into_one_process_is_found_and_of_neither_alone(tmp_path):
    own = wheel(tmp_path, OWN)
    alone = audit([own])
    report = judged(alone, [own], [neighbour(tmp_path)], [])
    new = [f for f in report.findings if f not in alone.findings]
    assert [(f.code, f.severity, f.message.partition(": ")[0]) for f in new] == [
        ("GF102", "error", "beside other[cuda13]")
    ]
    assert {f.wheel for f in new} == {own.name}
    assert "beside" not in {p.topic for p in report.wheels[0].proofs}


def test_two_cuda_majors_are_an_error_only_where_one_process_is_promised(tmp_path):
    runpath = "$ORIGIN/../nvidia/cuda_runtime/lib"
    files = {"demo/ext.so": elf(needed=["libcudart.so.12"], runpath=runpath)}
    own = wheel(tmp_path, files, requires=["nvidia-cuda-runtime-cu12"])
    other = neighbour(tmp_path)
    beside = judged(audit([own]), [own], [other], [])
    together = audit([*other.wheels, own])
    found = [
        [(f.code, f.severity) for f in each.findings if f.code == "GF104"] for each in (beside, together)
    ]
    assert found == [[("GF104", "error")], [("GF104", "warning")]]


JAX_LOADS = b"""import ctypes, importlib, pathlib
def _load(module, name):
    ctypes.CDLL(pathlib.Path(importlib.import_module(f"nvidia.{module}").__path__[0]) / "lib" / name)
_load("cu13", "libcudart.so.13")
"""


OF_GPU_CODE = elf(sections={".nv_fatbin": fatbin("compute_80:9.0")})
OF_A_NAME = elf(sections={".rodata": b"\0libcudart.so.13\0"})


@pytest.mark.parametrize("opener", [OF_GPU_CODE, OF_A_NAME])
@pytest.mark.parametrize(
    ("name", "by_path", "second"),
    [
        ("libcudart-0a1b2c3d.so.13", False, True),  # another SONAME is another copy
        ("libcudart.so.13", False, False),  # the linker reuses it for the plain name
        ("libcudart.so.13", True, True),
    ],
)
def test_a_neighbours_cudart_that_is_opened_at_run_time_counts(tmp_path, name, by_path, second, opener):
    """JAX's plugin has no NEEDED entry for it, and others name it without GPU code of their own."""
    bundled = {
        "demo/ext.so": elf(needed=[name], runpath="$ORIGIN/../demo.libs"),
        f"demo.libs/{name}": elf(soname=name),
    }
    own = wheel(tmp_path, bundled)
    plugin = {
        "other/plugin.so": opener,
        **({"other/__init__.py": JAX_LOADS} if by_path else {}),
    }
    (tmp_path / "other").mkdir()
    file = "other-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    other = wheel(tmp_path / "other", plugin, name=file, requires=["nvidia-cuda-runtime"])
    report = judged(audit([own]), [own], [Neighbour("other", (), (other,))], [])
    assert [f.severity for f in report.findings if f.code == "GF102"] == ["error"] * second


PATHFINDER = b"""from cuda.pathfinder import load_nvidia_dynamic_lib
load_nvidia_dynamic_lib("cudart")
"""


@pytest.mark.parametrize(
    ("requires", "loads", "name", "codes"),
    [
        ("nvidia-cuda-runtime", JAX_LOADS, "libcudart-0a1b2c3d.so.13", {"GF102"}),
        ("nvidia-cuda-runtime", JAX_LOADS, "libcudart.so.13", {"GF102"}),
        ("nvidia-cuda-runtime", PATHFINDER, "libcudart-0a1b2c3d.so.13", {"GF102"}),
        ("nvidia-cuda-runtime", PATHFINDER, "libcudart.so.13", set()),
        ("nvidia-cuda-runtime-cu12", PATHFINDER, "libcudart.so.13", {"GF104"}),
        ("numpy", JAX_LOADS, "libcudart.so.13", set()),
    ],
)
def test_a_neighbour_of_python_files_alone_opens_a_cudart_too(tmp_path, requires, loads, name, codes):
    bundled = {
        "demo/ext.so": elf(needed=[name], runpath="$ORIGIN/../demo.libs"),
        f"demo.libs/{name}": elf(soname=name),
    }
    own = wheel(tmp_path, bundled)
    code = {"other/__init__.py": loads}
    other = wheel(tmp_path, code, name="other-1.0-py3-none-any.whl", requires=[requires])
    report = judged(audit([own]), [own], [Neighbour("other", (), (other,))], [])
    assert {f.code for f in report.findings if f.beside and f.severity == "error"} == codes


def test_an_accepted_finding_keeps_its_reason(tmp_path):
    own = wheel(tmp_path, OWN)
    report = judged(audit([own]), [own], [neighbour(tmp_path)], [Ignore("GF102", "they exchange nothing")])
    assert "GF102" not in {f.code for f in report.findings}
    assert [i.reason for i in report.wheels[0].ignored] == ["they exchange nothing"]
    assert "beside" not in {p.topic for p in report.wheels[0].proofs}  # what was accepted was found


@pytest.mark.parametrize(
    ("requires", "chosen", "read", "fits"),
    [
        ("nvidia-cuda-runtime", "nvidia-cuda-runtime ==13.0.96", True, True),
        ("nvidia-cuda-runtime>=13.1", "nvidia-cuda-runtime ==13.0.96", True, False),
        ("nvidia-cuda-runtime", "nvidia-cublas ==13.0.0.19", True, False),
        ("nvidia-cuda-runtime", "nvidia-cuda-runtime ==13.0.96", False, False),
    ],
)
def test_packages_that_were_not_read_or_do_not_meet_the_requirements_do_not_fit(
    tmp_path, requires, chosen, read, fits
):
    files = {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)}
    own = wheel(tmp_path, files, requires=[requires])
    other = neighbour(tmp_path)._replace(packages=("other ==1.0", chosen))
    report = judged(audit([own]), [own], [other if read else other._replace(wheels=())], [])
    assert ("beside" in {p.topic for p in report.wheels[0].proofs}) == fits


def test_two_that_share_pips_cudart_fit(tmp_path):
    files = {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)}
    own = wheel(tmp_path, files, requires=["nvidia-cuda-runtime"])
    alone = audit([own])
    report = judged(alone, [own], [neighbour(tmp_path)], [])
    assert report.findings == alone.findings
    (proof,) = (p for p in report.wheels[0].proofs if p.topic == "beside")
    assert proof.text == "other[cuda13]: no conflict with 1 package in one process"


@pytest.mark.parametrize(
    ("requirement", "majors"),
    [
        ("jax[cuda12]", [12]),
        ("jax[cuda13]>=0.10", [13]),
        ("cupy-cuda12x", [12]),
        ("nvidia-cublas-cu12", [12]),
        ("torch>=2.15", [12, 13]),
        ("cuda-toolkit[curand]==12.9.1", [12, 13]),
    ],
)
def test_what_is_for_another_major_is_left_out(requirement, majors):
    assert [major for major in (12, 13) if is_for(requirement, major)] == majors


def test_uvs_reason_is_one_line_without_its_hints():
    said = (
        "error: No solution found when resolving dependencies\n  cause: Because a depends on b<2 and\n"
        "         you require b>=2, we can conclude that\n    your requirements are unsatisfiable.\n"
        "hint: try --prerelease=allow\n"
    )
    assert reason(said) == (
        ": Because a depends on b<2 and you require b>=2, we can conclude that your requirements are unsatisfiable."
    )
    assert reason("cause: " + "word " * 400).endswith(" …")
    assert reason("") == ""


@pytest.mark.thorough
def test_a_names_versions_are_those_of_all_indexes_as_pip_sees_them(tmp_path, monkeypatch):
    for index, version in (("main", "1.0"), ("more", "2.0")):
        page = tmp_path / index / "neighbour"
        page.mkdir(parents=True)
        name = f"neighbour-{version}-py3-none-any.whl"
        with zipfile.ZipFile(page / name, "w") as archive:
            folder = f"neighbour-{version}.dist-info"
            archive.writestr(
                f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: neighbour\nVersion: {version}\n"
            )
            archive.writestr(
                f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{folder}/RECORD", "")
        (page / "index.html").write_text(f'<a href="{name}">{name}</a>')
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "main").as_uri())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", (tmp_path / "more").as_uri())
    (tmp_path / "wanted").write_text("neighbour\n")
    (found,) = resolve(tmp_path / "wanted", Path(sys.executable), "demo", "neighbour")
    assert str(found) == "neighbour==2.0"
    (tmp_path / "wanted").write_text("neighbour<2\n")
    (found,) = resolve(tmp_path / "wanted", Path(sys.executable), "demo", "neighbour")
    assert str(found) == "neighbour==1.0"


# `audit --against`: what a user's own build would load a second time, and the nearest things that are one image.


def findings_of(
    tmp_path: Path, files: dict[str, bytes], what: against.Against, **keys: object
) -> list[Finding]:
    path = wheel(tmp_path, files, **keys)  # type: ignore[arg-type]
    return [f for f in audit([path], against=what).findings if f.code == "GF110"]


def test_a_hashed_runtime_and_the_compilers_own_are_two_images(tmp_path):
    (finding,) = findings_of(tmp_path, USERS_BUILD, against.parse("nvhpc@24.9"))
    assert finding == Finding(
        "GF110",
        "error",
        finding.wheel,
        files=(f"demo.libs/{HASHED}",),
        subjects=(
            Subject(
                file=f"demo.libs/{HASHED}",
                detail="loaded through {through:3}; {against} brings",
                facts=facts_of(through=("libhost.so",), against="nvhpc 24.9"),
                names=("libnvomp.so",),
            ),
        ),
        what="Code that users build with nvhpc 24.9 brings second copies of libraries that this wheel loads.",
        why="Both copies run in one process, each with its own state.",
        fix="Use only g++ to compile the libraries that users link against, and leave these libraries out of "
        "the wheel: auditwheel repair --exclude NAME",
        project="demo",
    )


@pytest.mark.parametrize("other", ["g++", "intel", "llvm@18"])
def test_another_compiler_brings_other_runtimes(tmp_path, other):
    what = against.parse(other)
    path = wheel(tmp_path, USERS_BUILD)
    report = audit([path], against=what)
    assert not [f for f in report.findings if f.code == "GF110"]
    (proof,) = [p for p in report.wheels[0].proofs if p.topic == "against"]
    assert proof.text == (
        f"{what.label}: the wheel loads no second copy of the {len(what.libraries)} libraries "
        f"that releases of {other.partition('@')[0]} have"
    )


def test_without_the_question_there_is_no_answer(tmp_path):
    report = audit([wheel(tmp_path, USERS_BUILD)])
    assert not [f for f in report.findings if f.code == "GF110"]
    assert not [p for p in report.wheels[0].proofs if p.topic == "against"]


@pytest.mark.parametrize(
    ("ours", "theirs", "second"),
    [
        ("libgomp.so.1", "libgomp.so.1", False),  # one SONAME is one image
        ("libgomp-a34b3233.so.1.0.0", "libgomp.so.1", True),
        ("libgomp-a34b3233.so.1.0.0", "libgomp.so", True),
        ("libcudart.so.12", "libcudart.so.13", True),
        ("libcudart.so.13", "libcudart.so.13.0.96", False),
        ("libcudart.so.13", "libcudart.so", False),  # a name for linkers says nothing of the version
        ("libcudart-0a1b2c3d.so.13", "libcudart.so.13", True),
        ("libcudart_static_x.so", "libcudart.so.13", False),  # another library
        ("libgomp.so.1", "libgompx.so.1", False),
    ],
)
def test_what_the_linker_loads_beside_another(ours, theirs, second):
    assert against.Against("x", frozenset([theirs])).second_copies(ours) == ((theirs,) if second else ())


def test_a_runtime_linked_in_meets_the_toolkits_own(tmp_path):
    (tmp_path / "cuda" / "lib64").mkdir(parents=True)
    (tmp_path / "cuda" / "lib64" / "libcudart.so.13").touch()
    what = against.parse(f"toolkit:{tmp_path / 'cuda'}")
    (finding,) = findings_of(tmp_path, {"demo/a.so": elf(sections={".rodata": STATIC_CUDART})}, what)
    assert lines(finding) == (
        f"demo/a.so: a CUDA runtime is linked in; the toolkit {tmp_path}/cuda brings libcudart.so.13",
    )
    assert not findings_of(tmp_path, {"demo/a.so": elf(sections={".rodata": b"/cudart.shm"})}, what)


def test_a_toolkit_of_another_major_than_the_required_packages(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcudart.so.12").touch()
    extension = elf(needed=["libcudart.so.13"], runpath="$ORIGIN/../nvidia/cu13/lib")
    keys = {"requires": ["nvidia-cuda-runtime"]}
    (finding,) = findings_of(tmp_path, {"demo/a.so": extension}, against.parse(str(tmp_path / "lib")), **keys)
    assert lines(finding) == (
        "libcudart.so.13 (nvidia-cuda-runtime), NEEDED by demo/a.so; "
        f"the folder {tmp_path}/lib brings libcudart.so.12",
    )
    (tmp_path / "lib" / "libcudart.so.12").rename(tmp_path / "lib" / "libcudart.so.13")
    assert not findings_of(tmp_path, {"demo/a.so": extension}, against.parse(str(tmp_path / "lib")), **keys)


def test_a_compiler_is_known_by_what_lies_beside_it(tmp_path):
    home = tmp_path / "hpc_sdk" / "Linux_x86_64" / "24.9" / "compilers"
    for name in ("bin/nvc++", "lib/libnvomp.so", "lib/libnvc.so", "lib/readme.txt"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    (tmp_path / "nvc++").symlink_to(home / "bin" / "nvc++")
    what = against.parse(str(tmp_path / "nvc++"))
    assert what == against.Against(
        f"the compiler {tmp_path}/nvc++", frozenset({"libnvomp.so", "libnvc.so"}), "24.9"
    )


@pytest.mark.parametrize("name", ["g++", "x86_64-linux-gnu-g++-12", "gcc-13", "c++"])
def test_gccs_own_folder_belongs_to_gcc(tmp_path, name):
    for file in (
        f"bin/{name}",
        "bin/ls",
        "bin/nvcc",
        "bin/clang-14",
        "lib/gcc/x86_64-linux-gnu/12/libgomp.so",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert against.parse(str(tmp_path / "bin" / name)).libraries == {"libgomp.so"}
    for other in ("ls", "nvcc", "clang-14"):  # beside it, and its libraries lie elsewhere
        with pytest.raises(UsageError, match="no library beside it"):
            against.parse(str(tmp_path / "bin" / other))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nope", "'nope' is not a compiler that gpuforge knows"),
        ("nvhpc@new", "'new' is not a version such as 24.9"),
        ("toolkit:/nowhere", "no CUDA library in its lib64 or lib"),
        ("/nowhere", "there is no such file or folder"),
    ],
)
def test_what_cannot_be_compared_with_is_an_error(text, problem, tmp_path):
    with pytest.raises(UsageError, match=problem):
        against.parse(text)
    assert run(["audit", str(wheel(tmp_path, USERS_BUILD)), "--against", text]) == 2


def test_an_empty_folder_proves_nothing(tmp_path):
    with pytest.raises(UsageError, match="no shared library in it"):
        against.parse(str(tmp_path))


# GF216: functions of torch that change with each release, in wheels for several of its releases.


ATEN = ["_ZN2at4_ops10empty_like4callERKNS_6TensorE", "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"]
STABLE = [
    "aoti_torch_get_numel",
    "torch_library_impl",
    "_ZN9torchtext5splitEv",
    "_ZNSt6vectorIN3c106DeviceEE4pushEv",
]


def findings_of_unstable(
    folder: Path,
    undefined: list[str],
    requires: list[str],
    *,
    spans: tuple[str, ...] = (),
    name: str = "demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl",
) -> list[Finding]:
    files = {"demo/_C.so": elf(undefined=undefined, needed=["libtorch_cpu.so", "libc10.so"])}
    path = wheel(folder, files, name=name, requires=requires)
    report = audit([path], expectation=Expectation(spans=spans, exact=False) if spans else None)
    return [finding for finding in report.findings if finding.code == "GF216"]


@pytest.mark.parametrize(
    "requirement",
    [
        "torch",
        "torch>=2.10",
        "torch>=2.10,<3",
        "torch~=2.10",
        "torch>=2.10,<2.12",
        "torch>=2.15",
        "torch<2.12",
    ],
)
def test_a_requirement_of_several_releases_is_a_warning(tmp_path, requirement):
    (finding,) = findings_of_unstable(tmp_path, ATEN, [requirement])
    assert finding.severity == "warning"
    assert "the requirement torch" in finding.message
    assert "and 1 more" not in finding.message


@pytest.mark.parametrize(
    "requirement", ["torch==2.11.*", "torch==2.15.0", "torch>=2.11,<2.12", "torch~=2.11.0", "numpy>=2"]
)
def test_one_release_is_none(tmp_path, requirement):
    assert findings_of_unstable(tmp_path, ATEN, [requirement]) == []


@pytest.mark.parametrize(
    ("requires", "allows"),
    [
        (["torch>=1.5.0", "torch>=2.14,<2.15"], ""),
        (["torch>=2.14,<2.15", 'torch>=1.5; extra == "all"'], ""),
        (["torch>=1.5.0", "torch>=2.14"], "torch>=1.5.0,>=2.14"),
        (["torch>=1.5.0", 'torch>=2.14,<2.15; extra == "all"'], "torch>=1.5.0"),
        (["torch>=1.5.0", 'torch<2.15; sys_platform == "win32"'], "torch>=1.5.0"),
        (['torch>=2.14,<2.15; extra == "all"', 'torch>=2.14; extra == "new"'], "torch>=2.14"),
    ],
)
def test_requirements_on_one_project_are_judged_together(tmp_path, requires, allows):
    found = findings_of_unstable(tmp_path, ATEN, requires)
    assert [f"the requirement {allows} allows" in f.message for f in found] == ([True] if allows else [])


def test_a_release_that_only_an_extra_requires_is_not_the_only_one(tmp_path):
    (finding,) = findings_of_unstable(tmp_path, ATEN, ['torch==2.14.*; extra == "gpu"'])
    assert "only the extra [gpu] requires the release of the build" in finding.message


def test_functions_of_tensorflow_have_no_stable_form(tmp_path):
    names = ["_ZNK10tensorflow4data11DatasetBase8FinalizeEPNS_15OpKernelContextE", "_ZN3tsl5mutex6unlockEv"]
    for requirement, count in (("tensorflow>=2.6", 1), ("tensorflow>=2.6,<2.7", 0)):
        assert len(findings_of_unstable(tmp_path, names, [requirement])) == count


def test_the_stable_interface_is_none(tmp_path):
    assert findings_of_unstable(tmp_path, STABLE, ["torch>=2.10"]) == []
    assert findings_of_unstable(tmp_path, STABLE, ["torch>=2.10"], spans=("torch",)) == []


def test_a_manifest_that_promises_several_releases_makes_it_an_error(tmp_path):
    for requirement in ("torch==2.11.*", "torch>=2.10"):
        (finding,) = findings_of_unstable(tmp_path, ATEN, [requirement], spans=("torch",))
        assert finding.severity == "error"
        assert 'spans = ["torch"] of the manifest promises several' in finding.message


def test_torch_itself_is_not_searched(tmp_path):
    name = "torch-2.15.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    assert findings_of_unstable(tmp_path, ATEN, ["torch>=2.10"], name=name) == []


def test_the_proof_is_there_only_where_nothing_contradicts_it(tmp_path):
    proved = {}
    for names in (ATEN, STABLE):
        files = {"demo/_C.so": elf(undefined=names, needed=["libtorch_cpu.so"])}
        path = wheel(tmp_path, files, requires=["torch>=2.10"])
        report = audit([path], expectation=Expectation(spans=("torch",)))
        proved[names[0]] = [each.text for each in report.wheels[0].proofs if each.topic == "stable ABI"]
    assert proved == {
        ATEN[0]: [],
        STABLE[0]: ["torch: none of its functions that change with each release is used"],
    }


TENSORFLOW = ["_ZN10tensorflow10DEVICE_CPUE", "_ZN10tensorflow12OpDefBuilder3DocENSs"]
TORCH = "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("objects", "defined", "missing"),
    [
        ({"demo/_C.so": ATEN}, ATEN, ()),
        ({"demo/_C.so": ATEN}, ATEN[:1], ("demo/_C.so: torch: c10::detail::torchCheckFail",)),
        ({"demo/_C.so": ATEN}, ["_ZN3c105otherEv"],
         ("demo/_C.so: torch: 2 functions, such as at::_ops::empty_like::call",)),
        ({"demo/_C.so": STABLE}, ["_ZN3c105otherEv"], ()),
        ({"demo/x_2.4.so": ATEN, "demo/x_2.11.so": ATEN[:1]}, ATEN[:1], ()),  # alternatives
        ({"demo/x_2.4.so": ATEN, "demo/y.so": ATEN[:1]}, ATEN[:1],
         ("demo/x_2.4.so: torch: c10::detail::torchCheckFail",)),
    ],
)  # fmt: skip
def test_the_functions_of_the_torch_at_hand_decide(tmp_path, objects, defined, missing):
    files = {file: elf(undefined=names, needed=["libtorch_cpu.so"]) for file, names in objects.items()}
    own = wheel(tmp_path, files, requires=["torch>=2.3.0"])
    torch = wheel(
        tmp_path, {"torch/lib/libtorch_cpu.so": elf(soname="libtorch_cpu.so", defined=defined)}, name=TORCH
    )
    for report in (audit([own, torch]), audit([own], beside=Beside(wheels=(Input.of(torch),)))):
        found = [f for f in report.findings if f.code == "GF216"]
        assert [(f.severity, f.across) for f in found] == [("error", True)] * bool(missing)
        assert tuple(line for f in found for line in lines(f._replace(subjects=tuple(
            each._replace(wheel="") for each in f.subjects)))) == missing  # fmt: skip


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZNK2at6Tensor4sizeEl", "at::Tensor::size"),
        ("_ZN3c1010TensorImplC2EONS_7StorageENS_14DispatchKeySetE", "c10::TensorImpl::TensorImpl"),
        ("_ZN3c1010TensorImplD1Ev", "c10::TensorImpl::~TensorImpl"),
        ("_ZTVN3c105ErrorE", "vtable of c10::Error"),
        ("_ZN5torch3jit5parseIJRKSsEEEvDpT_", "torch::jit::parse"),
        ("THPVariable_Wrap", "THPVariable_Wrap"),
        ("_ZN99xE", "_ZN99xE"),
        ("_ZN", "_ZN"),
    ],
)
def test_a_symbol_has_a_readable_name(symbol, name):
    assert readable(symbol) == name


@pytest.mark.parametrize(
    ("names", "found"),
    [(("x_torch24", "x_torch25"), []), (("x_64", "x_256"), ["warning"]), (("x_torch24", "y"), ["warning"])],
)
def test_objects_that_name_a_release_of_torch_are_for_it_alone(tmp_path, names, found):
    files = {f"demo/{name}.so": elf(undefined=ATEN, needed=["libtorch_cpu.so"]) for name in names}
    report = audit([wheel(tmp_path, files, requires=["torch>=2.3.0"])])
    assert [f.severity for f in report.findings if f.code == "GF216"] == found


@pytest.mark.parametrize(
    ("function", "unread", "found"),
    [
        (TENSORFLOW[0], False, []),
        (TENSORFLOW[1], False, ["error"]),
        (TENSORFLOW[0], True, []),  # the part that can be searched has it
        (TENSORFLOW[1], True, ["warning"]),  # the part that cannot be searched may have it
    ],
)
def test_the_functions_of_tensorflow_for_cpus_decide_as_far_as_they_are_read(
    tmp_path, monkeypatch, function, found, *, unread
):
    framework = "libtensorflow_framework.so.2"
    files = {"demo/_C.so": elf(undefined=[function], needed=[framework])}
    own = wheel(tmp_path, files, requires=["tensorflow>=2.13"])
    large = ["x" * 5000] if unread else []
    monkeypatch.setattr(header, "LONGEST", 4000)
    given = {
        f"tensorflow/{framework}": elf(soname=framework, defined=TENSORFLOW[:1]),
        "tensorflow/libtensorflow_cc.so.2": elf(soname="libtensorflow_cc.so.2", defined=large),
    }
    name = "tensorflow_cpu-2.15.1-cp311-cp311-manylinux_2_28_x86_64.whl"
    report = audit([own, wheel(tmp_path, given, name=name)])
    assert [f.severity for f in report.findings if f.code == "GF216"] == found
