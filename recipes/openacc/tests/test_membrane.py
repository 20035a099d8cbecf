"""What holds with every library of mechanisms."""

from __future__ import annotations

import membrane
import pytest


def test_the_shipped_mechanisms_are_there() -> None:
    assert {"hh", "leak"} <= set(membrane.mechanisms())


def test_a_cell_at_rest_stays_there() -> None:
    run = membrane.simulate(cells=2, milliseconds=100)
    assert run.voltages[0] == pytest.approx(-65.0, abs=0.1)
    assert all(cell == 1 for _, cell in run.spikes)


def test_a_stronger_stimulus_gives_more_spikes() -> None:
    spikes = [cell for _, cell in membrane.simulate(cells=5, milliseconds=200).spikes]
    counts = [spikes.count(cell) for cell in range(5)]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] >= 15


def test_no_cells_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"^there must be one cell at least"):
        membrane.simulate(cells=0, milliseconds=1)
