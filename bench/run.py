"""Measure gpuforge against the real alternatives, side by side in one run; `make bench` writes docs/benchmarks.md.

    python bench/run.py [full] [FOLDER...]

Whole processes; of each the least time of several runs that alternate, since others work on the machine too. Wheels
in the folders named are measured besides those that are downloaded: four, or with `full` 28 of 3 GB together.
"""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "docs" / "benchmarks.md"
RUNS = 3
SMALL_RUNS = 12  # of wheels below MEDIUM: what others do meanwhile is larger than what is measured
LARGE = 20_000_000  # bytes
MEDIUM = 60_000_000  # bytes, which are read in less than half a second
WHEELS = ("neuron==9.0.2", "neuron-gpu==8.2.2", "cufinufft==2.5.1", "cupy-cuda12x==14.2.0")  # small to large
MORE = (  # of every kind: without binaries of its own, old and new linkers, large and small, NVIDIA's own
    "markupsafe==3.0.4",
    "nvidia-nvtx-cu12==12.9.79",
    "cffi",
    "pyyaml==6.0.3",
    "lz4==4.4.5",
    "xformers",
    "nvidia-cuda-runtime-cu12==12.9.79",
    "torchvision",
    "torchaudio",
    "numpy",
    "scipy",
    "numba",
    "jax-finufft",
    "pynvml",
    "nvidia-cuda-nvrtc-cu12==12.9.86",
    "ctranslate2",
    "faiss-gpu-cu12",
    "bitsandbytes",
    "tokenizers",
    "jax-cuda12-pjrt==0.12.0.1",
    "onnxruntime-gpu",
    "sgl_kernel==0.3.21",
    "torch",
    "nvidia-cublas-cu12",
)


def main() -> None:
    """Run every measurement and write the report."""
    paths = sorted({p.name: p for p in [*wheels(), *given()]}.values(), key=lambda p: p.stat().st_size)
    lines = [
        "# Benchmarks",
        "",
        f"Written by `make bench` on {datetime.datetime.now(datetime.UTC):%Y-%m-%d}: {cpu()}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}. Whole processes, the least of {RUNS} runs, "
        f"for wheels under {MEDIUM // 1_000_000} MB of {SMALL_RUNS}; `python -c pass` takes {empty():.3f} s.",
        "",
        "## Reading a wheel",
        "",
        "Floor: inflating every ELF file and archive (`.a`) once with isal and dropping it, by one thread.",
        "",
        "| wheel | MB | floor s | audit s | ratio | audit --jobs 1 s | ratio | MiB | auditwheel show s "
        "| pydistcheck s |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *audits(paths),
        "",
        "`auditwheel show` answers one question of the many that the audit does (which platform tag is true), and",
        "`pydistcheck` looks at names and sizes; both are what maintainers run today, and are run once. MiB: the",
        "audit's peak memory.",
    ]
    _, launching, rest = REPORT.read_text().partition(
        "\n## Launching kernels"
    )  # by bench/launch.py, where a GPU is
    REPORT.write_text("\n".join(lines) + "\n" + launching + rest)
    print(REPORT.read_text())


def seconds(command: list[str], env: dict[str, str] | None = None, *, runs: int = RUNS) -> float:
    """Return the least running time of a command; an exit status of 1 means that findings were reported."""
    return min(once(command, env)[0] for _ in range(runs))


def empty() -> float:
    """Return what a process that does nothing takes: the state of the machine."""
    return seconds([sys.executable, "-c", "pass"], runs=SMALL_RUNS)


def once(command: list[str], env: dict[str, str] | None = None) -> tuple[float, int]:
    """Return the time that one run takes in seconds, and the most memory that it holds in KiB."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=env)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        took = time.perf_counter() - begin
        errors.seek(0)
        if child.returncode not in {0, 1}:
            sys.exit(f"{command}: exit status {child.returncode}\n{errors.read().decode()}")
    return took, usage.ru_maxrss


def given() -> list[Path]:
    """Return the wheels in the folders that were named."""
    return [path for folder in sys.argv[1:] if folder != "full" for path in Path(folder).glob("*.whl")]


def wheels() -> list[Path]:
    """Download the wheels once."""
    folder = Path(tempfile.gettempdir()) / "gpuforge-bench"
    found: list[Path] = []
    for requirement in (*WHEELS, *MORE) if "full" in sys.argv[1:] else WHEELS:
        target = folder / requirement
        if not list(target.glob("*.whl")):
            platforms = [
                f"--platform={p}"
                for p in (
                    "manylinux_2_28_x86_64",
                    "manylinux_2_27_x86_64",
                    "manylinux_2_17_x86_64",
                    "manylinux2014_x86_64",
                )
            ]
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
            python = ["--implementation=cp", "--python-version=311", *platforms]
            subprocess.run([*command, *python, "--dest", str(target), requirement], check=True)
        found += target.glob("*.whl")
    return found


def audits(paths: list[Path]) -> Iterator[str]:
    """Yield a row for each wheel, then the time of all wheels in one call."""
    peers = [peer for peer in (["auditwheel", "show"], ["pydistcheck"]) if shutil.which(program(peer[0]))]
    sums: dict[str, float] = {}
    single = 0.0
    for path in paths:
        taken, memory = audit(path)
        for name in taken if path.stat().st_size > LARGE else ():
            sums[name] = sums.get(name, 0) + taken[name]
        single += taken["audit"]
        others = [f"{seconds([program(peer[0]), *peer[1:], str(path)], runs=1):.2f}" for peer in peers]
        yield row("-".join(path.name.split("-")[:2]), path.stat().st_size, taken, memory, others)
    total = sum(p.stat().st_size for p in paths if p.stat().st_size > LARGE)
    yield row("**over 20 MB, sum**", total, sums, 0, [])
    took, memory = once([program("gpuforge"), "audit", *map(str, paths)])
    share = f"{took / single:.2f} of the single calls"
    yield f"| **all {len(paths)} in one call** | | | {took:.2f} | {share} | | | {memory / 1024:.0f} | | |"


def audit(path: Path) -> tuple[dict[str, float], int]:
    """Return the least times of the floor and of the audit, and the audit's peak memory in KiB."""
    gpuforge = [program("gpuforge"), "audit", str(path)]
    commands = {
        "floor": [sys.executable, str(ROOT / "bench" / "floor.py"), str(path)],
        "audit": gpuforge,
        "one job": [*gpuforge, "--jobs", "1"],
    }
    taken = dict.fromkeys(commands, float("inf"))
    memory = 0
    for _ in range(RUNS if path.stat().st_size > MEDIUM else SMALL_RUNS):
        for name, command in commands.items():
            took, peak = once(command)
            taken[name] = min(taken[name], took)
            memory = max(memory, peak if name == "audit" else 0)
    return taken, memory


def row(name: str, size: int, taken: dict[str, float], memory: int, others: list[str]) -> str:
    """Return a row of the table."""
    cells = [name, f"{size / 1e6:.1f}", f"{taken['floor']:.2f}"]
    for run in ("audit", "one job"):
        cells += [f"{taken[run]:.2f}", f"{taken[run] / taken['floor']:.2f}"]
    cells += [f"{memory / 1024:.0f}" if memory else "", *others, *[""] * (2 - len(others))]
    return f"| {' | '.join(cells)} |"


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
