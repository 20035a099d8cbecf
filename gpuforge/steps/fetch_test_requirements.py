"""Fetch, as wheels, what a finished wheel declares and what its tests need, to be installed without an index."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from gpuforge.steps import declared_sets, entry, wheelhouse


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
    parser.add_argument(
        "--cuda", default="", help="the CUDA version that it is for: its extra is fetched, too"
    )
    parser.add_argument("--at-hand", type=Path, action="append", default=[])
    parser.add_argument(
        "--own", type=Path, help="folder of the wheel's own kernels wheel, which no index has"
    )
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    options.output.mkdir()
    requires = json.loads(options.requires)
    if options.wheel:
        wheel = wheelhouse.one_wheel(options.wheel)
        *others, extras = declared_sets.declared_sets(wheel, options.extra, options.cuda)
        for each in others:
            _fetch(options, wheel, each, [])
        _fetch(options, wheel, extras, requires)
    else:
        _download(options, requires, what="what the tests need")
    known = {path.name for folder in options.at_hand for path in folder.glob("*.whl")}
    known |= {wheel.name} if options.wheel else set()
    own = {path.name.partition("-")[0] for path in options.own.glob("*.whl")} if options.own else set()
    for path in sorted(options.output.iterdir()):
        if path.name in known or path.name.partition("-")[0] in own:
            path.unlink()


def _fetch(options: argparse.Namespace, wheel: Path, extras: Sequence[str], requires: Sequence[str]) -> None:
    """Fetch what a wheel needs when it is installed with some of its extras, and what is required beside it."""
    if not declared_sets.declares(wheel, extras):
        print(f"{wheel.name}, {declared_sets.title(extras)}, declares nothing")
        return
    named = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    _download(options, [named, *requires], what="what the wheel declares and its tests need")


def _download(options: argparse.Namespace, requires: Sequence[str], what: str) -> None:
    wheelhouse.download(
        options.python,
        requires,
        options.output,
        [*options.at_hand, *([options.own] if options.own else [])],
        what=what,
        hint="correct the project's dependencies, or `[test] requires`",
    )


if __name__ == "__main__":
    entry.run(main)
