"""Guesses for a manifest, with their reasons."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuforge.datafile import load
from gpuforge.diagnostics import shown
from gpuforge.project.files import Where

Value = str | bool | tuple[str | Mapping[str, str] | tuple[str, ...], ...] | Mapping[str, str]
_LONGEST = 300  # characters of a fact in a sentence


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason: a kind, for which `data/sentences.toml` has a sentence, with its facts and places."""

    kind: str
    where: tuple[Where, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The text `setup.py:12, setup.cfg:3: why`, on one line."""
        long = {name: f"{text[: _LONGEST - 1]}…" for name, text in self.facts.items() if len(text) > _LONGEST}
        text = str(load(__file__, "sentences.toml")[self.kind]).format_map({**self.facts, **long})
        places = ", ".join(dict.fromkeys(map(str, self.where)))
        return shown(f"{places}: {text}" if places else text)


@dataclass(frozen=True, slots=True)
class Guess:
    """A key of the manifest with its value: `table` is ("cuda", "13"), `key` "archs"."""

    table: tuple[str, ...]
    key: str
    value: Value
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """Something without a guess, which the user has to decide or add."""

    table: tuple[str, ...]
    reason: Reason


def because(kind: str, *where: Where | None, **facts: str) -> Reason:
    """Make a reason."""
    return Reason(kind, tuple(each for each in where if each is not None), facts)
