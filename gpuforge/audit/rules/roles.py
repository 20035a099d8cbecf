"""GF6xx: objects with a role in the manifest: host-only, gpu, user-compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuforge.audit.embedded import Recipe, SourceSet
from gpuforge.audit.evidence import (
    PLACES,
    EmbeddedCode,
    Evidence,
    GapKind,
    TracePlace,
    files_of,
    host_only_files,
)
from gpuforge.audit.findings import Facts, Finding, GpuTrace, PatternOf, Subject, facts_of
from gpuforge.audit.host import traces as gpu_traces
from gpuforge.audit.link.graph import Dependency, LinkGraph, closure
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.containers import has_kernels, own_code
from gpuforge.audit.rules.rule import rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, stack
from gpuforge.grouping import grouped
from gpuforge.runtime import layout

if TYPE_CHECKING:
    from gpuforge.expectation import HostOnly


@rule(
    "GF601",
    "error",
    "a host-only object contains GPU code or traces of a GPU toolchain",
    why="They may not load, or not link, on a machine without a GPU stack.",
    fix="Compile and link these files with the host compiler alone. Move GPU code into a "
    "fallback or user-compiled object, and list the libraries that they may NEED in `needs`.",
    contradicts="host-only",
)
def host_only(graph: LinkGraph) -> Iterator[Finding]:
    """Judge every file that the manifest calls host-only, and the libraries that it loads from the wheel."""
    for wheel, promised, file in host_only_files(graph):
        if traces := list(dict.fromkeys(_File(graph, wheel, promised, file).traces())):
            yield host_only.finding(
                wheel.name,
                tuple(trace.subject(file) for trace in traces),
                files=(file,),
                cause=(promised.name,),
                what=f"The object {promised.name!r} is declared host-only, and these files are not.",
            )


class _Trace(NamedTuple):
    """A trace of a GPU toolchain, and its subject's detail."""

    kind: str
    item: GpuTrace
    detail: str
    facts: Facts = ()

    def subject(self, file: str) -> Subject:
        return Subject(file=file, kind=self.kind, item=self.item, detail=self.detail, facts=self.facts)

    def through(self, loaded: Dependency) -> _Trace:
        """Return it as a trace in a library that the file loads."""
        return self._replace(
            item=self.item._replace(library=loaded.object.file),
            detail=self.detail + ", through {chain:chain}",
            facts=(*self.facts, *facts_of(chain=loaded.chain)),
        )


class _File:
    """One host-only file, the evidence in it, and the libraries that it loads from its wheel."""

    def __init__(self, graph: LinkGraph, wheel: WheelFacts, promised: HostOnly, file: str) -> None:
        self._graph, self._wheel, self._file = graph, wheel, file
        self._allowed = {name.casefold() for name in promised.needs}
        self._evidence = graph.evidence.get((wheel.name, file), Evidence(file, ()))
        needed = [name for part in self._evidence.parts for name in part.needs]
        self._loaded = list(closure(graph, wheel, file, needed, promised.needs))

    def traces(self) -> Iterator[_Trace]:
        """Yield every trace that contradicts the promise."""
        yield from _traces(self._evidence)
        yield from self._needs(self._evidence)
        yield from _static_cudart(next((o for o in self._wheel.objects if o.file == self._file), None))
        yield from self._undefined()
        for loaded in self._loaded:
            yield from (trace.through(loaded) for trace in self._of_library(loaded))

    def _of_library(self, loaded: Dependency) -> Iterator[_Trace]:
        """Yield the traces in a library of the wheel that the file loads."""
        name = stack.member(loaded.object.name)
        if name is not None and name.casefold() in self._allowed:
            return
        evidence = self._graph.evidence.get((self._wheel.name, loaded.object.file))
        if evidence is not None:
            yield from _traces(evidence)
            yield from self._needs(evidence)
            yield from _static_cudart(loaded.object)
        else:  # of a GPU stack, and not allowed: only its NEEDED entry matters
            yield from self._needed(loaded.object.needed)

    def _needs(self, evidence: Evidence) -> Iterator[_Trace]:
        for part in evidence.parts:
            yield from self._needed(part.needs)

    def _needed(self, names: Sequence[str]) -> Iterator[_Trace]:
        for name in names:
            known = stack.member(name)
            if known is not None and known.casefold() not in self._allowed:
                part, facts = _stack_part(name)
                yield _Trace("needs", GpuTrace(name), "needs {0}" + part, facts)

    def _undefined(self) -> Iterator[_Trace]:
        """Yield the libraries of which the file uses symbols without a NEEDED entry, as archives do."""
        files = [self._file, *(loaded.object.file for loaded in self._loaded)]
        read = [e for file in files if (e := self._graph.evidence.get((self._wheel.name, file)))]
        given = {symbol for evidence in read for part in evidence.parts for symbol in part.defined}
        needed = {stack.member(name) for evidence in read for part in evidence.parts for name in part.needs}
        symbols_of: dict[str, list[str]] = {}
        for part in self._evidence.parts:
            for symbol, library in part.undefined.items():
                if symbol not in given and library not in needed and library.casefold() not in self._allowed:
                    symbols_of.setdefault(library, []).append(symbol)
        for library, symbols in symbols_of.items():
            facts = facts_of(symbols=tuple(dict.fromkeys(symbols)))
            yield _Trace("wants", GpuTrace(f"lib{library}"), "uses {symbols:3} of {0}", facts)


def _static_cudart(binary: ElfObject | None) -> Iterator[_Trace]:
    if binary is not None and binary.has_static_cudart:
        yield _Trace("static libcudart", GpuTrace(""), "a static libcudart")


def _traces(evidence: Evidence) -> Iterator[_Trace]:
    """Yield the GPU code and the traces of compilers in one file, those of an archive's members together."""
    code: dict[EmbeddedCode, list[str]] = {}
    compilers: dict[str, list[str]] = {}
    marks: dict[str, dict[TracePlace, str]] = {}
    for part in evidence.parts:
        for each in part.code:
            code.setdefault(each, []).append(part.name)
        for compiler in dict.fromkeys(mark.compiler for mark in part.marks):
            compilers.setdefault(compiler, []).append(part.name)
        for mark in part.marks:
            marks.setdefault(mark.compiler, {}).setdefault(mark.place, mark.text)
    for found, members in code.items():
        where, facts = _members(evidence, members)
        detail = "GPU code for {archs}" if found.archs else gpu_traces.name_of_code(found.kind)
        facts = (*facts_of(archs=found.archs), *facts) if found.archs else facts
        yield _Trace("GPU code", GpuTrace(found.kind, archs=found.archs), detail + where, facts)
    for compiler, members in compilers.items():
        where, facts = _members(evidence, members)
        texts = {place: text for place in PLACES if (text := marks[compiler].get(place))}
        shown = ", ".join(f"{place} {{{place.strip('.')}:short}}" for place in texts)
        yield _Trace(
            "made by",
            GpuTrace(compiler),
            "made by " + gpu_traces.name_of_compiler(compiler) + " (" + shown + ")" + where,
            (*((place.strip("."), text) for place, text in texts.items()), *facts),
        )


def _members(evidence: Evidence, names: Sequence[str]) -> tuple[str, Facts]:
    if not evidence.archive:
        return "", ()
    facts = facts_of(count=len(names), total=len(evidence.parts), members=tuple(names))
    return " in {count:,} of {total:,} members ({members:3})", facts


def _stack_part(name: str) -> tuple[str, Facts]:
    """Return the part of a GPU stack that a library belongs to, if its name does not show it."""
    if libraries.is_driver(name):
        return ", of the driver", ()
    runtimes = libraries.compiler_runtime(name)
    return (", a runtime of {compiler}", facts_of(compiler=runtimes.name)) if runtimes else ("", ())


# by the number of files: none, one, several
_DETAILS = ("no file", "{files}, with no object in it", "only {files:3}, with no object in them")


@rule(
    "GF602",
    "error",
    "a host-only object's pattern matches no binary in the wheel",
    what="Patterns of host-only objects match no binary in the wheel.",
    why="Nothing is checked for these patterns.",
    fix="Match the paths of the files in the wheel: ** crosses folders, * does not.",
    contradicts="host-only",
)
def host_only_empty(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Find patterns that match no file, or no binary."""
    expectation = graph.expectation_of(wheel)
    for promised in expectation.host_only if expectation else ():
        for pattern in promised.patterns:
            files = sorted(files_of((pattern,), wheel))
            if not any(_is_binary(graph, wheel, file) for file in files):
                item, facts = PatternOf(pattern, promised.name), facts_of(files=tuple(files)) if files else ()
                yield Subject(item=item, detail=_DETAILS[min(len(files), 2)], facts=facts)


def _is_binary(graph: LinkGraph, wheel: WheelFacts, file: str) -> bool:
    """Return whether a file has objects, or is a binary that cannot be read, which GF604 reports."""
    evidence = graph.evidence.get((wheel.name, file))
    return evidence is not None and any(part.counted or part.unproved for part in evidence.parts)


_ABSOLUTE = r"(?:^|=|-[ILF])(/(?!usr/|opt/nvidia/|dev/null)[\w.+-]+/[^\s\"']*)"


@rule(
    "GF603",
    "error",
    "the sources of a user-compiled object name folders of the build machine",
    what="User-compiled sources name folders of the build machine.",
    why="On other machines they do not compile, or compile with other files.",
    fix="Use paths relative to the source, and ship the files that they lead to.",
)
def source_paths(_: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Find absolute paths in recipes, and in the #include lines of the sources."""
    for sources in wheel.sources:
        yield from (Subject(file=file, item=path) for file, path in _paths(sources))


def _paths(sources: SourceSet) -> Iterator[tuple[str, str]]:
    yield from (
        (f"{sources.folder}/{file}", path) for file, paths in sources.absolute.items() for path in paths
    )
    for text in sources.recipe.texts if isinstance(sources.recipe, Recipe) else ():
        for path in re.findall(_ABSOLUTE, text):
            yield layout.recipe(sources.folder), path


@rule(
    "GF604",
    "error",
    "a host-only file cannot be proved to be host-only",
    why="They may contain GPU code that the audit does not see.",
    fix="Build them as machine code for a CPU: without -flto or with -ffat-lto-objects, and "
    "with the name of the compiler in .comment. [audit] ignore accepts a file that you know.",
    contradicts="host-only",
)
def host_only_unproved(graph: LinkGraph) -> Iterator[Finding]:
    """Find files that could not be read completely, or that do not name their compiler."""
    for wheel, promised, file in host_only_files(graph):
        if subjects := tuple(_unproved(graph, wheel, promised, file)):
            yield host_only_unproved.finding(
                wheel.name,
                subjects,
                files=(file,),
                cause=(promised.name,),
                what=f"Files of the host-only object {promised.name!r} cannot be proved to be host-only.",
            )


REASONS: Mapping[GapKind, str] = {
    "not read": "{fact}",
    "damaged": "damaged: {fact}",
    "members": "it has more than {fact:,} members",
    "depth": "it is the {fact}th archive in another",
    "LLVM bitcode": "it is LLVM bitcode, which is compiled later",
    "GCC bytecode": "it has only bytecode of GCC (-flto), which is compiled later",
    "macOS": "it is a binary of macOS, which is not read",
    "AIX": "it is an archive of AIX, which is not read",
    "Windows": "it is a binary of Windows, which is not read",
    "machine": "its code is for machine {fact}, and wheels are not made for that CPU",
    "type": "it is neither an object nor a program nor a library, but an ELF file of type {fact}",
    "sections": "it is a relocatable object without sections",
    "compiler": "neither .comment nor debug info names its compiler, which may be one for GPUs",
}


def _unproved(graph: LinkGraph, wheel: WheelFacts, promised: HostOnly, file: str) -> Iterator[Subject]:
    evidence = graph.evidence.get((wheel.name, file))
    if evidence is None:
        yield Subject(file=file, detail="it was not read")
        return
    yield from _gaps(evidence, ())
    needed = {name for part in evidence.parts for name in part.needs}
    for loaded in closure(graph, wheel, file, needed, promised.needs):
        evidence_of_library = graph.evidence.get((wheel.name, loaded.object.file))
        if evidence_of_library is not None:
            yield from _gaps(evidence_of_library, (file,))
            needed.update(loaded.object.needed)
    for damaged, problem in wheel.damaged.items():  # the graph does not have these
        if damaged.rpartition("/")[2] in needed:
            yield Subject(
                file=damaged, detail="{problem}", facts=facts_of(problem=problem), loaded_by=(file,)
            )


def _gaps(evidence: Evidence, loaded_by: tuple[str, ...]) -> Iterator[Subject]:
    """Yield each reason once, with the members of an archive that it applies to."""
    members = grouped((part.unproved, part.name) for part in evidence.parts if part.unproved)
    for gap, names in members.items():
        named = tuple(name for name in names if name)
        facts = facts_of(count=len(named), total=len(evidence.parts), members=named) if named else ()
        yield Subject(
            file=evidence.file,
            detail=("{count:,} of {total:,} members ({members:3}): " if named else "") + REASONS[gap.kind],
            facts=(*facts, *(facts_of(fact=gap.fact) if gap.fact else ())),
            loaded_by=loaded_by,
        )


@rule(
    "GF605",
    "error",
    "a gpu object's file is missing or has no GPU code",
    what="Files that the manifest declares as GPU code are missing or contain none.",
    why="Users get a package whose GPU functions are absent: some builds skip them without an "
    "error when they find no compiler.",
    fix="Check in the log of the host build that it compiles these files with nvcc, or correct the "
    "pattern: ** crosses folders, * does not.",
    contradicts="GPU code",
)
def gpu_missing(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find patterns that match no file, and matched files without kernels; GF401 compares their architectures."""
    expectation = graph.expectation_of(wheel)
    promises = expectation.gpu if expectation else ()
    compiled = {code.file for code in own_code(wheel) if has_kernels(code)} if promises else set()
    for promised in promises:
        for pattern in promised.patterns:
            files = files_of((pattern,), wheel)
            lacking = sorted(files - compiled)
            if lacking or not files:
                yield gpu_missing.finding(
                    wheel.name,
                    Subject(
                        item=PatternOf(pattern, promised.name),
                        detail="without GPU code:" if files else "no file",
                        names=tuple(lacking),
                    ),
                    files=tuple(lacking),
                )
