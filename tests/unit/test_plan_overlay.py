"""Sdists in `[build] overlay`: fetched by their sha256, laid beside the folders, part of the host build's key."""

from __future__ import annotations

from pathlib import Path

from plan_samples import LoadRecipe

from gpuforge.actions.cell_actions import Plan, lower
from gpuforge.plan.action import ActionInput
from gpuforge.plan.cell import select
from gpuforge.plan.keys import keys
from gpuforge.plan.site import Machine

ONE, OTHER = "f" * 64, "e" * 64


def plan_of(recipe: LoadRecipe, machine: Machine, sha256: str) -> Plan:
    sdist = f'{{ pypi = "Ducc_0==0.39.1", sha256 = "{sha256}" }}'
    recipe()  # makes the folder
    file = recipe(add=f"\n[build]\noverlay = [{sdist}]\n")
    return lower(file, select(file, "x86_64").cells, machine)


def test_an_sdist_is_fetched_once_for_all_cells(recipe: LoadRecipe, machine: Machine) -> None:
    plan = plan_of(recipe, machine, ONE)
    fetched = [action for action in plan.actions if action.id.startswith("overlay/")]
    assert [(action.id, action.title, action.network) for action in fetched] == [
        ("overlay/ducc-0", "fetch Ducc_0==0.39.1", True)
    ]
    builds = [action for action in plan.actions if action.kind == "build"]
    assert {str(build.inputs["sdist-ducc-0"]) for build in builds} == {
        str(ActionInput("overlay/ducc-0", "source"))
    }


def test_another_sha256_is_another_build(recipe: LoadRecipe, machine: Machine, tmp_path: Path) -> None:
    first, second = (keys(plan_of(recipe, machine, sha256).actions) for sha256 in (ONE, OTHER))
    changed = {name for name in first if first[name].digest != second[name].digest}
    assert {"overlay/ducc-0", "cp311-cu13.0-x86_64/host-build"} <= changed
    assert not [name for name in changed if "kernels" in name]
