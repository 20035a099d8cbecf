"""When actions run is decided in the plan: pools, priorities, and who shares a working directory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuforge.actions.cell_actions import scheduled
from gpuforge.plan.action import Action, ActionInput


def action(name: str, *needs: str, **more: Any) -> Action:
    inputs = {need: ActionInput(need, "out") for need in needs}
    return Action(name, more.pop("kind", "build"), name, ("true",), inputs=inputs, outputs=("out",), **more)


def test_the_download_that_the_longest_chain_waits_for_has_the_highest_priority() -> None:
    plan = scheduled(
        [
            action("for tests", kind="fetch"),
            action("for builds", kind="fetch"),
            action("build", "for builds"),
            action("test", "build", "for tests"),
        ]
    )
    assert [(each.pool, each.priority) for each in plan] == [
        ("downloads", 1),
        ("downloads", 2),
        ("jobs", 0),
        ("jobs", 0),
    ]


def test_packaging_goes_before_what_takes_long() -> None:
    plan = scheduled([action("build"), action("wheel", "build", kind="package"), action("test", "wheel")])
    assert [each.priority for each in plan] == [0, 1, 0]


def test_siblings_share_a_directory_on_this_machine_and_a_cache_in_containers() -> None:
    here = action("build", place="host-build")
    plan = scheduled([here, replace(here, id="contained", image="sha256:0"), action("other")])
    assert [each.turns for each in plan] == ["one at a time", "first alone", "together"]
