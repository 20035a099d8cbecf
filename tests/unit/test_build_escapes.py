"""`gpuforge build` on a terminal: names and values of a hostile project or wheel do not steer it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hostile.names import STEERING
from memory_store import MemoryLedger, MemoryStore
from test_build_report import INSTALL, RAN, changed

from gpuforge.cli.build_report import show_plan, show_result
from gpuforge.cli.dist import BuiltWheel, Result, SetAside
from gpuforge.diagnostics import Diagnostic, shown
from gpuforge.execute.ledger import LedgerEntry
from gpuforge.execute.outcome import ActionReason, ActionResult, Outcome, Step
from gpuforge.execute.verdict import verdicts
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan import cell as cells
from gpuforge.plan.cell import Choice, LeftOut, Selection, select
from gpuforge.plan.keys import keys, labelled
from gpuforge.plan.lower.cell_actions import Plan, lower
from gpuforge.plan.site import Machine
from gpuforge.plan.trial_result import TrialResult
from gpuforge.requirements import Release

# As names of files, which have no such characters.
ODD = {kind: re.sub("[/\0\ud800]", "_", text)[:40] for kind, text in STEERING.items()}


def planned(recipe: Callable[..., ManifestFile], machine: Machine, odd: str) -> tuple[Plan, Selection]:
    """Return a plan whose kernels have a source of that name; what a manifest may not have is put in by hand."""
    file = recipe(header=f"kernels/{odd}.cu")
    chosen = select(file, "x86_64", Choice(python=["3.11"], cuda=["13"]))
    plan = lower(file, chosen.cells, machine)
    assert any(odd in action.title for action in plan.actions)
    left_out = LeftOut(replace(plan.cells[0], id=odd), cells.LeftOutReason("missing", {"problems": (odd,)}))
    plan = replace(plan, cells=[replace(each, axes=((odd, odd),)) for each in plan.cells])
    return plan, replace(chosen, left_out=(left_out,))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ODD)
def test_the_plan_and_its_reasons_are_escaped(
    recipe: Callable[..., ManifestFile],
    machine: Machine,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    kind: str,
) -> None:
    odd = ODD[kind]
    plan, chosen = planned(recipe, machine, odd)
    found = keys(plan.actions)
    steps = [Step(action, found[action.id].digest, found[action.id].facts) for action in plan.actions]
    ledger = MemoryLedger()
    for step in steps:
        facts = labelled(step.facts) | {f"file {odd}": "1", f"env {odd}": odd, odd: odd}
        ledger.append(
            LedgerEntry("2026-11-21T14:03:09+00:00", "p", step.action.id, "old", facts, 1.0, "ok", "l")
        )
    judged = verdicts(steps, store=MemoryStore(tmp_path / "store"), ledger=ledger, project="p")

    show_plan(plan, chosen, judged, explain=True, as_json=False)
    out = capsys.readouterr().out
    assert shown(f" {odd} is gone; env {odd} is gone") in out
    assert shown(f", {odd} {odd}, g++") in out
    assert shown(f"left out: {odd}: {odd}") in out
    assert [line for line in out.split("\n") if shown(line) != line] == []


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ODD)
def test_the_result_is_escaped(
    recipe: Callable[..., ManifestFile], machine: Machine, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    odd = ODD[kind]
    plan, chosen = planned(recipe, machine, odd)
    damaged = ActionReason("output-damaged", problem=odd)
    results = {each.id: ActionResult(each.id, "done", damaged) for each in plan.actions}
    finding = {"severity": "warning", "code": odd, "message": odd}
    text = odd.encode(errors="replace").decode()  # JSON has no halves of characters
    install = changed(INSTALL, packages=(Release(text, text),))
    test = TrialResult(installs=(install,), ran=changed(RAN, command_line=text, summary=text, outcome=text))
    wheel = BuiltWheel(
        plan.cells[0].id, Path("dist", odd), "0" * 64, 1000, {"findings": [finding], "proved": [odd]}, (test,)
    )
    aside = SetAside(plan.cells[0].id, Path(odd), Path(odd))

    show_result(Result(plan, chosen, Outcome(results), [wheel], 3.0, [aside]), images=(), explain=True)
    failed = plan.wheels[plan.cells[0].id].action
    results[failed] = ActionResult(failed, "failed", damaged, error=Diagnostic(odd))
    show_result(Result(plan, chosen, Outcome(results), [], 3.0, [aside]), images=(), explain=True)
    out, err = capsys.readouterr()
    assert shown(f"dist/{odd}") in out
    assert shown(f"warning {odd}: {odd}") in out
    assert shown(f"its stored output is damaged ({odd})") in out
    assert f"the older {shown(odd)} is now in ./" in err
    assert [line for line in (out + err).split("\n") if shown(line) != line] == []
