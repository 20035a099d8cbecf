"""Sdists in `[build] overlay`: fetched by their sha256, laid beside the folders, part of the host build's key."""

from __future__ import annotations

from pathlib import Path

from plan_samples import LoadRecipe, changed, plan_of

from gpuforge.actions.cell_actions import Plan
from gpuforge.plan.action import ActionInput
from gpuforge.plan.site import Machine

ONE, OTHER = "f" * 64, "e" * 64


def with_sdist(recipe: LoadRecipe, machine: Machine, sha256: str) -> Plan:
    sdist = f'{{ pypi = "Ducc_0==0.39.1", sha256 = "{sha256}" }}'
    recipe()  # makes the folder
    return plan_of(recipe(add=f"\n[build]\noverlay = [{sdist}]\n"), machine)


def test_an_sdist_is_fetched_once_for_all_cells(recipe: LoadRecipe, machine: Machine) -> None:
    plan = with_sdist(recipe, machine, ONE)
    fetched = [action for action in plan.actions if action.id.startswith("overlay/")]
    assert [(action.id, action.title, action.network) for action in fetched] == [
        ("overlay/ducc-0", "fetch Ducc_0==0.39.1", True)
    ]
    builds = [action for action in plan.actions if action.kind == "build"]
    assert {str(build.inputs["sdist-ducc-0"]) for build in builds} == {
        str(ActionInput("overlay/ducc-0", "source"))
    }


def test_another_sha256_is_another_build(recipe: LoadRecipe, machine: Machine, tmp_path: Path) -> None:
    touched = changed(*(with_sdist(recipe, machine, sha256) for sha256 in (ONE, OTHER)))
    assert {"overlay/ducc-0", "cp311-cu13.0-x86_64/host-build"} <= touched
    assert not [name for name in touched if "kernels" in name]
