"""What differs between wheels and those that they are compared with (`audit --like`), for every renderer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from gpuforge.audit import layout
from gpuforge.audit.link.opened import opens
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules import RULES
from gpuforge.audit.rules.files import lacking
from gpuforge.cuda import sonames

if TYPE_CHECKING:
    from gpuforge.audit.judge import Report, WheelReport

SAME = "Nothing that the audit reads differs."
_TITLES = {rule.code: rule.title for rule in RULES}


class Difference(NamedTuple):
    """What of a topic only one of two wheels has."""

    topic: str
    there: tuple[str, ...]  # in the wheel of --like
    here: tuple[str, ...]


class Comparison(NamedTuple):
    """A wheel, the one that it is compared with, and what differs."""

    wheel: WheelFacts
    like: WheelFacts
    differences: tuple[Difference, ...]


def comparisons(report: Report) -> Iterator[Comparison]:
    """Yield the comparison of each wheel of a report that has a counterpart."""
    if report.like is None:
        return
    others = {wheel.facts.name: wheel for wheel in report.like.wheels}
    for wheel in report.wheels:
        if like := report.graph.like.get(wheel.facts.name):
            new, old = _topics(report, wheel), _topics(report.like, others[like.name])
            differences = (
                Difference(
                    topic, tuple(sorted(old[topic] - new[topic])), tuple(sorted(new[topic] - old[topic]))
                )
                for topic in new
            )
            yield Comparison(wheel.facts, like, tuple(d for d in differences if d.there or d.here))


def _topics(report: Report, wheel: WheelReport) -> dict[str, set[str]]:
    """Return what is compared, by topic; what users would miss first comes first."""
    facts = wheel.facts
    importable = facts.modules
    needed = (edge for edge in report.graph.edges_of(facts) if edge.provider.source != "wheel")
    by_code = {name for preload in facts.preloads for name in preload.sonames}
    by_code |= {name for preload in facts.preloads for each in preload.by_name for name in each.names}
    return {
        "modules": {*importable},
        "extras": {*facts.extras},
        "GPU code": {*facts.architectures},
        "tags": {*map(str, facts.file_tags)},
        "Requires-Python": {facts.python} - {""},
        "requirements": {*facts.requires},
        "libraries from outside": {edge.needed for edge in needed},
        "libraries opened by name": {name for each in facts.linked for name in opens(each)} | by_code,
        "other files": {*map(_known_as, facts.members.keys() - {*importable.values()})} - {""},
        "findings": {
            f"{each.code} {_TITLES[each.code]}" for each in wheel.findings if each.code != lacking.code
        },
        "proofs": {each.topic for each in wheel.proofs},
    }


def _known_as(file: str) -> str:
    """Return the name of a file without what differs between builds and versions; "" for metadata."""
    path = PurePosixPath(layout.Folder.of(layout.install_path(file)).path)
    folder = path.parts[0]
    if folder.endswith(".dist-info"):
        return ""
    name = sonames.plain_name(path.name)
    return f"*.libs/{name}" if folder.endswith(".libs") else str(path.with_name(name))
