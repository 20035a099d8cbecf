"""GF501, GF502, GF504, GF509: the tags of a wheel, and what its objects need."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from packaging.tags import Tag

from gpuforge.audit import policy
from gpuforge.audit.findings import Finding, Severity, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph, closure
from gpuforge.audit.model import AS_BUILT, PACKAGES, WheelFacts
from gpuforge.audit.policy import required_versions
from gpuforge.audit.rules import commands
from gpuforge.audit.rules.rule import Text, rule
from gpuforge.binary.elf.header import MACHINES
from gpuforge.binary.facts import ElfObject
from gpuforge.cpython import STABLE_ABIS, STABLE_MODULE, CPython
from gpuforge.cuda import sonames
from gpuforge.wheel.filename import LinuxTag


def tags_that_hold(graph: LinkGraph, wheel: WheelFacts) -> tuple[Tag, ...]:
    """Return the tags of the file name if they hold; else with the oldest platform that its objects allow.

    Return none if the wheel has objects for several machines, or for no platform.
    """
    objects = wheel.linked
    machines = {o.processor for o in objects}
    if not objects:
        return wheel.file_tags
    if len(machines) > 1:
        return ()
    machine = machines.pop()
    needed = {e.needed for e in graph.edges_of(wheel) if e.provider.source == "system"}
    promised = [found for tag in wheel.platforms if (found := policy.of_tag(tag)[0])]
    tagged = {policy.of_tag(tag)[1] for tag in wheel.platforms} == {machine}
    if tagged and not any(p.lacking(needed) or any(p.missing(o, machine) for o in objects) for p in promised):
        return wheel.file_tags
    fitting = policy.fitting(objects, machine, needed)
    if fitting is None:
        return ()
    return tuple(Tag(t.interpreter, t.abi, f"{fitting.name}_{machine}") for t in wheel.file_tags)


_ARM = r"armv[5-8]\w*"  # ELF has one number for all of them

# files for other systems: recognised by their suffix or, as programs have none there, by a folder on their path
_FOREIGN_ENDINGS = (".dll", ".pyd", ".dylib", ".exe", ".jnilib")
_FOREIGN_FOLDER = r"(?i)(darwin|mac(os)?x?|osx|win(dows|32|64)?|android|arm64-v8a|armeabi)[-_.\w]*"
_LIBC_WORDS = r"[-_.]?(?<![a-z])(?:manylinux|musllinux|musl|glibc|gnu)(?:[-_.]?\d[\d._]*\d)?(?=eabi|[^a-z]|$)"
_WHY = "pip installs the wheel on systems where these objects do not load."
_DATA = r"(^|/)(tests?|testing|test_?data|examples?|samples?|fixtures)/"


@rule("GF501", "error", "objects do not run on every platform of the wheel's tag", contradicts="platform")
def platform_tag(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Compare the symbol versions that each object wants with the strictest tag of the file name for its machine."""
    strictest = policy.strictest(wheel.platforms)
    for machine, (promised, tag) in strictest.items():
        yield from _floor(graph, wheel, promised, tag, machine)
        yield from _forbidden(graph, wheel, promised, tag)
        yield from _in_librt(graph, wheel, promised, tag)
    if strictest:
        yield from _private(wheel)
    yield from _relocations(wheel)
    tagged = {policy.of_tag(tag)[1] for tag in wheel.platforms}
    yield from _interpreters(wheel, tagged)
    machines = {re.sub(_ARM, "armv7l", machine) for machine in tagged if machine}
    yield from _machine(graph, wheel, machines)
    yield from _c_library(graph, wheel, machines)


def _floor(
    graph: LinkGraph, wheel: WheelFacts, promised: policy.Policy, tag: str, machine: str
) -> Iterator[Finding]:
    objects = [o for o in wheel.linked if (o.processor or machine) == machine]
    system = [
        edge
        for edge in graph.edges_of(wheel)
        if edge.provider.source == "system" and (edge.loader.processor or machine) == machine
    ]
    fitting = policy.fitting(objects, machine, (edge.needed for edge in system))
    older = "what is linked into them statically, on a system that is as old as the tag promises."
    fix = (
        f"Tag the wheel {fitting.name}_{machine}, as auditwheel repair does. Or build these objects, and {older}"
        if fitting
        else f"No manylinux policy has these symbol versions. Build these objects, and {older}"
    )
    retagged = commands.with_tags(wheel, tags_that_hold(graph, wheel))
    for edge in system:
        if promised.lacking([edge.needed]):
            yield platform_tag.finding(
                wheel.name,
                Subject(library=edge.needed, needed_by=(edge.loader.file,)),
                cause=("libraries", tag),
                what=f"The wheel is tagged {tag}, and objects need libraries that this platform does not promise.",
                why=_WHY,
                fix=fix,
                commands=retagged,
            )
    for found in objects:
        missing = promised.missing(found, machine)
        if missing:
            yield platform_tag.finding(
                wheel.name,
                Subject(file=found.file, detail="requires", names=tuple(map(str, sorted(missing)))),
                cause=("symbol versions", tag),
                what=f"The wheel is tagged {tag}, and objects require symbol versions that this platform does not "
                "promise.",
                why=_WHY,
                fix=fix,
                commands=retagged,
            )


def _forbidden(graph: LinkGraph, wheel: WheelFacts, promised: policy.Policy, tag: str) -> Iterator[Finding]:
    """Find symbols of the system's libraries that the policy forbids, although they have no version.

    Another library that the object needs may define a symbol of the same name.
    """
    machine = policy.of_tag(tag)[1]
    edges = list(graph.edges_of(wheel))
    others = {e.loader.file for e in edges if e.provider.source not in ("system", "driver")}
    for edge in edges:
        found, library = edge.loader, edge.needed
        names = promised.refused(found, library)
        if not names or edge.provider.source != "system" or (found.processor or machine) != machine:
            continue
        yield platform_tag.finding(
            wheel.name,
            Subject(file=found.file, detail="uses", names=tuple(sorted(names))),
            severity="warning" if found.file in others else "error",
            cause=("symbols", library, tag),
            what=f"The wheel is tagged {tag}, and objects use symbols of {library} that its policy forbids.",
            why=f"Some systems that pip installs the wheel on have a {library} without them: the import fails, or the "
            "process ends once they are called.",
            fix=f"Link {library.partition('.so')[0]} statically, or tag the wheel for a policy that has them: "
            "auditwheel show FILE",
        )


def _in_librt(graph: LinkGraph, wheel: WheelFacts, promised: policy.Policy, tag: str) -> Iterator[Finding]:
    """Find functions that libc has had since glibc 2.34, in objects that load no librt.so.1 on older systems.

    An object that requires GLIBC_2.34 is reported for that, and an unknown library may load librt.
    """
    machine = policy.of_tag(tag)[1]
    for found in wheel.linked if promised.glibc < _MERGED else ():
        names = found.undefined("librt")
        if not names or (found.processor or machine) != machine or promised.missing(found, machine):
            continue
        loaded = (each.object for each in closure(graph, wheel, found.file, found.needed))
        edges = [edge for each in (found, *loaded) for edge in graph.from_object(each)]
        known = all(e.provider.object or e.provider.source == "system" for e in edges)
        if known and not any(edge.needed == "librt.so.1" for edge in edges):
            yield platform_tag.finding(
                wheel.name,
                Subject(file=found.file, detail="calls", kind="calls", names=tuple(sorted(names))),
                severity="warning",
                cause=("librt", tag),
                what=f"The wheel is tagged {tag}, and objects call functions of librt.so.1, which they do not NEED.",
                why="Before glibc 2.34 libc does not have them: the import, or the first call, fails with “undefined "
                "symbol”, unless something else has loaded librt.so.1 before.",
                fix="Link with -lrt, or tag the wheel manylinux_2_34.",
                commands=(f"patchelf --add-needed librt.so.1 {shlex.quote(found.file)}",),
            )


_MERGED = (2, 34)  # the glibc whose libc has the functions of librt


def _private(wheel: WheelFacts) -> Iterator[Finding]:
    """Find glibc's private symbols: every release has their version, but perhaps only one has the symbols."""
    for found in wheel.linked:
        if any(version == policy.PRIVATE for _, version in required_versions(found)):
            yield platform_tag.finding(
                wheel.name,
                Subject(file=found.file),
                severity="warning",
                cause=("GLIBC_PRIVATE",),
                what="Objects use symbols that glibc keeps for itself (GLIBC_PRIVATE).",
                why="No tag promises them: with another glibc the import fails, unless the symbols are weak.",
                fix="Find what uses them with readelf --dyn-syms FILE: often a sanitizer, or a part of glibc "
                "that was linked in.",
            )


def _relocations(wheel: WheelFacts) -> Iterator[Finding]:
    """Find DT_RELR without the symbol version that a linker for glibc writes with it.

    glibc refuses it beside other versions of its own (`_dl_check_map_versions` in elf/dl-version.c).
    """
    for found in (o for o in wheel.linked if o.has_relr):
        versions = {
            version for library, version in required_versions(found) if library.startswith("libc.so.")
        }
        if versions and policy.RELR not in versions:
            yield platform_tag.finding(
                wheel.name,
                Subject(file=found.file, item="DT_RELR"),
                cause=("DT_RELR",),
                what="Objects have packed relocations (DT_RELR), and do not require GLIBC_ABI_DT_RELR.",
                why="glibc 2.36 and newer refuse to load them, and older ones do not apply the relocations.",
                fix="Link without --pack-dyn-relocs=relr, or with -Wl,-z,pack-relative-relocs instead, which also adds "
                "that version (GNU ld 2.38, lld 15 and newer).",
            )


def _interpreters(wheel: WheelFacts, machines: set[str]) -> Iterator[Finding]:
    """Find programs whose PT_INTERP is not the path of the ABI; the kernel does not read that of libraries."""
    for found in (o for o in wheel.objects if o.is_program and o.interpreter and o.processor in machines):
        own = sorted(policy.c_libraries(found) or ("glibc",))
        paths = [
            policy.loaders(libc).get(found.processor, "") for libc in dict.fromkeys((*own, "glibc", "musl"))
        ]
        if found.interpreter not in paths:
            yield platform_tag.finding(
                wheel.name,
                Subject(file=found.file, item=found.interpreter),
                severity="warning",
                cause=("PT_INTERP",),
                what="Programs name a dynamic linker in a place where the platform has none.",
                why="They do not start: the system reports that the file is not found.",
                fix="Build them with the compiler of the system, or set the path.",
                commands=(
                    f"patchelf --set-interpreter {path} {shlex.quote(found.file)}"
                    for path in paths[:1]
                    if path
                ),
            )


def _machine(graph: LinkGraph, wheel: WheelFacts, machines: set[str]) -> Iterator[Finding]:
    if wheel.platforms == ("any",) and (bound := wheel.linked):
        meant = _why_intended(wheel, bound)
        yield platform_tag.finding(
            wheel.name,
            [_is_for(o.file, o.processor) for o in bound],
            severity="warning" if meant else "error",
            cause=("any",),
            what="The wheel is tagged for any platform, and it contains shared objects.",
            why=meant or "pip installs it on every system and processor, and the objects load on only one.",
            fix="None needed if it is. Otherwise build one wheel for each system and processor, and tag it for that."
            if meant
            else "Tag the wheel for its platform, as auditwheel repair does.",
            commands=() if meant else commands.with_tags(wheel, tags_that_hold(graph, wheel)),
        )
    machine_of = [(o, o.processor) for o in wheel.linked]
    foreign = machine_of and not any(actual in machines for _, actual in machine_of)
    none = foreign and not _why_intended(wheel, [o for o, _ in machine_of])
    retagging = commands.with_tags(wheel, tags_that_hold(graph, wheel)) if none else ()
    for found, actual in machine_of:
        if machines and actual and actual not in machines:
            yield platform_tag.finding(
                wheel.name,
                _is_for(found.file, actual),
                cause=("machine",),
                commands=retagging,
                text=(_ALL_FOREIGN if none else _SOME_FOREIGN).filled(tags=", ".join(sorted(machines))),
            )


_ALL_FOREIGN = Text(
    "The wheel is tagged for {tags}, and all objects are for another machine.",
    "pip installs the wheel on machines where none of its objects load.",
    "Compile the objects for {tags}, or tag the wheel for the machine that they are for, as auditwheel repair does.",
    "error",
)
_SOME_FOREIGN = Text(
    "The wheel is tagged for {tags}, and some objects are for another machine.",
    "These objects do not load on the machines of the tag.",
    "Remove the objects that cannot run there.",
    "warning",
)


def _is_for(file: str, processor: str) -> Subject:
    if not processor:
        return Subject(file=file, detail="is for one machine")
    return Subject(file=file, detail="is for {processor}", facts=facts_of(processor=processor))


def _c_library(graph: LinkGraph, wheel: WheelFacts, machines: set[str]) -> Iterator[Finding]:
    """Find objects that are linked with another C library than a tag promises; a warning if there is one for each.

    Objects for another machine are reported as such.
    """
    tags = [(tag.libc, text) for text in wheel.platforms if (tag := LinuxTag.parse(text))]
    objects = [o for o in wheel.linked if o.processor in machines]
    libraries_of = [(o, policy.c_libraries(o)) for o in objects]
    for name in sorted({libc for libc, _ in tags if libc}):
        wrong = [(o, min(linked)) for o, linked in libraries_of if linked and name not in linked]
        if not wrong:
            continue
        spared = _spared(
            graph, [o for o, _ in wrong], {_of_either(o) for o, linked in libraries_of if name in linked}
        )
        for found, other in wrong:
            chosen = found.file in spared
            yield platform_tag.finding(
                wheel.name,
                Subject(file=found.file, detail="is linked with {library}", facts=facts_of(library=other)),
                severity="warning" if chosen else "error",
                cause=("C library", name, other),
                what=f"The wheel is tagged {', '.join(text for libc, text in tags if libc == name)}, "
                f"for systems with {name}, and objects are linked with {other}.",
                why="These objects do not load there. The wheel has others for these systems, and code may "
                "choose between them."
                if chosen
                else "These objects do not load there, and the import fails.",
                fix="Build one wheel for each C library, in an image of that system (quay.io/pypa/musllinux_… or "
                "manylinux_…).",
            )


def _spared(graph: LinkGraph, wrong: list[ElfObject], right: set[str]) -> set[str]:
    """Return the files of objects for the wrong C library that have a right twin, or are needed only by such files."""
    spared = {o.file for o in wrong if _of_either(o) in right}
    users = {o.file: {e.loader.file for e in graph.users(o)} for o in wrong} if spared else {}
    while more := {file for file, loaders in users.items() if loaders and loaders <= spared} - spared:
        spared |= more
    return spared


def _of_either(binary: ElfObject) -> str:
    """Return an object's path without the name of a C library: its twin for another one has the same."""
    folder = binary.file.removesuffix(binary.name)
    return re.sub("/+", "/", re.sub(_LIBC_WORDS, "", folder + sonames.plain_name(binary.name)))


def _why_intended(wheel: WheelFacts, bound: Sequence[ElfObject]) -> str:
    """Return why shared objects in a wheel for any platform may be intended; "" if nothing indicates it."""
    if any(_is_foreign(name) for name in wheel.members):
        return "The wheel also has objects for other systems, so this may be intended."
    if len({o.machine for o in bound}) > 1:
        return "They are for several processors, so this may be intended."
    if all(re.search(_DATA, o.file) for o in bound):
        return "They are in folders of tests or examples, so this may be intended."
    if all(o.machine not in MACHINES for o in bound):
        return "They are for processors that pip does not run on, so this may be intended."
    return ""


def _is_foreign(name: str) -> bool:
    """Return whether a member is for another system, by its suffix or, if it has none, by a folder."""
    *folders, file = name.split("/")
    if "." in file:
        return file.lower().endswith(_FOREIGN_ENDINGS)
    for folder in reversed(folders):
        if re.fullmatch(_FOREIGN_FOLDER, folder):
            return True
        if "." in folder:
            return False
    return False


@rule(
    "GF502",
    "warning",
    "the tags in WHEEL are not those of the file name",
    fix="Correct the Tag lines of WHEEL, between `wheel unpack` and `wheel pack`: `wheel tags` ends with a "
    "traceback. Or rename the wheel, if WHEEL is right.",
    applies_to=AS_BUILT,
)
def wheel_tags(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Compare both lists of tags, with compressed sets expanded, and the two names of one tag as equal."""
    if not wheel.wheel_tags or not wheel.file_tags or set(wheel.wheel_tags) == set(wheel.file_tags):
        return
    only_name = _without(wheel.file_tags, wheel.wheel_tags)
    only_inside = _without(wheel.wheel_tags, wheel.file_tags)
    if not (only_name or only_inside):
        return
    malformed = [tag for tag in only_inside if isinstance(tag, str)]
    yield wheel_tags.finding(
        wheel.name,
        (
            *(Subject(item=str(tag), detail="in the file name only") for tag in only_name),
            *(Subject(item=str(tag), detail="in WHEEL only") for tag in only_inside),
        ),
        what="The tags in WHEEL are not those of the file name."
        + (f" {_parts(malformed[0])}, and a tag has three." if malformed else ""),
        why="pip installs by the file name; in an environment with the package, `pip check` "
        + ("ends with a ValueError." if malformed else "reports the package as unsupported, if no tag fits."),
        cause=tuple(malformed),
        commands=commands.with_tags(wheel, tags_that_hold(graph, wheel)),
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


_MODULE = r"(?P<name>.+)\.(?:cpython-(?P<version>\d+t?)-[\w-]+\.so|cp(?P<windows>\d+t?)-win\w+\.pyd)"
_HELPER = r"\.abi3t?\.so(\.|$)"


@rule(
    "GF504",
    "error",
    "a Python module does not fit all Pythons that the tags promise",
    fix="Build every module with Py_LIMITED_API of the version in the tag (abi3audit checks it), and name it "
    "NAME.abi3.so (NAME.pyd on Windows); or tag the wheel for the one version.",
    applies_to=PACKAGES,
    contradicts="providers",
)
def python_abi(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Compare modules with the tags: by the version in their file name, and by the symbols that they use."""
    tags = [(CPython.of_tag(tag.interpreter), tag) for tag in wheel.file_tags]
    abi3 = [python for python, tag in tags if tag.abi in STABLE_ABIS and python]
    anything = any(tag.abi == "none" and tag.interpreter in {"py2", "py3"} for _, tag in tags)
    # cp312-none is for CPython 3.12 only, like cp312-cp312: later ones accept older tags only with abi3
    alone = (python if tag.abi == "none" else CPython.of_tag(tag.abi) for python, tag in tags)
    yield from _by_name(wheel, {each for each in alone if each}, promises_many=bool(abi3) or anything)
    yield from _free_threaded(wheel)
    if abi3 or anything:
        for found in wheel.linked:
            helped = any(re.search(_HELPER, e.needed) for e in graph.from_object(found))
            yield from _by_symbols(wheel, found, min(abi3, default=None), helped=helped)


def _by_name(wheel: WheelFacts, versions: set[CPython], *, promises_many: bool) -> Iterator[Finding]:
    """Judge modules by the CPython version in their names; Python chooses among several versions of one module.

    A library without PyInit_ is no module, however it is named: code opens it by its path, with every Python.
    """
    named: dict[str, set[CPython]] = {}
    files_of: dict[str, str] = {}
    for member in wheel.members:
        if (
            (".cpython-" in member or member.endswith(".pyd"))
            and (match := re.fullmatch(_MODULE, member))
            and (python := CPython.of_tag(f"cp{match['version'] or match['windows']}"))
        ):
            named.setdefault(match["name"], set()).add(python)
            files_of[match["name"]] = member
    modules = {o.file: o.undefined("python") for o in wheel.objects if o.is_python_module}
    modules |= {f.file: frozenset() for f in wheel.pe}
    for name, found in named.items():
        file = files_of[name]
        if (
            file not in modules
            or len(found) > 1
            or (not promises_many and (not versions or found & versions))
        ):
            continue
        (version,) = found
        bad = sorted(modules[file] - _stable().keys()) if modules[file] else []
        alone = f"for CPython {version} alone"
        yield _finding(
            wheel,
            Subject(file=file, item=alone, detail="uses" if bad else "", names=tuple(bad)),
            "error" if bad or not promises_many else "warning",
            (),
            "Modules are named for one Python version, and the tags promise more versions.",
            "On the other versions the import fails with ModuleNotFoundError.",
        )


def _free_threaded(wheel: WheelFacts) -> Iterator[Finding]:
    """Judge modules of the stable ABI with the GIL in a wheel whose tags promise Pythons without it (PEP 803)."""
    abis = {tag.abi for tag in wheel.file_tags}
    promised = sorted(abi for abi in abis if abi == "abi3t" or ((one := CPython.of_tag(abi)) and one.threads))
    for module in wheel.linked if promised else ():
        stable = STABLE_MODULE.search(module.file)
        name = module.file[: stable.start()] if stable and not stable["threads"] else module.file
        own = any(file.startswith((f"{name}.cpython-3", f"{name}.abi3t")) for file in wheel.members)
        if name != module.file and module.is_python_module and not own:
            yield _finding(
                wheel,
                Subject(file=module.file, item=f"not for {promised[0]}"),
                "error",
                (),
                "Modules for the stable ABI with the GIL are in a wheel for free-threaded Pythons.",
                "From 3.15 on the import fails with ModuleNotFoundError. 3.13t and 3.14t load the module, whose "
                "objects are laid out differently, and crash.",
            )


def _by_symbols(
    wheel: WheelFacts, binary: ElfObject, floor: CPython | None, *, helped: bool
) -> Iterator[Finding]:
    """Check the symbols that modules for the stable ABI use (PEP 384).

    A library that is for the stable ABI itself may define them: libshiboken6.abi3.so does for PySide6.
    """
    if not STABLE_MODULE.search(binary.name) and (
        re.fullmatch(_MODULE, binary.name) or not binary.is_python_module
    ):
        return
    unknown = sorted(binary.undefined("python") - _stable().keys())
    later = sorted(s for s in binary.undefined("python") & _stable().keys() if floor and _stable()[s] > floor)
    if unknown:
        yield _finding(
            wheel,
            Subject(file=binary.file, detail="uses", kind="not stable", names=tuple(unknown)),
            "warning" if helped else "error",
            ("not stable",),
            "Modules for the stable ABI use Python symbols that are not in it.",
            "The import works only if a NEEDED library for the stable ABI (libNAME.abi3.so) defines them."
            if helped
            else "The import fails on Python versions that do not have these symbols.",
        )
    if later and floor:
        version = max(_stable()[s] for s in later)
        kept = _oldest(wheel, floor) >= version
        yield _finding(
            wheel,
            Subject(file=binary.file, detail="uses", kind="newer", names=tuple(later)),
            "warning" if kept else "error",
            (floor, version),
            f"The tags promise CPython {floor}, and modules use symbols that joined the stable ABI in {version}.",
            f"Nothing breaks: Requires-Python {wheel.python} excludes older versions."
            if kept
            else f"The import fails on CPython older than {version}.",
        )


def _oldest(wheel: WheelFacts, floor: CPython) -> CPython:
    """Return the oldest CPython, not older than the tag's, that Requires-Python allows."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415  rarely needed, slow to load

    try:
        allowed = SpecifierSet(wheel.python)
    except InvalidSpecifier:
        return floor
    newest = max(_stable().values())
    later = (floor._replace(minor=minor) for minor in range(floor.minor, newest.minor + 1))
    return next((p for p in later if allowed.contains(f"{p}.99") or allowed.contains(f"{p}.0")), floor)


def _finding(
    wheel: WheelFacts, subject: Subject, severity: Severity, cause: tuple[object, ...], what: str, why: str
) -> Finding:
    return python_abi.finding(wheel.name, subject, severity=severity, cause=cause, what=what, why=why)


@cache
def _stable() -> Mapping[str, CPython]:
    """Return the functions and data of CPython's stable ABI, each with the version that added it."""
    from abi3info import DATAS, FUNCTIONS  # noqa: PLC0415  a tenth of a second to load, and few wheels need it

    added = {symbol.name: entry.added for symbol, entry in (*FUNCTIONS.items(), *DATAS.items())}
    return {name: CPython(version.major, version.minor) for name, version in added.items()}


@rule(
    "GF509",
    "error",
    "a wheel without extension modules, where the manifest builds one for each Python",
    what="The wheel has no extension module, and the manifest builds a wheel for each Python.",
    why="Users may get a package without its compiled code: some builds skip extensions without an "
    "error when they find no compiler.",
    fix="Check the log of the host build for the extension modules. If one wheel serves every "
    'Python, write abi = "none" in [package].',
)
def extensions_missing(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Compare the tags with `[package] python` and `abi`: a pure wheel for each Python has lost its extensions."""
    expectation = graph.expectation_of(wheel)
    pure = wheel.file_tags and all((t.abi, t.platform) == ("none", "any") for t in wheel.file_tags)
    if expectation is not None and expectation.python and pure:
        facts = facts_of(tags=tuple(map(str, wheel.file_tags)), python=expectation.python)
        detail = "{tags}, and [package] python lists {python}"
        yield Subject(detail=detail, facts=facts, kind="for any Python")
