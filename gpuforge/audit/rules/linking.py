"""The other rules of GF2xx: the driver's libraries, grafted libraries, symbols, and requirements."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from packaging.version import Version

from gpuforge.audit import policy, version_clauses
from gpuforge.audit.elf_patterns import names_of, unstable
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge, LoadSet
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.link.requirement import required_together
from gpuforge.audit.model import PACKAGES, WheelFacts
from gpuforge.audit.rules import commands
from gpuforge.audit.rules.commands import renaming
from gpuforge.audit.rules.loading import is_imported
from gpuforge.audit.rules.recognise import is_for_other_framework
from gpuforge.audit.rules.rule import Text, rule
from gpuforge.binary.facts import ElfObject
from gpuforge.binary.mangled import readable
from gpuforge.cpython import CPython
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.carriers import carriers, frameworks
from gpuforge.cuda.provided import PackageRelease, Shared
from gpuforge.cuda.stack import definers, is_known


@rule("GF206", "warning", "a library of the driver is NEEDED: nothing loads on a machine without a GPU")
def driver_needed(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find NEEDED entries of the driver's own libraries, and the imports and programs that they break.

    If compiled code opens all of them later, no import breaks: then it is for information.
    """
    needing = [
        (found, drivers, graph.roots(found))
        for found in wheel.objects
        if (drivers := [e.needed for e in graph.from_object(found) if e.provider.source == "driver"])
    ]
    reached = any(is_imported(wheel, roots) for _, _, roots in needing)
    for found, drivers, roots in needing:
        unused = [name for name in drivers if _is_unused(graph, found, name)]
        used = [name for name in drivers if name not in unused]
        if used:
            yield _driver_needed_finding(found, used, roots, _REACHED if reached else _UNREACHED)
        if unused:
            yield _driver_needed_finding(
                found, unused, roots, _UNUSED if reached else _UNUSED._replace(severity="info")
            )


def _is_unused(graph: LinkGraph, binary: ElfObject, driver: str) -> bool:
    """Return whether no function of a driver's library is used by an object, nor by what is loaded with it."""
    library = sonames.unversioned(driver)
    if not is_known(library) or any(need.library == driver for need in binary.version_needs):
        return False
    others = (o for each in graph.load_sets_of(binary) for o in each.objects if driver not in o.needed)
    return all(
        o.symbols is not None
        and not any(library in definers(name) for name in (*o.undefined("cuda"), *o.optional("cuda")))
        for o in (binary, *others)
    )


def _driver_needed_finding(
    binary: ElfObject, drivers: list[str], roots: Sequence[ElfObject], text: Text
) -> Finding:
    broken = tuple(r.file for r in roots if r is not binary)
    return driver_needed.finding(
        binary.wheel,
        tuple(
            Subject(
                library=name,
                detail=", ".join(_details(name, broken)),
                facts=facts_of(broken=broken) if broken else (),
                needed_by=(binary.file,),
            )
            for name in drivers
        ),
        files=(binary.file,),
        text=text,
        cause=(text.what,),
        commands=[
            f"patchelf --remove-needed {shlex.quote(name)} {shlex.quote(binary.file)}" for name in drivers
        ]
        if text.what == _UNUSED.what
        else (),
    )


_REACHED = Text(  # by an import or a program
    "These objects NEED libraries of the NVIDIA driver.",
    "They do not load on a machine without the driver, so imports fail there: in tests, documentation builds, and "
    "in programs that would run on the CPU.",
    "Open the driver's libraries with dlopen at the first GPU call. The CUDA runtime can look up functions of "
    "libcuda.so.1: cudaGetDriverEntryPointByVersion, before CUDA 12.5 cudaGetDriverEntryPoint.",
    "warning",
)
_UNUSED = Text(
    "These objects NEED libraries of the NVIDIA driver, and use none of their functions.",
    "They do not load on a machine without the driver, for nothing.",
    "Link without -lcuda (CUDA::cuda_driver, CUDA::nvml), or with -Wl,--as-needed before it.",
    "warning",
)
_UNREACHED = Text(
    "These objects NEED libraries of the NVIDIA driver, and no import leads to them.",
    "Code that opens them fails on a machine without the driver; everything else works there.",
    "None needed if the code that opens them handles the failure.",
    "info",
)


def _details(name: str, broken: Sequence[str]) -> Iterator[str]:
    if not libraries.is_soname_of_driver(name):
        yield "not in every driver"
    if broken:
        yield "without it, {broken:4} cannot be imported"


@rule(
    "GF207",
    "error",
    "a library of the driver, or a stub of it, is in the wheel",
    what="Libraries of the NVIDIA driver, or stubs of them, are in the wheel.",
    why="They must match the kernel module of the user's machine, and every call to a stub fails.",
    applies_to=PACKAGES,
)
def driver_grafted(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find files with a driver library's name; stubs in a folder of that name are only for linkers."""
    drivers = [o for o in wheel.linked if _is_driver(graph, o)]
    called = (o.name if libraries.is_driver(o.name) else o.soname for o in drivers)
    names = sorted({sonames.unversioned(sonames.plain_name(name)) for name in called})
    excluded = " ".join(f"--exclude '{name}*'" for name in names)
    for found in drivers:
        yield driver_grafted.finding(
            wheel.name,
            Subject(file=found.file),
            fix=f"Leave them out: auditwheel repair {excluded}",
            cause=tuple(names),
        )


def _is_driver(graph: LinkGraph, binary: ElfObject) -> bool:
    stub = "/stubs/" in binary.file and not graph.users(binary)
    return not stub and (libraries.is_driver(binary.name) or libraries.is_driver(binary.soname))


@rule(
    "GF209",
    "info",
    "a grafted library is used by nothing in the wheel",
    what="Nothing in the wheel NEEDs these grafted libraries.",
    why="They only make the download larger, unless code opens them by exactly this name.",
    fix="Remove them, and run `auditwheel repair` after the last change to the objects.",
    applies_to=PACKAGES,
)
def unused_grafts(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find libraries in a `.libs` folder that no used object NEEDs: auditwheel grafts only NEEDED libraries."""
    for found in _unused(wheel):
        yield unused_grafts.finding(
            wheel.name,
            Subject(file=found.file, detail="{size:KiB} KiB", facts=facts_of(size=found.size)),
            commands=(f"rm {shlex.quote(found.file)}",),
        )


def _unused(wheel: WheelFacts) -> list[ElfObject]:
    """Return the grafted libraries that nothing NEEDs or opens, and those that only these NEED."""
    linked = {o.file: o for o in wheel.linked}
    grafts = {o.file: o for o in linked.values() if _is_graft(o)}
    unused: dict[str, ElfObject] = {}
    while True:
        needed = {name for file, o in linked.items() if file not in unused for name in o.needed}
        more = {
            file: o
            for file, o in grafts.items()
            if file not in unused and needed.isdisjoint((o.name, o.soname)) and not _is_opened(wheel, o)
        }
        if not more:
            return list(unused.values())
        unused |= more


def _is_graft(binary: ElfObject) -> bool:
    folder = binary.file.rpartition("/")[0]
    hashed = sonames.plain_name(binary.name) != binary.name
    return hashed and folder.endswith(".libs") and not binary.is_program


def _is_opened(wheel: WheelFacts, binary: ElfObject) -> bool:
    """Return whether Python code names a library, or a file that tells a loader what to open, such as an `.icd`."""
    names = sonames.plain_name(binary.name), binary.name
    return binary.name in wheel.loader_files or any(p.may_open(*names) for p in wheel.preloads)


@rule(
    "GF210",
    "error",
    "a grafted library has a hashed file name and its old SONAME",
    what="Grafted libraries have a hashed file name and the SONAME of the original.",
    why="Once one is loaded, every other library in the process that needs the original gets this copy.",
    fix="Set the SONAME to the file name, as auditwheel repair does. Objects that need versions of the "
    "library's symbols have its name a second time, beside NEEDED.",
)
def soname_kept(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find libraries whose file name is hashed and whose SONAME is the one that other packages request."""
    for found in (o for o in wheel.linked if o.soname):
        plain = sonames.plain_name(found.name)
        if plain == found.name or sonames.plain_name(found.soname) != found.soname:
            continue
        users = tuple(dict.fromkeys(edge.loader.name for edge in graph.users(found)))
        yield soname_kept.finding(
            wheel.name,
            Subject(
                file=found.file,
                detail="SONAME {soname}" if users else "SONAME {soname}, loaded by nothing in the wheel",
                facts=facts_of(soname=found.soname),
                loaded_by=users,
            ),
            severity="error" if users else "warning",
            commands=_commands(graph, found),
        )


def _commands(graph: LinkGraph, library: ElfObject) -> Iterator[str]:
    """Yield the commands that rename a library, also in the objects of its wheel that need it by its old name."""
    yield f"patchelf --set-soname {shlex.quote(library.name)} {shlex.quote(library.file)}"
    users = {e.loader.file: e.loader for e in graph.users(library) if e.loader.wheel == library.wheel}
    for user in users.values():
        if library.soname in {*user.needed, *(need.library for need in user.version_needs)}:
            yield renaming(user, library.soname, library.name)


_PYTHONS = "libm.so.6"  # every Python interpreter is linked with it


@rule(
    "GF211",
    "error",
    "symbol versions are required from a library that is not NEEDED",
    contradicts="providers",
)
def versions_without_needed(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find required symbol versions of libraries that are not NEEDED, as `patchelf --remove-needed` leaves them.

    The linker looks for the library among all loaded ones, and ends with an assertion if it is not there (glibc,
    elf/dl-version.c, _dl_check_map_versions).
    """
    for found in wheel.linked:
        for need in found.version_needs:
            if need.library in found.needed or policy.is_loader(need.library):
                continue
            loaded = _always_loaded(graph, found, need.library)
            opened = (
                not loaded and not found.is_program and any(p.may_open(need.library) for p in wheel.preloads)
            )
            new = "" if loaded or opened else _new_name(found, need.library)
            text = _LOADED if loaded else _OPENED if opened else _RENAMED if new else _ALONE
            yield versions_without_needed.finding(
                wheel.name,
                Subject(
                    file=found.file,
                    detail="versions of {library}:",
                    facts=facts_of(library=need.library),
                    names=need.versions,
                ),
                text=text,
                cause=(text.why, text.fix),
                commands=(renaming(found, need.library, new),) if new else (),
            )


_WHAT = "Objects require symbol versions of libraries that they do not NEED."
_LINK_AGAIN = (
    "Link again without the library. `patchelf --remove-needed` is not enough: it leaves the symbol versions "
    "(patchelf#214)."
)
_LOADED = Text(_WHAT, "Nothing breaks: other objects load these libraries.", "None needed.", "info")
_OPENED = Text(
    _WHAT,
    "Python code of the wheel has to open these libraries first, or the dynamic linker aborts the process.",
    _LINK_AGAIN,
    "warning",
)
_RENAMED = Text(
    _WHAT,
    "The dynamic linker aborts the process: the objects NEED the libraries by other names.",
    "Give the symbol versions the new names, too. Old releases of patchelf changed only NEEDED.",
    "error",
)
_ALONE = Text(
    _WHAT,
    "The dynamic linker aborts the process unless something else has loaded these libraries.",
    _LINK_AGAIN,
    "error",
)


def _new_name(binary: ElfObject, library: str) -> str:
    """Return the hashed name by which an object NEEDs a library; "" if it does not NEED it, or two may be meant."""
    plain = {name: sonames.plain_name(name) for name in binary.needed}
    found = [n for n, old in plain.items() if old != n and sonames.stem(old) == sonames.stem(library)]
    return found[0] if len(found) == 1 else ""


def _always_loaded(graph: LinkGraph, binary: ElfObject, library: str) -> bool:
    sets = [s for s in graph.load_sets if binary in s.objects]
    if library == _PYTHONS and not any(s.root.is_program for s in sets):
        return True
    return bool(sets) and all(
        any(library in (o.soname, o.name) or library in o.needed for o in s.objects) for s in sets
    )


@rule(
    "GF212",
    "warning",
    "a library uses symbols of the HPC SDK's runtimes, and NEEDs no library that defines them",
    what="Libraries use symbols of the HPC SDK's runtimes, and NEED no library that defines them.",
    why="They load only into a process that has loaded the right runtimes before.",
    fix="Link with nvc++, which adds the runtimes, or compile with g++. -Wl,-z,defs lists the "
    "missing symbols.",
)
def underlinked(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Find strong undefined `__pgi_*` and `__nv*` symbols without a definition in the libraries that the object loads.

    nvc++ relies on the main program to load its runtimes in the right order. Weak symbols are optional.
    """
    for found in (o for o in wheel.linked if o.undefined("nvhpc")):
        loaded = _loaded(graph, found)
        if loaded is None:
            continue
        missing = found.undefined("nvhpc") - {symbol for o in loaded for symbol in o.defined("nvhpc")}
        if missing:
            definers = tuple(dict.fromkeys(o.name for o in wheel.objects if o.defined("nvhpc") & missing))
            detail = "{definers} defines" if len(definers) == 1 else "{definers} define"
            facts, names = facts_of(definers=definers), tuple(sorted(missing))
            detail = detail if definers else "nothing in the wheel defines"
            yield Subject(file=found.file, detail=detail, facts=facts, names=names)


def _loaded(graph: LinkGraph, binary: ElfObject) -> list[ElfObject] | None:
    """Return the object and all libraries that it loads; None if an unknown runtime among them was not given."""
    order = [binary]
    for holder in order:
        for edge in graph.from_object(holder):
            target = edge.provider.object
            if target is None and libraries.is_of_one_release(edge.needed):
                return None
            if target is not None and target not in order:
                order.append(target)
    return order


@rule(
    "GF214",
    "error",
    "a required package needs a library that nothing installs",
    what="A library of a required package needs a library that no declared package brings.",
    why="The import fails with some of the releases that pip may install.",
    contradicts="requirements",
)
def dependency_undeclared(graph: LinkGraph) -> Iterator[Finding]:
    """Find libraries that a required package NEEDs and that no package installed with it provides."""
    for wheel in graph.wheels if graph.brought else ():
        for release in graph.brought.releases if graph.brought else ():
            for library in release.libraries:
                yield from _undeclared(graph, wheel, release, library)


def _undeclared(
    graph: LinkGraph, wheel: WheelFacts, release: PackageRelease, library: Shared
) -> Iterator[Finding]:
    present = {each.soname for each in release.libraries}
    declared = graph.declared[wheel.name]
    always = release.package in declared and not declared[release.package].extra
    # beside a package that is always installed, those of an extra may be absent
    installed = {*(name for name, d in declared.items() if not (always and d.extra)), *release.requires}
    for needed in library.needed:
        if needed in present or policy.is_system(needed) or not libraries.is_toolkit(needed):
            continue
        packages = [entry.package for entry in libraries.by_soname(needed)]
        if installed.isdisjoint(packages):
            facts = facts_of(
                soname=library.soname, package=release.package, version=release.version, role=release.role
            )
            detail = "for {soname} of {package} {version}, {role}"
            yield dependency_undeclared.finding(
                wheel.name,
                Subject(library=needed, detail=detail, facts=facts),
                files=sorted({o.file for o in wheel.objects if library.soname in o.needed}),
                cause=tuple(packages),
                fix=f"Add one of these packages to Requires-Dist: {', '.join(packages)}. gpuforge build with "
                'linkage = "pip" does so. Or require only releases that do not need the library.',
            )


@rule(
    "GF215",
    "error",
    "functions of CUDA are called, and no NEEDED library defines them",
    what="Objects call CUDA functions that no library loaded with them defines.",
    why="The import, or the first call, fails with `undefined symbol`.",
    fix="Link with the library (for libcublas.so: -lcublas, CUDA::cublas), or open it with dlopen. -Wl,-z,defs "
    "lists the missing symbols.",
    applies_to=PACKAGES,
)
def symbols_missing(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find strong undefined CUDA functions that no library loaded with the calling object defines.

    A required package such as torch may have loaded any library before, and an unknown library may define any function.
    Functions that the wheel defines itself count as found, such as trampolines to libraries that it opens.
    """
    if any(known.loaded_by for known in graph.declared[wheel.name].values()):
        return
    for found in (o for o in wheel.linked if o.undefined("cuda") and not is_for_other_framework(graph, o)):
        sets = [load_set for load_set in graph.load_sets if found in load_set.objects]
        first = any(load_set.root.is_program or load_set.root.is_python_module for load_set in sets)
        missing = _undefined(graph, wheel, found, sets)
        for library in sorted({definers(name)[0] for name in missing}):
            subject = Subject(
                file=found.file,
                detail="does not NEED {library}, and calls",
                facts=facts_of(library=library),
                kind="calls",
                about=(library,),
                names=tuple(sorted(name for name in missing if definers(name)[0] == library)),
            )
            yield symbols_missing.finding(wheel.name, subject, severity="error" if first else "warning")


def _undefined(graph: LinkGraph, wheel: WheelFacts, binary: ElfObject, sets: Iterable[LoadSet]) -> set[str]:
    """Return the functions that nothing defines; none if an unknown library is loaded, too."""
    objects = {(o.wheel, o.file): o for load_set in sets for o in load_set.objects} or {("", ""): binary}
    edges = [edge for each in objects.values() for edge in graph.from_object(each)]
    if any(_is_unknown(edge) for edge in edges):
        return set()
    offered = {name for each in objects.values() for name in each.defined("cuda")}
    there = {name for edge in edges for name in _with(edge.needed)}
    there |= {name for each in objects.values() for name in (_stem(each.soname), _stem(each.name))}
    return {
        name
        for name in binary.undefined("cuda") - offered
        if there.isdisjoint(definers(name)) and not _loaded_by_code(wheel, definers(name))
    }


def _is_unknown(edge: Edge) -> bool:
    known = edge.provider.object is not None or edge.provider.source in {"system", "driver"}
    return not known and not package_tables.of_toolkit(edge.needed)


def _with(soname: str) -> Iterator[str]:
    """Yield a library, and those of the packages that its own package requires and may load."""
    yield _stem(soname)
    for entry in libraries.by_soname(sonames.plain_name(soname)):
        for package in entry.requires:
            yield from (f"lib{name}.so" for name in package_tables.stems(package))


def _stem(name: str) -> str:
    """Return a library's name without its version and its hash: "libcudart.so"."""
    return f"{sonames.stem(sonames.plain_name(name))}.so"


def _loaded_by_code(wheel: WheelFacts, names: Iterable[str]) -> bool:
    """Return whether Python code of the wheel loads such a library, so that its functions may be found later.

    If it opens one by its bare name, whether the linker finds that is reported as GF208.
    """
    unknown = (p.everything or p.pathfinder or p.folders for p in wheel.preloads if not p.bare)
    return any(unknown) or any(p.may_open(*names) for p in wheel.preloads)


_LATER = "9999"  # a release that is not published yet


@rule(
    "GF216",
    "error",
    "functions of a package that have no stable form, in a wheel for several of its releases",
    applies_to=PACKAGES,
    contradicts="stable ABI",
)
def unstable_functions(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find C++ functions of a package in wheels whose requirements or manifest allow several of its minors.

    With a wheel of the package at hand, they are compared with what that defines.
    """
    expectation = graph.expectation_of(wheel)
    for package, group in unstable().items():
        users = [o for o in wheel.linked if o.undefined(group)]
        if not users or wheel.project in names_of(package):
            continue
        spans = expectation is not None and package in expectation.spans
        at_hand = _at_hand(graph, package, group)
        if at_hand.is_whole:
            yield from _not_at_hand(wheel, users, group, at_hand)
        # the release that is at hand has been compared; others are not asked about
        allowed = _several_minors(wheel, package) if not at_hand.is_whole and not spans else ""
        promise = f'spans = ["{package}"] of the manifest promises several releases' if spans else allowed
        # those that name a release (libx_torch24.so, libx_torch25.so) are each for it alone
        named = Counter(_alternatives(o) for o in users if re.search(rf"{package}[-_.]?v?\d", o.file))
        for found in users if promise else ():
            names = sorted(found.undefined(group))
            if not spans and named[_alternatives(found)] > 1:
                continue
            if spans or not at_hand.defined.issuperset(names):
                yield unstable_functions.finding(
                    wheel.name,
                    _subject(found, package, names),
                    severity="error" if spans else "warning",
                    cause=(package, promise),
                    what=f"Files use C++ functions of {package} that change with each release, and {promise}.",
                    why="With another release than that of the build, the import fails with “undefined symbol”, or a "
                    "function reads the wrong memory.",
                    fix=f"Use the stable ABI of {package} alone, or require the one release of the build.",
                )


def _subject(binary: ElfObject, package: str, names: Sequence[str]) -> Subject:
    """Return a file with one of the functions in readable form, and their number."""
    return Subject(
        file=binary.file,
        item=package,
        detail="{count} functions, such as {example}" if len(names) > 1 else "{example}",
        facts=facts_of(count=len(names), example=readable(names[0])),
    )


class _AtHand(NamedTuple):
    """The given wheel of a package, and the functions of a group that all given wheels define."""

    title: str = ""
    defined: frozenset[str] = frozenset()
    is_whole: bool = False  # all tables of the package's own libraries are short enough to be searched


def _at_hand(graph: LinkGraph, package: str, group: str) -> _AtHand:
    """Return the given wheel of a package, with what all given wheels define."""
    for given in graph.wheels:
        if given.project not in names_of(package):
            continue
        defined = frozenset[str]().union(*(o.defined(group) for w in graph.wheels for o in w.objects))
        is_whole = any(o.defined(group) for o in given.linked) and all(
            o.symbols is not None for o in given.linked
        )
        return _AtHand(f"{given.project} {given.version}", defined, is_whole)
    return _AtHand()


def _not_at_hand(
    wheel: WheelFacts, users: Sequence[ElfObject], group: str, at_hand: _AtHand
) -> Iterator[Finding]:
    """Find functions that the given wheel of a package does not define.

    Of alternatives for several releases (libx_2.4.so, libx_2.5.so), one that finds all of its functions is enough.
    """
    package = at_hand.title.partition(" ")[0]
    fitting = {_alternatives(o) for o in users if o.undefined(group) <= at_hand.defined}
    for found in users:
        missing = sorted(found.undefined(group) - at_hand.defined)
        if missing and _alternatives(found) not in fitting:
            yield unstable_functions.finding(
                wheel.name,
                _subject(found, package, missing)._replace(kind="missing", wheel=wheel.name),
                across=True,
                cause=("at hand", at_hand.title),
                what=f"Files use C++ functions that {at_hand.title} of this audit does not define.",
                why="The import fails with “undefined symbol”.",
                fix=f"Build with this release of {package}, or require the one of the build.",
            )


def _alternatives(binary: ElfObject) -> str:
    """Return what the names of objects for several releases of a package have in common."""
    return re.sub(r"\d+([._]\d+)*", "#", binary.file)


def _several_minors(wheel: WheelFacts, package: str) -> str:
    """Return, as a clause, what allows several minor releases of a package; "" if nothing does."""
    known = {version for row in carriers() if row.package == package for version in row.known}
    required = [found for _, found in required_together(wheel) if found.name == package]
    for found in required:
        some = (
            known | version_clauses.named(found.versions) | {*version_clauses.below(found.versions), _LATER}
        )
        minors = {Version(each).release[:2] for each in some if version_clauses.allows(found.versions, each)}
        if len(minors) > 1:
            return f"the requirement {package}{found.versions} allows several releases"
    if required and all(found.extra for found in required):
        extras = ", ".join(dict.fromkeys(f"[{found.extra}]" for found in required))
        return f"only the extra {extras} requires the release of the build"
    return ""


@rule(
    "GF217",
    "warning",
    "a framework is imported with the package, and no requirement brings it",
    applies_to=PACKAGES,
)
def import_undeclared(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find imports of frameworks that the wheel neither requires nor requires something of, such as torchvision."""
    known = graph.declared[wheel.name]
    always = [package for package, declared in known.items() if not declared.extra]
    for each in frameworks():
        file = wheel.imports.get(each.package, "")
        if not file or wheel.project == each.package or any(map(each.is_in, always)):
            continue
        extra = known[each.package].extra if each.package in known else ""
        yield import_undeclared.finding(
            wheel.name,
            Subject(file=file, item=each.package),
            cause=(each.package, extra),
            what=f"Importing the package imports {each.package}, and "
            + (f"only the extra [{extra}] requires it." if extra else "no Requires-Dist line has it."),
            why=f"Without {each.package} the import fails, unless another requirement brings it.",
            fix=f"Add {each.package} to Requires-Dist, or import it where it is used.",
            commands=commands.with_requirement(wheel, each.package),
        )


_WITH_NUMPY_2 = CPython(3, 9)


@rule(
    "GF219",
    "warning",
    "modules are compiled for NumPy 1, and the requirement allows NumPy 2",
    applies_to=PACKAGES,
    what="Modules are compiled for NumPy 1, and the requirement allows NumPy 2.",
    why="NumPy 2, which pip installs, has another C API: importing them fails, or prints a warning.",
    fix="Build with numpy>=2 in build-system.requires, which makes modules for NumPy 1 and 2, or require numpy<2.",
)
def old_numpy(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find modules with the headers of NumPy 1, in wheels for a Python that NumPy 2 has wheels for."""
    pythons = [python for tag in wheel.file_tags if (python := CPython.of_tag(tag.interpreter))]
    needs = [each for _, each in required_together(wheel) if each.name == "numpy" and not each.extra]
    allowed = needs and all(version_clauses.allows(each.versions, _LATER) for each in needs)
    at_hand = any(w.project == "numpy" and version_clauses.allows("<2", w.version) for w in graph.wheels)
    if allowed and not at_hand and max(pythons, default=CPython(3, 0)) >= _WITH_NUMPY_2:
        for found in (o for o in wheel.linked if o.numpy == 1):
            command = commands.with_requirement(wheel, "numpy<2")
            yield old_numpy.finding(wheel.name, Subject(file=found.file), commands=command)
