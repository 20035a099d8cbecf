"""Measure builds: `make bench` writes docs/benchmarks-builds.md. Without a container engine its part is left out."""

from __future__ import annotations

import datetime
import os
import shutil
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import matrix
import rebuild
import run
from docker.errors import ImageNotFound

from gpuforge.containers import catalog
from gpuforge.containers.engine import connect
from gpuforge.errors import GpuforgeError

IMAGE = "bookworm"
REPORT = run.ROOT / "docs" / "benchmarks-builds.md"


def main() -> None:
    """Run every measurement and write the report."""
    plan = [sys.executable, str(Path(__file__).with_name("plan.py"))]
    lines = [
        "# Benchmarks of builds",
        "",
        f"Written by `make bench` on {datetime.datetime.now(datetime.UTC):%Y-%m-%d}: {run.cpu()}, "
        f"{os.cpu_count()} cores, {docker() or f'no container engine with image {IMAGE}'}.",
        "",
        "## The matrix in containers: recipes/saxpy, 2 Pythons \u00d7 2 CUDA toolkits",
        "",
        "gpuforge and cibuildwheel use the same image and already downloaded toolkits, and test each wheel",
        "(`bench/matrix.py`). The changed file changes the extension's bytes.",
        "",
        *(
            matrix.table(IMAGE)
            if docker()
            else [f"Not measured: it needs a container engine and image {IMAGE}."]
        ),
        "",
        "## A second build of cufinufft",
        "",
        "By local processes, with all downloads included (`bench/rebuild.py`). The second build has only the",
        "first one's compiler cache.",
        "",
        *rebuild.second_build(),
        "",
        "## recipes/saxpy for CUDA 13, by local processes",
        "",
        "| build | s |",
        "|---|---|",
        *saxpy(),
        f"| the plan of 810 cells, with keys and look-ups (`bench/plan.py`) | {run.seconds(plan):.2f} |",
    ]
    written = "\n".join(lines) + "\n"
    REPORT.write_text(written + others(REPORT.read_text(), written))
    print(REPORT.read_text())


def saxpy() -> list[str]:
    """Return rows for a cold build, one with nothing to do, and one with a changed kernel."""
    with tempfile.TemporaryDirectory() as place:
        recipe = Path(place) / "saxpy"
        shutil.copytree(run.ROOT / "recipes" / "saxpy", recipe)
        env = {**os.environ, "GPUFORGE_CACHE_DIR": f"{place}/cache"}
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        choice = ["--cuda", "13", "--python", version, "-o", f"{place}/dist"]
        command = [run.program("gpuforge"), "build", str(recipe), *choice]
        rows = [f"| everything, downloads included | {run.seconds(command, env, runs=1):.2f} |"]
        rows.append(f"| again: nothing to do | {run.seconds(command, env):.2f} |")
        kernel = recipe / "kernels" / "saxpy.cu"
        kernel.write_text(kernel.read_text() + "// changed\n")
        rows.append(f"| one kernel source changed | {run.seconds(command, env, runs=1):.2f} |")
    return rows


def others(before: str, written: str) -> str:
    """Return the sections of a report that other scripts measure, such as `bench/cluster.py`."""
    sections = [f"\n## {each.rstrip()}\n" for each in before.split("\n## ")[1:]]
    return "".join(each for each in sections if each.split("\n")[1] not in written.split("\n"))


def docker() -> str:
    """Return the engine's name and version; "" where there is none, or not the image."""
    known = catalog.find(IMAGE)
    try:
        with closing(connect()) as client:
            client.images.get(known.reference if known else IMAGE)
            return f"Docker {client.version()['Version']}"
    except (GpuforgeError, ImageNotFound):
        return ""


if __name__ == "__main__":
    main()
