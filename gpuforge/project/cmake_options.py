"""Chooses options of CMake: without which ones CUDA is not used, and which ones would spoil a wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuforge.project.cmake import Source
from gpuforge.project.cmake_facts import CMake
from gpuforge.project.cuda_libraries import is_lacking
from gpuforge.project.files import Where

_ASKS = r"CUDA|GPU"  # in the names of options
_ASIDE = r"TEST|EXAMPLE|BENCH|DOC"
_SHARED = r"(?i)(?!CMAKE_)\w*(SHARED|DYNAMIC)\w*"  # variables by which a project selects shared libraries
_MOST_READINGS = 30  # for one purpose
_LANGUAGE, _TOOLKIT = 4, 3  # of `CMake.cuda`


@dataclass(frozen=True, slots=True)
class Setting:
    """An option to define: why ("cmake-option", "static-unless", "native-option"), and the places that say so."""

    value: str
    kind: str
    where: tuple[Where, ...]
    library: str = ""  # the static one that the shared one replaces


@dataclass(slots=True)
class Chosen:
    """What the files do with the options that were chosen."""

    facts: CMake
    settings: dict[str, Setting] = field(default_factory=dict)
    defined: dict[str, str | None] = field(default_factory=dict)  # the project's own settings, too


def choose(source: Source, defined: Mapping[str, str | None]) -> Chosen:
    """Read the files with few changes of their options, so that the build uses CUDA and its wheel works elsewhere."""
    choice = _Choice(source, Chosen(source.read(defined), defined=dict(defined)))
    choice.use_cuda()
    if choice.chosen.facts.cuda:
        choice.take_shared()
    choice.leave_this_cpu()
    return choice.chosen


class _Choice:
    def __init__(self, source: Source, chosen: Chosen) -> None:
        self.source, self.chosen, self.readings = source, chosen, 1

    def _with(self, name: str, value: str) -> CMake:
        """Read with one more option; after too many readings, without it."""
        self.readings += 1
        if self.readings > _MOST_READINGS:
            return self.chosen.facts
        return self.source.read({**self.chosen.defined, name: value})

    def _take(self, name: str, setting: Setting, facts: CMake) -> None:
        declared = self.chosen.facts.options.get(name)
        where = tuple(dict.fromkeys((*([declared.where] if declared else ()), *setting.where)))
        self.chosen.settings[name] = Setting(setting.value, setting.kind, where, setting.library)
        self.chosen.defined[name] = setting.value
        self.chosen.facts = facts

    def _flips(self) -> Iterator[tuple[str, str]]:
        """Yield the options for which a branch is not read, with the opposite of their value.

        Those named for CUDA come first, and of these the short names, which further options of theirs begin with.
        """
        facts = self.chosen.facts
        names = [name for name in facts.blocked if name not in self.chosen.defined]
        for name in sorted(names, key=lambda name: (not re.search(_ASKS, name), len(name))):
            if name in facts.options and not re.search(_ASIDE, name):
                yield name, "OFF" if facts.options[name].text == "ON" else "ON"

    def use_cuda(self) -> None:
        """Change an option at a time until CUDA's language is used, if a change makes that more certain."""
        for _ in range(3):
            before = self.chosen.facts
            required = any(use.required for use in before.uses if use.sure)
            if before.cuda == _LANGUAGE or (before.cuda == _TOOLKIT and required):
                return
            best: tuple[str, str, CMake] | None = None
            for name, value in self._flips():
                if before.cuda and not re.search(_ASKS, name):
                    continue  # it is used without: what else upstream leaves off stays off
                facts = self._with(name, value)
                if facts.cuda > (best[2].cuda if best else before.cuda):
                    best = name, value, facts
                if facts.cuda == _LANGUAGE:
                    break
            if best is None:
                return
            name, value, facts = best
            first = max(facts.uses, key=lambda use: (use.sure, use.language))
            self._take(name, Setting(value, "cmake-option", (first.where,)), facts)

    def take_shared(self) -> None:
        """Turn on what selects a shared library instead of a static one that NVIDIA's wheels lack."""
        self.readings = 0
        for static in self.chosen.facts.static:
            if not is_lacking(static.text) or static not in self.chosen.facts.static:
                continue
            for name in self.chosen.facts.blocked:
                if not re.fullmatch(_SHARED, name) or name in self.chosen.defined:
                    continue
                facts = self._with(name, "ON")
                shared = static.text.removesuffix("_static")
                if static not in facts.static and shared in facts.words - self.chosen.facts.words:
                    setting = Setting("ON", "static-unless", (static.where,), static.text)
                    self._take(name, setting, facts)
                    break

    def leave_this_cpu(self) -> None:
        """Turn off the options that compile for the CPU of the machine that builds."""
        self.readings = 0
        for place in self.chosen.facts.this_cpu:
            for name in place.options:
                if name in self.chosen.defined:
                    continue
                facts = self._with(name, "OFF")
                if place.where not in {each.where for each in facts.this_cpu}:
                    self._take(name, Setting("OFF", "native-option", (place.where,)), facts)
                    break
