"""Measure builds: `make bench` writes docs/benchmarks-builds.md. Without a container engine its part is left out."""

from __future__ import annotations

import datetime
import os
import sys
from contextlib import closing
from pathlib import Path

import matrix
import rebuild
import run
from docker.errors import ImageNotFound

from gpuforge.containers import catalog
from gpuforge.containers.connect import connect
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
        *run.builds(),
        f"| the plan of 810 cells, with keys and look-ups (`bench/plan.py`) | {run.seconds(plan):.2f} |",
    ]
    written = "\n".join(lines) + "\n"
    REPORT.write_text(written + others(REPORT.read_text(), written))
    print(REPORT.read_text())


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
