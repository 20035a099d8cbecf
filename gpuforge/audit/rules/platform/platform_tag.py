"""GF501: a platform tag that promises more than the objects keep."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from gpuforge.audit import policy
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules import wheel_file
from gpuforge.audit.rules.platform.tags import tags_that_hold
from gpuforge.audit.rules.rule import Rule, Text
from gpuforge.audit.symbol_version import required_versions
from gpuforge.binary.elf.header import MACHINES
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import sonames
from gpuforge.wheel.tags import LinuxTag

_ARM = r"armv[5-8]\w*"  # ELF has one number for all of them

# files for other systems: recognised by their suffix or, as programs have none there, by a folder on their path
_FOREIGN_ENDINGS = (".dll", ".pyd", ".dylib", ".exe", ".jnilib")
_FOREIGN_FOLDER = r"(?i)(darwin|mac(os)?x?|osx|win(dows|32|64)?|android|arm64-v8a|armeabi)[-_.\w]*"
_LIBC_WORDS = r"[-_.]?(?<![a-z])(?:manylinux|musllinux|musl|glibc|gnu)(?:[-_.]?\d[\d._]*\d)?(?=eabi|[^a-z]|$)"
_WHY = "pip installs the wheel on systems where the import fails."
_DATA = r"(^|/)(tests?|testing|test_?data|examples?|samples?|fixtures)/"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the symbol versions that each object wants with the strictest tag of the file name for its machine."""
    for wheel in graph.wheels:
        strictest = policy.strictest(wheel.platforms)
        for machine, (promised, tag) in strictest.items():
            yield from _floor(graph, wheel, promised, tag, machine)
            yield from _forbidden(graph, wheel, promised, tag)
        if strictest:
            yield from _private(wheel)
        yield from _relocations(wheel)
        tagged = {policy.of_tag(tag)[1] for tag in wheel.platforms}
        yield from _interpreters(wheel, tagged)
        machines = {re.sub(_ARM, "armv7l", machine) for machine in tagged if machine}
        yield from _machine(graph, wheel, machines)
        yield from _c_library(graph, wheel, machines)


RULE = Rule(
    code="GF501",
    severity="error",
    title="objects do not run on every platform of the wheel's tag",
    check=check,
    contradicts="platform",
)


def _floor(
    graph: LinkGraph, wheel: WheelFacts, promised: policy.Policy, tag: str, machine: str
) -> Iterator[Finding]:
    objects = [o for o in wheel.objects if o.links and (o.processor or machine) == machine]
    system = [
        edge
        for edge in graph.of(wheel)
        if edge.provider.source == "system" and (edge.loader.processor or machine) == machine
    ]
    fitting = policy.fitting(objects, machine, (edge.needed for edge in system))
    older = "what is linked into them statically, on a system that is as old as the tag promises."
    fix = (
        f"Tag the wheel {fitting.name}_{machine}, as auditwheel repair does. Or build these objects, and {older}"
        if fitting
        else f"No manylinux policy has these symbol versions. Build these objects, and {older}"
    )
    commands = wheel_file.with_tags(wheel, tags_that_hold(graph, wheel))
    for edge in system:
        if promised.lacking([edge.needed]):
            yield RULE.finding(
                wheel.name,
                files=(edge.loader.file,),
                subjects=(Subject(library=edge.needed, needed_by=(edge.loader.file,)),),
                cause=("libraries", tag),
                what=f"The wheel is tagged {tag}, and objects need libraries that this platform does not promise.",
                why=_WHY,
                fix=fix,
                commands=commands,
            )
    for found in objects:
        missing = promised.missing(found, machine)
        if missing:
            yield RULE.finding(
                wheel.name,
                files=(found.file,),
                subjects=(
                    Subject(file=found.file, detail="requires", names=tuple(map(str, sorted(missing)))),
                ),
                cause=("symbol versions", tag),
                what=f"The wheel is tagged {tag}, and objects require symbol versions that this platform does not "
                "promise.",
                why=_WHY,
                fix=fix,
                commands=commands,
            )


def _forbidden(graph: LinkGraph, wheel: WheelFacts, promised: policy.Policy, tag: str) -> Iterator[Finding]:
    """Find symbols of the system's libraries that the policy forbids, although they have no version.

    Another library that the object needs may define a symbol of the same name.
    """
    machine = policy.of_tag(tag)[1]
    edges = list(graph.of(wheel))
    others = {e.loader.file for e in edges if e.provider.source not in ("system", "driver")}
    for edge in edges:
        found, library = edge.loader, edge.needed
        names = promised.refused(found, library)
        if not names or edge.provider.source != "system" or (found.processor or machine) != machine:
            continue
        yield RULE.finding(
            wheel.name,
            severity="warning" if found.file in others else "error",
            files=(found.file,),
            subjects=(Subject(file=found.file, detail="uses", names=tuple(sorted(names))),),
            cause=("symbols", library, tag),
            what=f"The wheel is tagged {tag}, and objects use symbols of {library} that its policy forbids.",
            why=f"Some systems that pip installs the wheel on have a {library} without them: the import fails, or the "
            "process ends once they are called.",
            fix=f"Link {library.partition('.so')[0]} statically, or tag the wheel for a policy that has them: "
            "auditwheel show FILE",
        )


def _private(wheel: WheelFacts) -> Iterator[Finding]:
    """Find glibc's private symbols: every release has their version, but perhaps only one has the symbols."""
    for found in (o for o in wheel.objects if o.links):
        if any(version == policy.PRIVATE for _, version in required_versions(found)):
            yield RULE.finding(
                wheel.name,
                severity="warning",
                files=(found.file,),
                subjects=(Subject(file=found.file),),
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
    for found in (o for o in wheel.objects if o.links and o.has_relr):
        versions = {
            version for library, version in required_versions(found) if library.startswith("libc.so.")
        }
        if versions and policy.RELR not in versions:
            yield RULE.finding(
                wheel.name,
                files=(found.file,),
                subjects=(Subject(file=found.file, item="DT_RELR"),),
                cause=("DT_RELR",),
                what="Objects have packed relocations (DT_RELR), and do not require GLIBC_ABI_DT_RELR.",
                why="glibc 2.36 and newer refuse to load them, and older ones do not apply the relocations.",
                fix="Link with -Wl,-z,nopack-relative-relocs, or with -Wl,-z,pack-relative-relocs, which also adds "
                "that version.",
            )


def _interpreters(wheel: WheelFacts, machines: set[str]) -> Iterator[Finding]:
    """Find programs whose PT_INTERP is not the path of the ABI; the kernel does not read that of libraries."""
    for found in (o for o in wheel.objects if o.is_program and o.interpreter and o.processor in machines):
        own = sorted(policy.c_libraries(found) or ("glibc",))
        paths = [
            policy.loaders(libc).get(found.processor, "") for libc in dict.fromkeys((*own, "glibc", "musl"))
        ]
        if found.interpreter not in paths:
            yield RULE.finding(
                wheel.name,
                severity="warning",
                files=(found.file,),
                subjects=(Subject(file=found.file, item=found.interpreter),),
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
    if wheel.platforms == ("any",) and (bound := [o for o in wheel.objects if o.links]):
        meant = _why_intended(wheel, bound)
        yield RULE.finding(
            wheel.name,
            severity="warning" if meant else "error",
            files=tuple(o.file for o in bound),
            subjects=tuple(_is_for(o.file, o.processor) for o in bound),
            cause=("any",),
            what="The wheel is tagged for any platform, and it contains shared objects.",
            why=meant or "pip installs it on every system and processor, and the objects load on only one.",
            fix="Tag the wheel for its platform, as auditwheel repair does.",
            commands=wheel_file.with_tags(wheel, tags_that_hold(graph, wheel)),
        )
    machine_of = [(o, o.processor) for o in wheel.objects if o.links]
    foreign = machine_of and not any(actual in machines for _, actual in machine_of)
    none = foreign and not _why_intended(wheel, [o for o, _ in machine_of])
    retagging = wheel_file.with_tags(wheel, tags_that_hold(graph, wheel)) if none else ()
    for found, actual in machine_of:
        if machines and actual and actual not in machines:
            yield RULE.finding(
                wheel.name,
                files=(found.file,),
                subjects=(_is_for(found.file, actual),),
                cause=("machine",),
                commands=retagging,
                **(_ALL_FOREIGN if none else _SOME_FOREIGN)
                .filled(tags=", ".join(sorted(machines)))
                ._asdict(),
            )


_ALL_FOREIGN = Text(
    "The wheel is tagged for {tags}, and all objects are for another machine.",
    "pip installs the wheel on machines where none of its objects load.",
    "Tag the wheel for the machine that it was built for, as auditwheel repair does.",
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
    objects = [o for o in wheel.objects if o.links and o.processor in machines]
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
            yield RULE.finding(
                wheel.name,
                severity="warning" if chosen else "error",
                files=(found.file,),
                subjects=(
                    Subject(
                        file=found.file, detail="is linked with {library}", facts=facts_of(library=other)
                    ),
                ),
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


def _why_intended(wheel: WheelFacts, bound: list[ElfObject]) -> str:
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
