"""Fetch, as wheels, what a finished wheel declares and what its tests need, to be installed without an index."""

from __future__ import annotations

import argparse
import json
import zipfile
from collections.abc import Sequence
from email.parser import BytesHeaderParser
from pathlib import Path

from packaging.utils import canonicalize_name

from gpuforge.errors import ActionError
from gpuforge.package import metadata
from gpuforge.steps import entry, wheelhouse


def main(arguments: list[str]) -> None:
    """Fill the folder `--output` with wheels for `--python`: of `--requires`, and of what `--wheel` declares.

    A wheel that lies in `--at-hand` already is left out.
    """
    parser = argparse.ArgumentParser(prog="fetch_test_requirements")
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--requires", default="[]", help="JSON list: what the tests need")
    parser.add_argument(
        "--wheel", type=Path, help="the wheel, one of its metadata alone, or the folder that holds it"
    )
    parser.add_argument("--extra", action="append", default=[], help="an extra that is installed with it")
    parser.add_argument("--at-hand", type=Path, action="append", default=[])
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    options.output.mkdir()
    requires = json.loads(options.requires)
    if options.wheel:
        wheel = wheelhouse.one_wheel(options.wheel)
        if not declares(wheel, options.extra):
            print(f"{wheel.name} declares nothing")
            return
        requires.insert(0, f"{wheel}[{','.join(options.extra)}]" if options.extra else str(wheel))
    wheelhouse.download(
        options.python,
        requires,
        options.output,
        options.at_hand,
        what="what the wheel declares and its tests need" if options.wheel else "what the tests need",
        hint="correct the project's dependencies, or `[test] requires`",
    )
    known = {path.name for folder in options.at_hand for path in folder.glob("*.whl")}
    known |= {wheel.name} if options.wheel else set()
    for path in sorted(options.output.iterdir()):
        if path.name in known:
            path.unlink()


def declares(wheel: Path, extras: Sequence[str]) -> bool:
    """Say whether a wheel, installed with some of its extras, may need anything else; raises ActionError.

    An extra that the wheel does not have is an error: pip would pass over it.
    """
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1)
        text = archive.read(name)
    provided = BytesHeaderParser().parsebytes(text).get_all("Provides-Extra", [])
    for extra in extras:
        if canonicalize_name(extra) not in {canonicalize_name(str(each)) for each in provided}:
            raise ActionError.of(
                f"{'-'.join(wheel.name.split('-')[:2])} has no extra {extra!r}",
                hint=f"[test] extras can be: {', '.join(map(str, provided)) or 'none, as it has no extras'}",
            )
    requirements = metadata.requirements(text)
    return any(extras or "extra" not in str(requirement.marker) for requirement in requirements)


if __name__ == "__main__":
    entry.run(main)
