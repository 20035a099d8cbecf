"""Plan the largest matrix that a manifest can ask for, as `gpuforge build --dry-run` does.

That is 810 cells: their actions, keys, and what the store has of them. Nobody has so many Pythons: an image is
described that would.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from gpuforge.actions.cell_actions import Plan, lower
from gpuforge.execute.ledger import Ledger
from gpuforge.execute.outcome import Step
from gpuforge.execute.store import FolderStore
from gpuforge.execute.verdict import verdicts
from gpuforge.manifest.load import load
from gpuforge.plan.cell import select
from gpuforge.plan.keys import keys
from gpuforge.plan.site import ContainerImage
from gpuforge.plan.survey import machine_type, resolve
from gpuforge.toolchains.inventory import Inventory

RECIPE = Path(__file__).resolve().parent.parent / "recipes" / "saxpy"
PYTHONS = [f"3.{minor}" for minor in range(10, 100)]  # all that a manifest can name


def main() -> None:
    """Print how many cells and actions there are."""
    with tempfile.TemporaryDirectory() as place:
        made = plan(Path(place))
    sys.stdout.write(f"{len(made.cells)} cells, {len(made.actions)} actions\n")


def plan(place: Path) -> Plan:
    """Plan saxpy for many Pythons, three toolkits and three kinds of names, in an image that has them all."""
    folder = shutil.copytree(RECIPE, place / "saxpy")
    manifest = folder / "gpuforge.toml"
    text = re.sub(r"python = \[.*\]", f"python = {json.dumps(PYTHONS)}", manifest.read_text())
    manifest.write_text(text.replace('naming = ["suffix"]', 'naming = ["suffix", "local", "variant"]'))
    file = load(folder)
    site = ContainerImage("sha256:0", "many-pythons", Inventory.parse("many-pythons", json.dumps(facts())))
    machine, chosen = resolve(file, select(file, machine_type()), [site])
    made = lower(file, chosen.cells, machine)
    found = keys(made.actions)
    steps = [Step(action, found[action.id].digest, found[action.id].facts) for action in made.actions]
    verdicts(
        steps, store=FolderStore(place / "store"), ledger=Ledger(place / "ledger"), project=str(manifest)
    )
    return made


def facts() -> dict[str, object]:
    """Return what the script that looks into images would say."""
    one = {"implementation": "CPython", "abi": "cpython", "zlib": "1.2.13", "headers": True}
    pythons = [
        [
            f"/opt/python/{each}/bin/python3",
            {**one, "version": f"{each}.1", "executable": f"/opt/python/{each}"},
        ]
        for each in PYTHONS
    ]
    compilers = [
        [f"/usr/bin/{name}", f"{name} (Debian) {version}\nCopyright Free Software Foundation"]
        for name, version in (("g++", "12.2.0"), ("g++-11", "11.3.0"))
    ]
    return {
        "machine": machine_type(),
        "glibc": "2.36",
        "path": "/usr/bin",
        "compilers": compilers,
        "pythons": pythons,
        "toolkits": {},
    }


if __name__ == "__main__":
    main()
