"""What was looked at in a wheel and holds: the other half of a report, said where no finding contradicts it."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit import policy
from gpuforge.audit.graph import Edge, LinkGraph
from gpuforge.audit.intent import files_of
from gpuforge.audit.model import Finding, Proof, WheelFacts
from gpuforge.audit.rules.gpu_code.containers import as_declared, own_code
from gpuforge.audit.runnable import has_only_empty_cubins
from gpuforge.cuda.provided import says

_SOURCES = {
    "wheel": "in the wheel",
    "sibling": "in a wheel beside it",
    "package": "of other packages",
    "machine": 'of the CUDA that the machine has (linkage = "system")',
    "system": "of the system",
    "driver": "of the driver",
}


def proofs(graph: LinkGraph, wheel: WheelFacts, findings: tuple[Finding, ...]) -> tuple[Proof, ...]:
    """List what holds of a wheel, given all its findings: those that are accepted count too."""
    codes = {f.code for f in findings if f.severity != "info" or f.code == "GF205"}
    found = [*_providers(graph, wheel, codes), *_device(wheel, graph), *_platform(wheel, codes)]
    found += _requirements(graph, wheel, codes)
    found += _roles(graph, wheel, codes)
    found += _kernels(wheel, codes)
    if graph.against and "GF110" not in codes:
        count = len(graph.against.libraries)
        text = (
            f"{graph.against.label}: none of the {count} libraries that {graph.against.known_by} "
            "is loaded by the wheel as another file"
        )
        found.append(Proof("against", text))
    return tuple(found)


def _providers(graph: LinkGraph, wheel: WheelFacts, codes: set[str]) -> Iterator[Proof]:
    if codes & {"GF201", "GF202", "GF203", "GF204", "GF205", "GF302"} or not any(
        o.links for o in wheel.objects
    ):
        return
    edges = graph.of(wheel)
    sources: dict[str, set[str]] = {}
    packages: dict[str, dict[str, None]] = {}
    for edge in edges:
        found = edge.route or edge.preload or edge.provider.source != "package"
        sources.setdefault(edge.provider.source if found else "machine", set()).add(edge.needed)
        if edge.provider.source == "package" and edge.route:
            packages.setdefault(_provided(edge), {})[edge.needed] = None
    counts = [f"{len(sources[source])} {words}" for source, words in _SOURCES.items() if source in sources]
    yield Proof("providers", f"every NEEDED library is found: {', '.join(counts) or 'none is needed'}")
    for provided, names in packages.items():
        yield Proof("providers", f"{', '.join(names)} ← {provided}")


def _provided(edge: Edge) -> str:
    known = edge.provider.declared
    extra = f" (extra {known.extra})" if known and known.extra else ""
    return f"{edge.provider.package}{extra}, by {edge.route}"


def _requirements(graph: LinkGraph, wheel: WheelFacts, codes: set[str]) -> Iterator[Proof]:
    """Say what the bounds of the requirements rest on, of the packages that the wheel declares."""
    if graph.brought is None or "GF214" in codes:
        return
    declared = graph.declared[wheel.name]
    for floor in (f for f in graph.brought.floors if f.package in declared):
        if floor.direct:
            yield Proof("requirements", says(floor))
        for other in floor.forgotten_by:
            yield Proof(
                "requirements", f"{floor.package} is for {other}, which needs it and does not declare it"
            )
    seen = [f"{r.package} {r.version}" for r in graph.brought.releases]
    if seen:
        yield Proof("requirements", f"all that their libraries need is declared, in {', '.join(seen)}")


def _device(wheel: WheelFacts, graph: LinkGraph) -> Iterator[Proof]:
    by_images: dict[str, tuple[int, int]] = {}
    for code in own_code(wheel):
        for container in (c for c in code.containers if not has_only_empty_cubins(c)):
            cubins = sorted(container.cubins, key=_number)
            ptx = sorted({f"{e.arch} (PTX {e.isa})" for e in container.entries if e.kind == "ptx"})
            native = " ".join(cubins)
            text = " + ".join(filter(None, (native, ", ".join(ptx)))) if ptx else f"{native}, no PTX"
            files, containers = by_images.get(text, (0, 0))
            by_images[text] = (files, containers + 1)
    if by_images:
        intent = graph.intent_of(wheel)
        promised = " as declared" if intent and as_declared(intent, wheel) else ""
        lines = [f"{count} of {text}" for text, (_, count) in by_images.items()]
        yield Proof("GPU code", f"fatbin containers{promised}: " + "; ".join(lines))


def _number(arch: str) -> tuple[int, str]:
    digits = "".join(c for c in arch if c.isdigit())
    return int(digits or 0), arch


def _platform(wheel: WheelFacts, codes: set[str]) -> Iterator[Proof]:
    floors = policy.floors(o for o in wheel.objects if o.links)
    promises = [tag for tag in wheel.platforms if policy.of_tag(tag)[0]]
    if "GF501" in codes or not floors:
        return
    texts = [f"{name} {version} ({file.rpartition('/')[2]})" for name, (version, file) in floors.items()]
    if promises:
        yield Proof("platform", f"{', '.join(promises)} holds; highest wanted: {', '.join(texts)}")
    elif bare := next((tag for tag in wheel.platforms if tag.startswith("linux_")), ""):
        fits = policy.fitting((o for o in wheel.objects if o.links), bare.removeprefix("linux_"))
        what = (
            f"what the objects want of glibc and libstdc++, {fits.name} has"
            if fits
            else "no manylinux policy has it all"
        )
        yield Proof("platform", f"{bare} promises nothing; {what}; highest wanted: {', '.join(texts)}")


def _roles(graph: LinkGraph, wheel: WheelFacts, codes: set[str]) -> Iterator[Proof]:
    intent = graph.intent_of(wheel)
    if intent is None or codes & {"GF601", "GF602", "GF604"}:
        return
    for promised in intent.host_only:
        read = [graph.evidence[wheel.name, file] for file in sorted(files_of(promised, wheel))]
        held = [evidence for evidence in read if evidence.objects]
        members = sum(evidence.objects for evidence in held if evidence.archive)
        counts = [(sum(not e.archive for e in held), "object"), (members, "archive member")]
        count = " and ".join(f"{n:,} {what}{'s' if n > 1 else ''}" for n, what in counts if n)
        shown = ", ".join(e.file.rpartition("/")[2] for e in held[:3]) + (" …" if len(held) > 3 else "")
        needs = f" but {', '.join(promised.needs)}" if promised.needs else ""
        text = (
            f"{promised.name}: {count} read completely ({shown}): no GPU code, no trace of a GPU compiler, "
            f"no library of a GPU stack NEEDED{needs}"
        )
        if opens := sorted({name for e in held for part in e.parts for name in part.opens}):
            text += f"; named in strings, so that code may open them: {', '.join(opens)}"
        yield Proof("host-only", text)


def _kernels(wheel: WheelFacts, codes: set[str]) -> Iterator[Proof]:
    if wheel.kernels and "GF701" not in codes:
        names = ", ".join(held.folder.rpartition("/")[2] for held in wheel.kernels)
        yield Proof("kernel sets", f"{names}: files and images match the index")
    if wheel.sources and "GF702" not in codes:
        names = ", ".join(held.folder.rpartition("/")[2] for held in wheel.sources)
        yield Proof("sources", f"{names}: files match the recipe")
