"""The audit's report as plain data: what the JSON report says, as `report.schema.json` describes it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from gpuforge import __version__
from gpuforge.audit.audit import Report, WheelReport
from gpuforge.audit.graph import Edge, LinkGraph
from gpuforge.audit.model import Container, ElfObject, Finding
from gpuforge.audit.rules import RULES

SCHEMA = 1

_TITLES = {rule.CODE: rule.TITLE for rule in RULES}


def dumps(report: Report) -> str:
    """Return the report as JSON text with a final newline."""
    return json.dumps(of(report), indent=2, ensure_ascii=False) + "\n"


def schema() -> dict[str, Any]:
    """Return the JSON schema that every report is valid against."""
    text = (files("gpuforge.audit.report") / "report.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def of(report: Report) -> dict[str, Any]:
    """Return the report as what JSON can say."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "gpuforge", "version": __version__},
        "wheels": [_wheel(held) for held in report.wheels],
        "proved": [f"{p.topic}: {p.text}" for held in report.wheels for p in held.proofs],
        "findings": [_finding(f) for f in report.findings],
        "ignored": [{**_finding(i.finding), "reason": i.reason} for w in report.wheels for i in w.ignored],
        "problems": [
            {"file": d.place.file if d.place else "", "message": d.message, "hint": d.hint}
            for d in report.problems
        ],
        "objects": [_object(o, report.graph) for o in report.objects],
        "device_code": [
            {"wheel": held.facts.name, "file": code.file, "containers": _containers(code.containers)}
            for held in report.wheels
            for code in held.facts.device
        ],
    }


def verdict(held: WheelReport) -> str:
    """Return the severity of a wheel's worst finding, or "clean"."""
    return held.findings[0].severity if held.findings else "clean"


def _wheel(held: WheelReport) -> dict[str, Any]:
    facts = held.facts
    return {
        "name": facts.name,
        "size": facts.size,
        "project": facts.project,
        "version": facts.version,
        "tags": list(facts.file_tags),
        "requires": list(facts.requires),
        "verdict": verdict(held),
        "counts": dict(Counter(f.severity for f in held.findings)),
        "proved": [{"topic": p.topic, "text": p.text} for p in held.proofs],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "title": _TITLES[finding.code],
        "severity": finding.severity,
        "wheel": finding.wheel,
        "file": finding.file,
        "files": list(finding.files),
        "subject": list(finding.subject),
        "message": finding.message,
        "remedy": finding.remedy,
    }


def _object(found: ElfObject, graph: LinkGraph) -> dict[str, Any]:
    return {
        "wheel": found.wheel,
        "file": found.file,
        "size": found.size,
        "bits": found.bits,
        "machine": found.machine,
        "type": {1: "relocatable", 2: "program", 3: "shared"}.get(found.type, str(found.type)),
        "soname": found.soname,
        "needed": [_edge(edge) for edge in graph.from_object(found)],
        "rpath": found.rpath,
        "runpath": found.runpath,
        "interpreter": found.interpreter,
        "version_needs": {need.library: list(need.versions) for need in found.version_needs},
        "executable_stack": None if found.stack is None else bool(found.stack & 1),
        "build_id": found.build_id,
        "comment": list(found.comment),
        "markers": sorted(found.markers),
    }


def _edge(edge: Edge) -> dict[str, Any]:
    provider = edge.provider
    found: dict[str, Any] = {"name": edge.needed, "provider": provider.source, "route": edge.route}
    if provider.object is not None:
        found |= {"wheel": provider.object.wheel, "file": provider.object.file}
    if provider.package:
        found["package"] = provider.package
        found["declared"] = provider.declared.line if provider.declared else None
    if edge.preload:
        found["preload"] = edge.preload.file
    return found


def _containers(containers: Iterable[Container]) -> list[Mapping[str, Any]]:
    """Describe containers, those with the same images in the same section together."""
    alike = Counter(
        (c.section, tuple((e.kind, e.arch, e.isa, e.compression) for e in c.entries), c.damaged)
        for c in containers
    )
    return [
        {
            "section": section,
            "count": count,
            "damaged": damaged,
            "images": [
                {"kind": kind, "arch": arch, "isa": isa, "compression": compression}
                for kind, arch, isa, compression in images
            ],
        }
        for (section, images, damaged), count in alike.items()
    ]
