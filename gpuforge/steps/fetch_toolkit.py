"""Step: download a CUDA toolkit and assemble it.

`python -m gpuforge.steps.fetch_toolkit --output FOLDER` with `--pins JSON`, a list of PyPI's wheels
(`{"package", "version", "filename", "sha256", "size"}`), or that and `--parts JSON`, a list of parts of Debian's
packages, or `--archives JSON`, NVIDIA's archives to take. Instead of JSON, `@FILE` with it.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from gpuforge.errors import UsageError
from gpuforge.steps.entry import run
from gpuforge.toolkits.debian import Part
from gpuforge.toolkits.provision import provision
from gpuforge.toolkits.provision_debian import provision_debian
from gpuforge.toolkits.provision_redist import provision_redist
from gpuforge.toolkits.pypi import Pin
from gpuforge.toolkits.redist import Archives


def main(arguments: list[str]) -> None:
    """Read the arguments and provision."""
    parser = argparse.ArgumentParser(prog="fetch_toolkit", description=__doc__)
    parser.add_argument("--pins", default="[]", help="JSON list of wheels, or @FILE")
    parser.add_argument("--parts", default="[]", help="JSON list of parts of Debian's packages, or @FILE")
    parser.add_argument("--archives", help="JSON object: NVIDIA's archives, or @FILE")
    parser.add_argument(
        "--output", required=True, type=Path, help="folder to make; must not exist or be empty"
    )
    given = parser.parse_args(arguments)
    say = partial(print, flush=True)
    if given.archives:
        provision_redist(Archives.from_data(_read("archives", given.archives, dict)), given.output, say=say)
        return
    pins = [Pin.from_data(row) for row in _rows("pins", given.pins)]
    parts = [Part.from_data(row) for row in _rows("parts", given.parts)]
    if parts:
        provision_debian(parts, pins, given.output, say=say)
    else:
        provision(pins, given.output, say=say)


def _rows(name: str, text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _read(name, text, list)
    if not all(isinstance(row, dict) for row in rows):
        raise UsageError.of(f"--{name} is not a JSON list of objects")
    return rows


def _read(name: str, text: str, kind: type) -> Any:
    try:
        data = json.loads(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except ValueError as problem:
        raise UsageError.of(f"--{name} is not JSON: {problem}") from None
    if not isinstance(data, kind):
        what = "list of objects" if kind is list else "object"
        raise UsageError.of(f"--{name} is not a JSON {what}")
    return data


if __name__ == "__main__":
    run(main)
