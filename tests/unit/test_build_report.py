"""The plan that `gpuforge build --dry-run` shows names the toolkits' providers and the host compilers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpuforge.cli.build_report import plan_data, show_plan
from gpuforge.execute.memory import MemoryLedger, MemoryStore
from gpuforge.execute.model import Step
from gpuforge.execute.verdict import verdicts
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.cell import select
from gpuforge.plan.keys import keys
from gpuforge.plan.lower import lower
from gpuforge.plan.site import Machine
from gpuforge.toolkits.select import select as select_toolkit


def test_the_plan_says_where_each_toolkit_comes_from(
    recipe: Callable[..., ManifestFile], machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    debian = select_toolkit("12.4", provider="debian", libraries=["cufft"], machine="x86_64")
    (here,) = machine.locations
    machine = Machine((replace(here, toolkits=dict(here.toolkits) | {"12": debian}),))
    chosen = select(recipe(), "x86_64", python=["3.11"])
    plan = lower(recipe(), chosen.cells, machine)
    found = keys(plan.actions)
    steps = [Step(action, found[action.id].digest, found[action.id].facts) for action in plan.actions]
    wanted = {end.action for end in plan.wheels.values()}
    judged = verdicts(
        steps, store=MemoryStore(tmp_path / "store"), ledger=MemoryLedger(), project="p", wanted=wanted
    )

    show_plan(plan, chosen, judged, explain=False, as_json=False)
    said = capsys.readouterr().out.splitlines()
    assert said[1:3] == [
        "  cp311-cu12.4-x86_64: Python 3.11, CUDA 12.4 by debian (nvcc 12.4.131), g++ 12.2.0",
        f"  cp311-cu13.0-x86_64: Python 3.11, CUDA 13.0 by pypi (nvcc {here.toolkits['13'].nvcc}), g++ 12.2.0",
    ]
    said = {name: (verdict.run, verdict.reason) for name, verdict in judged.items()}
    (twelve, thirteen) = plan_data(plan, chosen, said)["cells"]
    assert (twelve["provider"], twelve["nvcc"], twelve["host"]) == ("debian", "12.4.131", "g++ 12.2.0")
    assert thirteen["provider"] == "pypi"
