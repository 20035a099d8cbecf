"""Fetch, as wheels, the requirements of a finished wheel and of its tests, to be installed without an index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuforge.plan.requests.trial import FetchTestRequirements
from gpuforge.steps import declared_sets, entry, wheelhouse
from gpuforge.wheel import filename, metadata


def main(request: FetchTestRequirements) -> None:
    """Fill the folder `output` with wheels for `python`: of `requires`, and of what `wheel` declares.

    Wheels that are already in `at_hand` are left out.
    """
    request.output.mkdir()
    if request.wheel:
        wheel = wheelhouse.one_wheel(request.wheel)
        *others, extras = declared_sets.declared_sets(wheel, request.extras, request.cuda)
        for each in others:
            _fetch(request, wheel, each, [])
        _fetch(request, wheel, extras, request.requires)
    else:
        _download(request, request.requires, what="what the tests need")
    known = {path.name for folder in request.at_hand for path in folder.glob("*.whl")}
    known |= {wheel.name} if request.wheel else set()
    own = {filename.project(path.name) for path in request.own.glob("*.whl")} if request.own else set()
    for path in sorted(request.output.iterdir()):
        if path.name in known or filename.project(path.name) in own:
            path.unlink()


def _fetch(
    request: FetchTestRequirements, wheel: Path, extras: Sequence[str], requires: Sequence[str]
) -> None:
    """Fetch the requirements of a wheel that is installed with some of its extras, and those required beside it."""
    metadata.refuse_references(metadata.requirements(metadata.of_wheel(wheel)), wheel.name)
    if not declared_sets.declares(wheel, extras):
        print(f"{wheel.name}, {declared_sets.title(extras)}, declares nothing")
        return
    named = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    _download(request, [named, *requires], what="what the wheel declares and its tests need")


def _download(request: FetchTestRequirements, requires: Sequence[str], what: str) -> None:
    wheelhouse.download(
        request.python,
        requires,
        request.output,
        [*request.at_hand, *([request.own] if request.own else [])],
        what=what,
        hint="correct the project's dependencies, or `[test] requires`; --no-test builds and audits without a test",
    )


if __name__ == "__main__":
    entry.run(FetchTestRequirements, main)
