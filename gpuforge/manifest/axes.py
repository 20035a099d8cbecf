"""`[axes]`: the points of the maintainer's own dimensions, and the manifest with their values filled in.

This happens in the parsed TOML, before it is checked: `torch=={torch}.*` is a requirement only where `{torch}` has a
value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from packaging.version import InvalidVersion, Version

from gpuforge.manifest import braces
from gpuforge.manifest.positions import KeyPath
from gpuforge.manifest.problem import Raw

Values = tuple[tuple[str, str], ...]  # ("torch", "2.11")

FIELDS: tuple[KeyPath, ...] = (
    ("package", "name"),
    *(("build", key) for key in ("requires", "constraints", "config-settings", "env", "before", "overlay")),
    ("toolchains", "*", "flags"),
    ("objects", "*", "flags"),
    *(("wheel", key) for key in ("requires", "provided-by")),
    *(("test", key) for key in ("requires", "command", "extras")),
    ("audit", "beside"),
)
"""The values that may use the axes; `*` is any key or place."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value for each axis, and the last value for which the same wheel is used."""

    values: Values = ()
    ends: Values = ()

    @property
    def label(self) -> str:
        """The values as a name: "torch2.11"."""
        return label(self.values)

    @property
    def names(self) -> dict[str, str]:
        """The values of the names in braces: of `torch` and, for a version, also of `torch-next`."""
        after = {f"{name}-next": text for name, value in self.ends if (text := _next(value))}
        return dict(self.values) | after


def label(values: Values) -> str:
    """Return values as a name: "torch2.11-blasmkl"."""
    return "-".join(f"{name}{value}" for name, value in values)


def wheels(axes: Mapping[str, Sequence[str]], spans: Collection[str]) -> Iterator[tuple[Point, ...]]:
    """Yield for each wheel the points that it serves; it is built at the first of them.

    A wheel serves every value of the axes `spans`, and one of each other axis.
    """
    several = [name for name in axes if name in spans]
    for chosen in product(*(axes[name] for name in axes if name not in spans)):
        own = dict(zip((name for name in axes if name not in spans), chosen, strict=True))
        ends = {name: own[name] if name in own else axes[name][-1] for name in axes}
        points = []
        for others in product(*(axes[name] for name in several)):
            values = own | dict(zip(several, others, strict=True))
            points.append(Point(tuple((name, values[name]) for name in axes), tuple(ends.items())))
        yield tuple(points)


def filled(data: Raw, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the parsed TOML with the names of the axes filled in where they may be used."""
    found: Any = data
    for pattern in FIELDS if names else ():
        found = _changed(found, pattern, (), lambda _, text: braces.fill_known(text, names))
    return dict(found)


def texts(data: Raw) -> Iterator[tuple[KeyPath, str]]:
    """Yield each text that may use the axes, with the path that leads to it."""
    found: list[tuple[KeyPath, str]] = []

    def note(path: KeyPath, text: str) -> str:
        found.append((path, text))
        return text

    for pattern in FIELDS:
        _changed(data, pattern, (), note)
    yield from found


def _changed(value: Any, pattern: KeyPath, path: KeyPath, change: Callable[[KeyPath, str], str]) -> Any:
    """Return a value in which the texts that a pattern leads to, and all texts below them, are changed."""
    if isinstance(value, str):
        return value if pattern else change(path, value)
    if not isinstance(value, Mapping | list):
        return value
    first, rest = pattern[:1], pattern[1:]
    parts = value.items() if isinstance(value, Mapping) else enumerate(value)
    new = {
        key: _changed(part, rest, (*path, key), change) if first in {(), ("*",), (key,)} else part
        for key, part in parts
    }
    return new if isinstance(value, Mapping) else list(new.values())


def _next(value: str) -> str:
    """Return the version after all that begin with this one: "2.12" after 2.11; "" if it is not a version."""
    try:
        release = Version(value).release
    except InvalidVersion:
        return ""
    return ".".join(map(str, (*release[:-1], release[-1] + 1)))
