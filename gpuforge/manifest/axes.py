"""`[axes]`: the points of the maintainer's own dimensions, their values filled in, and their conditions."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from typing import Any, NamedTuple

from packaging.version import InvalidVersion, Version

from gpuforge.manifest import braces
from gpuforge.manifest.problem import (
    KeyPath,
    Problem,
    Raw,
    number_text,
    quote,
    table,
    toolkits_of,
)

Values = tuple[tuple[str, str], ...]  # ("torch", "2.11")

FIELDS: tuple[KeyPath, ...] = (
    ("package", "name"),
    *(("build", key) for key in ("requires", "constraints", "config-settings", "env", "before", "overlay")),
    ("toolchains", "*", "flags"),
    ("objects", "*", "flags"),
    *(("wheel", key) for key in ("label", "requires", "provided-by", "bundle-from")),
    *(("test", key) for key in ("requires", "command", "extras")),
    ("audit", "beside"),
    ("indexes", "*"),
)
"""The values that may use the axes; `*` is any key or place."""


class Point(NamedTuple):
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


MOST = 200  # combinations of values
_TAKEN = {
    *(*braces.OF_BUILD, *braces.OF_TEST, *braces.OF_LABEL),
    *("sources", "include", "folders", "abi", "output", "arch", "cuda", "python"),
}
_OWN_BRACES = frozenset(
    {"config-settings", "env", "before", "command", "flags", "label", "indexes", "bundle-from"}
)  # keys whose texts may have others


def points(data: Raw) -> Iterator[Point]:
    """Yield each point of the manifest's axes once; tables with mistakes are read as far as possible.

    A toolkit with more than `MOST` combinations gets only the first values, because all would take too long.
    """
    spans = _texts_of(table(data, "wheel").get("spans"))
    most = ((each, None if _combinations(each) <= MOST else 1) for each in _by_toolkit(data))
    own = [{name: values[:count] for name, values in each.items()} for each, count in most]
    yield from dict.fromkeys(point for each in own for served in wheels(each, spans) for point in served)


def axis_problems(data: Raw) -> Iterator[Problem]:
    """Yield every condition that the axes break."""
    yield from _taken(data)
    yield from _restrictions(data)
    yield from _spans(data)
    yield from _unknown(data)
    yield from _unused(data)
    if max(map(_combinations, _by_toolkit(data))) > MOST or len(list(points(data))) > MOST:
        yield Problem(
            ("axes",),
            f"[axes] has more than {MOST} combinations of values",
            "split it: one manifest for each part",
        )


def _taken(data: Raw) -> Iterator[Problem]:
    for name in table(data, "axes"):
        if name in _TAKEN:
            yield Problem(
                ("axes", name),
                f"[axes] cannot have an axis `{name}`: {{{name}}} has another meaning",
                "choose another name",
                at_key=True,
            )


def _restrictions(data: Raw) -> Iterator[Problem]:
    """Yield axes and values of toolkits that `[axes]` does not have."""
    declared = _declared(data)
    for key, version in toolkits_of(data):
        for name, values in table(version, "axes").items():
            path: KeyPath = ("cuda", key, "axes", name)
            if name not in table(data, "axes"):
                yield Problem(path, *_no_axis(declared, name, key=True), at_key=True)
                continue
            for index, value in enumerate(values if isinstance(values, list) else []):
                if isinstance(value, str) and name in declared and value not in declared[name]:
                    yield Problem(
                        (*path, index),
                        f"[axes] {name} does not have {quote(value)}",
                        f"it has {', '.join(declared[name])}; add the value there",
                    )


def _spans(data: Raw) -> Iterator[Problem]:
    """Yield axes that `[wheel] spans` or `kernels = "own"` cannot have."""
    spans = _texts_of(table(data, "wheel").get("spans"))
    for index, name in enumerate(spans):
        if name not in table(data, "axes"):
            yield Problem(("wheel", "spans", index), *_no_axis(_declared(data), name))
    if table(data, "axes") and table(data, "wheel").get("kernels") == "own":
        yield Problem(
            ("wheel", "kernels"),
            '[wheel] kernels = "own" makes one wheel for all CUDA versions and values, but the manifest has [axes]',
            "remove `kernels`, or `[axes]`",
        )
    own = [name for name in _declared(data) if name not in spans]
    if own and "front" in table(data, "wheel"):
        yield Problem(
            ("wheel", "front"),
            f"[wheel] front installs one wheel for each CUDA major, but each value of {own[0]} has its own wheel",
            f'remove `front`, or let one wheel serve all values: spans = ["{own[0]}"]',
            at_key=True,
        )


def _unknown(data: Raw) -> Iterator[Problem]:
    """Yield names in braces that are not axes, in keys that can have no other names in braces."""
    known = table(data, "axes")
    for path, text in texts(data):
        for name in dict.fromkeys(name.removesuffix("-next") for name in braces.names(text)):
            near = get_close_matches(name.lower(), known, n=1)
            if name in known or (_OWN_BRACES.intersection(map(str, path)) and not (near and "flags" in path)):
                continue
            yield Problem(
                path,
                f"{{{name}}} in {quote(text)} is not an axis",
                f"did you mean {{{near[0]}}}?"
                if near
                else f"{_list_axes(_declared(data))}; an axis is declared as [axes] {name} = [values]",
            )


def _unused(data: Raw) -> Iterator[Problem]:
    used = {name.removesuffix("-next") for _, text in texts(data) for name in braces.names(text)}
    for name in table(data, "axes"):
        if name not in used | _TAKEN:
            yield Problem(
                ("axes", name),
                f"[axes] {name}: no key uses {{{name}}}, so its values make no difference",
                f"put {{{name}}} into a requirement, a flag or the environment of the build, or remove `{name}`",
                at_key=True,
            )


def _no_axis(declared: Mapping[str, Sequence[str]], name: str, *, key: bool = False) -> tuple[str, str]:
    near = get_close_matches(name, declared, n=1)
    meant = f"did you mean {f'`{near[0]}`' if key else quote(near[0])}?" if near else _list_axes(declared)
    return f"[axes] has no axis {quote(name)}", meant


def _list_axes(declared: Mapping[str, Sequence[str]]) -> str:
    return f"[axes] has {', '.join(declared)}" if declared else "the manifest has no [axes]"


def _declared(data: Raw) -> dict[str, list[str]]:
    return {name: found for name, values in table(data, "axes").items() if (found := _texts_of(values))}


def _by_toolkit(data: Raw) -> list[dict[str, list[str]]]:
    """Return the axes that each toolkit has; those of `[axes]` where there is no toolkit."""
    declared = _declared(data)
    restricted = (table(version, "axes") for _, version in toolkits_of(data))
    found = [
        {name: _texts_of(own.get(name)) or all_ for name, all_ in declared.items()} for own in restricted
    ]
    return found or [declared]


def _combinations(own: Mapping[str, Sequence[str]]) -> int:
    return math.prod(map(len, own.values()))


def _texts_of(values: object) -> list[str]:
    """Return the texts of an array; a single text and numbers, which the model refuses, are converted."""
    found = values if isinstance(values, list) else [values]
    return [
        value if isinstance(value, str) else number_text(value)
        for value in found
        if isinstance(value, str | int | float)
    ]
