"""Finds GPU architectures that CMake files set themselves, overriding gpuforge's CMAKE_CUDA_ARCHITECTURES."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from packaging.specifiers import SpecifierSet

from gpuforge.cuda.arch import Arch, Target
from gpuforge.project.cmake_branches import Versions
from gpuforge.project.cmake_syntax import Command
from gpuforge.project.files import Seen, Where

_ALL = "CMAKE_CUDA_ARCHITECTURES"  # for each target without CUDA_ARCHITECTURES
_MOST = 100  # architectures in one list
_ITEM = r"\d{2,3}[af]?(?:-real|-virtual)?"


class Compiled(NamedTuple):
    """One architecture that the files compile for, with some versions of CUDA."""

    target: Target
    where: Where
    cuda: SpecifierSet


@dataclass(slots=True)
class Archs:
    """The architectures of `set` and of the property CUDA_ARCHITECTURES, in the order of the commands."""

    fixed: dict[tuple[Target, SpecifierSet], Compiled] = field(default_factory=dict)
    variable: Seen | None = None  # the first environment variable that they are read from
    lists: dict[str, list[Compiled]] = field(default_factory=dict)  # variables that are set to architectures

    def note(self, command: Command, where: Where, versions: Versions) -> None:
        """Note a command that runs for these versions of CUDA."""
        words = command.arguments
        of_targets = (
            command.name in {"set_target_properties", "set_property"} and "CUDA_ARCHITECTURES" in words
        )
        following: tuple[str, ...] = words[words.index("CUDA_ARCHITECTURES") + 1 :][:1] if of_targets else ()
        for word in following:
            if self.variable is None and (match := re.fullmatch(r"\$ENV\{(\w+)\}", word)):
                self.variable = Seen(match[1], where)
        if versions is None:
            return
        if command.name == "set" and words:
            cached = words.index("CACHE") if "CACHE" in words else len(words)
            if words[0] != _ALL:
                listed = self.lists.setdefault(words[0], [])
                listed += _items(words[1:cached], where, versions)[: _MOST - len(listed)]
            elif cached == len(words):  # a cached one is the value from gpuforge
                self._fix(words[1:], where, versions)
        elif following:
            self._fix(following, where, versions)

    def _fix(self, words: tuple[str, ...], where: Where, versions: SpecifierSet) -> None:
        if len(words) == 1 and (variable := re.fullmatch(r"\$\{(\w+)\}", words[0])):
            listed = [
                Compiled(each.target, each.where, each.cuda & versions)
                for each in self.lists.get(variable[1], [])
            ]
        else:
            listed = _items(words, where, versions)
        for each in listed:
            self.fixed.setdefault((each.target, each.cuda), each)


def _items(words: tuple[str, ...], where: Where, versions: SpecifierSet) -> list[Compiled]:
    """Return the architectures of a list; empty if it has anything else."""
    items = [part for word in words for part in re.split(r"[;\s]+", word) if part]
    if len(items) > _MOST or not all(re.fullmatch(_ITEM, item) for item in items):
        return []
    return [Compiled(_target(item), where, versions) for item in dict.fromkeys(items)]


def _target(item: str) -> Target:
    """Return the target of an item: "90" is machine code and PTX."""
    number, _, kind = item.partition("-")
    return Target(Arch.parse(number), real=kind != "virtual", ptx=kind != "real")
