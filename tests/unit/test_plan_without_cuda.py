"""Packages without CUDA: one wheel per Python, and no toolkit is looked for, fetched or recorded."""

import sys
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from plan_samples import request_of

from gpuforge.actions.audit import is_for
from gpuforge.actions.cell_actions import lower
from gpuforge.errors import ActionError, UsageError
from gpuforge.manifest.load import ManifestFile, load
from gpuforge.package import links
from gpuforge.plan import survey
from gpuforge.plan.cell import Choice, matrix, narrow, select
from gpuforge.plan.expectation import expectation
from gpuforge.plan.site import Machine

RECIPE = Path(__file__).parents[2] / "recipes" / "cython-opencl"


@pytest.fixture
def file() -> ManifestFile:
    return load(RECIPE)


def test_a_manifest_without_objects_says_that_it_has_no_cuda(tmp_path):
    path = tmp_path / "gpuforge.toml"
    path.write_text('schema = 1\n[package]\nname = "waves"\npython = ["3.12"]\n')
    with pytest.raises(UsageError, match=r"the manifest has no table \[cuda\]"):
        load(tmp_path)
    path.write_text(path.read_text() + "[build]\ncuda = false\n")
    assert [cell.id for cell in matrix(load(tmp_path).manifest, "x86_64")] == ["cp312-x86_64"]


def of(machine: Machine) -> Machine:
    """A machine on which no toolkit was looked for."""
    (at,) = machine.locations
    return Machine(
        (at._replace(hosts={"": at.hosts["13"]}, toolkits={}, usual=at.hosts["13"]),), host_cuda=False
    )


def test_the_cells_have_no_toolkit(file):
    cells = matrix(file.manifest, "x86_64")
    assert [cell.id for cell in cells] == [f"cp3{minor}-x86_64" for minor in (11, 12, 13, 14)]
    assert {(cell.cuda, cell.toolkit, cell.naming) for cell in cells} == {("", "", "plain")}


def test_no_action_is_about_cuda(file, machine):
    plan = lower(file, select(file, "x86_64", Choice(python=["3.11"])).cells, of(machine))
    actions = {action.id: action for action in plan.actions}
    assert "kernels/anomaly" in actions
    assert not [name for name in actions if "cu1" in name or "toolkit" in name or "provided" in name]
    assert not [name for name, action in actions.items() if "toolkit" in action.inputs]
    wheel: dict[str, Any] = request_of(actions["cp311-x86_64/wheel"])
    assert (wheel["cuda"], wheel["naming"], wheel["extras"]) == (
        "",
        "plain",
        {"opencl": ["pyopencl>=2022.1"]},
    )
    assert {*wheel["record"]} == {"cell", "gpuforge", "machine", "manifest", "naming", "toolchains"}
    assert {*wheel["record"]["toolchains"]} == {"host"}


def test_no_toolkit_is_looked_for(file, monkeypatch):
    monkeypatch.setattr(survey, "select_toolkit", None)
    selection = select(file, "x86_64", Choice(python=[f"3.{sys.version_info.minor}"]))
    found, _ = survey.resolve(file, selection)
    assert list(found.locations[0].toolkits) == []
    assert list(found.locations[0].hosts) == [""]


def test_gpu_code_in_its_wheels_is_a_finding(file):
    expected = expectation(file)
    assert (expected.no_code, expected.exact, expected.cubins, expected.ptx) == (True, True, (), ())


def test_options_for_cuda_are_refused(file):
    with pytest.raises(UsageError, match="--cuda 13: the manifest has no such toolkit") as error:
        select(file, "x86_64", Choice(cuda=["13"]))
    assert error.value.diagnostics[0].hint == "it has no [cuda]"
    with pytest.raises(UsageError, match=r"--archs 90: the manifest has no \[cuda\]"):
        narrow(file, ["90"])


def test_a_library_that_needs_cuda_is_refused():
    """The nearest thing: the host build found a CUDA of its own."""
    found = links.of_toolkit("libcudart.so.13")
    assert found
    with pytest.raises(
        ActionError, match=r"needs libcudart.so.13, which is of CUDA 13, and the wheel is for no CUDA"
    ):
        links.provider(PurePosixPath("ellipse/_native.so"), "libcudart.so.13", found, "", {})


def test_what_it_must_live_beside_may_be_for_any_cuda():
    assert is_for("jax[cuda12]", None)
    assert not is_for("jax[cuda12]", 13)
