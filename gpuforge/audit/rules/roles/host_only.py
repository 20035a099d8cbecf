"""GF601: host-only objects with traces of a GPU toolchain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuforge.audit.evidence import PLACES, EmbeddedCode, Evidence, TracePlace
from gpuforge.audit.findings import Facts, Finding, GpuTrace, Subject, facts_of
from gpuforge.audit.host import traces as gpu_traces
from gpuforge.audit.host_files import host_only_files
from gpuforge.audit.link.closure import Dependency, closure
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, stack

if TYPE_CHECKING:
    from gpuforge.expectation import HostOnly


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Judge every file that the manifest calls host-only, and the libraries that it loads from the wheel."""
    for wheel, promised, file in host_only_files(graph):
        if traces := list(dict.fromkeys(_File(graph, wheel, promised, file).traces())):
            yield RULE.finding(
                wheel.name,
                files=(file,),
                subjects=tuple(trace.subject(file) for trace in traces),
                cause=(promised.name,),
                what=f"The object {promised.name!r} is declared host-only, and these files are not.",
                why="They may not load, or not link, on a machine without a GPU stack.",
                fix="Compile and link these files with the host compiler alone. Move GPU code into a "
                "fallback or user-compiled object, and list the libraries that they may NEED in `needs`.",
            )


RULE = Rule(
    code="GF601",
    severity="error",
    title="a host-only object contains GPU code or traces of a GPU toolchain",
    check=check,
    contradicts="host-only",
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
        yield from _of_evidence(self._evidence)
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
            yield from _of_evidence(evidence)
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


def _of_evidence(evidence: Evidence) -> Iterator[_Trace]:
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
