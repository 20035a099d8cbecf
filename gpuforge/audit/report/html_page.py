"""The audit's report as one page of HTML, to keep, to attach and to read without a network.

It has no script, and its content policy allows none: nothing that a wheel names can run or load anything.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from markdown_it import MarkdownIt

from gpuforge import __version__
from gpuforge.audit.judge import Report
from gpuforge.audit.report import data, sarif
from gpuforge.audit.report.comparison import SAME, Comparison, comparisons
from gpuforge.diagnostics import shown

_MOST_SUBJECTS = 100
_UNFOLDED = 8  # subjects that are shown without a click


def render(report: Report) -> str:
    """Return the page; it begins with the comparison with other wheels, if there is one."""
    content = data.as_data(report)
    style = files(__package__).joinpath("html_page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    own = [wheel for wheel in content["wheels"] if not wheel.get("beside")]
    body = [*_overview(own, content)]
    for each in comparisons(report):
        body += _comparison(each)
    for wheel in own:
        body += _wheel(wheel, content)
    body += [*_process(content), *_pages(content)]
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>GPU wheel audit: {_text(', '.join(wheel['name'] for wheel in own))}</title>",
            f"<style>{style}</style></head><body>",
            "<h1>GPU wheel audit</h1>",
            *body,
            f'<p class="dim">gpuforge {__version__}</p></body></html>',
            "",
        ]
    )


def _text(value: object) -> str:
    """Return a text for HTML; control characters are written out."""
    return escape(shown(str(value)))


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"


def _table(
    heads: Iterable[str], rows: Iterable[Iterable[str]], numbers: frozenset[int] = frozenset()
) -> Iterator[str]:
    def cells(tag: str, row: Iterable[str]) -> str:
        return "".join(
            f"<{tag}{' class=number' if at in numbers else ''}>{cell}</{tag}>" for at, cell in enumerate(row)
        )

    yield f"<table><thead><tr>{cells('th', heads)}</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{cells('td', row)}</tr>"
    yield "</tbody></table>"


def _overview(own: list[dict[str, Any]], content: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (
            f'<a href="#wheel-{at}">{_text(wheel["name"])}</a>',
            f'<span class="{wheel["verdict"]}">{wheel["verdict"]}</span>',
            *(str(wheel["counts"].get(severity, "")) for severity in ("error", "warning", "info")),
            _size(wheel["size"]),
        )
        for at, wheel in enumerate(own)
    ]
    for at, wheel in enumerate(own):
        wheel["anchor"] = f"wheel-{at}"
    heads = ("wheel", "verdict", "errors", "warnings", "information", "size")
    yield from _table(heads, rows, frozenset({2, 3, 4, 5}))
    for problem in content["problems"]:
        yield f'<p class="error">{_text(problem["file"])} cannot be read: {_text(problem["message"])}</p>'


def _wheel(wheel: Mapping[str, Any], content: Mapping[str, Any]) -> Iterator[str]:
    yield f'<h2 id="{wheel["anchor"]}">{_text(wheel["name"])}</h2>'
    findings = [each for each in content["findings"] if each["wheel"] == wheel["name"]]
    yield "<h3>Findings</h3>" if findings else "<p class=clean>Clean: no findings.</p>"
    for finding in findings:
        yield from _finding(finding)
    for each in (each for each in content["ignored"] if each["wheel"] == wheel["name"]):
        yield f'<p class="dim">accepted: {each["code"]} {_text(each["title"])}: {_text(each["reason"])}</p>'
    if wheel["proved"]:
        yield "<h3>Proved</h3><ul>"
        yield from (f"<li>{_text(each['topic'])}: {_text(each['text'])}</li>" for each in wheel["proved"])
        yield "</ul>"
    objects = [each for each in content["objects"] if each["wheel"] == wheel["name"]]
    if any(each["needed"] for each in objects):
        yield "<h3>What it loads</h3>"
        yield "<p class=dim>Point at a library, or go to it with the Tab key, to see its way. Dashed: not found.</p>"
        yield f'<div class="picture">{draw(objects, findings)}</div>'
    yield from _bytes(wheel, content)


def _finding(finding: Mapping[str, Any]) -> Iterator[str]:
    severity, code = finding["severity"], finding["code"]
    yield f"<details{' open' * (severity == 'error')}><summary><b class={severity}>{severity}</b>"
    yield f'<a href="#{code}">{code}</a> {_text(finding["message"])}</summary><ul>'
    subjects = [f"<li><code>{_text(each)}</code></li>" for each in finding["subject"][:_MOST_SUBJECTS]]
    if (rest := len(finding["subject"]) - _MOST_SUBJECTS) > 0:
        subjects.append(f"<li>and {rest:,} more (--format json lists all)</li>")
    folded = subjects[_UNFOLDED:]
    yield from subjects[:_UNFOLDED]
    yield "</ul>"
    if folded:
        yield f"<details><summary>and {len(folded):,} more</summary><ul>"
        yield from folded
        yield "</ul></details>"
    yield f"<p>{_text(finding['remedy'])}</p>"
    if finding["commands"]:
        yield f"<pre>{chr(10).join(map(_text, finding['commands'][:_MOST_SUBJECTS]))}</pre>"
    yield "</details>"


def _bytes(wheel: Mapping[str, Any], content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the bytes of the largest files, and of each GPU architecture: what the wheel would be without it."""
    codes = [each for each in content["device_code"] if each["wheel"] == wheel["name"]]
    stored = stored_by_arch(codes)
    objects = sorted(
        (each for each in content["objects"] if each["wheel"] == wheel["name"]), key=lambda o: -o["size"]
    )
    if objects:
        yield "<h3>Largest files, unpacked</h3>"
        top = objects[0]["size"] or 1
        rows = (
            (f"<code>{_text(each['file'])}</code>", _size(each["size"]), bar(each["size"] / top))
            for each in objects[:20]
        )
        yield from _table(("file", "size", ""), rows, frozenset({1}))
    if stored:
        yield "<h3>GPU code by architecture</h3>"
        top = max(stored.values()) or 1
        rows = (
            (_text(arch), f"without it: \N{MINUS SIGN}{_size(size)}", bar(size / top))
            for arch, size in sorted(stored.items(), key=lambda each: -each[1])
        )
        yield from _table(("architecture", "as stored in the files", ""), rows, frozenset({1}))


def stored_by_arch(codes: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the bytes of GPU code by architecture, as `device_code` of the JSON report has them."""
    found: dict[str, int] = {}
    for container in (each for code in codes for each in code["containers"]):
        for image in container["images"]:
            found[image["arch"]] = found.get(image["arch"], 0) + image["stored"]
    return found


def _process(content: Mapping[str, Any]) -> Iterator[str]:
    if not (together := content.get("together")):
        return
    libraries = [
        each for each in together["libraries"] if each["kind"] != "library" or each["origin"] != "machine"
    ]
    runtimes = [each["name"] for each in libraries if each["kind"] == "CUDA runtime"]
    yield f"<h2>One process that imports all {len(content['wheels'])} packages</h2>"
    if together["driver"]:
        yield f"<p>Together they need NVIDIA driver {_text(together['driver'])} or newer.</p>"
    rows = (
        (
            f"<code class={'error' if each['kind'] == 'CUDA runtime' and len(runtimes) > 1 else 'name'}>"
            f"{_text(each['name'])}</code>",
            _text(each["kind"]),
            _text(each["provider"] or "the machine"),
            ", ".join(sorted({_text(use["wheel"]) for use in each["uses"]})),
        )
        for each in libraries
    )
    yield from _table(("library", "kind", "brought by", "used by"), rows)


def _comparison(found: Comparison) -> Iterator[str]:
    """Yield what a wheel and the one that it is compared with have each alone."""
    yield f"<h2>Compared with {_text(found.like.name)}</h2>"
    yield f"<p>{_text(found.wheel.name)}: {_size(found.wheel.size)}, compared with {_size(found.like.size)}</p>"
    rows = [
        (
            each.topic,
            _listed(each.there, "clean" if each.topic == "findings" else "error"),
            _listed(each.here, "error" if each.topic == "findings" else ""),
        )
        for each in found.differences
    ]
    yield from _table(("", "only there", "only here"), rows) if rows else [f"<p>{SAME}</p>"]


def _listed(values: Iterable[str], kind: str) -> str:
    return "<br>".join(f'<span class="{kind}">{_text(value)}</span>' for value in values)


def _pages(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the page of each code that was found."""
    codes = sorted({each["code"] for each in content["findings"]})
    if codes:
        yield "<h2>About these findings</h2>"
    for code in codes:
        titles = {each["title"] for each in content["findings"] if each["code"] == code}
        yield f'<details id="{code}"><summary>{code} {_text(titles.pop())}</summary>'
        yield MarkdownIt("commonmark", {"html": False}).enable("table").render(sarif.linkless(code))
        yield "</details>"


# The picture of what files load, as SVG: files at the left, libraries at the right by who brings them.
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
