"""The folder of finished wheels: an older wheel is not left beside a newer one that was kept back."""

from pathlib import Path

import pytest

from gpuforge import digest
from gpuforge.actions.cell_actions import lower
from gpuforge.cli.dist import RECORD, BuiltWheel, SetAside, keep_current, kept_back
from gpuforge.execute.outcome import ActionReason, ActionResult, Outcome
from gpuforge.plan.cell import Choice, select

CELL, OTHER = "cp311-cu13.0-x86_64", "cp313-cu13.0-x86_64"


def finished(dist: Path, name: str, cell: str = CELL, content: str = "built") -> BuiltWheel:
    """A wheel that a build has put into `dist`."""
    dist.mkdir(exist_ok=True)
    path = dist / name
    path.write_text(content)
    return BuiltWheel(cell, path, digest.of_file(path), len(content), {})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.whl"))


def test_the_older_wheel_of_a_cell_is_set_aside_and_no_other(tmp_path):
    dist = tmp_path / "dist"
    old, other = finished(dist, "demo-1.0-cp311.whl"), finished(dist, "demo-1.0-cp313.whl", OTHER)
    (dist / "mine-1.0-cp311.whl").write_text("of the user")
    assert keep_current(dist, "demo", [old, other], []) == []

    moved = keep_current(dist, "demo", [], [CELL])
    assert moved == [SetAside(CELL, old.path, dist / ".set-aside" / old.path.name)]
    assert names(dist) == ["demo-1.0-cp313.whl", "mine-1.0-cp311.whl"]
    assert names(dist / ".set-aside") == ["demo-1.0-cp311.whl"]
    assert keep_current(dist, "demo", [], [CELL]) == []  # once


def test_what_the_user_changed_or_brought_is_left_alone(tmp_path):
    dist = tmp_path / "dist"
    old = finished(dist, "demo-1.0-cp311.whl")
    keep_current(dist, "demo", [old], [])
    old.path.write_text("signed by hand")
    assert keep_current(dist, "demo", [], [CELL]) == []
    assert names(dist) == ["demo-1.0-cp311.whl"]


def test_a_quick_try_takes_the_place_of_such_a_try_alone(tmp_path):
    dist = tmp_path / "dist"
    dist.mkdir()
    release, tried = finished(dist, "demo-1.0-cp311.whl"), finished(dist, "demo-1.0+try.sm90-cp311.whl")
    keep_current(dist, "demo", [release], [])
    keep_current(dist, "demo", [tried], [], "90")
    assert keep_current(dist, "demo", [], [CELL], "80") == []
    assert [moved.path for moved in keep_current(dist, "demo", [], [CELL], "90")] == [tried.path]
    assert [moved.path for moved in keep_current(dist, "demo", [], [CELL])] == [release.path]


def test_another_package_may_share_the_folder(tmp_path):
    dist = tmp_path / "dist"
    keep_current(dist, "demo", [finished(dist, "demo-1.0-cp311.whl")], [])
    assert keep_current(dist, "else", [], [CELL]) == []
    assert names(dist) == ["demo-1.0-cp311.whl"]


CHANGED = [
    "",
    "[]",
    '{"wheels": 1}',
    '{"wheels": {"../x.whl": {}, "y.whl": 1}}',
    '{"wheels": {"x.whl": {"package": [], "cell": {}}}}',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", CHANGED)
def test_a_record_that_somebody_changed_is_ignored(tmp_path, text):
    dist = tmp_path / "dist"
    finished(dist, "demo-1.0-cp311.whl")
    (dist / RECORD).write_text(text)
    assert keep_current(dist, "demo", [], [CELL]) == []
    assert names(dist) == ["demo-1.0-cp311.whl"]


@pytest.mark.parametrize(
    ("ends", "interrupted", "kept"),
    [
        ({}, False, False),
        ({"audit": "failed", "test": "not-run"}, False, True),
        ({"test": "failed"}, False, True),
        ({"test": "cancelled"}, True, False),
        ({"wheel": "failed", "audit": "not-run", "test": "not-run"}, False, False),  # there is no newer one
    ],
)
def test_which_cells_wheels_are_kept_back(recipe, machine, ends, interrupted, kept):
    chosen = select(recipe(), "x86_64", Choice(cuda=["13"], python=["3.11"]))
    plan = lower(recipe(), chosen.cells, machine)
    states = {f"{CELL}/{name}": state for name, state in ends.items()}
    results = {
        a.id: ActionResult(a.id, states.get(a.id, "done"), ActionReason("first")) for a in plan.actions
    }  # type: ignore[arg-type]
    assert kept_back(plan, Outcome(results, interrupted=interrupted)) == ([CELL] if kept else [])
