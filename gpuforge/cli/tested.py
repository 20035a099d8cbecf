"""Writes the report of a wheel's test."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name

from gpuforge.cli.console import count
from gpuforge.execute.times import short_seconds
from gpuforge.plan.trial_result import Cuda, Install, State, TrialResult
from gpuforge.wheel import filename


def words_of_test(test: TrialResult) -> Iterator[str]:
    """Yield a line for each success: each way of installing the wheel, its CUDA libraries, its command."""
    several = len(test.installs) > 1
    for install in test.installs:
        if not install.lacks:
            how = f" {_title(install)}" if several else ""
            yield (
                f"test: installed{how} on Python {install.python}{_brought(install, named=several)}, "
                f"`import {install.imported}` works without a GPU ({short_seconds(install.import_seconds or 0)})"
            )
    if cuda := test.installs[-1].cuda:
        yield f"test: {_cuda_words(cuda)}"
    if ran := test.ran:
        yield f"test: {ran.command_line}: {ran.outcome or 'passed'} ({short_seconds(ran.seconds)})"


def gaps_of_test(test: TrialResult) -> Iterator[str]:
    """Yield a line for each installation that works only if the machine, or an extra, has CUDA's libraries."""
    for install in test.installs:
        if install.lacks:
            yield (
                f"test: installed {_title(install)}{_brought(install, named=True)}, `import {install.imported}` lacks "
                f"{install.lacks}: it works with {_title(test.installs[-1])}, or where the machine has CUDA"
            )


def _title(install: Install) -> str:
    """Name a way of installing: "[cuda13,plots]", or "bare"."""
    return f"[{','.join(install.extras)}]" if install.extras else "bare"


def _brought(install: Install, *, named: bool) -> str:
    """Return the number of packages that were installed with the wheel, or their names."""
    own = filename.project(install.wheel) if named else ""
    packages = [each for each in install.packages if canonicalize_name(each.project) != own]
    if named:
        more = f" and {len(packages) - _NAMED} more" if len(packages) > _NAMED else ""
        return f" with {', '.join(map(str, packages[:_NAMED]))}{more}" if packages else " with nothing else"
    number = len(install.packages) - 1
    return f" with {count(number, 'package')} that it declares" if number else ""


_NAMED = 8  # packages that are named in one line
_MACHINE: dict[State, str] = {
    "none": "this machine has no CUDA of its own",
    "hidden": "this machine's CUDA was hidden",
    "visible": "this machine's CUDA was not used",
}


def _cuda_words(cuda: Cuda) -> str:
    """Return the origin of a test's CUDA libraries, and whether those of this machine were visible."""
    places: dict[str, list[str]] = {}
    for each in cuda.loaded:
        places.setdefault(each.place, []).append(each.library)
    found = [f"{', '.join(names)} from the {place}" for place, names in places.items()]
    return f"CUDA libraries loaded: {'; '.join(found) or 'none'}; {_MACHINE[cuda.machine]}"
