"""Step: download a CUDA toolkit's wheels from PyPI and assemble them.

`python -m gpuforge.steps.fetch_toolkit --pins JSON --output FOLDER`, where JSON is a list of
`{"package", "version", "filename", "sha256", "size"}`, or `@FILE` with that list.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

from gpuforge.errors import UsageError
from gpuforge.steps.entry import run
from gpuforge.toolkits.provision import provision
from gpuforge.toolkits.pypi import Pin


def main(arguments: list[str]) -> None:
    """Read the arguments and provision."""
    parser = argparse.ArgumentParser(prog="fetch_toolkit", description=__doc__)
    parser.add_argument("--pins", required=True, help="JSON list of wheels, or @FILE")
    parser.add_argument(
        "--output", required=True, type=Path, help="folder to make; must not exist or be empty"
    )
    given = parser.parse_args(arguments)
    provision(_pins(given.pins), given.output, say=partial(print, flush=True))


def _pins(text: str) -> list[Pin]:
    try:
        rows = json.loads(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except ValueError as problem:
        raise UsageError.of(f"--pins is not JSON: {problem}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError.of("--pins is not a JSON list of objects")
    return [Pin.from_data(row) for row in rows]


if __name__ == "__main__":
    run(main)
