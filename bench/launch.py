"""Measure what the runtime in users' wheels costs, beside cuda.core and CuPy, on a machine with a GPU.

    python bench/launch.py [--json FILE] [--processes N]

It needs the wheel of recipes/saxpy, cuda-core, CuPy and NumPy installed, and no network; `bench/gpu.sh` sees to that.
Each measurement has a process of its own, and the three take turns. Of a process the least mean of many batches counts,
and of several processes the least, too: on a machine with other tenants the same program takes 4 µs or 6 µs, and which
of the two the median is, is chance. Of first results and imports the median counts.
"""

from __future__ import annotations

import argparse
import json
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
    for _ in range(processes):
        samples["import"].append(import_time())
        for name in NAMES:
            samples[name].append(run(name))
    return samples


def least(samples: list[dict[str, float]], key: str) -> float:
    """Return the least of a key, NaN when nothing was measured."""
    return min((sample[key] for sample in samples if key in sample), default=float("nan"))


def verdicts(samples: dict[str, Any]) -> list[tuple[str, float, str, float, str]]:
    """Return rows of (what, value, unit, limit, of what): the limits that are wanted."""
    ours, torch = samples["gpuforge_launch"], samples["gpuforge_torch_launch"]
    core, core_torch = (least(samples[name], "launch") for name in ("core_launch", "core_torch_launch"))
    cupy = least(samples["gpuforge_cupy_launch"], "launch")
    first, cupy_first = (median(samples[name], "process") for name in ("gpuforge_first", "cupy_first"))
    return [
        ("launch, Memory", least(ours, "launch") / core, "x", 1.2, "cuda.core's"),
        ("launch, torch", least(torch, "launch") / core_torch, "x", 1.2, "cuda.core's"),
        ("launch, CuPy", cupy / core_torch, "x", 1.2, "cuda.core's"),
        ("bound, Memory", least(ours, "bound") / core, "x", 0.7, "cuda.core's launch"),
        ("bound, torch", least(torch, "bound") / core_torch, "x", 0.7, "cuda.core's launch"),
        ("second function()", least(ours, "function"), "µs", 2.0, ""),
        ("first result", first / cupy_first, "x", 0.5, "CuPy's, its cache warm"),
        ("import", median(samples["import"], "import"), "ms", 10.0, "python -I -S"),
    ]


def report(samples: dict[str, Any]) -> None:
    """Print what was measured, and against what is wanted."""
    for name, found in samples.items():
        keys = dict.fromkeys(key for sample in found for key in sample)
        for key in keys:
            unit = "ms" if key in {"process", "import"} else "µs"
            values = " ".join(f"{sample[key]:.2f}" for sample in found if key in sample)
            value = (median if unit == "ms" else least)(found, key)
            print(f"{name:22} {key:9} {value:9.2f} {unit}   ({values})")
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
