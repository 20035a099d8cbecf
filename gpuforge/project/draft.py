"""Writes a manifest from guesses: one line per key, its reasons above it."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

import tomli_w

from gpuforge.project import guess_build, guess_cuda, guess_package
from gpuforge.project.facts import Project
from gpuforge.project.guess import Guess, Note, Value
from gpuforge.project.obtain import Origin

_WIDTH = 110
_TABLES = ("package", "build", "cuda", "objects", "wheel", "audit", "test")


def guesses(project: Project, origin: Origin, gcc: int | None = None) -> list[Guess | Note]:
    """Return all guesses and notes, in the manifest's order; `gcc` is the compiler that CUDA's toolkits must take."""
    found = [
        *guess_package.guesses(project, origin),
        *guess_build.guesses(project),
        *guess_cuda.guesses(project, gcc),
    ]
    tables = sorted({each.table for each in found}, key=lambda table: (_TABLES.index(table[0]), table))
    return [each for table in tables for each in found if each.table == table]


def write(found: Sequence[Guess | Note], command: str) -> str:
    """Return the text of a manifest."""
    return "\n".join(_lines(found, command)) + "\n"


def _lines(found: Sequence[Guess | Note], command: str) -> Iterator[str]:
    yield f"# Written by `{command}`, which read the project's files and ran none of its code."
    yield "# The reason of each guess stands above it. What no guess covers is marked TO DO."
    yield "# All keys: `gpuforge schema --format markdown`."
    yield "schema = 1"
    table: tuple[str, ...] = ()
    for each in found:
        if each.table != table:
            table = each.table
            yield ""
            if any(isinstance(other, Guess) and other.table == table for other in found):
                name = ".".join(table)
                yield f"[[{name}]]" if table == ("objects",) else f"[{name}]"
        if isinstance(each, Note):
            yield from _comment(f"TO DO: {each.reason.sentence}")
        else:
            for text in dict.fromkeys(reason.sentence for reason in each.reasons):
                yield from _comment(text)
            yield written(each)


def written(guess: Guess) -> str:
    """Return the manifest's line for a guess."""
    return f"{_key(guess.key)} = {_value(guess.value)}"


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield f"# {line}"


def _key(name: str) -> str:
    return tomli_w.dumps({name: True}).partition(" = true")[0]


def _value(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {_value(each)}' for name, each in value.items())} }}"
    return tomli_w.dumps({"x": value})[4:].rstrip("\n")
