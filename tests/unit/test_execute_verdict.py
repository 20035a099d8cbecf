"""Verdicts: every reason, word for word."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from memory_store import MemoryLedger, MemoryStore

from gpuforge.cli.build_report import _SENTENCES, words
from gpuforge.execute.entry import StoreEntry
from gpuforge.execute.ledger import Ledger, LedgerEntry
from gpuforge.execute.outcome import Rests, Runs, Step
from gpuforge.execute.times import short_seconds
from gpuforge.execute.verdict import verdicts
from gpuforge.plan.action import Action, ActionInput
from gpuforge.plan.keys import Fact, labelled

WHEN = "2026-11-21T14:03:09+00:00"
OLD, NEW = "1" * 64, "2" * 64


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    return MemoryStore(tmp_path)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def step(name: str, *needs: str, key: str = "", **facts: str) -> Step:
    inputs = {need: ActionInput(need, "out") for need in needs}
    action = Action(name, "compile", name, ("true",), inputs=inputs, outputs=("out",))
    return Step(action, key or f"key-{name}", {Fact.of_label(label): value for label, value in facts.items()})


def entry(of: Step, **changes: object) -> LedgerEntry:
    made = LedgerEntry(WHEN, "p", of.action.id, of.key, labelled(of.facts), 12.3, "ok", "log")
    return replace(made, **changes)  # type: ignore[arg-type]


def keep(store: MemoryStore, *steps: Step) -> None:
    for each in steps:
        with store.scratch() as out:
            (out / "out").write_text("x")
            store.commit(each.key, out, StoreEntry(each.action.id, 12.34, WHEN, ("out",)))


def reasons(
    steps: list[Step], store: MemoryStore, *entries: LedgerEntry, targets: tuple[str, ...] = ()
) -> dict[str, str]:
    ledger = MemoryLedger()
    ledger.entries += entries
    found = verdicts(steps, store=store, ledger=ledger, project="p", targets=targets)
    assert all(verdict.run == words(verdict.reason).startswith("runs: ") for verdict in found.values())
    return {name: words(verdict.reason) for name, verdict in found.items()}


def test_a_stored_step_is_reused(store):
    keep(store, step("a"))
    assert reasons([step("a")], store) == {"a": "reused: same inputs as on 2026-11-21 14:03 (12.3 s saved)"}


def test_the_first_run_names_what_it_waits_for(store):
    steps = [step("a"), step("b", "a"), step("c", "a", "b")]
    assert reasons(steps, store) == {
        "a": "runs: never ran before",
        "b": "runs: needs a, which will run",
        "c": "runs: needs a and 1 more, which will run",
    }


def test_only_what_is_needed_runs(store):
    steps = [step("fetch"), step("build", "fetch"), step("wheel", "build"), step("audit", "wheel")]
    keep(store, steps[-1])
    assert reasons(steps, store) == {
        "fetch": "not needed: everything that needs it is stored",
        "build": "not needed: everything that needs it is stored",
        "wheel": "not needed: everything that needs it is stored",
        "audit": "reused: same inputs as on 2026-11-21 14:03 (12.3 s saved)",
    }
    assert reasons(steps, store, targets=("wheel",))["fetch"] == "runs: never ran before"


def test_a_stored_step_in_the_middle_stops_the_need(store):
    steps = [step("fetch"), step("build", "fetch"), step("wheel", "build")]
    keep(store, steps[1])
    assert reasons(steps, store) == {
        "fetch": "not needed: everything that needs it is stored",
        "build": "reused: same inputs as on 2026-11-21 14:03 (12.3 s saved)",
        "wheel": "runs: never ran before",
    }


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ({"input kernels/saxpy.cu": OLD}, {"input kernels/saxpy.cu": NEW}, "kernels/saxpy.cu changed"),
        ({"compiler": "g++ 12.2"}, {"compiler": "g++ 13.1"}, "compiler g++ 12.2 → g++ 13.1"),
        ({"archs": "80"}, {"archs": "80 90"}, "archs 80 → 80 90"),
        ({"env CFLAGS": ""}, {"env CFLAGS": "-O3"}, "env CFLAGS nothing → -O3"),
        ({"env A": "x"}, {"env B": "y"}, "env B is new; env A is gone"),
        ({"env A": "x" * 50}, {"env A": "y"}, "env A changed"),
        (
            dict.fromkeys("abcde", "1"),
            dict.fromkeys("abcde", "2"),
            "a 1 → 2; b 1 → 2; c 1 → 2; and 2 more",
        ),
        ({"a": "1"}, {"a": "1"}, "its inputs, command or environment changed"),
    ],
)
def test_changes_are_named(store, old, new, reason):
    now = step("a", **new)
    assert reasons([now], store, entry(now, key="other", facts=old)) == {"a": f"runs: {reason}"}


def test_a_change_further_up_is_reported_as_the_action_that_runs(store):
    fetch = step("fetch", key="new")
    build = step("build", "fetch", key="new2", **{"input fetch": f"{NEW}:out", "command": OLD})
    last = entry(build, key="old2", facts={"input fetch": f"{OLD}:out", "command": OLD})
    found = reasons([fetch, build], store, entry(fetch, key="old"), last)
    assert found["build"] == "runs: needs fetch, which will run"


def test_the_ledger_of_an_earlier_version_explains_a_change(store, tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text(
        '{"time":"2026-11-21T14:03:09+00:00","project":"p","id":"a","key":"old","facts":{"compiler":"g++ 12.2",'
        f'"file kernels/saxpy.cu":"{OLD}","input tests":"{OLD}","env CFLAGS":"-O2","command":"{OLD}"}},'
        '"seconds":1.5,"result":"ok","log":"/l"}\n'
    )
    facts = {
        Fact("", "compiler"): "g++ 12.2",
        Fact("file", "kernels/saxpy.cu"): NEW,
        Fact("input", "tests"): NEW,
        Fact("env", "CFLAGS"): "-O3",
        Fact("", "command"): OLD,
    }
    now = Step(step("a").action, "new", facts)
    (verdict,) = verdicts([now], store=store, ledger=Ledger(ledger), project="p").values()
    assert words(verdict.reason) == "runs: kernels/saxpy.cu changed; tests changed; env CFLAGS -O2 → -O3"


def test_the_same_key_without_output_has_its_own_reason(store):
    now = step("a")
    assert reasons([now], store, entry(now)) == {
        "a": "runs: its output of 2026-11-21 14:03 is no longer stored"
    }
    assert reasons([now], store, entry(now, result="failed")) == {"a": "runs: failed on 2026-11-21 14:03"}
    keep(store, now)
    store.damaged[now.key] = "kernel.fatbin: 3 bytes missing"
    assert reasons([now], store, entry(now)) == {
        "a": "runs: its stored output is damaged (kernel.fatbin: 3 bytes missing)"
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (12.34, "12.3 s"), (99.9, "99.9 s"), (99.96, "1 min 40 s"), (3725, "1 h 02 min")],
)
def test_running_times_read_well(seconds, text):
    assert short_seconds(seconds) == text


def test_every_kind_of_reason_has_a_sentence():
    assert _SENTENCES.keys() == {*get_args(Runs), *get_args(Rests)}
