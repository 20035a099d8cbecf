"""What the audit proves of a wheel: the other half of a report. A proof that a finding contradicts is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from gpuforge.audit import policy
from gpuforge.audit.elf_patterns import unstable
from gpuforge.audit.findings import SEVERITIES, Finding, Proof, Topic
from gpuforge.audit.host_files import files_of
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import KernelSet, SourceSet, WheelFacts
from gpuforge.audit.report.sentences import route
from gpuforge.audit.rules import RULES
from gpuforge.audit.rules.gpu_code.containers import as_declared, own_code
from gpuforge.binary.facts import Container
from gpuforge.binary.runnable import has_only_empty_cubins
from gpuforge.cuda.provided import says

_SOURCES = {
    "wheel": "in the wheel",
    "sibling": "in a wheel beside it",
    "package": "of other packages",
    "machine": 'of the CUDA that the machine has (linkage = "system")',
    "system": "of the system",
    "driver": "of the driver",
}


def proofs(graph: LinkGraph, wheel: WheelFacts, findings: Iterable[Finding]) -> tuple[Proof, ...]:
    """List the proofs about a wheel that no finding contradicts; accepted findings count, too."""
    contradicted = _contradicted(wheel, {f.code: f for f in sorted(findings, key=_severity, reverse=True)})
    return tuple(
        Proof(topic, text)
        for topic, prove in _PROOFS
        if topic not in contradicted
        for text in prove(graph, wheel)
    )


def _contradicted(wheel: WheelFacts, worst: Mapping[str, Finding]) -> set[Topic | None]:
    """Return the topics that a rule has a finding of, and those that a rule cannot judge in such an input."""
    return {
        rule.contradicts
        for rule in RULES
        if wheel.form not in rule.applies_to
        or (rule.code in worst and _severity(worst[rule.code]) <= SEVERITIES.index(rule.contradicts_from))
    }


def _severity(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)


def _providers(graph: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    if not any(o.links for o in wheel.objects):
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
    yield f"every NEEDED library is found: {', '.join(counts) or 'none is needed'}"
    for provided, names in packages.items():
        yield f"{', '.join(names)} ← {provided}"


def _provided(edge: Edge) -> str:
    known = edge.provider.declared
    extra = f" (extra {known.extra})" if known and known.extra else ""
    return f"{edge.provider.package}{extra}, by {route(edge.route)}" if edge.route else edge.provider.package


def _requirements(graph: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    """Say what the bounds of the requirements rest on, of the packages that the wheel declares."""
    if graph.brought is None:
        return
    declared = graph.declared[wheel.name]
    for floor in (f for f in graph.brought.floors if f.package in declared):
        if floor.direct:
            yield says(floor)
        for other in floor.forgotten_by:
            yield f"{floor.package} is for {other}, which needs it and does not declare it"
    seen = [f"{r.package} {r.version}" for r in graph.brought.releases]
    if seen:
        yield f"all that their libraries need is declared, in {', '.join(seen)}"


def _device(graph: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    found: dict[str, Counter[str]] = {}
    for code in own_code(wheel):
        for container in code.containers:
            if not has_only_empty_cubins(container):
                found.setdefault(_kind(code.file, container), Counter())[_images(container)] += 1
    expectation = graph.expectation_of(wheel)
    promised = " as declared" if found and expectation and as_declared(expectation, wheel) else ""
    for kind, by_images in found.items():
        lines = [f"{count} of {text}" for text, count in by_images.items()]
        if lines:
            yield f"{kind}{promised}: {'; '.join(lines)}"


def _kind(file: str, container: Container) -> str:
    if container.is_ptx:
        return "PTX texts"
    return "cubin files" if file.endswith(".cubin") else "fatbin containers"


def _images(container: Container) -> str:
    """Say what is in a container: "sm_80 sm_90 + compute_90 (PTX 8.7)", "sm_80, no PTX", "LTO-IR of compute_75"."""
    native = " ".join(arch.sm for arch in sorted({e.arch for e in container.entries if e.kind == "cubin"}))
    ptx = sorted({f"{e.target} (PTX {e.isa})" for e in container.entries if e.kind == "ptx"})
    linked = {e.arch for e in container.entries if e.kind == "lto-ir"}
    lto = f"LTO-IR of {' '.join(arch.compute for arch in sorted(linked))}" if linked else ""
    text = " + ".join(filter(None, (native, ", ".join(ptx), lto)))
    return text if ptx or not native else f"{text}, no PTX"


def _platform(_: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    floors = policy.floors(o for o in wheel.objects if o.links)
    promises = [tag for tag in wheel.platforms if policy.of_tag(tag)[0]]
    if not floors:
        return
    texts = [f"{name} {version} ({file.rpartition('/')[2]})" for name, (version, file) in floors.items()]
    if promises:
        yield f"{', '.join(promises)} holds; highest wanted: {', '.join(texts)}"
    elif bare := next((tag for tag in wheel.platforms if tag.startswith("linux_")), ""):
        fits = policy.fitting((o for o in wheel.objects if o.links), bare.removeprefix("linux_"))
        what = (
            f"what the objects want of glibc and libstdc++, {fits.name} has"
            if fits
            else "no manylinux policy has it all"
        )
        yield f"{bare} promises nothing; {what}; highest wanted: {', '.join(texts)}"


def _roles(graph: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    expectation = graph.expectation_of(wheel)
    for promised in expectation.host_only if expectation else ():
        read = [graph.evidence[wheel.name, file] for file in sorted(files_of(promised.patterns, wheel))]
        proved = [evidence for evidence in read if evidence.objects]
        members = sum(evidence.objects for evidence in proved if evidence.archive)
        counts = [(sum(not e.archive for e in proved), "object"), (members, "archive member")]
        count = " and ".join(f"{n:,} {what}{'s' if n > 1 else ''}" for n, what in counts if n)
        shown = ", ".join(e.file.rpartition("/")[2] for e in proved[:3]) + (" …" if len(proved) > 3 else "")
        needs = f" but {', '.join(promised.needs)}" if promised.needs else ""
        text = (
            f"{promised.name}: {count} read completely ({shown}): no GPU code, no trace of a GPU compiler, "
            f"no library of a GPU stack NEEDED{needs}"
        )
        if opens := sorted({name for e in proved for part in e.parts for name in part.opens}):
            text += f"; named in strings, so that code may open them: {', '.join(opens)}"
        yield text


def _kernel_sets(_: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    if wheel.kernels:
        yield f"{_folder_names(wheel.kernels)}: files and images match the index"


def _sources(_: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    if wheel.sources:
        yield f"{_folder_names(wheel.sources)}: files match the recipe"


def _folder_names(sets: Iterable[KernelSet | SourceSet]) -> str:
    return ", ".join(one.folder.rpartition("/")[2] for one in sets)


def _spans(graph: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    expectation = graph.expectation_of(wheel)
    for package in expectation.spans if expectation else ():
        if package in unstable():
            yield f"{package}: no function is used that has another form in each release"


def _against(graph: LinkGraph, _: WheelFacts) -> Iterator[str]:
    if graph.against:
        count = len(graph.against.libraries)
        yield (
            f"{graph.against.label}: none of the {count} libraries that {graph.against.known_by} "
            "is loaded by the wheel as another file"
        )


_PROOFS: tuple[tuple[Topic, Callable[[LinkGraph, WheelFacts], Iterator[str]]], ...] = (
    ("providers", _providers),
    ("GPU code", _device),
    ("platform", _platform),
    ("requirements", _requirements),
    ("host-only", _roles),
    ("kernel sets", _kernel_sets),
    ("sources", _sources),
    ("stable ABI", _spans),
    ("against", _against),
)
