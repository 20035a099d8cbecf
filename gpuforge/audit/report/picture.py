"""A picture of what a wheel's files load: files at the left, libraries at the right by who brings them, as SVG."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from gpuforge.diagnostics import shown

_ROW, _TOP = 22, 52  # pixels: of a line, and of the space above the first one
# x: where files end, libraries and routes begin, the end
_FILES, _LIBRARIES, _ROUTES, _WIDTH = 400, 560, 830, 1090
_LONGEST = {"file": 48, "library": 32, "route": 32}  # characters
_BROUGHT = {
    "system": "by the system",
    "driver": "by the NVIDIA driver",
    "wheel": "in this wheel",
    "nobody": "by nothing",
}


class Library(NamedTuple):
    """A library at the right: its name, who brings it, how each file finds it (no way: not at all), and its users."""

    name: str
    brought: str
    routes: tuple[str, ...]
    severity: str  # of the worst finding about it, or ""
    users: tuple[str, ...]


def draw(objects: Iterable[Mapping[str, Any]], findings: Iterable[Mapping[str, Any]]) -> str:
    """Return the picture of `objects`, with those of `findings` in their colour; both as the JSON report has them.

    Files that load the same are one row, a library is one row however it is found, and so are all libraries of the
    system: 300 libraries remain readable.
    """
    libraries = _libraries(list(objects), _severities(findings))
    rows: dict[tuple[int, ...], list[str]] = {}
    for file in dict.fromkeys(user for library in libraries for user in library.users):
        rows.setdefault(tuple(at for at, each in enumerate(libraries) if file in each.users), []).append(file)
    files = list(rows.values())
    at_file = {file: _TOP + _ROW * index for index, group in enumerate(files) for file in group}
    lines, y, heading = [], _TOP - _ROW, ""
    for library in libraries:
        if library.brought != heading:
            heading, y = library.brought, y + _ROW
            lines.append(_label(_LIBRARIES, y, heading, "heading"))
        y += _ROW
        lines.append(_library(library, y, sorted({at_file[user] for user in library.users})))
    for group in files:
        more = f" and {len(group) - 1:,} more" if len(group) > 1 else ""
        text = _short(group[0], _LONGEST["file"] - len(more)) + more
        title = f"<title>{_text(chr(10).join(group[:50]))}</title>"
        lines.append(f"<g>{title}{_label(_FILES, at_file[group[0]], text, 'file', end=True)}</g>")
    height = max(y, _TOP + _ROW * len(files)) + _ROW
    name = f"{len(libraries)} libraries that {sum(map(len, files))} files load"
    head = f'<svg width="{_WIDTH}" height="{height}" role="group" aria-label="{name}">'
    return "\n".join([head, *lines, "</svg>"])


def bar(share: float) -> str:
    """Return a bar whose length is a share of 200 pixels."""
    rect = f'<rect width="{200 * share:.0f}" height="12"/>'
    return f'<svg width="200" height="12" aria-hidden="true">{rect}</svg>'


def _severities(findings: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the worst severity by library; findings come with the worst first."""
    found: dict[str, str] = {}
    for finding in findings:
        for subject in finding["subjects"] if finding["severity"] != "info" else ():
            found.setdefault(subject.get("library", ""), finding["severity"])
    return found


def _libraries(objects: Sequence[Mapping[str, Any]], severities: Mapping[str, str]) -> list[Library]:
    found: dict[tuple[str, str, bool], dict[str, str]] = {}  # the route of each file that needs it
    for binary in objects:
        for edge in binary["needed"]:
            source = edge["provider"]
            brought = _BROUGHT.get(source, source)
            if source == "package":
                brought = f"by {edge['package']}" + ("" if edge["declared"] else ", which is not required")
            elif source == "sibling":
                brought = f"by {edge['wheel']}"
            of_system = source == "system" and edge["name"] not in severities
            name = "libraries of the system" if of_system else edge["name"]
            route = edge["route"] or (f"loaded before by {edge['preload']}" if "preload" in edge else "")
            found.setdefault((brought, name, bool(route)), {})[binary["file"]] = route
    order = sorted(found.items(), key=lambda item: (severities.get(item[0][1], "info"), item[0]))
    return [
        Library(
            name, brought, tuple(sorted({*users.values()} - {""})), severities.get(name, ""), tuple(users)
        )
        for (brought, name, _), users in order
    ]


def _library(library: Library, y: int, users: Iterable[int]) -> str:
    lost = "" if library.routes else " class=lost"
    curves = "".join(
        f'<path{lost} d="M{_FILES + 6} {u} C{_FILES + 70} {u} {_LIBRARIES - 70} {y} {_LIBRARIES - 6} {y}"/>'
        for u in users
    )
    ways = library.routes or ("no path leads there",)
    way = ways[0] if len(ways) == 1 else f"{len(ways):,} ways"
    more = f"; and {len(ways) - 3:,} more" if len(ways) > 3 else ""
    whole = f"{library.name}, brought {library.brought}: {'; '.join(ways[:3])}{more}"
    return (
        f'<g class="library {library.severity}" tabindex="0" role="img" aria-label="{_text(whole)}">'
        f"<title>{_text(whole)}</title>{curves}{_label(8, _ROW, whole, 'whole')}"
        f"{_label(_LIBRARIES, y, _short(library.name, _LONGEST['library']), 'name')}"
        f"{_label(_ROUTES, y, _short(way, _LONGEST['route']), 'route')}</g>"
    )


def _label(x: int, y: int, text: str, kind: str, *, end: bool = False) -> str:
    anchor = ' text-anchor="end"' * end
    return f'<text x="{x}" y="{y + 4}" class="{kind}"{anchor}>{_text(text)}</text>'


def _short(text: str, most: int) -> str:
    """Shorten a text in its middle."""
    left = (most - 1) // 2
    return text if len(text) <= most else f"{text[:left]}…{text[-(most - 1 - left) :]}"


def _text(text: str) -> str:
    return escape(shown(text))
