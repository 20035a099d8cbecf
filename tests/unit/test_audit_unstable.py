"""GF216: functions of torch that change with each release, in wheels for several of its releases."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import elf, wheel

from gpuforge.audit import audit
from gpuforge.audit.findings import Finding
from gpuforge.audit.read.input import Beside, Input
from gpuforge.audit.report.sentences import lines
from gpuforge.binary.mangled import readable
from gpuforge.expectation import Expectation

ATEN = ["_ZN2at4_ops10empty_like4callERKNS_6TensorE", "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"]
STABLE = [
    "aoti_torch_get_numel",
    "torch_library_impl",
    "_ZN9torchtext5splitEv",
    "_ZNSt6vectorIN3c106DeviceEE4pushEv",
]


def findings_of(
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
def test_a_requirement_of_several_releases_is_a_warning(tmp_path: Path, requirement: str) -> None:
    (finding,) = findings_of(tmp_path, ATEN, [requirement])
    assert finding.severity == "warning"
    assert "the requirement torch" in finding.message
    assert "and 1 more" not in finding.message


@pytest.mark.parametrize(
    "requirement", ["torch==2.11.*", "torch==2.15.0", "torch>=2.11,<2.12", "torch~=2.11.0", "numpy>=2"]
)
def test_one_release_is_none(tmp_path: Path, requirement: str) -> None:
    assert findings_of(tmp_path, ATEN, [requirement]) == []


@pytest.mark.parametrize(
    ("requires", "allows"),
    [
        (["torch>=1.5.0", "torch>=2.14,<2.15"], ""),
        (["torch>=2.14,<2.15", 'torch>=1.5; extra == "all"'], ""),
        (["torch>=1.5.0", "torch>=2.14"], "torch>=1.5.0,>=2.14"),
        (["torch>=1.5.0", 'torch>=2.14,<2.15; extra == "all"'], "torch>=1.5.0"),
        (["torch>=1.5.0", 'torch<2.15; sys_platform == "win32"'], "torch>=1.5.0"),
    ],
)
def test_requirements_on_one_project_are_judged_together(
    tmp_path: Path, requires: list[str], allows: str
) -> None:
    found = findings_of(tmp_path, ATEN, requires)
    assert [f"the requirement {allows} allows" in f.message for f in found] == ([True] if allows else [])


def test_the_stable_interface_is_none(tmp_path: Path) -> None:
    assert findings_of(tmp_path, STABLE, ["torch>=2.10"]) == []
    assert findings_of(tmp_path, STABLE, ["torch>=2.10"], spans=("torch",)) == []


def test_a_manifest_that_promises_several_releases_makes_it_an_error(tmp_path: Path) -> None:
    for requirement in ("torch==2.11.*", "torch>=2.10"):
        (finding,) = findings_of(tmp_path, ATEN, [requirement], spans=("torch",))
        assert finding.severity == "error"
        assert 'spans = ["torch"] of the manifest promises several' in finding.message


def test_torch_itself_is_not_searched(tmp_path: Path) -> None:
    name = "torch-2.15.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    assert findings_of(tmp_path, ATEN, ["torch>=2.10"], name=name) == []


def test_the_proof_is_there_only_where_nothing_contradicts_it(tmp_path: Path) -> None:
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
def test_the_functions_of_the_torch_at_hand_decide(
    tmp_path: Path, objects: dict[str, list[str]], defined: list[str], missing: tuple[str, ...]
) -> None:
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
def test_a_symbol_has_a_readable_name(symbol: str, name: str) -> None:
    assert readable(symbol) == name
