"""Measure what the runtime in users' wheels costs, beside cuda.core and CuPy, on a machine with a GPU.

    python bench/launch.py [--json FILE] [--processes N]

It needs the wheel of recipes/saxpy, cuda-core, CuPy and NumPy installed, and no network; `bench/gpu.sh` sees to that.
Each measurement has a process of its own, and the three take turns. Of a process the least mean of many batches counts.
The launches of one turn run on one processor, because the same program takes 4 µs on one and 6 µs on another; each turn
gives a ratio, and of these the median counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = (
    "gpuforge_launch", "gpuforge_torch_launch", "gpuforge_cupy_launch",
    "core_launch", "core_torch_launch", "cupy_launch", "gpuforge_first", "core_first", "cupy_first",
)  # fmt: skip
WORKERS = Path(__file__).with_name("launch_workers.py")

IMPORT = """
import sys, time
sys.path.insert(0, sys.argv[1])
begin = time.perf_counter()
import _gpuforge
_gpuforge.KernelSet.shipped("default-kernels")
print((time.perf_counter() - begin) * 1e3)
"""


def run(worker: str) -> dict[str, float]:
    """Run a worker in a fresh process; return what it measured, and its whole time in ms."""
    begin = time.perf_counter()
    command = [sys.executable, str(WORKERS), worker]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = (time.perf_counter() - begin) * 1e3
    if done.returncode:
        print(f"{worker} failed:\n{done.stderr}", file=sys.stderr)
        return {}
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "process": took}


def import_time() -> dict[str, float]:
    """Return how long importing the runtime takes in ms, with nothing but the interpreter (-I -S)."""
    where = "import saxpy, pathlib; print(pathlib.Path(saxpy.__file__).parent)"
    package = subprocess.run([sys.executable, "-c", where], capture_output=True, text=True, check=True).stdout
    command = [sys.executable, "-I", "-S", "-c", IMPORT, package.strip()]
    return {"import": float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)}


def median(samples: list[dict[str, float]], key: str) -> float:
    """Return the median of a key, NaN when nothing was measured."""
    values = [sample[key] for sample in samples if key in sample]
    return statistics.median(values) if values else float("nan")


def measure(processes: int) -> dict[str, Any]:
    """Run every worker in turn, `processes` times; return the samples of each."""
    run("cupy_first")  # fills CuPy's cache
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in (*NAMES, "import")}
    processors = os.sched_getaffinity(0)
    for turn in range(processes):
        samples["import"].append(import_time())
        for name in NAMES:
            one = {sorted(processors)[turn % len(processors)]}
            os.sched_setaffinity(0, one if name.endswith("_launch") else processors)  # the worker inherits it
            samples[name].append(run(name))
        os.sched_setaffinity(0, processors)
    return samples


def ratio(ours: list[dict[str, float]], key: str, theirs: list[dict[str, float]], other: str) -> float:
    """Return the median of the turns' ratios, NaN when nothing was measured."""
    pairs = zip(ours, theirs, strict=True)
    values = [mine[key] / yours[other] for mine, yours in pairs if key in mine and other in yours]
    return statistics.median(values) if values else float("nan")


def verdicts(samples: dict[str, Any]) -> list[tuple[str, float, str, float, str]]:
    """Return rows of (what, value, unit, limit, of what): the limits that are wanted."""
    ours, torch, cupy = (samples[f"gpuforge_{name}"] for name in ("launch", "torch_launch", "cupy_launch"))
    core, core_torch = samples["core_launch"], samples["core_torch_launch"]
    first = ratio(samples["gpuforge_first"], "process", samples["cupy_first"], "process")
    return [
        ("launch, Memory", ratio(ours, "launch", core, "launch"), "x", 1.2, "cuda.core's"),
        ("launch, torch", ratio(torch, "launch", core_torch, "launch"), "x", 1.2, "cuda.core's"),
        ("launch, CuPy", ratio(cupy, "launch", core_torch, "launch"), "x", 1.2, "cuda.core's"),
        ("bound, Memory", ratio(ours, "bound", core, "launch"), "x", 0.7, "cuda.core's launch"),
        ("bound, torch", ratio(torch, "bound", core_torch, "launch"), "x", 0.7, "cuda.core's launch"),
        ("second function()", median(ours, "function"), "µs", 2.0, ""),
        ("first result", first, "x", 0.5, "CuPy's, its cache warm"),
        ("import", median(samples["import"], "import"), "ms", 10.0, "python -I -S"),
    ]


def report(samples: dict[str, Any]) -> None:
    """Print what was measured, and against what is wanted."""
    for name, found in samples.items():
        keys = dict.fromkeys(key for sample in found for key in sample)
        for key in keys:
            unit = "ms" if key in {"process", "import"} else "µs"
            values = " ".join(f"{sample[key]:.2f}" for sample in found if key in sample)
            print(f"{name:22} {key:9} {median(found, key):9.2f} {unit}   ({values})")
    print()
    for what, value, unit, limit, of in verdicts(samples):
        met = "met" if value <= limit else "MISSED"
        print(f"{what:18} {value:7.2f} {unit:2} {of:24} wanted ≤ {limit:g}: {met}")


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="also write the samples here")
    parser.add_argument("--processes", type=int, default=5, help="how many of each (default: 5)")
    options = parser.parse_args()
    samples = measure(options.processes)
    report(samples)
    if options.json:
        columns = ("what", "value", "unit", "limit", "of")
        data = {
            "python": platform.python_version(),
            "samples": samples,
            "wanted": [dict(zip(columns, row, strict=True)) for row in verdicts(samples)],
        }
        options.json.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main()
