"""Step: download a host compiler and unpack it.

`python -m gpuforge.steps.fetch_compiler --output FOLDER --parts JSON`, a list of Debian's packages
(`{"package", "version", "path", "start", "size", "sha256", "members"}`).
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

from gpuforge.steps.entry import run
from gpuforge.toolkits.debian import Part
from gpuforge.toolkits.provision_compiler import provision_compiler


def main(arguments: list[str]) -> None:
    """Read the arguments and unpack."""
    parser = argparse.ArgumentParser(prog="fetch_compiler", description=__doc__)
    parser.add_argument("--parts", required=True, help="JSON list of Debian's packages")
    parser.add_argument(
        "--output", required=True, type=Path, help="folder to make; must not exist or be empty"
    )
    given = parser.parse_args(arguments)
    parts = [Part.from_data(row) for row in json.loads(given.parts)]
    provision_compiler(parts, given.output, say=partial(print, flush=True))


if __name__ == "__main__":
    run(main)
