"""What this machine offers to a plan: compilers, interpreters and toolkits, each found and checked."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import MissingError, UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import Toolchain
from gpuforge.plan.cell import LeftOut, Selection
from gpuforge.plan.environment import real
from gpuforge.toolchains import cpython
from gpuforge.toolchains.cpython import Interpreter
from gpuforge.toolchains.detect import detect
from gpuforge.toolchains.model import Compiler
from gpuforge.toolkits import tables
from gpuforge.toolkits.select import Toolkit
from gpuforge.toolkits.select import select as select_toolkit

T = TypeVar("T")
HOST_FAMILIES = ("g++", "clang++", "nvc++")


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything found that the chosen cells need, by the cells' own names."""

    hosts: Mapping[str, Compiler]  # by Cell.cuda: the compiler of host code that its toolkit takes
    interpreters: Mapping[str, Interpreter]  # by Cell.python
    toolkits: Mapping[str, Toolkit]  # by Cell.cuda


def machine_type() -> str:
    """Return this machine's type as platform tags write it ("x86_64", "aarch64")."""
    return platform.machine()


def resolve(file: ManifestFile, selection: Selection, *, asked: Collection[str]) -> tuple[Machine, Selection]:
    """Find what the selected cells need; return it with the selection that can be built here.

    What this machine lacks leaves its cells out, with the reason; but when the user asked for it (`asked` names
    the dimensions chosen by hand: "cuda", "python") or no cell is left, it is an error. Raises UsageError for
    combinations that cannot work, all of them at once, and MissingError for what is not here.
    """
    hosts = host_compilers(file, _names(selection, "cuda"))
    found = {name: list(impossible(file, name, host)) for name, host in hosts.items()}
    problems = [p for each in found.values() for p in each if "cuda" in asked or p.place != _host_place(file)]
    if problems:
        raise UsageError.all_of(problems)
    search = _Search({name: MissingError.all_of(each) for name, each in found.items() if each})
    machine = selection.cells[0].machine if selection.cells else machine_type()
    toolkits = search.all(_names(selection, "cuda"), lambda name: toolkit_of(file, name, machine))
    unfit = [p for name, toolkit in toolkits.items() for p in unfit_compilers(file, name, toolkit)]
    if unfit:
        raise UsageError.all_of(unfit)
    interpreters = search.all(_names(selection, "python"), lambda name: _interpreter(file, name))
    buildable = tuple(c for c in selection.cells if c.cuda in toolkits and c.python in interpreters)
    missing = {name: e for name, e in search.missing.items() if _asked(name, selection, asked)}
    if missing or not buildable:
        missing = missing or search.missing
        raise MissingError.all_of([d for error in missing.values() for d in error.diagnostics])
    left_out = [
        LeftOut(cell, (search.missing.get(cell.cuda) or search.missing[cell.python]).diagnostics[0].message)
        for cell in selection.cells
        if cell not in buildable
    ]
    hosts = {name: host for name, host in hosts.items() if name in toolkits}
    return Machine(hosts, interpreters, toolkits), Selection(buildable, (*selection.left_out, *left_out))


def _asked(name: str, selection: Selection, asked: Collection[str]) -> bool:
    return any(name in _names(selection, field) for field in asked)


class _Search:
    """Looks things up by name and keeps what was not found, so that everything missing is told at once."""

    def __init__(self, missing: dict[str, MissingError]) -> None:
        self.missing = missing

    def all(self, names: Iterable[str], look: Callable[[str], T]) -> dict[str, T]:
        found = {}
        for name in names:
            if name in self.missing:
                continue
            try:
                found[name] = look(name)
            except MissingError as error:
                self.missing[name] = error
        return found


def _names(selection: Selection, field: str) -> list[str]:
    return list(dict.fromkeys(getattr(cell, field) for cell in selection.cells))


def host_compiler(file: ManifestFile) -> Compiler:
    """Return the compiler of the host build: the toolchain named "host", else the only C++ one, else g++."""
    name, toolchain = host_toolchain(file)
    try:
        return detect(toolchain.compiler, path=toolchain.path, specifier=toolchain.version)
    except MissingError as error:
        place = file.place("toolchains", name) if name in file.manifest.toolchains else None
        raise MissingError.all_of(
            [Diagnostic(d.message, place, d.hint) for d in error.diagnostics]
        ) from error


def host_compilers(file: ManifestFile, cudas: Iterable[str]) -> dict[str, Compiler]:
    """Return the compiler of the host build for each `[cuda.<name>]`: the usual one unless its toolkit refuses it.

    Then another installed one that the toolkit and the manifest's version range take: g++-11 where g++ is too new.
    When there is none it stays the usual one, of which `impossible` says what is wrong.
    """
    usual = host_compiler(file)
    return {name: _fitting(file, name, usual) or usual for name in cudas}


def _fitting(file: ManifestFile, cuda: str, usual: Compiler) -> Compiler | None:
    """Return the first installed compiler that the toolkit takes, of the families that the manifest allows."""
    toolkit = file.manifest.cuda.versions[cuda].toolkit
    accepted = next((r.hosts for r in tables.releases() if r.version == toolkit), {})
    name, toolchain = host_toolchain(file)
    declared = name in file.manifest.toolchains
    for family in [usual.family] if declared else [usual.family, *accepted]:
        if family not in accepted:
            continue
        low, high = accepted[family]
        if family == usual.family and low <= usual.version.major <= high:
            return usual
        if toolchain.path is not None:
            continue
        ranges = [*([toolchain.version] if toolchain.version else []), f">={low}", f"<{high + 1}"]
        try:
            return detect(family, path=None, specifier=",".join(ranges))
        except MissingError:
            continue
    return None


def host_toolchain(file: ManifestFile) -> tuple[str, Toolchain]:
    """Return the manifest's host toolchain by the rule of `host_compiler`; raises UsageError when it is unclear."""
    declared = file.manifest.toolchains
    if "host" in declared:
        return "host", declared["host"]
    found = [(name, t) for name, t in declared.items() if t.compiler in HOST_FAMILIES]
    if len(found) > 1:
        raise UsageError.of(
            f"which toolchain builds the host code: {', '.join(name for name, _ in found)}?",
            hint="name it [toolchains.host]",
            place=file.place("toolchains"),
        )
    return found[0] if found else ("host", Toolchain(compiler="g++"))


def _host_keys(file: ManifestFile) -> tuple[str, str]:
    return "toolchains", host_toolchain(file)[0]


def _host_place(file: ManifestFile) -> Place:
    return file.place(*_host_keys(file))


def toolkit_of(file: ManifestFile, cuda: str, machine: str) -> Toolkit:
    """Return the toolkit of `[cuda.<cuda>]`; its errors carry that place."""
    wanted = file.manifest.cuda.versions[cuda]
    try:
        return select_toolkit(
            wanted.toolkit, provider=wanted.provider, libraries=file.manifest.cuda.libraries, machine=machine
        )
    except (UsageError, MissingError) as error:
        place = file.place("cuda", cuda, "toolkit")
        raise type(error).all_of(
            [Diagnostic(d.message, d.place or place, d.hint) for d in error.diagnostics]
        ) from error


def impossible(file: ManifestFile, cuda: str, host: Compiler | None) -> Iterable[Diagnostic]:
    """Yield what cannot work in `[cuda.<cuda>]` with this host compiler (None: whatever it is), and the nearest."""
    wanted = file.manifest.cuda.versions[cuda]
    for problem in tables.problems(
        toolkit=wanted.toolkit, host=host, archs=real(wanted.archs), ptx=wanted.ptx
    ):
        keys: tuple[str | int, ...] = ("cuda", cuda, problem.subject)
        if problem.subject == "host":
            keys = _host_keys(file)
        elif problem.index is not None:
            keys = (*keys, problem.index)
        yield Diagnostic(problem.message, file.place(*keys), problem.hint)


def unfit_compilers(file: ManifestFile, cuda: str, toolkit: Toolkit) -> Iterator[Diagnostic]:
    """Yield the nvcc toolchains of fallback objects whose `version` the toolkit's nvcc is not in."""
    used = {item.toolchain for item in file.manifest.objects if item.role == "fallback"}
    for name, toolchain in file.manifest.toolchains.items():
        if name in used and toolchain.compiler == "nvcc" and toolkit.nvcc not in toolchain.versions:
            yield Diagnostic(
                f"[cuda.{cuda}] has nvcc {toolkit.nvcc}, which is not {toolchain.version}",
                file.place("toolchains", name, "version"),
                "widen the range, or choose a toolkit in it",
            )


def _interpreter(file: ManifestFile, python: str) -> Interpreter:
    package = file.manifest.package
    if package.abi == "none":
        return cpython.find(package.python[0] if package.python else "3.11", or_newer=True)
    return cpython.find(python, or_newer=package.abi == "abi3")
