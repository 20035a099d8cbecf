"""Version ranges as plain comparisons, for code on a user's machine that has no `packaging`."""

from __future__ import annotations

from typing import NamedTuple

from packaging.specifiers import SpecifierSet


class Bound(NamedTuple):
    """One comparison with a version, whose missing numbers count as zero; all bounds of a range must hold."""

    operator: str  # ">=", "<=", ">", "<", "==" or "!="; "==*" and "!=*" compare only the given numbers
    numbers: tuple[int, ...]


def bounds(text: str) -> list[Bound]:
    """Return a PEP 440 range as comparisons; raises ValueError for versions that are more than numbers."""
    return [bound for clause in SpecifierSet(text) for bound in _bounds(clause.operator, clause.version)]


def _bounds(operator: str, version: str) -> list[Bound]:
    prefix = version.endswith(".*")
    numbers = tuple(int(part) for part in version.removesuffix(".*").split("."))
    if (
        operator == "~="
    ):  # https://packaging.python.org/en/latest/specifications/version-specifiers/#compatible-release
        return [Bound(">=", numbers), Bound("==*", numbers[:-1])]
    if operator == "===":
        operator = "=="
    return [Bound(f"{operator}*" if prefix else operator, numbers)]
