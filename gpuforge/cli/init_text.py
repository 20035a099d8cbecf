"""The report of `gpuforge init`: its guesses with their reasons, the remaining work, and the cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuforge.cli.console import count
from gpuforge.cli.left_out import by_reason
from gpuforge.cli.planning import Planned
from gpuforge.diagnostics import shown
from gpuforge.project.draft import written
from gpuforge.project.guess.guess import Guess, Note, Reason
from gpuforge.project.guess.sentences import sentence
from gpuforge.runtime.arch import Target


def report(target: Path, found: Sequence[Guess | Note]) -> Iterator[str]:
    """Yield the guesses, then the notes."""
    guesses = [each for each in found if isinstance(each, Guess)]
    notes = [each for each in found if isinstance(each, Note)]
    yield f"{target}: {count(len(guesses), 'guess', 'guesses')}\n"
    for each in guesses:
        yield f"  [{'.'.join(each.table)}] {shown(written(each))}\n"
        for text in dict.fromkeys(map(sentence, each.reasons)):
            yield f"      {text}\n"
    if notes:
        yield "\nto do:\n"
    for note in notes:
        yield f"  {sentence(note.reason)}\n"


def plan(target: Path, made: Planned, guesses: Sequence[Guess | Note]) -> Iterator[str]:
    """Yield the cells of the manifest on this machine, and a command that builds one quickly."""
    cells = made.selection.cells
    yield f"\n{count(len(cells), 'cell')} can be built here: {', '.join(cell.id for cell in cells)}\n"
    for reason, names in by_reason(made.selection.left_out).items():
        yield f"left out: {reason}: {', '.join(names)}\n"
    newest = cells[-1]
    folder = "" if target.parent == Path() else f" {target.parent.as_posix()}"
    path = folder if target.name == "gpuforge.toml" else f" {target.as_posix()}"
    versions = made.file.manifest.cuda.versions
    archs = versions[newest.cuda].archs if newest.cuda else ()
    fixed = any(reason.kind == "fixed-archs" for reason in _reasons(guesses))
    quick = f" --archs {Target.parse(archs[-1]).arch.number}" if archs and not fixed else ""
    yield f"next, one of them{', quickly' * bool(quick)}: gpuforge build{path} --cell {newest.id}{quick}\n"


def _reasons(guesses: Sequence[Guess | Note]) -> Iterator[Reason]:
    for each in guesses:
        yield from each.reasons if isinstance(each, Guess) else (each.reason,)
