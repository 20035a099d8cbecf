"""Measure gpuforge against the real alternatives, side by side in one run; `make bench` writes docs/benchmarks.md.

Whole processes, median of three, ratios first: seconds depend on the machine, ratios much less.
"""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "docs" / "benchmarks.md"
RUNS = 3
WHEELS = {  # real wheels, small to large
    "neuron==9.0.2": "cp311",
    "neuron-gpu==8.2.2": "cp311",
    "cufinufft==2.5.1": "cp311",
    "cupy-cuda12x==14.2.0": "cp311",
}


def main() -> None:
    """Run every measurement and write the report."""
    lines = [
        "# Benchmarks",
        "",
        f"Written by `make bench` on {datetime.datetime.now(datetime.UTC):%Y-%m-%d}: {cpu()}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}. Whole processes, median of {RUNS}.",
        "",
        "## Reading a wheel",
        "",
        "| wheel | MB | `auditwheel show` s | `gpuforge audit` s | ratio |",
        "|---|---|---|---|---|",
        *audits(wheels()),
        "",
        "`auditwheel show` answers one question of the many that the audit does (which platform tag is true);",
        "it is what maintainers run today.",
        "",
        "## Building recipes/saxpy for CUDA 13",
        "",
        "| build | s |",
        "|---|---|",
        *builds(),
    ]
    REPORT.write_text("\n".join(lines) + "\n")
    print(REPORT.read_text())


def seconds(command: list[str], env: dict[str, str] | None = None, *, runs: int = RUNS) -> float:
    """Return the median running time of a command; exit status 1 means that findings were reported."""
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, check=False
        )
        times.append(time.perf_counter() - begin)
        if done.returncode not in {0, 1}:
            sys.exit(f"{command}: exit status {done.returncode}\n{done.stderr.decode()}")
    return statistics.median(times)


def wheels() -> list[Path]:
    """Download the wheels once."""
    folder = Path(tempfile.gettempdir()) / "gpuforge-bench"
    found = []
    for requirement, abi in WHEELS.items():
        target = folder / requirement
        if not list(target.glob("*.whl")):
            platforms = [
                f"--platform={p}"
                for p in ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
            ]
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
            python = ["--implementation=cp", f"--python-version={abi.removeprefix('cp')}", *platforms]
            subprocess.run([*command, *python, "--dest", str(target), requirement], check=True)
        found += target.glob("*.whl")
    return found


def audits(paths: list[Path]) -> list[str]:
    """Return a row for each wheel."""
    rows = []
    for path in paths:
        theirs = seconds([sys.executable, "-m", "auditwheel", "show", str(path)])
        ours = seconds([program("gpuforge"), "audit", str(path)])
        name = "-".join(path.name.split("-")[:2])
        rows.append(
            f"| {name} | {path.stat().st_size / 1e6:.0f} | {theirs:.2f} | {ours:.2f} | {ours / theirs:.2f} |"
        )
    return rows


def builds() -> list[str]:
    """Return rows for a cold build, one with nothing to do, and one with a changed kernel."""
    with tempfile.TemporaryDirectory() as place:
        recipe = Path(place) / "saxpy"
        shutil.copytree(ROOT / "recipes" / "saxpy", recipe)
        env = {**os.environ, "GPUFORGE_CACHE_DIR": f"{place}/cache"}
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        choice = ["--cuda", "13", "--python", version, "-o", f"{place}/dist"]
        command = [program("gpuforge"), "build", str(recipe), *choice]
        rows = [f"| everything, downloads included | {seconds(command, env, runs=1):.2f} |"]
        rows.append(f"| again: nothing to do | {seconds(command, env):.2f} |")
        kernel = recipe / "kernels" / "saxpy.cu"
        kernel.write_text(kernel.read_text() + "// changed\n")
        rows.append(f"| one kernel source changed | {seconds(command, env, runs=1):.2f} |")
    return rows


def program(name: str) -> str:
    """Return a program of the environment that this script runs in."""
    return str(Path(sys.executable).with_name(name))


def cpu() -> str:
    """Return the processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
