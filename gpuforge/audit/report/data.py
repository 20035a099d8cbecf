"""The audit's report as plain data for JSON, in the form of `report.schema.json`."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeGuard

from gpuforge import __version__
from gpuforge.audit.findings import Fact, Finding, Subject, Table
from gpuforge.audit.judge import Report, WheelReport
from gpuforge.audit.layout import Route
from gpuforge.audit.link.edges import Edge, LoadSet
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.reach import reach
from gpuforge.audit.report import process, sentences
from gpuforge.audit.report.comparison import Comparison, comparisons
from gpuforge.audit.rules import RULES
from gpuforge.binary.facts import DeviceCode, ElfObject, FatbinContainer
from gpuforge.diagnostics import Diagnostic

SCHEMA = 1

_AT_ONCE = 256  # elements of a list that are written at once

_TITLES = {rule.code: rule.title for rule in RULES}


def dumps(report: Report, unused: Sequence[str] = ()) -> str:
    """Return the report as JSON text with a final newline; `unused` are acceptances that matched no finding."""
    return "".join(pieces(report, unused))


def pieces(report: Report, unused: Sequence[str] = ()) -> Iterator[str]:
    """Yield the JSON text piece by piece: for thousands of files it is too long for one string."""
    before = "{\n"
    for name, value in _fields(report, unused):
        yield f"{before}  {json.dumps(name)}: "
        before = ",\n"
        if isinstance(value, Iterator):
            yield from _list(value)
        else:
            yield _text(value).replace("\n", "\n  ")
    yield "\n}\n"


def _list(elements: Iterator[Any]) -> Iterator[str]:
    """Yield a list, several elements at a time: each call of the encoder leaves garbage."""
    before = "["
    while some := list(islice(elements, _AT_ONCE)):
        yield before + _text(some)[1:-2].replace("\n", "\n  ")
        before = ","
    yield "[]" if before == "[" else "\n  ]"


def _text(value: object) -> str:
    return json.dumps(value, indent=2)


def as_data(report: Report, unused: Sequence[str] = ()) -> dict[str, Any]:
    """Return the report as JSON-compatible data."""
    fields = _fields(report, unused)
    return {name: list(value) if isinstance(value, Iterator) else value for name, value in fields}


def _fields(report: Report, unused: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of the report; lists are iterators, which make one element at a time."""
    yield "schema", SCHEMA
    yield "tool", {"name": "gpuforge", "version": __version__}
    yield "wheels", map(_wheel, report.wheels)
    yield "proved", (f"{p.topic}: {p.text}" for w in report.wheels for p in w.proofs)
    yield "findings", map(_finding, report.findings)
    ignored = (i for w in report.wheels for i in w.ignored)
    yield "ignored", ({**_finding(i.finding), "reason": i.reason} for i in ignored)
    yield "unused", list(unused)
    yield "problems", map(_problem, report.problems)
    yield "objects", (_object(o, report.graph) for o in report.objects)
    yield "device_code", (_device_code(w.facts, code) for w in report.wheels for code in w.facts.device)
    yield "load_sets", map(_load_set, report.graph.load_sets)
    if report.like is not None:
        yield "comparisons", map(_comparison, comparisons(report))
    if report.together is not None:
        yield "together", process.data(report.together)


def _problem(found: Diagnostic) -> dict[str, str]:
    return {"file": found.place.file if found.place else "", "message": found.message, "hint": found.hint}


def _comparison(found: Comparison) -> dict[str, Any]:
    differences = {
        each.topic: {"only_there": each.there, "only_here": each.here} for each in found.differences
    }
    like = {"name": found.like.name, "size": found.like.size}
    return {"wheel": found.wheel.name, "like": like, "differences": differences}


def _device_code(wheel: WheelFacts, code: DeviceCode) -> dict[str, Any]:
    runs = [
        {
            "capability": r.generation.capability,
            "native": r.native,
            "jit": r.jit,
            "none": r.none,
            "driver": r.driver,
        }
        for r in reach(code, wheel.machine)
    ]
    return {"wheel": wheel.name, "file": code.file, "containers": _containers(code.containers), "runs": runs}


def _load_set(loaded: LoadSet) -> dict[str, Any]:
    objects = [{"wheel": o.wheel, "file": o.file} for o in loaded.objects]
    return {"wheel": loaded.root.wheel, "root": loaded.root.file, "objects": objects}


def _wheel(wheel: WheelReport) -> dict[str, Any]:
    facts = wheel.facts
    return {
        "name": facts.name,
        "form": facts.form,
        **({"beside": True} if facts.neighbour else {}),
        "size": facts.size,
        "project": facts.project,
        "version": facts.version,
        "tags": [*map(str, facts.file_tags)],
        "requires": list(facts.requires),
        "verdict": wheel.verdict,
        "counts": dict(Counter(f.severity for f in wheel.findings)),
        "proved": [{"topic": p.topic, "text": p.text} for p in wheel.proofs],
        "not_proved": [{"topic": p.topic, "text": p.text} for p in wheel.withheld],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "title": _TITLES[finding.code],
        "severity": finding.severity,
        "wheel": finding.wheel,
        "file": finding.file,
        "files": list(finding.files),
        "subject": list(sentences.lines(finding)),
        "subjects": [_subject(subject) for subject in finding.subjects],
        "message": finding.message,
        "remedy": finding.fix,
        "commands": list(finding.commands),
        "across": finding.across,
    }


def _route(route: Route) -> dict[str, str]:
    """Return the fields of a route that are not empty; `entry` may be a package, `via` what has loaded it before."""
    fields = {"kind": route.kind, "entry": route.entry or route.package, "via": route.via or route.loaded_by}
    return {name: field for name, field in fields.items() if field}


def _subject(value: Subject) -> dict[str, Any]:
    """Return the fields of a subject that are not empty."""
    every = value._asdict() | {"item": sentences.item(value), "about": value.parts}
    fields = {name: field for name, field in every.items() if field}
    if value.detail:
        fields["detail"] = sentences.detail(value)
    if value.facts:
        fields["facts"] = {name: dict(fact) if _is_table(fact) else fact for name, fact in value.facts}
    if value.routes:
        fields["routes"] = list(map(_route, value.routes))
    return fields


def _is_table(fact: Fact) -> TypeGuard[Table]:
    return isinstance(fact, tuple) and any(isinstance(row, tuple) for row in fact)


def _object(binary: ElfObject, graph: LinkGraph) -> dict[str, Any]:
    return {
        "wheel": binary.wheel,
        "file": binary.file,
        "size": binary.size,
        "bits": binary.bits,
        "machine": binary.machine,
        "type": {1: "relocatable", 2: "program", 3: "shared"}.get(binary.type, str(binary.type)),
        "soname": binary.soname,
        "needed": [_edge(edge) for edge in graph.from_object(binary)],
        "rpath": _joined(binary.rpath),
        "runpath": _joined(binary.runpath),
        "interpreter": binary.interpreter,
        "version_needs": {need.library: list(need.versions) for need in binary.version_needs},
        "executable_stack": None if binary.stack is None else bool(binary.stack & 1),
        "build_id": binary.build_id,
        "comment": list(binary.comment),
        "markers": sorted(binary.markers),
    }


def _joined(path: tuple[str, ...] | None) -> str | None:
    """Write a search path as in an ELF file."""
    return None if path is None else ":".join(path)


def _edge(edge: Edge) -> dict[str, Any]:
    provider = edge.provider
    route = str(edge.route) if edge.route else ""
    found: dict[str, Any] = {"name": edge.needed, "provider": provider.source, "route": route}
    if edge.route:
        found["found_by"] = _route(edge.route)
    if provider.object is not None:
        found |= {"wheel": provider.object.wheel, "file": provider.object.file}
    if provider.package:
        found["package"] = provider.package
        found["declared"] = provider.declared.line if provider.declared else None
    if edge.preload:
        found["preload"] = edge.preload.file
    return found


def _containers(containers: Iterable[FatbinContainer]) -> list[Mapping[str, Any]]:
    """Describe containers, those with the same images in the same section together."""
    alike: dict[tuple[Any, ...], list[FatbinContainer]] = {}
    for c in containers:
        images = tuple((e.kind, e.target, e.isa, e.compression, e.toolkit) for e in c.entries)
        alike.setdefault((c.section, images, c.damaged), []).append(c)
    return [
        {
            "section": section,
            "count": len(group),
            "damaged": damaged,
            "images": [
                {
                    "kind": kind,
                    "arch": arch,
                    "isa": isa,
                    "compression": compression,
                    "toolkit": toolkit,
                    "size": sum(c.entries[index].size for c in group),
                    "stored": sum(c.entries[index].stored for c in group),
                }
                for index, (kind, arch, isa, compression, toolkit) in enumerate(images)
            ],
        }
        for (section, images, damaged), group in alike.items()
    ]
