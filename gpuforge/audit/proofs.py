"""Proves facts about a wheel, except those that a finding contradicts."""

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from packaging import tags
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from gpuforge.audit import bindings, dlls, policy, version_clauses
from gpuforge.audit.against import Against
from gpuforge.audit.elf_patterns import unstable
from gpuforge.audit.embedded import KernelSet, SourceSet
from gpuforge.audit.evidence import files_of
from gpuforge.audit.findings import SEVERITIES, Finding, Topic
from gpuforge.audit.layout import Route, left_over_folder
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph, others
from gpuforge.audit.link.requirement import Requirement, can_coexist, required_together
from gpuforge.audit.model import PACKAGES, Openings, WheelFacts
from gpuforge.audit.rules import RULES
from gpuforge.audit.rules.containers import as_declared, is_own, own_code
from gpuforge.binary.facts import FatbinContainer
from gpuforge.binary.runnable import has_only_empty_cubins
from gpuforge.cpython import STABLE_ABIS, CPython
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.provided import reason
from gpuforge.requirements import Release
from gpuforge.runtime.values import kind_of

_NAMED = 3
_PLACES = {
    "wheel": "in the wheel",
    "sibling": "in a wheel beside it",
    "package": "from other packages",
    "machine": 'from the CUDA of the machine (linkage = "system")',
    "system": "from the system",
    "driver": "from the driver",
}
_CONTAINERS = {"fatbin": "fatbin containers", "cubin": "cubin files", "ptx": "PTX texts"}


class Proof(NamedTuple):
    """Something that was checked and is true, in words."""

    topic: Topic
    text: str


class Withheld(NamedTuple):
    """Why something is not proved that no finding contradicts, in words."""

    text: str


_Proving = Iterator[str | Withheld]


def proofs(
    graph: LinkGraph, wheel: WheelFacts, findings: Iterable[Finding]
) -> tuple[tuple[Proof, ...], tuple[Proof, ...]]:
    """List the proofs about a wheel that no finding contradicts, and those that are withheld, with the reason.

    Accepted findings count, too.

    If binaries cannot be read or loaded, proofs about all binaries are left out.
    """
    contradicted = _contradicted(wheel, {f.code: f for f in sorted(findings, key=_severity, reverse=True)})
    if not wheel.complete:
        contradicted |= _OF_BINARIES
    found = [
        (topic, each) for topic, prove in _PROOFS if topic not in contradicted for each in prove(graph, wheel)
    ]
    return (
        tuple(Proof(topic, each) for topic, each in found if isinstance(each, str)),
        tuple(Proof(topic, each.text) for topic, each in found if isinstance(each, Withheld)),
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


def _providers(graph: LinkGraph, wheel: WheelFacts) -> _Proving:
    """Yield the number of NEEDED libraries for each place, then those of packages.

    Some may be found only after packages were imported. They are not if a module is surely imported before them.
    """
    edges = graph.edges_of(wheel)
    if not wheel.linked or not all(_is_found(graph, e) for e in edges):
        return
    if any(p.lacking(_of_system(graph, wheel)) for p, _ in policy.strictest(wheel.platforms).values()):
        return
    bound = bindings.judge(graph, wheel)
    if reasons := list(filter(None, (_hidden(wheel), *bound.problems))):
        more = f"; and {len(reasons) - _NAMED} more reasons" if len(reasons) > _NAMED else ""
        yield Withheld(f"every NEEDED library is found, but {'; '.join(reasons[:_NAMED])}{more}")
        return
    found: dict[str, set[str]] = {}
    packages: dict[tuple[str, str, Route], dict[str, None]] = {}
    for edge in edges:
        source, known = edge.provider.source, edge.provider.declared
        found.setdefault("machine" if source == "nobody" or edge.reason else source, set()).add(edge.needed)
        if source == "package" and edge.route:
            place = edge.provider.package, known.extra if known else "", edge.route
            packages.setdefault(place, {})[edge.needed] = None
    counts = [f"{len(found[place])} {words}" for place, words in _PLACES.items() if place in found]
    imports = sorted({edge.route.package for edge in edges if edge.route} - {""})
    once = f", {_once(imports)}" if imports else ""
    listed = ", ".join(counts) or "none is needed"
    # by the RPATHs of the objects that need them
    dependent = {e.loader.file for e in edges if e.route and e.route.via and not e.loader.is_python_module}
    alone = f"; not those of {_files([*dependent])}, opened alone" if dependent else ""
    end = alone + _listed("; not compared: ", bound.unjudged) + _unread(wheel)
    yield f"every NEEDED library is found{once}: {listed}{end}"
    for (package, of_extra, route), names in packages.items():
        extra = f" (extra {of_extra})" if of_extra else ""
        way = _once((route.package,)) if route.package else f"by {route}"
        yield f"{', '.join(names)} ← {package}{extra}, {way}"


def _hidden(wheel: WheelFacts, *, gpu: bool = False) -> str:
    """Return which files hold libraries, or GPU code, that were not judged, or may hold them; "" if there are none."""
    code = [file for file, kind in wheel.contents.code.items() if kind == "ELF" or (gpu and is_own(file))]
    reasons = (
        (code, "code inside of other files was not judged"),
        (wheel.contents.packed, "files were not unpacked"),
    )
    return "; ".join(f"{what}: {_files(files)}" for files, what in reasons if files)


def _unread(wheel: WheelFacts) -> str:
    """Return how many files were not judged, as the end of a sentence; "" if all were."""
    left_over = [file for file in wheel.members if wheel.form in PACKAGES and left_over_folder(file)]
    kinds = (
        ("of unknown content", "read", wheel.contents.unknown),
        ("left over from a build", "judged", left_over),
    )
    return "".join(
        f"; {f'{len(files):,} files' if len(files) > 1 else 'a file'} {of} {'were' if len(files) > 1 else 'was'} "
        f"not {done}: {_files(files)}"
        for of, done, files in kinds
        if files
    )


def _of_others(wheel: WheelFacts) -> str:
    """Return the files with GPU code that is not the project's by their names, as the end of a sentence."""
    files = {*(code.file for code in wheel.device), *wheel.contents.code}
    files |= {file for file in wheel.members if file.endswith(".vmfb")}
    others = [file for file in files if not is_own(file)]
    words = "; not compared, as their names are those of files of NVIDIA, compilers or IREE: "
    return f"{words}{_files(others)}" if others else ""


def _not_unpacked(wheel: WheelFacts) -> str:
    """Return what may have packed code in it, as the end of a sentence: anything may, but for what was unpacked."""
    files = wheel.contents.data
    beside = f", texts and {len(files):,} other file{'s' * (len(files) > 1)} ({_files(files)})"
    others = "sources of kernels, SPIR-V and AMD's code outside of bundles were not looked for"
    return f"; not all data that is packed in binaries{beside if files else ' and texts'} was read; {others}"


def _files(files: Sequence[str]) -> str:
    names = sorted(posixpath.basename(file) for file in files)
    return ", ".join(names[:_NAMED]) + " …" * (len(names) > _NAMED)


def _once(packages: Sequence[str]) -> str:
    return f"once {' and '.join(packages)} {'is' if len(packages) == 1 else 'are'} imported"


def _of_system(graph: LinkGraph, wheel: WheelFacts) -> set[str]:
    return {edge.needed for edge in graph.edges_of(wheel) if edge.provider.source == "system"}


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


def _requirements(graph: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    """Yield the reasons for the bounds of the requirements, for the packages that the wheel declares."""
    if graph.brought is None:
        return
    declared = graph.declared[wheel.name]
    for floor in (f for f in graph.brought.floors if f.package in declared):
        if floor.direct:
            yield reason(floor)
        for other in floor.forgotten_by:
            yield f"{floor.package} is for {other}, which needs it and does not declare it"
    if releases := [str(Release(r.package, r.version)) for r in graph.brought.releases]:
        yield f"no undeclared CUDA library is needed by {', '.join(releases)}"


def _device(graph: LinkGraph, wheel: WheelFacts) -> _Proving:
    found: dict[str, Counter[str]] = {}
    for code in own_code(wheel):
        other = "cubin" if code.file.endswith(".cubin") else "fatbin"
        for container in code.containers:
            if not has_only_empty_cubins(container):
                kind = "ptx" if container.is_ptx else other
                found.setdefault(kind, Counter())[images(container)] += 1
    expectation = graph.expectation_of(wheel)
    hidden, unread = _hidden(wheel, gpu=True), _unread(wheel)
    declared = " as declared" if found and expectation and as_declared(expectation, wheel) else ""
    if declared and (hidden or unread):
        yield Withheld(f"all that was read is as declared, but {hidden or unread.removeprefix('; ')}")
        declared = unread = ""
    packed = _of_others(wheel) + _not_unpacked(wheel) if declared else ""
    for kind, counts in found.items():
        listed = "; ".join(f"{n} of {text}" for text, n in counts.items())
        yield f"{_CONTAINERS[kind]}{declared}: {listed}{packed}{unread}"


def images(container: FatbinContainer) -> str:
    """Write the code in a container: "sm_80 sm_90 + compute_90 (PTX 8.7)", "sm_80, no PTX", "LTO-IR of compute_75"."""
    entries = container.entries
    native = " ".join(arch.sm for arch in sorted({e.arch for e in entries if e.kind == "cubin"}))
    texts = sorted({(e.target, e.isa) for e in entries if e.kind == "ptx"})
    ptx = ", ".join(f"{target} (PTX {isa})" for target, isa in texts)
    lto = " ".join(arch.compute for arch in sorted({e.arch for e in entries if e.kind == "lto-ir"}))
    unknown = ", ".join(sorted({e.kind for e in entries} - {"cubin", "ptx", "lto-ir"}))
    others = (f"LTO-IR of {lto}" if lto else "", f"unknown images ({unknown})" if unknown else "")
    joined = " + ".join(filter(None, (native, ptx, *others)))
    return joined if ptx or not native else f"{joined}, no PTX"


def _platform(graph: LinkGraph, wheel: WheelFacts) -> _Proving:
    objects = wheel.linked
    floors = policy.floors(objects)
    if not floors or not _symbols_searched(wheel):
        return
    highest = ", ".join(f"{name} {v} ({posixpath.basename(file)})" for name, (v, file) in floors.items())
    machines = {o.processor for o in objects}
    promises = [(tag, *policy.of_tag(tag)) for tag in wheel.platforms]
    fulfilled = [tag for tag, p, machine in promises if p and machine in machines and policy.is_known(p)]
    if fulfilled:
        unknown = [
            e for e in graph.edges_of(wheel) if e.provider.source == "nobody" and not _is_found(graph, e)
        ]
        if not unknown and (reason := "; ".join((*filter(None, [_hidden(wheel)]), *bindings.refused(wheel)))):
            yield Withheld(f"what was read fits {', '.join(fulfilled)}, but {reason}")
        elif not unknown:  # that a required package may have a library is a guess
            hold = "hold" if len(fulfilled) > 1 else "holds"
            beside = f"; processor instructions were not read{_unread(wheel)}"
            yield f"{', '.join(fulfilled)} {hold}; highest required: {highest}{beside}"
    elif bare := next((tag for tag in wheel.platforms if tag.startswith("linux_")), ""):
        fitting = policy.fitting(objects, policy.of_tag(bare)[1], _of_system(graph, wheel))
        has = "no manylinux policy has it all"
        if fitting:
            has = f"{fitting.name} has the glibc and libstdc++ that the objects need"
        yield f"{bare} promises nothing; {has}; highest required: {highest}"


def _roles(graph: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    expectation = graph.expectation_of(wheel)
    for promised in expectation.host_only if expectation else ():
        read = [graph.evidence[wheel.name, file] for file in sorted(files_of(promised.patterns, wheel))]
        proved = [evidence for evidence in read if evidence.objects]
        alone = sum(not evidence.archive for evidence in proved)
        members = sum(evidence.objects for evidence in proved if evidence.archive)
        counts = ((alone, "object"), (members, "archive member"))
        count = " and ".join(f"{n:,} {what}{'s' if n > 1 else ''}" for n, what in counts if n)
        names = [posixpath.basename(evidence.file) for evidence in proved]
        files = ", ".join(names[:_NAMED]) + " …" * (len(names) > _NAMED)
        opens = sorted({name for e in proved for part in e.parts for name in part.opens})
        beside = sorted({name for e in proved for name in others(graph, wheel, e, promised.needs)})
        yield (
            f"{promised.name}: {count} read completely ({files}): "
            "no GPU code in a known format (packed data was not unpacked), no trace of a GPU compiler, "
            "no library of a GPU stack NEEDED"
            + _listed(" but ", promised.needs)
            + _listed("; named in strings, so that code may open them: ", opens)
            + _listed("; what libraries outside of the wheel load was not read: ", beside)
        )


def _listed(words: str, names: Sequence[str]) -> str:
    return f"{words}{', '.join(names)}" if names else ""


def _kernel_sets(_: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    folders = tuple(f"{each.folder}/" for each in wheel.kernels)
    if wheel.kernels and not any(file.startswith(folders) for file in wheel.unread):
        listed = {image.kind for each in wheel.kernels for image in each.images}
        unread = sorted(k for k in listed if kind_of(k).loader == "IREE" and not kind_of(k).has_ptx)
        but = f"; of images of {', '.join(unread)} only the files were compared" if unread else ""
        yield f"{_names(wheel.kernels)}: files and images match the index{but}"


def _sources(_: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    if wheel.sources:
        yield f"{_names(wheel.sources)}: files match the recipe"


def _names(sets: Iterable[KernelSet | SourceSet]) -> str:
    return ", ".join(one.name for one in sets)


def _spans(graph: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    expectation = graph.expectation_of(wheel)
    packages = expectation.spans if expectation and _symbols_searched(wheel) else ()
    for package in packages:
        if package in unstable() and package != wheel.project:  # its own files are not searched
            yield f"{package}: none of its functions that change with each release is used"


def _symbols_searched(wheel: WheelFacts) -> bool:
    return all(o.symbols is not None for o in wheel.linked)


def _against(graph: LinkGraph, wheel: WheelFacts) -> _Proving:
    brought = graph.against
    if brought is None:
        return
    count = len(brought.libraries)
    known = f"{count} {'library' if count == 1 else 'libraries'}"
    known = f"the {known} that releases of {brought.compiler} have" if brought.compiler else f"its {known}"
    opened = graph.openings.get(wheel.name, Openings())
    reasons = [
        _listed("code names other versions of them, or opens any: ", sorted(_copies(graph, wheel, brought))),
        f"what these files open was not followed to a name: {_files(opened.unfollowed)}"
        * bool(opened.unfollowed),
        _hidden(wheel),
        f"what DLLs open was not read: {_files([file.file for file in wheel.pe])}" * bool(wheel.pe),
    ]
    if found := "; ".join(filter(None, reasons)):
        yield Withheld(
            f"{brought.label}: the wheel has no second copy of {known} in a place that was read, but {found}"
        )
        return
    unsearched = [o.file for o in wheel.linked if not o.all_searched]
    calling = [o.file for o in wheel.linked if "dlopen" in o.markers]
    packages = [each.package for each in graph.required_always(wheel.name)]
    others = [name for name in opened.imported if canonicalize_name(name) not in packages]
    but = [
        f"not all constants of {_files(unsearched)} were searched for names of libraries" * bool(unsearched),
        f"what compiled code opens by dlopen or as Python was not followed: {_files(calling)}"
        * bool(calling),
        f"tests and code that is made at run time were not followed: {_files(opened.aside)}"
        * bool(opened.aside),
        f"functions open what users name: {_files(opened.users)}" * bool(opened.users),
        f"what required packages load was not followed: {_files(packages)}" * bool(packages),
        f"what other packages load that are imported was not followed: {_files(others)}" * bool(others),
    ]
    end = "".join(f"; {each}" for each in but if each) + _unread(wheel)
    yield f"{brought.label}: the wheel loads no second copy of {known}{end}"


def _copies(graph: LinkGraph, wheel: WheelFacts, against: Against) -> Iterator[str]:
    """Yield the names in code of a wheel that mean a library of `against` in another version, or in an unknown one.

    The version of a library that Python code opens is unknown, unless the wheel NEEDs it or requires its package.
    """
    names = {name for o in wheel.linked for name in (*o.mentioned_sonames, *o.auxiliary)}
    opened = set(graph.openings.get(wheel.name, Openings()).names)
    known = {edge.needed for edge in graph.edges_of(wheel)}
    known.update(*(package_tables.sonames_of(each.package) for each in graph.required_always(wheel.name)))
    others = set(map(sonames.bare, against.libraries)) - set(map(sonames.bare, known))
    yield from (name for name in names | opened if against.other_versions(name))
    yield from (name for name in others if any(code.may_open(name) for code in wheel.preloads))
    yield from (name for name in opened if sonames.bare(name) in others and not against.other_versions(name))


def _hip(_: LinkGraph, wheel: WheelFacts) -> _Proving:
    found = Counter(bundle for each in wheel.objects for bundle in each.hip)
    damaged = [each.file for each in wheel.objects if any(bundle.damaged for bundle in each.hip)]
    if damaged:
        yield Withheld(f"HIP bundles in {_files(damaged)} cannot be read")
    elif found:
        yield (
            "HIP bundles: "
            + "; ".join(f"{n} of {' '.join(b.targets)}" for b, n in found.items())
            + _unread(wheel)
        )


def _windows(graph: LinkGraph, wheel: WheelFacts) -> _Proving:
    yield from map(Withheld, dlls.unproved(graph, wheel))


_PROOFS: tuple[tuple[Topic, Callable[[LinkGraph, WheelFacts], _Proving]], ...] = (
    ("providers", _providers),
    ("GPU code", _device),
    ("GPU code", _hip),
    ("platform", _platform),
    ("platform", _windows),
    ("requirements", _requirements),
    ("host-only", _roles),
    ("kernel sets", _kernel_sets),
    ("sources", _sources),
    ("stable ABI", _spans),
    ("against", _against),
)


def fits_beside(
    wheel: WheelFacts,
    beside: Sequence[WheelFacts],
    given: Iterable[WheelFacts],
    findings: Iterable[Finding],
    *,
    unread: Iterable[Release] = (),
    python: str = "",
    requirement: str = "",
) -> Iterator[Proof]:
    """Yield the proof that the packages `beside` a wheel fit; both are among those `given`.

    They fit if all that were given were read completely, there is no finding, accepted or not, about them together, and
    pip installs the wheel beside them. `python` is the minor of the environment's Python, "3.11"; "" if it is not
    known. `unread` are releases that are installed, too, and whose libraries are known without their wheels.
    """
    wheels = list(given)
    available = [*unread, *(Release(each.project, each.version) for each in wheels)]
    if (
        beside
        and all(each.complete and not each.pe for each in wheels)
        and all(finding.severity == "info" for finding in findings)
        and (not python or _runs_on(wheel, python))
        and all(can_coexist(wheel, other) for other in beside)
        and all(_is_met(required, available) for _, required in required_together(wheel, python))
    ):
        what = f"{requirement}: " if requirement else ""
        packages = f"{len(beside)} package{'s' if len(beside) != 1 else ''}"
        yield Proof("beside", f"{what}no conflict with {packages} in one process")


def _runs_on(wheel: WheelFacts, python: str) -> bool:
    """Return whether a wheel is for every patch release of a CPython."""
    try:
        allowed = SpecifierSet(wheel.python)
    except InvalidSpecifier:
        return False
    if not all(allowed.contains(f"{python}.{patch}") for patch in (0, 99)):
        return False
    version = CPython.parse(python)
    numbers = version.major, version.minor
    fitting = {
        (tag.interpreter, tag.abi)
        for tag in (
            *tags.cpython_tags(numbers, (version.tag, f"{version.tag}t", *STABLE_ABIS, "none"), ["any"]),
            *tags.compatible_tags(numbers, version.tag, ["any"]),
        )
    }
    return not wheel.file_tags or any((tag.interpreter, tag.abi) in fitting for tag in wheel.file_tags)


def _is_met(required: Requirement, available: Iterable[Release]) -> bool:
    """Return whether one of the releases meets a requirement; one of an extra need not be met."""
    return bool(required.extra) or any(
        other.project == required.name and version_clauses.allows(required.versions, other.version)
        for other in available
    )
