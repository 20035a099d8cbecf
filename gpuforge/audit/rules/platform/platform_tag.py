"""GF501: a platform tag that promises more than the objects keep."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.audit import policy
from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries

_MACHINES = {
    3: "i686", 62: "x86_64", 183: "aarch64", 40: "armv7l", 22: "s390x", 21: "ppc64le", 243: "riscv64",
    258: "loongarch64",
}  # fmt: skip

_ARM = r"armv[5-8]\w*"  # ELF has one number for all of them

# what other systems load: by its ending or, as their programs have none, by the folder it lies in
_FOREIGN = (
    r"(?i)\.(dll|pyd|dylib|exe|jnilib)$"
    r"|(^|/)(darwin|mac(os)?x?|osx|win(dows|32|64)?|android|arm64-v8a|armeabi)[-_.\w]*/[^.]+$"
)
_LIBC_WORDS = r"[-_.]?(?<![a-z])(?:manylinux|musllinux|musl|glibc|gnu)(?:[-_.]?\d[\d._]*\d)?(?=eabi|[^a-z]|$)"
_LIBCS = {"manyl": "glibc", "musll": "musl"}  # by how the tags begin
_DATA = r"(^|/)(tests?|testing|test_?data|examples?|samples?|fixtures)/"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the symbol versions that each object wants with the strictest tag of the file name."""
    for wheel in graph.wheels:
        tags = [(tag, *policy.of_tag(tag)) for tag in wheel.platforms]
        promises = [(promised, tag, machine) for tag, promised, machine in tags if promised]
        if promises:
            promised, tag, machine = min(promises, key=lambda p: p[0].glibc)
            yield from _floor(wheel, promised, tag, machine)
            yield from _private(wheel)
        machines = {re.sub(_ARM, "armv7l", machine) for _, _, machine in tags if machine}
        yield from _machine(wheel, machines)
        yield from _c_library(graph, wheel, machines)


RULE = Rule(
    code="GF501",
    severity="error",
    title="the platform tag of the file name is not true",
    check=check,
    contradicts="platform",
)


def _floor(wheel: WheelFacts, promised: policy.Policy, tag: str, machine: str) -> Iterator[Finding]:
    objects = [o for o in wheel.objects if o.links and _MACHINES.get(o.machine, machine) == machine]
    fitting = policy.fitting(objects, machine)
    really = (
        f"the tag that is true is {fitting.name}_{machine}" if fitting else "no manylinux policy has them all"
    )
    for found in objects:
        missing = promised.missing(found, machine)
        if missing:
            yield RULE.finding(
                wheel.name,
                files=(found.file,),
                subjects=(
                    Subject(
                        file=found.file, detail=f"wants {', '.join(sorted(set(missing), key=_by_number))}"
                    ),
                ),
                message=f"the file name says {tag}, and objects want symbol versions that such a machine need not "
                f"have; {really}",
                remedy="build in the image of that policy, or let auditwheel repair choose the tag",
            )


def _private(wheel: WheelFacts) -> Iterator[Finding]:
    """Find what glibc keeps for itself: the version is in each of its releases, its symbols may be in none but one."""
    for found in (o for o in wheel.objects if o.links):
        if any(f"GLIBC_{policy.PRIVATE}" in need.versions for need in found.version_needs):
            yield RULE.finding(
                wheel.name,
                severity="warning",
                files=(found.file,),
                subjects=(Subject(file=found.file),),
                message="objects want symbols that glibc keeps for itself (GLIBC_PRIVATE): no tag promises them, and "
                "unless they are weak, a glibc that has changed them cannot load the objects",
                remedy="see what wants them (readelf --dyn-syms), mostly a sanitizer or a part of glibc that was "
                "linked in",
            )


def _machine(wheel: WheelFacts, machines: set[str]) -> Iterator[Finding]:
    if wheel.platforms == ("any",) and (bound := [o for o in wheel.objects if o.links]):
        meant = _meant(wheel, bound)
        yield RULE.finding(
            wheel.name,
            severity="warning" if meant else "error",
            files=tuple(o.file for o in bound),
            subjects=tuple(
                Subject(file=o.file, detail=f"is for {_MACHINES.get(o.machine, 'one machine')}")
                for o in bound
            ),
            message="the file name says that the wheel runs anywhere, and it has shared objects; "
            + (meant or "pip installs it on every system and every processor, where they cannot be loaded"),
            remedy="tag it for its platform (auditwheel repair, or `wheel tags --platform-tag`)",
        )
    held = [(o, _MACHINES.get(o.machine, "")) for o in wheel.objects if o.links]
    foreign = held and not any(actual in machines for _, actual in held)
    none = foreign and not _meant(wheel, [o for o, _ in held])
    for found, actual in held:
        if machines and actual and actual not in machines:
            yield RULE.finding(
                wheel.name,
                severity="error" if none else "warning",
                files=(found.file,),
                subjects=(Subject(file=found.file, detail=f"is for {actual}"),),
                message=f"the file name says {', '.join(sorted(machines))}, and "
                + ("all objects" if none else "objects")
                + " are for another machine",
                remedy="tag the wheel for the machine that it was built for (`wheel tags --platform-tag`)"
                if none
                else "leave out what cannot run there",
            )


def _c_library(graph: LinkGraph, wheel: WheelFacts, machines: set[str]) -> Iterator[Finding]:
    """Find objects that are linked with another C library than a tag says; of what is there for both, code chooses.

    Those for another machine are told as such.
    """
    promised = {c for tag in wheel.platforms for start, c in _LIBCS.items() if tag.startswith(start)}
    objects = [o for o in wheel.objects if o.links and _MACHINES.get(o.machine) in machines]
    held = [(o, policy.c_libraries(o)) for o in objects]
    for name in sorted(promised):
        wrong = [(o, min(linked)) for o, linked in held if linked and name not in linked]
        if not wrong:
            continue
        spared = _spared(
            graph, [o for o, _ in wrong], {_of_either(o) for o, linked in held if name in linked}
        )
        for found, other in wrong:
            chosen = found.file in spared
            yield RULE.finding(
                wheel.name,
                severity="warning" if chosen else "error",
                files=(found.file,),
                subjects=(Subject(file=found.file, detail=f"is linked with {other}"),),
                message=f"the file name says {', '.join(t for t in wheel.platforms if _LIBCS.get(t[:5]) == name)}, for "
                f"systems with {name}, and objects are linked with {other}: there they cannot be loaded"
                + ("; the wheel has the same for these systems, too, and code may choose" if chosen else ""),
                remedy="build in an image of that system (quay.io/pypa/musllinux_… or manylinux_…), one wheel for each",
            )


def _spared(graph: LinkGraph, wrong: list[ElfObject], right: set[str]) -> set[str]:
    """Return the files among objects of the wrong C library that have a twin of the right one, or serve such alone."""
    spared = {o.file for o in wrong if _of_either(o) in right}
    users = {o.file: {e.loader.file for e in graph.users(o)} for o in wrong} if spared else {}
    while more := {file for file, loaders in users.items() if loaders and loaders <= spared} - spared:
        spared |= more
    return spared


def _of_either(found: ElfObject) -> str:
    """Return an object's place without what in it names a C library: that of its twin for another is the same."""
    folder = found.file.removesuffix(found.name)
    return re.sub("/+", "/", re.sub(_LIBC_WORDS, "", folder + libraries.plain_name(found.name)))


def _meant(wheel: WheelFacts, bound: list[ElfObject]) -> str:
    """Say why shared objects in a wheel for any platform may be in order; "" where nothing in it says so."""
    foreign = re.compile(_FOREIGN)
    if any(foreign.search(name) for name in wheel.members):
        return "it has some for other systems, too"
    if len({o.machine for o in bound}) > 1:
        return "they are for several processors"
    if all(re.search(_DATA, o.file) for o in bound):
        return "they lie where tests and examples have their data"
    if all(o.machine not in _MACHINES for o in bound):
        return "they are for no processor that pip runs on"
    return ""


def _by_number(version: str) -> tuple[str, tuple[int, ...]]:
    name, _, numbers = version.partition("_")
    return name, tuple(int(n) if n.isdecimal() else 0 for n in numbers.split("."))
