"""What this version cannot build, and manifests that contradict themselves: refused before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from gpuforge.cuda.arch import Arch
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import Object
from gpuforge.plan.cell import Cell
from gpuforge.toolkits import stack


def refuse(file: ManifestFile, cells: Sequence[Cell]) -> None:
    """Refuse what this version cannot do yet, and wheels that would overwrite each other, all of it at once."""
    problems = [
        *_unsupported(file),
        *_unknown_needs(file),
        *_same_wheels(file, cells),
        *_narrowed_variants(file, cells),
    ]
    if problems:
        raise UsageError.all_of(problems)


def _unsupported(file: ManifestFile) -> Iterator[Diagnostic]:
    manifest = file.manifest
    for name, toolchain in manifest.toolchains.items():
        if toolchain.compiler == "nvcc" and toolchain.path:
            message = f"[toolchains.{name}] path: nvcc is always the one of the toolkit"
            hint = "leave it out; [cuda.*] toolkit and provider choose the toolkit"
            yield Diagnostic(message, file.place("toolchains", name, "path"), hint)
    for number, item in enumerate(manifest.objects):
        if item.role != "fallback":
            continue
        if item.kind != "module":
            message = f'object {item.name!r}: kind = "{item.kind}" cannot be built yet'
            yield Diagnostic(message, file.place("objects", number, "kind"), 'use kind = "module"')
        if manifest.toolchains[item.toolchain or ""].compiler != "nvcc":
            message = f"object {item.name!r}: modules are compiled by nvcc only, so far"
            place = file.place("objects", number, "toolchain")
            yield Diagnostic(message, place, "name a toolchain whose compiler is nvcc")


def _unknown_needs(file: ManifestFile) -> Iterator[Diagnostic]:
    """Yield what host-only objects may need and what is no library of any GPU stack."""
    for number, item in enumerate(file.manifest.objects):
        for index, name in enumerate(item.needs):
            if not stack.is_name(name):
                close = difflib.get_close_matches(name, stack.names(), 1)
                hint = (
                    f"did you mean {close[0]!r}?"
                    if close
                    else "leave it out: only these libraries are forbidden"
                )
                yield Diagnostic(
                    f"object {item.name!r}: `needs` names {name!r}, which is no known library of a GPU stack",
                    file.place("objects", number, "needs", index),
                    hint,
                )


def _narrowed_variants(file: ManifestFile, cells: Sequence[Cell]) -> Iterator[Diagnostic]:
    """Yield that a wheel for a quick try cannot be a variant: an index would offer it to others."""
    if file.narrowed and any(cell.naming == "variant" for cell in cells):
        yield Diagnostic(
            '--archs makes wheels for a quick try, and naming = ["variant"] makes those of a release',
            file.place("wheel", "naming"),
            "leave --archs out, or choose a cell of another naming with --cell",
        )


def refuse_same_modules(file: ManifestFile, item: Object, compiled: Sequence[str]) -> None:
    """Raise UsageError when two sources of a fallback object would give modules of one name."""
    by_name: dict[str, str] = {}
    for source in compiled:
        other = by_name.setdefault(PurePosixPath(source).stem, source)
        if item.role == "fallback" and other != source:
            raise UsageError.of(
                f"object {item.name!r}: {other} and {source} would both give the module {PurePosixPath(source).stem!r}",
                hint="a module has its source's name without the suffix: rename one of them",
                place=file.place("objects", file.manifest.objects.index(item), "sources"),
            )


def _same_wheels(file: ManifestFile, cells: Sequence[Cell]) -> Iterator[Diagnostic]:
    """Yield each pair of cells whose wheels would have one file name."""
    seen: dict[tuple[str, str, str], Cell] = {}
    for cell in cells:
        label = "" if cell.naming == "plain" else f"{cell.naming} {cell.toolkit.partition('.')[0]}"
        other = seen.setdefault((cell.python, cell.machine, label), cell)
        if other is not cell:
            yield Diagnostic(
                f"the wheels of {other.id} and {cell.id} would have the same file name",
                file.place("wheel", "naming"),
                'choose one of them with --cuda, or name them apart: naming = ["suffix"] tells CUDA majors apart',
            )


def notes(file: ManifestFile, *, test: bool) -> Iterator[str]:
    """Yield what the manifest asks for and this plan does not do, with the place."""
    if not test:
        place = f"{file.place('test', 'command')}: " if file.manifest.test.command else ""
        yield f"{place}the wheels are not tested, as --no-test says"
    if file.narrowed:
        names = " ".join(Arch.parse(arch).sm for arch in file.narrowed)
        yield f"the wheels are for a quick try: compiled for {names} only, as --archs says; PyPI refuses their versions"
    if file.manifest.audit.beside:
        yield f"{file.place('audit', 'beside')}: [audit] beside is not looked at yet"
