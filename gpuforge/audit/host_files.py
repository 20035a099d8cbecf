"""Finds the files of a wheel that the patterns of a manifest's objects match."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuforge.audit.model import WheelFacts
from gpuforge.runtime.layout import HOME

if TYPE_CHECKING:
    from gpuforge.audit.link.graph import LinkGraph
    from gpuforge.expectation import HostOnly


def matches(pattern: str, file: str) -> bool:
    """Match a file of a wheel against a pattern, in which `**` crosses folders, and `*` and `?` do not."""
    regex = ""
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", pattern):
        match part:
            case "**/":
                regex += "(?:.*/)?"
            case "**":
                regex += ".*"
            case "*":
                regex += "[^/]*"
            case "?":
                regex += "[^/]"
            case _ if part.startswith("[") and len(part) > 1:
                regex += "[" + part[1:-1].replace("!", "^", 1) + "]" if part[1] == "!" else part
            case _:
                regex += re.escape(part)
    return re.fullmatch(regex, file) is not None


def files_of(patterns: Sequence[str], wheel: WheelFacts) -> set[str]:
    """Return the files of a wheel that match the patterns, except those of kernel sets."""
    return {
        member
        for member in wheel.members
        if f"/{HOME}/" not in f"/{member}" and any(matches(p, member) for p in patterns)
    }


def host_only_files(graph: LinkGraph) -> Iterator[tuple[WheelFacts, HostOnly, str]]:
    """Yield each file that a manifest calls host-only, with its wheel and its object."""
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        for promised in expectation.host_only if expectation else ():
            for file in sorted(files_of(promised.patterns, wheel)):
                yield wheel, promised, file
