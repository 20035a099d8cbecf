"""GF502: the file name and the WHEEL file disagree about the tags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.tags import Tag

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.form import AS_BUILT
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules import wheel_file
from gpuforge.audit.rules.platform.tags import tags_that_hold
from gpuforge.audit.rules.rule import Rule
from gpuforge.wheel.tags import LinuxTag


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare both lists of tags, with compressed sets expanded, and the two names of one tag as equal."""
    for wheel in graph.wheels:
        if not wheel.wheel_tags or not wheel.file_tags or set(wheel.wheel_tags) == set(wheel.file_tags):
            continue
        only_name = _without(wheel.file_tags, wheel.wheel_tags)
        only_inside = _without(wheel.wheel_tags, wheel.file_tags)
        if not (only_name or only_inside):
            continue
        malformed = [tag for tag in only_inside if isinstance(tag, str)]
        yield RULE.finding(
            wheel.name,
            subjects=(
                *(Subject(item=str(tag), detail="in the file name only") for tag in only_name),
                *(Subject(item=str(tag), detail="in WHEEL only") for tag in only_inside),
            ),
            what="The tags in WHEEL are not those of the file name."
            + (f" {_parts(malformed[0])}, and a tag has three." if malformed else ""),
            why="pip installs by the file name; in an environment with the package, `pip check` "
            + (
                "ends with a ValueError."
                if malformed
                else "reports the package as unsupported, if no tag fits."
            ),
            fix="Correct the Tag lines of WHEEL, between `wheel unpack` and `wheel pack`: `wheel tags` ends with a "
            "traceback. Or rename the wheel, if WHEEL is right.",
            cause=tuple(malformed),
            commands=wheel_file.with_tags(wheel, tags_that_hold(graph, wheel)),
        )


RULE = Rule(
    code="GF502",
    severity="warning",
    title="the tags in WHEEL are not those of the file name",
    check=check,
    applies_to=AS_BUILT,
)


def _parts(tag: str) -> str:
    count = tag.count("-") + 1
    return f"{tag!r} has {({1: 'one part', 2: 'two parts'}).get(count, f'{count} parts')}"


def _without(tags: Iterable[Tag | str], others: Iterable[Tag | str]) -> list[Tag | str]:
    """Return the tags that are not among the others."""
    known = {_by_promise(tag) for tag in others}
    return [tag for tag in tags if _by_promise(tag) not in known]


def _by_promise(tag: Tag | str) -> object:
    """Return a value that is the same for two names of one tag."""
    if isinstance(tag, str):
        return tag
    linux = LinuxTag.parse(tag.platform)
    return tag.interpreter, tag.abi, linux if linux and linux.libc else tag.platform
