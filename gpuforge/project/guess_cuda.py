"""Guesses `[cuda]`, the files with GPU code, and further needs of the wheels."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from packaging.version import Version

from gpuforge.cuda import carriers, sonames
from gpuforge.cuda.releases import release
from gpuforge.cuda.suffix import number_of
from gpuforge.cuda.targets import Target
from gpuforge.project.cmake import OWN_ARCHS, Use
from gpuforge.project.facts import FrameworkUse, Project
from gpuforge.project.files import Seen, Where
from gpuforge.project.guess import Guess, Note, Reason, because
from gpuforge.project.sources import OF_EVERY_TOOLKIT, is_lacking, library, names
from gpuforge.requirements import parse_requirement
from gpuforge.runtime.arch import Arch
from gpuforge.toolkits import pins
from gpuforge.toolkits.providers import debian, pypi, redist

_CUDA, _OBJECTS, _WHEEL = ("cuda",), ("objects",), ("wheel",)
_MAJORS = (12, 13)
_SET_ARCHS = ("CUDAARCHS", "TORCH_CUDA_ARCH_LIST")  # by gpuforge
_CLASSIFIER = r"Environment :: GPU :: NVIDIA CUDA :: (\d{1,4})(?: .*)?"


def guesses(project: Project, gcc: int | None = None) -> Iterator[Guess | Note]:
    """Yield the keys of [cuda], which a project without CUDA does not have, and of [[objects]]; notes on [wheel].

    `gcc` is the major version of the compiler that toolkits must take; None: one that fits is found.
    """
    if project.cuda is not None:
        yield from _cuda(project, gcc)
    yield from _objects(project)
    yield from _wheel(project)


def _cuda(project: Project, gcc: int | None) -> Iterator[Guess | Note]:
    libraries = dict(_libraries(project))
    yield from _linkage(project, libraries)
    known = {name: reason for name, reason in libraries.items() if name in names()}
    if known:
        yield Guess(_CUDA, "libraries", tuple(known), tuple(known.values()))
    for name in libraries.keys() - known.keys():
        yield Note(_CUDA, because("library-unknown", *libraries[name].where, name=name))
    lacking = {seen.text: seen.where for seen in reversed(project.cmake.static) if is_lacking(seen.text)}
    for name, where in lacking.items():
        yield Note(_CUDA, because("static", where, name=name))
    toolkits = list(_toolkits(project, gcc))
    yield from (each for each in toolkits if isinstance(each, Note))
    for index, (major, toolkit, reason) in enumerate(t for t in toolkits if not isinstance(t, Note)):
        table = ("cuda", str(major))
        yield Guess(table, "toolkit", toolkit, (reason,))
        yield from _own_archs(project, table) if index == 0 else ()
        yield from _archs(project, toolkit, table)


def _linkage(project: Project, libraries: Mapping[str, Reason]) -> Iterator[Guess | Note]:
    """Yield the linkage: static if the project links cudart so, and no shared library of CUDA."""
    static_flag = re.compile(r"(-l)?cudart_static|--?cudart[= ]static")
    flags = (seen for seen in project.script.texts if static_flag.fullmatch(seen.text))
    static = next((seen for seen in (*project.cmake.static, *flags) if "cudart" in seen.text), None)
    headers_only = {"curand", "nvtx", "cccl", "profiler"}  # a build that links nothing of them
    shared = project.framework or libraries.keys() - headers_only
    if static and not shared:
        yield Guess(_CUDA, "linkage", "static", (because("static-cudart", static.where, name=static.text),))
        return
    yield Guess(_CUDA, "linkage", "pip", (because("linkage"),))
    if static:
        yield Note(_CUDA, because("static-cudart-beside", static.where, name=static.text))


def _libraries(project: Project) -> Iterator[tuple[str, Reason]]:
    """Yield CUDA's libraries, with the first place of each."""
    found: dict[str, Reason] = {}
    if used := project.framework:
        for name in used.framework.headers:
            framework = used.framework.package
            found[name] = because("framework-headers", used.where, name=name, framework=framework)
    by_library = {name: (f"{name}.h",) for name in pins.beside_toolkits()} | dict(pins.headers_by_library())
    for name, files in by_library.items():
        for seen in project.sources.includes:
            if seen.text in files or any(each.endswith("/") and seen.text.startswith(each) for each in files):
                found.setdefault(name, because("included", seen.where, name=name, header=seen.text))
    for seen in project.cmake.targets:
        found.setdefault(library(seen.text), because("linked", seen.where, name=seen.text))
    for package in project.cmake.packages:
        if package.name.lower() in pins.beside_toolkits():
            found.setdefault(package.name.lower(), because("linked", package.where, name=package.name))
    for seen in project.script.libraries:
        if library(seen.text) in names():
            found.setdefault(library(seen.text), because("linked", seen.where, name=seen.text))
    yield from sorted((name, reason) for name, reason in found.items() if name not in OF_EVERY_TOOLKIT)


def _toolkits(project: Project, gcc: int | None) -> Iterator[tuple[int, str, Reason] | Note]:
    """Yield the toolkits to build with, and a note if none has all architectures of the project."""
    majors, reason = _majors(project)
    asking = [use for use in project.cmake.uses if use.version]
    least = max(asking, key=lambda use: Version(use.version), default=None)
    usable = {major: toolkit for major in majors if (toolkit := _of_major(major, least, gcc))}
    refused = {major: gone for major, toolkit in usable.items() if (gone := list(_refused(project, toolkit)))}
    for major in [each for each in usable if each not in refused] or [*usable][:1]:
        toolkit = usable[major]
        newer = least and (toolkit != _of_major(major, None, gcc) or len(usable) < len(majors))
        why = because("toolkit-at-least", least.where, version=least.version) if least and newer else reason
        if toolkit != _of_major(major, least, None):
            why = because("toolkit-of-image", gcc=str(gcc))
        if refused:
            gone = refused.get(major) or [each for of_one in refused.values() for each in of_one]
            first, what = gone[0], ", ".join(dict.fromkeys(each.text for each in gone))
            if major in refused:
                yield Note(_CUDA, because("archs-refused", first.where, what=what, toolkit=toolkit))
            else:
                why = because("archs-gone", first.where, what=what)
        yield major, toolkit, why


def _refused(project: Project, toolkit: str) -> Iterator[Seen]:
    """Yield the architectures that the project's files always compile for, and that a toolkit does not know."""
    known = set(release(toolkit).archs)
    for each in project.script.gencodes if not project.script.own_archs else ():
        if each.always and not each.at_least and not {each.arch, *each.ptx} <= known:
            yield Seen(each.arch.sm, each.where)
    for target, where in project.cmake_with(toolkit).archs.items():
        if target.arch not in known:
            yield Seen(target.arch.sm, where)


def _of_major(major: int, least: Use | None, gcc: int | None) -> str:
    """Return the oldest toolkit of a major that is new enough, from PyPI or Debian if they have one; "" for none.

    It takes the compiler `gcc`, if one is given.

    The oldest toolkit needs the oldest driver.
    """
    for minors in ((*pypi.minors(), *debian.minors()), redist.minors()):
        versions = [each for each in map(Version, minors) if each.major == major and _takes(each, gcc)]
        if fit := [each for each in versions if not least or each >= Version(least.version)]:
            return str(min(fit))
    return ""


def _takes(toolkit: Version, gcc: int | None) -> bool:
    low, high = release(str(toolkit)).hosts["g++"]
    return gcc is None or low <= gcc <= high


def _majors(project: Project) -> tuple[tuple[int, ...], Reason]:
    name = project.metadata.name
    if name and (number := number_of(name.text)) in _MAJORS:
        return (number,), because("named-for", name.where, name=name.text)
    if project.framework:
        return _of_framework(project, project.framework)
    listed = {
        int(match[1]): seen.where
        for seen in project.metadata.classifiers
        if (match := re.fullmatch(_CLASSIFIER, seen.text)) and int(match[1]) in _MAJORS
    }
    if listed:
        return tuple(sorted(listed)), because("cuda-classifiers", *listed.values())
    for seen in project.metadata.requires:
        try:
            requirement = parse_requirement(seen.text)
        except ValueError:
            continue
        number = number_of(requirement.name)
        if not requirement.marker and number in _MAJORS:
            return (number,), because("requires-cuda", seen.where, name=requirement.name)
    return _MAJORS, because("both-majors", project.cuda)


def _of_framework(project: Project, used: FrameworkUse) -> tuple[tuple[int, ...], Reason]:
    """Return the CUDA of the newest release of a framework, or of the one that the project requires."""
    name = used.framework.package
    required = (project.backend.requires.get(name), *project.metadata.requires)
    for seen in filter(None, required):
        try:
            requirement = parse_requirement(seen.text)
            majors = carriers.cuda_majors(requirement) if requirement.name == name else frozenset()
        except ValueError:  # not a requirement, or one with a number of thousands of digits
            continue
        if len(majors) == 1 and majors <= set(_MAJORS):
            return tuple(majors), because("framework-required", seen.where, what=seen.text)
    major = carriers.newest_major(name)
    return (major,), because("framework-cuda", used.where, framework=name, major=str(major))


def _archs(project: Project, toolkit: str, table: tuple[str, ...]) -> Iterator[Guess]:
    """Yield the architectures: those that the project's own files fix, else the least for all GPUs."""
    kernel = project.sources.kernel or next((seen.where for seen in project.script.absent), None)
    if kernel is None:
        first = project.sources.cuda[0] if project.sources.cuda else ""
        where = Where(first) if first else None
        yield Guess(table, "archs", (), (because("no-kernels", where),))
        return
    fixed = _fixed(project, toolkit)
    real = {target.written: where for target, where in fixed.items() if target.real}
    if not real:
        yield Guess(table, "archs", "common", (because("common", kernel),))
        return
    places = list(real.values())
    yield Guess(table, "archs", tuple(real), (because("fixed-archs", places[0], places[-1]),))
    ptx = [target for target in fixed if target.ptx and not target.real]
    for target in ptx[-1:]:
        yield Guess(table, "ptx", target.arch.number, (because("fixed-archs", fixed[target]),))


def _own_archs(project: Project, table: tuple[str, ...]) -> Iterator[Note]:
    """Yield the project's own variable for architectures, or that it computes them."""
    if not project.sources.kernel:
        return
    read = [Seen(each.variable, each.where) for each in project.script.switches]
    read = [seen for seen in read if re.fullmatch(OWN_ARCHS, seen.text)] + project.script.own_archs
    seen_names = (*read, *project.cmake.own_archs)
    named = [s for s in seen_names if s.text not in _SET_ARCHS and not re.search("HIP|ROCM|AMD", s.text)]
    computed = project.script.computed_archs
    if any(each.variable in _SET_ARCHS for each in project.script.switches):
        computed = None  # of what gpuforge sets, or only where it is not set
    computed = computed or project.cmake.computed_archs
    if named:
        yield Note(table, because("own-archs", named[0].where, name=named[0].text))
    elif computed:
        yield Note(table, because("computed-archs", computed))


def _fixed(project: Project, toolkit: str) -> dict[Target, Where]:
    """Return the architectures that the project always compiles for, in their order."""
    known = set(release(toolkit).archs)
    real: dict[Arch, Where] = {}
    virtual: dict[Arch, Where] = {}
    for each in project.script.gencodes:
        if not (each.at_least and Version(each.at_least) > Version(toolkit)):
            real = dict.fromkeys(each.real, each.where) | real
            virtual = dict.fromkeys(each.ptx, each.where) | virtual
    for target, where in project.cmake_with(toolkit).archs.items():
        if target.real:
            real.setdefault(target.arch, where)
        if target.ptx:
            virtual.setdefault(target.arch, where)
    newer = [
        arch for arch in virtual if arch > max(known)
    ]  # PTX of the newest, which an older toolkit has of its own
    if newer and not known & virtual.keys() and (own := known & real.keys()):
        virtual[max(own)] = virtual[max(newer)]
    return {
        Target(arch, arch in real, arch in virtual and arch.variant != "a"): real.get(arch) or virtual[arch]
        for arch in sorted(known & {*real, *virtual})
    }


def _objects(project: Project) -> Iterator[Guess | Note]:
    """Yield an object for the CUDA extensions that setup.py names, so that a build which leaves them out fails."""
    if project.script.computed_extensions:
        yield Note(_OBJECTS, because("gpu-computed", project.script.computed_extensions))
    modules = [seen for seen in project.script.gpu_extensions if re.fullmatch(r"[A-Za-z_][\w.]*", seen.text)]
    if not modules or not (project.sources.kernel or project.script.absent):
        return
    files = tuple(dict.fromkeys(f"{seen.text.replace('.', '/')}*.so" for seen in modules))
    yield Guess(_OBJECTS, "name", "gpu-code", (because("gpu-object"),))
    yield Guess(_OBJECTS, "role", "gpu", ())
    yield Guess(_OBJECTS, "files", files, (because("gpu-files", *(seen.where for seen in modules)),))


def _wheel(project: Project) -> Iterator[Guess | Note]:
    """Yield what the audit should ignore, and notes on code that another toolchain would compile."""
    sources = project.sources
    shipped = sorted(name for name in project.files.names if name.endswith((".ptx", ".cubin", ".fatbin")))
    if shipped and (project.cuda is None or sources.kernel is None):  # it may become part of a wheel
        last = dict.fromkeys(PurePosixPath(name).name for name in shipped)
        why = "the project ships this file as it is"
        ignored = tuple({"rule": "GF409", "file": f"*/{name}", "reason": why} for name in last)
        reason = because("shipped-code", *(Where(name) for name in shipped[:4]))
        yield Guess(("audit",), "ignore", ignored, (reason,))
    opened = [seen for seen in sources.opened if library(sonames.bare(seen.text)) in names() | {"cudart"}]
    if opened:
        files = ", ".join(seen.text for seen in opened)
        yield Note(_WHEEL, because("opened", *(seen.where for seen in opened[:4]), names=files))
    if sources.openacc:
        yield Note(_WHEEL, because("openacc", sources.openacc))
    if sources.openmp_target:
        yield Note(_WHEEL, because("openmp-target", sources.openmp_target))
