"""What holds with every library of mechanisms; CoreNEURON runs in processes of its own, as it is chosen once."""

from __future__ import annotations

import subprocess
import sys


def spikes(solver: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ringnet", solver], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1].partition(": ")[2]


def test_coreneuron_gives_neurons_spikes() -> None:
    assert spikes("core") == spikes("neuron")
