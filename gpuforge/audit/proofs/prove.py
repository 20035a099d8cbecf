"""Proves facts about a wheel, except those that a finding contradicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from gpuforge.audit import policy
from gpuforge.audit.against import Against
from gpuforge.audit.elf_patterns import unstable
from gpuforge.audit.embedded import KernelSet, SourceSet
from gpuforge.audit.findings import SEVERITIES, Finding, Topic
from gpuforge.audit.host_files import files_of
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.closure import others
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.proofs.proof import (
    Code,
    Complete,
    ContainerCode,
    Forgotten,
    FoundIn,
    GpuCode,
    KernelSetsMatch,
    LibrariesFound,
    NoGpuCode,
    NoPromise,
    NoSecondCopies,
    NoUnstableFunctions,
    OfPackage,
    Proof,
    Proved,
    SourceSetsMatch,
    TagsHold,
)
from gpuforge.audit.route import Route
from gpuforge.audit.rules import RULES
from gpuforge.audit.rules.containers import as_declared, own_code
from gpuforge.binary.facts import FatbinContainer
from gpuforge.binary.runnable import has_only_empty_cubins
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.provided import Floor
from gpuforge.requirements import Release
from gpuforge.runtime.image_kind import kind_of


def proofs(graph: LinkGraph, wheel: WheelFacts, findings: Iterable[Finding]) -> tuple[Proof, ...]:
    """List the proofs about a wheel that no finding contradicts; accepted findings count, too.

    If binaries cannot be read or loaded, proofs about all binaries are left out.
    """
    contradicted = _contradicted(wheel, {f.code: f for f in sorted(findings, key=_severity, reverse=True)})
    if not wheel.complete:
        contradicted |= _OF_BINARIES
    return tuple(
        Proof(topic, facts)
        for topic, prove in _PROOFS
        if topic not in contradicted
        for facts in prove(graph, wheel)
    )


# "host-only" has its own rule for files that cannot be read, and sets are compared file by file.
_OF_BINARIES: frozenset[Topic] = frozenset({"providers", "GPU code", "platform", "stable ABI", "against"})


def _contradicted(wheel: WheelFacts, worst: Mapping[str, Finding]) -> set[Topic | None]:
    """Return the topics that a finding contradicts, and those that no rule can judge in such an input."""
    return {
        rule.contradicts
        for rule in RULES
        if wheel.form not in rule.applies_to
        or (rule.code in worst and _severity(worst[rule.code]) <= SEVERITIES.index(rule.contradicts_from))
    }


def _severity(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)


def _providers(graph: LinkGraph, wheel: WheelFacts) -> Iterator[LibrariesFound | OfPackage]:
    if not any(o.links for o in wheel.objects) or not all(_is_found(graph, e) for e in graph.of(wheel)):
        return
    if any(
        promised.lacking(_of_system(graph, wheel))
        for promised, _ in policy.strictest(wheel.platforms).values()
    ):
        return
    found: dict[FoundIn, set[str]] = {}
    packages: dict[tuple[str, str, Route], dict[str, None]] = {}
    for edge in graph.of(wheel):
        source, known = edge.provider.source, edge.provider.declared
        found.setdefault("machine" if source == "nobody" or edge.reason else source, set()).add(edge.needed)
        if source == "package" and edge.route:
            place = edge.provider.package, known.extra if known else "", edge.route
            packages.setdefault(place, {})[edge.needed] = None
    imports = sorted({edge.route.package for edge in graph.of(wheel) if edge.route} - {""})
    yield LibrariesFound({source: len(names) for source, names in found.items()}, tuple(imports))
    for place, names in packages.items():
        yield OfPackage(tuple(names), *place)


def _of_system(graph: LinkGraph, wheel: WheelFacts) -> set[str]:
    return {edge.needed for edge in graph.of(wheel) if edge.provider.source == "system"}


def _is_found(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether each load set has a route to a library; with `linkage = "system"`, CUDA's are on the machine.

    Findings for information, and edges without a finding, may be about libraries that are not found. Only the driver's
    known names count: libcuda.so.2 would be one of its libraries, but no driver has it.
    """
    if edge.provider.source == "driver" and not libraries.is_soname_of_driver(edge.needed):
        return False
    machines = graph.expectation is not None and graph.expectation.linkage == "system"
    if edge.sometimes or edge.provider.unproved:
        return False
    return edge.reason is None or (machines and libraries.is_toolkit(edge.needed))


def _requirements(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Floor | Forgotten | Complete]:
    """Yield the facts behind the bounds of the requirements, for the packages that the wheel declares."""
    if graph.brought is None:
        return
    declared = graph.declared[wheel.name]
    for floor in (f for f in graph.brought.floors if f.package in declared):
        if floor.direct:
            yield floor
        yield from (Forgotten(floor.package, other) for other in floor.forgotten_by)
    if graph.brought.releases:
        yield Complete(tuple(Release(r.package, r.version) for r in graph.brought.releases))


def _device(graph: LinkGraph, wheel: WheelFacts) -> Iterator[GpuCode]:
    found: dict[Code, Counter[ContainerCode]] = {}
    for code in own_code(wheel):
        other: Code = "cubin" if code.file.endswith(".cubin") else "fatbin"
        for container in code.containers:
            if not has_only_empty_cubins(container):
                kind = "ptx" if container.is_ptx else other
                found.setdefault(kind, Counter())[_images(container)] += 1
    expectation = graph.expectation_of(wheel)
    declared = bool(found and expectation and as_declared(expectation, wheel))
    yield from (GpuCode(kind, declared, images) for kind, images in found.items())


def _images(container: FatbinContainer) -> ContainerCode:
    entries = container.entries
    return ContainerCode(
        tuple(sorted({e.arch for e in entries if e.kind == "cubin"})),
        tuple(sorted({(e.target, e.isa) for e in entries if e.kind == "ptx"})),
        tuple(sorted({e.arch for e in entries if e.kind == "lto-ir"})),
        tuple(sorted({e.kind for e in entries} - {"cubin", "ptx", "lto-ir"})),
    )


def _platform(graph: LinkGraph, wheel: WheelFacts) -> Iterator[TagsHold | NoPromise]:
    objects = wheel.linked
    highest = policy.floors(objects)
    if not highest or not _symbols_searched(wheel):
        return
    machines = {o.processor for o in objects}
    tags = [(tag, *policy.of_tag(tag)) for tag in wheel.platforms]
    promises = [(tag, promised) for tag, promised, machine in tags if promised and machine in machines]
    promises = [(tag, promised) for tag, promised in promises if policy.is_known(promised)]
    if promises:
        unknown = [e for e in graph.of(wheel) if e.provider.source == "nobody" and not _is_found(graph, e)]
        if not unknown:  # that a required package may have a library is a guess
            yield TagsHold(tuple(tag for tag, _ in promises), highest)
    elif bare := next((tag for tag in wheel.platforms if tag.startswith("linux_")), ""):
        fitting = policy.fitting(objects, policy.of_tag(bare)[1], _of_system(graph, wheel))
        yield NoPromise(bare, fitting.name if fitting else "", highest)


def _roles(graph: LinkGraph, wheel: WheelFacts) -> Iterator[NoGpuCode]:
    expectation = graph.expectation_of(wheel)
    for promised in expectation.host_only if expectation else ():
        read = [graph.evidence[wheel.name, file] for file in sorted(files_of(promised.patterns, wheel))]
        proved = [evidence for evidence in read if evidence.objects]
        yield NoGpuCode(
            promised.name,
            tuple(evidence.file for evidence in proved),
            objects=sum(not evidence.archive for evidence in proved),
            members=sum(evidence.objects for evidence in proved if evidence.archive),
            needs=tuple(promised.needs),
            opens=tuple(sorted({name for e in proved for part in e.parts for name in part.opens})),
            others=tuple(sorted({name for e in proved for name in others(graph, wheel, e, promised.needs)})),
        )


def _kernel_sets(_: LinkGraph, wheel: WheelFacts) -> Iterator[KernelSetsMatch]:
    folders = tuple(f"{each.folder}/" for each in wheel.kernels)
    if wheel.kernels and not any(file.startswith(folders) for file in wheel.unread):
        listed = {image.kind for each in wheel.kernels for image in each.images}
        unread = {kind for kind in listed if kind_of(kind).loader == "IREE" and not kind_of(kind).has_ptx}
        yield KernelSetsMatch(_names(wheel.kernels), tuple(sorted(unread)))


def _sources(_: LinkGraph, wheel: WheelFacts) -> Iterator[SourceSetsMatch]:
    if wheel.sources:
        yield SourceSetsMatch(_names(wheel.sources))


def _names(sets: Iterable[KernelSet | SourceSet]) -> tuple[str, ...]:
    return tuple(one.name for one in sets)


def _spans(graph: LinkGraph, wheel: WheelFacts) -> Iterator[NoUnstableFunctions]:
    expectation = graph.expectation_of(wheel)
    packages = expectation.spans if expectation and _symbols_searched(wheel) else ()
    others = (package for package in packages if package != wheel.project)  # its own files are not searched
    yield from (NoUnstableFunctions(package) for package in others if package in unstable())


def _symbols_searched(wheel: WheelFacts) -> bool:
    return all(o.symbols is not None for o in wheel.linked)


def _against(graph: LinkGraph, wheel: WheelFacts) -> Iterator[NoSecondCopies]:
    if graph.against and not _may_open_copies(graph, wheel, graph.against):
        unsearched = tuple(o.file for o in wheel.linked if not o.all_searched)
        yield NoSecondCopies(graph.against, unsearched)


def _may_open_copies(graph: LinkGraph, wheel: WheelFacts, against: Against) -> bool:
    """Return whether code of the wheel names a library of `against` in another version, or in an unknown one.

    The version of a library that Python code opens is unknown, unless the wheel NEEDs it or requires its package.
    """
    mentions = {name for o in wheel.objects if o.links for name in o.mentioned_sonames}
    if any(against.other_versions(name) for name in mentions):
        return True
    known = {edge.needed for edge in graph.of(wheel)}
    known.update(*(package_tables.sonames_of(each.package) for each in graph.required_always(wheel.name)))
    others = set(map(sonames.bare, against.libraries)) - set(map(sonames.bare, known))
    return any(code.may_open(*others) for code in wheel.preloads)


_PROOFS: tuple[tuple[Topic, Callable[[LinkGraph, WheelFacts], Iterator[Proved]]], ...] = (
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
