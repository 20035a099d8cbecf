"""Kernels in wheels of their own: planned, made, held back together and audited."""

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from audit_samples import elf, wheel
from kernel_samples import fatbin, image, run_fallback
from packaging.requirements import Requirement
from plan_samples import LoadRecipe, request_of

from gpuforge.actions import entry
from gpuforge.actions.cell_actions import Plan, lower
from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines
from gpuforge.cli.dist import kept_back, proved
from gpuforge.errors import ActionError
from gpuforge.execute.outcome import ActionReason, ActionResult, Outcome
from gpuforge.manifest.load import ManifestFile
from gpuforge.package import kernels_wheel
from gpuforge.package.contents import KernelsWheel, KernelsWheelSet
from gpuforge.plan.action import Workdir
from gpuforge.plan.cell import Choice, select
from gpuforge.plan.site import Machine
from gpuforge.wheel import metadata, unpacked

SETS = [KernelsWheelSet("default-kernels", "module", "k1")]
CU13 = KernelsWheel("saxpy-kernels-cu13", "saxpy_kernels_cu13", "cuda13")
METADATA = (
    "Metadata-Version: 2.4\nName: saxpy\nVersion: 1.0\nLicense-Expression: MIT\nRequires-Python: >=3.11\n"
)


def split(recipe: LoadRecipe) -> ManifestFile:
    return recipe(add='\n[build]\ncuda = false\n[wheel]\nkernels = "own"\n')


def plan_of(file: ManifestFile, machine: Machine, **choice: Any) -> Plan:
    return lower(file, select(file, "x86_64", Choice(**choice)).cells, machine._replace(host_cuda=False))


def test_one_wheel_for_all_cuda_versions_and_one_of_kernels_for_each(recipe, machine):
    plan = plan_of(split(recipe), machine)
    made = [action.id for action in plan.actions if action.id.endswith(("/wheel", "/kernels-wheel"))]
    assert made == ["py3.11/wheel", "cu12.4/kernels-wheel", "py3.13/wheel", "cu13.0/kernels-wheel"]
    assert {cell: (end.action, plan.kernels[cell].action) for cell, end in plan.wheels.items()} == {
        "cp311-cu12.4-x86_64": ("py3.11/wheel", "cu12.4/kernels-wheel"),
        "cp313-cu12.4-x86_64": ("py3.13/wheel", "cu12.4/kernels-wheel"),
        "cp311-cu13.0-x86_64": ("py3.11/wheel", "cu13.0/kernels-wheel"),
        "cp313-cu13.0-x86_64": ("py3.13/wheel", "cu13.0/kernels-wheel"),
    }
    actions = {action.id: action for action in plan.actions}
    assert actions["py3.11/wheel"].cells == tuple(plan.wheels)  # the kernels wheels have its metadata
    assert actions["py3.13/wheel"].cells == ("cp313-cu12.4-x86_64", "cp313-cu13.0-x86_64")
    assert "toolkit" not in actions["py3.11/wheel"].inputs
    for step in ("audit", "test"):
        assert actions[f"cp311-cu13.0-x86_64/{step}"].inputs["kernels"] == plan.kernels["cp311-cu13.0-x86_64"]


def test_what_is_chosen_changes_nothing_of_the_packages_wheel(recipe, machine):
    file = split(recipe)

    def spec(**choice: Any) -> Any:
        (action,) = [a for a in plan_of(file, machine, **choice).actions if a.id == "py3.11/wheel"]
        return request_of(action)

    assert spec() == spec(cuda=["13"]) == spec(cuda=["12"], python=["3.11"])
    assert [wheel["extra"] for wheel in spec()["kernels_wheels"]] == ["cuda13", "cuda12"]


def ended(plan: Plan, *failed: str) -> Outcome:
    return Outcome(
        {
            action.id: ActionResult(
                action.id, "failed" if action.id in failed else "done", ActionReason("first")
            )
            for action in plan.actions
        }
    )


def test_a_failed_test_of_one_keeps_all_back(recipe, machine):
    plan = plan_of(split(recipe), machine)
    assert proved(plan, ended(plan)) == list(plan.wheels)
    assert kept_back(plan, ended(plan)) == []
    failed = ended(plan, "cp313-cu12.4-x86_64/test")
    assert proved(plan, failed) == []
    assert kept_back(plan, failed) == list(plan.wheels)


def declared(folder: Path, text: str = METADATA) -> Path:
    info = folder / "tree" / "saxpy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(text)
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    unpacked.write(folder / "tree", folder / "saxpy-1.0-py3-none-any.whl")
    return folder / "saxpy-1.0-py3-none-any.whl"


def make(folder: Path, packed: Path, **changes: Any) -> Path:
    spec = {
        "of": str(declared(folder)),
        "toolkit": str(folder / "toolkit"),
        "kernels_wheel": asdict(CU13),
        "kernels": [str(packed)],
        "sets": [asdict(each) for each in SETS],
        "cuda": "13.0",
        "machine": "x86_64",
        "linkage": "pip",
        "record": {"gpuforge": "0.1", "machine": "x86_64", "manifest": "5" * 64},
        **changes,
    }
    work = folder / "work"
    work.mkdir(exist_ok=True)
    entry.load("kernels_wheel.PackageKernelsWheel", json.dumps(spec)).run(Workdir(work, folder))
    (made,) = (folder / "wheel").glob("*.whl")
    return made


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "kernels").mkdir(parents=True)
    (project / "kernels" / "saxpy.cu").write_text("// saxpy\n")
    return run_fallback(project, fatbin(image(2, 80), image(1, 90, 9, 0)))


def test_a_kernels_wheel_is_data_for_every_python(packed, tmp_path):
    made = make(tmp_path / "one", packed)
    assert made.name == "saxpy_kernels_cu13-1.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
    with zipfile.ZipFile(made) as bundle:
        names = [name for name in bundle.namelist() if ".dist-info/" not in name]
        text = bundle.read("saxpy_kernels_cu13-1.0.dist-info/METADATA").decode()
    assert names == [
        "saxpy_kernels_cu13/_gpuforge/kernels/default-kernels/index.json",
        "saxpy_kernels_cu13/_gpuforge/kernels/default-kernels/saxpy.fatbin",
        "saxpy_kernels_cu13/_gpuforge/wheel.json",
    ]
    assert text == (
        "Metadata-Version: 2.4\nName: saxpy-kernels-cu13\nVersion: 1.0\nSummary: The kernels of saxpy for CUDA 13.\n"
        "License-Expression: MIT\nRequires-Python: >=3.11\nRequires-Dist: saxpy==1.0\n\n"
    )
    again = make(tmp_path / "two", packed)
    assert again.read_bytes() == made.read_bytes()
    assert [path.name for path in (tmp_path / "one" / "declared").iterdir()] == [
        "saxpy_kernels_cu13-1.0-py3-none-any.whl"
    ]


def test_the_size_limit_is_each_wheels_own(packed, tmp_path):
    with pytest.raises(ActionError, match="more than \\[wheel\\] size-limit"):
        make(tmp_path / "one", packed, size_limit=500)
    assert list((tmp_path / "one" / "out").glob("*")) == []


def host_tree(tmp_path: Path) -> Path:
    tree = tmp_path / "host"
    (tree / "saxpy" / "_gpuforge").mkdir(parents=True)
    (tree / "saxpy-1.0.dist-info").mkdir()
    (tree / "saxpy-1.0.dist-info" / "METADATA").write_text(METADATA)
    (tree / "saxpy-1.0.dist-info" / "WHEEL").write_text("Wheel-Version: 1.0\nTag: py3-none-any\n")
    return tree


def test_the_package_has_an_extra_for_each_of_exactly_its_version(tmp_path):
    tree = host_tree(tmp_path)
    wheels = [CU13, KernelsWheel("saxpy-kernels-cu12", "saxpy_kernels_cu12", "cuda12")]
    stand_in = KernelsWheelSet("ops-gpu", "library", "1-aa", stands_in_for="ops", cpu="ops-cpu")
    kernels_wheel.list_wheels(tree, "saxpy", wheels, [*SETS, stand_in])
    text = (tree / "saxpy-1.0.dist-info" / "METADATA").read_bytes()
    assert metadata.requirements(text) == [
        Requirement('saxpy-kernels-cu13==1.0; extra == "cuda13"'),
        Requirement('saxpy-kernels-cu12==1.0; extra == "cuda12"'),
    ]
    assert b"Provides-Extra: cuda12\n" in text
    listing = json.loads((tree / "saxpy" / "_gpuforge" / "wheels.json").read_text())
    assert (listing["version"], [wheel["folder"] for wheel in listing["wheels"]]) == (
        "1.0", ["saxpy_kernels_cu13", "saxpy_kernels_cu12"]
    )  # fmt: skip
    assert [list(each.items()) for each in listing["sets"]] == [
        [("abi", "k1"), ("kind", "module"), ("name", "default-kernels")],
        [
            *(("abi", "1-aa"), ("cpu", "ops-cpu"), ("kind", "library"), ("name", "ops-gpu")),
            ("stands-in-for", "ops"),
        ],
    ]


def test_the_packages_wheel_must_need_no_cuda():
    kernels_wheel.refuse_libraries([])
    with pytest.raises(
        ActionError, match=r"needs CUDA libraries of nvidia-cufft, .* it is for all CUDA versions"
    ):
        kernels_wheel.refuse_libraries(["nvidia-cufft"])


@contextmanager
def both(tmp_path: Path, packed: Path, **changes: Any) -> Iterator[list[Path]]:
    tree = host_tree(tmp_path)
    kernels_wheel.list_wheels(tree, "saxpy", [CU13], SETS)
    unpacked.write(tree, tmp_path / "saxpy-1.0-py3-none-any.whl")
    yield [tmp_path / "saxpy-1.0-py3-none-any.whl", make(tmp_path / "kernels", packed, **changes)]


def found(paths: list[Path]) -> list[tuple[str, ...]]:
    return [lines(finding) for finding in audit(paths).findings if finding.code == "GF711"]


def test_the_audit_holds_a_kernels_wheel_against_its_package(packed, tmp_path):
    with both(tmp_path, packed) as wheels:
        assert found(wheels) == []
        assert found(wheels[1:]) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"sets": [asdict(replace(SETS[0], abi="k2"))]},
            "default-kernels has the interface k2, and saxpy-1.0-py3-none-any.whl was built for k1",
        ),
        ({"sets": []}, "it lacks the kernel set default-kernels, which saxpy-1.0-py3-none-any.whl needs"),
    ],
)
def test_the_audit_finds_what_the_runtime_would_refuse(changes, reason, packed, tmp_path):
    with both(tmp_path, packed, **changes) as wheels:
        assert found(wheels) == [(reason,)]


def test_the_audit_says_what_two_kernels_wheels_bring_together(tmp_path):
    cudart = {
        13: ("libcudart.so.13", "nvidia-cuda-runtime", "nvidia/cu13/lib"),
        12: ("libcudart.so.12", "nvidia-cuda-runtime-cu12", "nvidia/cuda_runtime/lib"),
    }
    wheels = []
    for cuda, (soname, package, folder) in cudart.items():
        library = elf(needed=[soname], soname="libops.so", runpath=f"$ORIGIN/../../../../{folder}")
        name = f"demo_kernels_cu{cuda}-1.0-py3-none-manylinux_2_17_x86_64.whl"
        path = f"demo_kernels_cu{cuda}/_gpuforge/kernels/ops/libops.so"
        wheels.append(wheel(tmp_path, {path: library}, requires=[package], name=name))
    assert [finding.code for finding in audit(wheels[:1]).findings if finding.severity != "info"] == []
    (finding,) = (finding for finding in audit(wheels).findings if finding.severity != "info")
    assert (finding.code, finding.severity) == ("GF104", "warning")
    file = "demo_kernels_cu{0}/_gpuforge/kernels/ops/libops.so of demo-kernels-cu{0} 1.0"
    assert lines(finding) == tuple(
        f"CUDA {cuda}: libcudart.so.{cuda}, loaded by {file.format(cuda)}" for cuda in (12, 13)
    )
