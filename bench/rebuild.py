"""Measure what the compiler cache saves: a second build of cufinufft, and a matrix of Pythons and toolkits.

    python bench/rebuild.py [--matrix [--python 3.11,3.13]]

cufinufft is built twice, from two folders with two stores: only the compiler cache is the same. Both download the
toolkit, the source and the build requirements. With `--matrix`, recipes/saxpy is built for CUDA 11, 12 and 13 instead.
Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Build:
    """One `gpuforge build`: seconds of the whole process, and its result."""

    clock: float
    result: dict[str, Any]

    def host(self) -> list[dict[str, Any]]:
        """Return the host builds."""
        return [action for action in self.result["actions"] if action["id"].endswith("/host-build")]


def build(recipe: Path, place: Path, *choice: str, cache: Path) -> Build:
    """Build a copy of a recipe in `place` with a store of its own and the compiler cache `cache`."""
    folder = shutil.copytree(recipe, place / "recipe", ignore=shutil.ignore_patterns("dist"))
    command = [str(Path(sys.executable).with_name("gpuforge")), "build", str(folder), *choice, "--json"]
    command += ["-o", str(place / "dist")]
    env = {**os.environ, "GPUFORGE_CACHE_DIR": str(place / "cache"), "SCCACHE_DIR": str(cache)}
    begin = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, env=env, check=True)
    return Build(time.perf_counter() - begin, json.loads(done.stdout))


def second_build() -> list[str]:
    """Return the rows of cufinufft's two builds and their ratios; raises ValueError when their bytes differ."""
    recipe, choice = ROOT / "recipes" / "cufinufft", ("--cuda", "13", "--archs", "90", "--no-test")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        cold, warm = (
            build(recipe, place / part, *choice, cache=place / "sccache") for part in ("cold", "warm")
        )
    if cold.result["wheels"][0]["sha256"] != warm.result["wheels"][0]["sha256"]:
        msg = "the wheels of the two builds differ"
        raise ValueError(msg)
    rows = [
        "| cufinufft, sm_90 | host build s | all s | compiler cache |",
        "|---|---|---|---|",
    ]
    for what, made in (("first build", cold), ("second, from another folder and an empty store", warm)):
        (host,) = made.host()
        rows.append(
            f"| {what} | {host['seconds']:.0f} | {made.clock:.0f} | {host['compiler_cache']['said']} |"
        )
    host_ratio = warm.host()[0]["seconds"] / cold.host()[0]["seconds"]
    rows.append(f"| ratio | {host_ratio:.2f} | {warm.clock / cold.clock:.2f} | |")
    return rows


def matrix(pythons: str) -> list[str]:
    """Return a row for each host build of recipes/saxpy, in the order in which they ran."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        choice = ("--cuda", "11,12,13", "--python", pythons, "--no-test")
        made = build(ROOT / "recipes" / "saxpy", place / "matrix", *choice, cache=place / "sccache")
    rows = ["| saxpy's host build | s | compiler cache |", "|---|---|---|"]
    rows += [
        f"| {host['id'].partition('/')[0]} | {host['seconds']:.1f} | {host['compiler_cache']['said']} |"
        for host in made.host()
    ]
    return [*rows, f"| {len(made.result['wheels'])} wheels in all | {made.clock:.0f} | |"]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--matrix", action="store_true")
    parser.add_argument("--python", default=f"{sys.version_info.major}.{sys.version_info.minor}")
    options = parser.parse_args()
    print(*(matrix(options.python) if options.matrix else second_build()), sep="\n")


if __name__ == "__main__":
    main()
