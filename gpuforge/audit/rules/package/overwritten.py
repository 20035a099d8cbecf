"""GF709: files that two packages would install to the same path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

from gpuforge.audit import layout
from gpuforge.audit.findings import Finding, Severity, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.grafted_origin import sha256
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.package.coexistence import can_coexist
from gpuforge.audit.rules.rule import Rule
from gpuforge.cuda.suffix import without_suffix
from gpuforge.runtime.layout import GUARD

_LIBRARY = r"\.so(?:\.[\d.]+)?$"
_MOST_IN_ONE_PLACE = 8  # wheels that the others are compared with: a thousand would be a million pairs


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find paths that two wheels of the audit have with different bytes, and required packages that share a file.

    pip does not check this: the package that is installed last wins, and uninstalling either one removes the other's
    files. Equal files (the `__init__.py` of a namespace) may be in both.
    """
    packages = [wheel for wheel in graph.wheels if wheel.project]
    for (first, second), names in _shared(packages).items():
        one, other = packages[first], packages[second]
        if one.project != other.project and can_coexist(one, other):
            differing = [its for its, others in names if _differ(one, its, other, others)]
            if differing:
                yield _finding(one, other, differing)
    for wheel in graph.wheels:
        yield from _required(graph, wheel)


RULE = Rule(
    code="GF709",
    severity="error",
    title="two packages install different files in the same place",
    check=check,
    applies_to=PACKAGES,
)


def _shared(packages: Sequence[WheelFacts]) -> dict[tuple[int, int], list[tuple[str, str]]]:
    """Return the files that pairs of wheels install to the same path, by their names in each."""
    places: dict[str, list[tuple[int, str]]] = {}
    found: dict[tuple[int, int], list[tuple[str, str]]] = {}
    for index, wheel in enumerate(packages if len(packages) > 1 else ()):
        for name in wheel.members:
            have = places.setdefault(layout.install_path(name), [])
            for other, its in have:
                found.setdefault((other, index), []).append((its, name))
            if len(have) < _MOST_IN_ONE_PLACE:
                have.append((index, name))
    return found


def _differ(one: WheelFacts, name: str, other: WheelFacts, others: str) -> bool:
    """Return whether two files differ, by their checksums in the archives or, for files of a folder, by RECORD."""
    if one.members[name] != other.members[others]:
        return True
    checksums = one.checksums.get(name), other.checksums.get(others)
    digests = sha256(one, name), sha256(other, others)
    pair_of_hashes = next((pair for pair in (checksums, digests) if all(pair)), ())
    return len(set(pair_of_hashes)) > 1


def _finding(one: WheelFacts, other: WheelFacts, names: list[str]) -> Finding:
    binary = {o.file for o in one.objects if o.links} | {code.file for code in one.device}
    listed = [
        wheel for wheel in (one, other) if not (wheel.objects or wheel.device)
    ]  # perhaps by their lists only
    code = [name for name in names if name.endswith(".py")]
    objects = [name for name in names if name in binary or (listed and re.search(_LIBRARY, name))]
    # builds of one release are audited side by side, but those beside another wheel are meant to be in its process
    beside = one.neighbour or other.neighbour
    builds = (
        not beside
        and one.version == other.version
        and without_suffix(one.project) == without_suffix(other.project)
    )
    guarded = builds and _guarded(one) and _guarded(other)
    least: Severity = "warning" if (objects or code) and not guarded else "info"
    shown = [*objects, *code, *names]
    return RULE.finding(
        one.name,
        across=True,
        severity="error" if objects and not builds else least,
        files=tuple(names),
        subjects=(
            Subject(item=other.name, detail="{files:3}", facts=facts_of(files=tuple(dict.fromkeys(shown)))),
        ),
        cause=(builds, guarded),
        what="Two of these wheels install different files in the same place."
        + (" They are builds of one release, and only one belongs in an environment." if builds else ""),
        why="The wheel that pip installs last wins, and uninstalling either removes files of the other."
        + (" If both are installed, the import fails and names them." if guarded else ""),
        fix="Require only one of the two and document that they exclude each other, or give each an "
        "import package of its own.",
    )


def _guarded(wheel: WheelFacts) -> bool:
    """Return whether `gpuforge build` put its guard into a wheel (package/guard.py)."""
    return any(f"/{GUARD}/" in name for name in wheel.members)


def _required(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find required packages for two CUDA majors that have the same file, as those of cuDNN and NCCL have."""
    always = {d.package: d for d in graph.required_always(wheel.name) if package_tables.files(d.package)}
    for one, other in combinations(sorted(always.values(), key=lambda d: d.package), 2):
        if one.via and one.lines[0] == other.lines[0]:
            continue  # reported for the wheel that requires both
        if shared := sorted(package_tables.files(one.package) & package_tables.files(other.package)):
            yield RULE.finding(
                wheel.name,
                severity="warning",
                subjects=(
                    Subject(
                        detail="{files:3}: {0}, by {lines:lines}, and {1}, by {other_lines:lines}",
                        facts=facts_of(files=tuple(shared), lines=one.lines, other_lines=other.lines),
                        kind="shared files",
                        about=(one.package, other.package),
                    ),
                ),
                what="Required packages install libraries for different CUDA versions under the same names.",
                why="The package that pip installs last wins, and the other one breaks.",
                fix="Limit the version of the package that brings the other CUDA version (torch), or require "
                "packages for that version.",
            )
