"""What `gpuforge build` shows: toolkits, tests, wheels that are kept back; hostile names do not steer a terminal."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from hostile.names import STEERING
from memory_store import MemoryLedger, MemoryStore

from gpuforge.actions.cell_actions import Plan, lower
from gpuforge.actions.trial_result import CommandResult, Cuda, Install, LoadedCuda, TrialResult
from gpuforge.cli.build_report import (
    gaps_of_test,
    plan_data,
    result_data,
    show_plan,
    show_result,
    trial_data,
    words_of_test,
)
from gpuforge.cli.dist import BuiltWheel, Result, SetAside
from gpuforge.diagnostics import Diagnostic, shown
from gpuforge.errors import ActionError
from gpuforge.execute.ledger import LedgerEntry
from gpuforge.execute.outcome import ActionReason, ActionResult, Outcome, State, Step
from gpuforge.execute.verdict import verdicts
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan import cell as cells
from gpuforge.plan.cell import Choice, LeftOut, Selection, select
from gpuforge.plan.keys import keys, labelled
from gpuforge.plan.site import Machine
from gpuforge.requirements import Release
from gpuforge.toolkits.select import select as select_toolkit

Part = TypeVar("Part", Install, CommandResult, TrialResult)


def test_the_plan_shows_where_each_toolkit_comes_from(recipe, machine, capsys, tmp_path):
    debian = select_toolkit("12.4", provider="debian", libraries=["cufft"], machine="x86_64")
    (here,) = machine.locations
    machine = Machine((here._replace(toolkits=dict(here.toolkits) | {"12": debian}),))
    chosen = select(recipe(), "x86_64", Choice(python=["3.11"]))
    plan = lower(recipe(), chosen.cells, machine)
    found = keys(plan.actions)
    steps = [Step(action, found[action.id].digest, found[action.id].facts) for action in plan.actions]
    targets = {end.action for end in plan.wheels.values()}
    judged = verdicts(
        steps, store=MemoryStore(tmp_path / "store"), ledger=MemoryLedger(), project="p", targets=targets
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


INSTALL = Install(
    extras=(),
    wheel="demo_cu13-1.0-cp311-cp311-manylinux_2_28_x86_64.whl",
    python="3.11.2",
    packages=(Release("demo_cu13", "1.0"), Release("numpy", "2.4.0"), Release("nvidia_cufft", "12.5.0")),
    imported="demo",
    import_seconds=0.123,
)
RAN = CommandResult(
    command=("pytest", "-q", "{project}/tests"),
    command_line="pytest -q {project}/tests",
    seconds=1.5,
    summary="12 passed, 1 skipped in 1.21s",
    outcome="12 passed, 1 skipped",
    counts={"passed": 12, "skipped": 1},
)
TEST = TrialResult(installs=(INSTALL,), ran=RAN)
INSTALL_DATA = {
    "extras": [],
    "wheel": "demo_cu13-1.0-cp311-cp311-manylinux_2_28_x86_64.whl",
    "python": "3.11.2",
    "packages": ["demo_cu13 1.0", "numpy 2.4.0", "nvidia_cufft 12.5.0"],
    "import": "demo",
    "import_seconds": 0.123,
}
RAN_DATA = {
    "command": ["pytest", "-q", "{project}/tests"],
    "command_line": "pytest -q {project}/tests",
    "seconds": 1.5,
    "summary": "12 passed, 1 skipped in 1.21s",
    "counts": {"passed": 12, "skipped": 1},
}
SAID = (
    "test: installed on Python 3.11.2 with 2 packages that it declares, `import demo` works without a GPU (0.1 s)",
    "test: pytest -q {project}/tests: 12 passed, 1 skipped (1.5 s)",
)


def changed(part: Part, **fields: object) -> Part:
    """Return a part of a result with other fields."""
    return type(part)(**{**dict(part), **fields})


def test_what_was_tested_is_shown():
    assert tuple(words_of_test(TEST)) == SAID
    assert not any("without a GPU" in text for text in words_of_test(TEST, gpu=True))
    alone = changed(INSTALL, packages=(Release("demo", "1.0"),))
    assert list(words_of_test(TrialResult(installs=(alone,)))) == [
        "test: installed on Python 3.11.2, `import demo` works without a GPU (0.1 s)"
    ]
    other = changed(RAN, command_line="python run.py", summary="", outcome="", counts={})
    assert list(words_of_test(changed(TEST, ran=other)))[1] == "test: python run.py: passed (1.5 s)"


def test_each_way_of_installing_a_wheel_is_shown():
    loaded = LoadedCuda(library="libcufft.so.12", place="environment", path="x")
    last = changed(INSTALL, extras=("cuda13",), cuda=Cuda(machine="hidden", loaded=(loaded,)))
    bare = changed(INSTALL, packages=INSTALL.packages[:2], lacks="libcufft.so.12")
    test = changed(TEST, installs=(bare, last))
    assert list(words_of_test(test)) == [
        "test: installed [cuda13] on Python 3.11.2 with numpy 2.4.0, nvidia_cufft 12.5.0, "
        "`import demo` works without a GPU (0.1 s)",
        "test: CUDA libraries loaded: libcufft.so.12 from the environment; this machine's CUDA was hidden",
        SAID[1],
    ]
    assert list(gaps_of_test(test)) == [
        "test: installed bare with numpy 2.4.0, `import demo` lacks libcufft.so.12: it works with [cuda13], "
        "or where the machine has CUDA"
    ]
    test = changed(TEST, installs=(changed(bare, lacks=""), last))
    assert next(words_of_test(test)) == (
        "test: installed bare on Python 3.11.2 with numpy 2.4.0, `import demo` works without a GPU (0.1 s)"
    )
    assert list(gaps_of_test(test)) == []


def test_the_data_of_a_test_has_the_way_of_installing_that_its_command_ran_with():
    assert trial_data(TEST) == INSTALL_DATA | RAN_DATA | {"installs": [INSTALL_DATA]}
    loaded = LoadedCuda(library="libcufft.so.12", place="environment", path="x")
    last = changed(INSTALL, extras=("cuda13",), cuda=Cuda(machine="hidden", loaded=(loaded,)))
    bare = changed(INSTALL, packages=(), import_seconds=None, lacks="libcufft.so.12")
    test = TrialResult(installs=(bare, last), imports=("demo.more",), tested_with=(Release("demo", "1.0"),))
    assert trial_data(test) == INSTALL_DATA | {
        "extras": ["cuda13"],
        "cuda": {
            "machine": "hidden",
            "loaded": [{"library": "libcufft.so.12", "from": "environment", "path": "x"}],
        },
        "installs": [
            {
                **{key: INSTALL_DATA[key] for key in ("extras", "wheel", "python", "import")},
                "packages": [],
                "lacks": "libcufft.so.12",
            },
            {
                **INSTALL_DATA,
                "extras": ["cuda13"],
                "cuda": {
                    "machine": "hidden",
                    "loaded": [{"library": "libcufft.so.12", "from": "environment", "path": "x"}],
                },
            },
        ],
        "imports": ["demo.more"],
        "tested_with": ["demo 1.0"],
    }


def test_a_wheel_whose_test_fails_is_kept_back_and_the_others_are_not(recipe, machine, capsys):
    chosen = select(recipe(), "x86_64")
    plan = lower(recipe(), chosen.cells, machine)
    good, audited, failed, unknown = (cell.id for cell in chosen.cells)
    ends: dict[str, State] = {
        f"{audited}/audit": "failed",
        f"{failed}/test": "failed",
        f"{unknown}/test-requirements": "failed",
        f"{unknown}/test": "not-run",
    }
    results = {a.id: ActionResult(a.id, ends.get(a.id, "done"), ActionReason("first")) for a in plan.actions}
    wheel = BuiltWheel(good, Path("dist/demo.whl"), "0" * 64, 1000, {"findings": [], "proved": []}, (TEST,))
    result = Result(plan, chosen, Outcome(results), [wheel], 3.0)

    show_result(result, images=(), explain=False)
    said = capsys.readouterr()
    assert [line[4:] for line in said.out.splitlines() if "test: " in line] == list(SAID)
    with_gpu = lower(recipe(), chosen.cells, machine, gpu=True)
    show_result(result._replace(plan=with_gpu), images=(), explain=False)
    assert "without a GPU" not in capsys.readouterr().out
    assert "1 of 4 wheels" in said.out
    assert said.err.splitlines() == [
        f"kept back, as its audit did not pass: {audited}",
        f"kept back, as its test did not pass: {failed}, {unknown}",
    ]
    first, *others = result_data(result)["tests"]
    assert first == {"cell": good, "state": "passed", **trial_data(TEST)}
    assert [(test["cell"], test["state"]) for test in others] == [
        (audited, "passed"),
        (failed, "failed"),
        (unknown, "not-run"),
    ]


# As names of files, which have no such characters.
ODD = {kind: re.sub("[/\0\ud800]", "_", text)[:40] for kind, text in STEERING.items()}


def planned(recipe: Callable[..., ManifestFile], machine: Machine, odd: str) -> tuple[Plan, Selection]:
    """Return a plan whose kernels have a source of that name; what a manifest may not have is put in by hand."""
    file = recipe(header=f"kernels/{odd}.cu")
    chosen = select(file, "x86_64", Choice(python=["3.11"], cuda=["13"]))
    plan = lower(file, chosen.cells, machine)
    assert any(odd in action.title for action in plan.actions)
    left_out = LeftOut(plan.cells[0]._replace(id=odd), cells.LeftOutReason("missing", {"problems": (odd,)}))
    plan = replace(plan, cells=[each._replace(axes=((odd, odd),)) for each in plan.cells])
    return plan, chosen._replace(left_out=(left_out,))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ODD)
def test_the_plan_and_its_reasons_are_escaped(recipe, machine, capsys, tmp_path, kind):
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
def test_the_result_is_escaped(recipe, machine, capsys, kind):
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
    show_result(Result(plan, chosen, Outcome(results), [], 3.0, [aside]), images=(), explain=False)
    out, err = capsys.readouterr()
    assert shown(f"dist/{odd}") in out
    assert shown(f"warning {odd}: {odd}") in out
    assert shown(f"its stored output is damaged ({odd})") in out
    assert shown(f"its stored output is damaged ({odd}); it was set aside") in err
    assert f"the older {shown(odd)} is now in ./" in err
    assert [line for line in (out + err).split("\n") if shown(line) != line] == []


DATA = json.loads(TEST.model_dump_json())


def test_a_result_is_read_as_it_was_written(tmp_path):
    file = tmp_path / "result.json"
    TEST.write(file)
    assert TrialResult.read(file) == TEST


@pytest.mark.parametrize(
    ("part", "change", "why"),
    [
        ("installs", {"packages": None}, "installs.0.packages: Input should be a valid array"),
        ("installs", {"packages": ["demo 1.0"]}, "installs.0.packages.0: "),
        ("installs", {"packages": [["demo", 1]]}, "installs.0.packages.0.1: Input should be a valid string"),
        ("installs", {"import_seconds": "fast"}, "installs.0.import_seconds: Input should be a valid number"),
        ("installs", {"import_seconds": float("nan")}, "installs.0.import_seconds: Input should be "),
        ("ran", {"counts": {"passed": {}}}, "ran.counts.passed: Input should be a valid integer"),
        ("", {"installs": [{"extras": [], "wheel": "x"}]}, "installs.0.python: Field required"),
        ("", {"installs": []}, "installs: Tuple should have at least 1 item after validation, not 0"),
        ("installs", {"cuda": {"machine": "mine", "loaded": []}},
         "installs.0.cuda.machine: Input should be 'none', 'hidden' or 'visible'"),
        ("", {"more": 1}, "more: Extra inputs are not permitted"),
        ("ran", {"summary": "\ud800"}, "JSON: Invalid JSON: "),
    ],
)  # fmt: skip
def test_values_of_other_types_are_one_message(tmp_path, part, change, why):
    file = tmp_path / "result.json"
    changed = {
        "": {**DATA, **change},
        "installs": {**DATA, "installs": [{**DATA["installs"][0], **change}]},
        "ran": {**DATA, "ran": {**DATA["ran"], **change}},
    }
    file.write_text(json.dumps(changed[part]))
    with pytest.raises(ActionError) as caught:
        TrialResult.read(file)
    (found,) = caught.value.diagnostics
    assert found.message.startswith(f"the result of a wheel's test cannot be used: {why}")


def _deep(file: Path) -> None:
    file.write_text("[" * 100_000)


def _large(file: Path) -> None:
    file.write_text(json.dumps({**DATA, "imports": ["x" * 5_000_000]}))


@pytest.mark.parametrize(
    "write",
    [os.mkfifo, Path.mkdir, lambda f: f.symlink_to("/dev/zero"), _deep, _large, lambda f: f.write_text("[]")],
)
def test_what_is_no_result_is_one_message(tmp_path, write):
    write(tmp_path / "result.json")
    with pytest.raises(ActionError, match="the result of a wheel's test cannot be used: "):
        TrialResult.read(tmp_path / "result.json")
