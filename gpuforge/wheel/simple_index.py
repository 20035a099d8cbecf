"""A static package index: pages that pip and uv read, for each choice of CUDA and torch, and a page for people.

The pages are those of the simple repository API (PEP 503, 592, 658, 691, 714),
https://packaging.python.org/en/latest/specifications/simple-repository-api/
`CHOICE/PROJECT/index.html` is for every server, and `index.json` beside it for those that can choose.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from gpuforge.grouping import grouped

ALL = "all"  # the index with every file
_JSON = {"api-version": "1.1"}
_SHOWN = ("name", "project", "version", "size", "python", "cuda", "torch")  # what the page for people needs
_SYSTEMS = (
    (r"(many)?linux([\d_]*\d)?_(?=[a-z])", "Linux "),
    (r"musllinux_\d+_\d+_", "Linux (musl) "),
    (r"macosx_\d+_\d+_", "macOS "),
    (r"win(_|(?=32))", "Windows "),
    (r"any$", ""),
)


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A file of the index.

    `url` is where it lies; "" is the folder `files` of the index. `cuda` is its CUDA major and `torch` the releases of
    torch that it fits ("2.11"); empty if it does not matter. `metadata` is the sha256 of its METADATA, which then lies
    beside it. `yanked` is the reason why installers should not choose it.
    """

    name: str
    project: str
    version: str
    sha256: str
    size: int
    requires_python: str = ""
    metadata: str = ""
    url: str = ""
    python: str = ""  # as in its tags: "cp311"; "" for every Python
    cuda: str = ""
    torch: tuple[str, ...] = ()
    yanked: str | None = None
    signed: bool = False

    @property
    def location(self) -> str:
        """The address, relative to the index of a choice's project if the file lies here."""
        return self.url or f"../../files/{quote(self.name)}"


def choices(indexed: Sequence[IndexedFile]) -> dict[str, list[IndexedFile]]:
    """Return the files by choice: `all`, `cu13`, `torch2.11`, `cu13-torch2.11`. What fits every choice is in each."""
    cudas = sorted({each.cuda for each in indexed if each.cuda}, key=int)
    torches = sorted(
        {one for each in indexed for one in each.torch}, key=lambda text: [*map(int, text.split("."))]
    )
    found = {ALL: list(indexed)}
    for cuda in ["", *cudas]:
        for torch in ["", *torches]:
            fit = [
                each
                for each in indexed
                if (not cuda or each.cuda in {"", cuda})
                and (not torch or not each.torch or torch in each.torch)
            ]
            own = [e for e in fit if (not cuda or e.cuda) and (not torch or e.torch)]
            if (cuda or torch) and own:
                found["-".join(filter(None, [cuda and f"cu{cuda}", torch and f"torch{torch}"]))] = fit
    return found


def pages(indexed: Sequence[IndexedFile], *, title: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page."""
    every = choices(indexed)
    for choice, some in every.items():
        ordered = sorted(some, key=lambda each: (each.project, each.name))
        projects = grouped((each.project, each) for each in ordered)
        links = [f'<a href="{quote(name)}/">{escape(name)}</a><br>' for name in projects]
        yield f"{choice}/index.html", _page(choice, links)
        listed = [{"name": name} for name in projects]
        yield f"{choice}/index.json", _json({"meta": _JSON, "projects": listed})
        for name, own in projects.items():
            yield f"{choice}/{name}/index.html", _page(name, map(_link, own))
            yield f"{choice}/{name}/index.json", _json(_project(name, own))
    yield "index.html", _for_people(every, title)


def _page(title: str, lines: Iterable[str]) -> str:
    head = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    head += f'<meta name="pypi:repository-version" content="1.1"><title>{escape(title)}</title></head><body>'
    return "\n".join([head, *lines, "</body></html>", ""])


def _link(each: IndexedFile) -> str:
    attributes = {}
    if each.requires_python:
        attributes["data-requires-python"] = each.requires_python
    if each.metadata:  # the second is the name that older installers know (PEP 714)
        attributes["data-core-metadata"] = attributes["data-dist-info-metadata"] = f"sha256={each.metadata}"
    if each.yanked is not None:
        attributes["data-yanked"] = each.yanked
    if each.signed:
        attributes["data-gpg-sig"] = "true"
    written = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return f'<a href="{escape(each.location)}#sha256={each.sha256}"{written}>{escape(each.name)}</a><br>'


def _project(name: str, own: Sequence[IndexedFile]) -> dict[str, Any]:
    found = [
        {
            "filename": each.name,
            "url": each.location,
            "size": each.size,
            "hashes": {"sha256": each.sha256},
            **({"requires-python": each.requires_python} if each.requires_python else {}),
            **({"core-metadata": {"sha256": each.metadata}} if each.metadata else {}),
            **({"yanked": each.yanked or True} if each.yanked is not None else {}),
            **({"gpg-sig": True} if each.signed else {}),
        }
        for each in own
    ]
    versions = list(dict.fromkeys(each.version for each in own))
    return {"meta": _JSON, "name": name, "versions": versions, "files": found}


def _json(data: object) -> str:
    return json.dumps(data, indent=1) + "\n"


def _for_people(grouped: Mapping[str, Sequence[IndexedFile]], title: str) -> str:
    """Return the page that answers "which line do I type": choices, and the commands for pip and uv.

    Its script is its own, and its content policy allows no other; without it the page lists the indexes.
    """
    here = files(__package__)
    script = here.joinpath("simple_index.js").read_text(encoding="utf-8")
    style = here.joinpath("simple_index.css").read_text(encoding="utf-8")
    rows = [
        {name: getattr(each, name) for name in _SHOWN} | {"systems": systems}
        for each in grouped[ALL]
        if each.yanked is None and each.name.endswith(".whl") and (systems := _systems(each.name))
    ]
    data = json.dumps({"files": rows, "choices": [*grouped]}).replace("<", "\\u003c")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    links = "".join(
        f'<li><a href="{quote(choice)}/">{escape(choice)}</a>: {len(some)} file{"s"[: len(some) != 1]}</li>'
        for choice, some in grouped.items()
    )
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{style}</style></head><body><h1>{escape(title)}</h1>",
            '<form id="choose" hidden></form><div id="lines" aria-live="polite"></div>',
            f"<h2>The indexes</h2><ul>{links}</ul>",
            f'<script type="application/json" id="files">{data}</script>',
            f"<script>{script}</script></body></html>",
            "",
        ]
    )


def _systems(wheel: str) -> list[str]:
    """Return the systems in a wheel's name: "Linux x86_64"; "" is every one. The name of a variant ends otherwise."""
    tags = wheel.removesuffix(".whl").rpartition("-")[2].split(".")
    found = [
        re.sub(pattern, system, tag) for tag in tags for pattern, system in _SYSTEMS if re.match(pattern, tag)
    ]
    return [*dict.fromkeys(found)]


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
