"""What this version cannot build, and manifests that contradict themselves: refused before anything runs."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpuforge.cuda import stack
from gpuforge.cuda.carriers import cuda_majors, linked_frameworks, newest
from gpuforge.cuda.suffix import named_for, variant_label
from gpuforge.cuda.version import major_of
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import UsageError
from gpuforge.manifest import braces, kernels_wheels
from gpuforge.manifest.axes import Point
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import Object
from gpuforge.plan.cell import Cell
from gpuforge.plan.recipe import label_of, of_modules, wrong_objects, wrong_targets
from gpuforge.plan.site import Machine, host_toolchain
from gpuforge.plan.source_files import LoweredObject, abi_packages_of
from gpuforge.toolchain_names import OWN
from gpuforge.toolchains import registry
from gpuforge.toolchains.toolchain import Toolchain

TAKES_PATH = frozenset({"host build"})
"""The uses in which `[toolchains.*] path` decides on the compiler; anywhere else it is refused."""


def refuse(file: ManifestFile, cells: Sequence[Cell]) -> None:
    """Refuse what this version cannot do yet, and wheels that would overwrite each other, all of it at once."""
    problems = [
        *_unsupported(file, cells),
        *_unknown_needs(file),
        *_named_for_others(file, cells),
        *_same_wheels(file, cells),
        *impossible_pairs(file, cells),
        *_narrowed_variants(file, cells),
        *_variants_of_axes(file, cells),
    ]
    if problems:
        raise UsageError.all_of(problems)


def _unsupported(file: ManifestFile, cells: Sequence[Cell]) -> Iterator[Diagnostic]:
    manifest = file.manifest
    for name, toolchain in manifest.toolchains.items():
        yield from wrong_targets(file, name, cells)
        compiled = (
            "fallback" in _uses(file, name) and registry.toolchain(toolchain.compiler).compiles_libraries
        )
        if toolchain.path and not compiled and not _uses(file, name) & TAKES_PATH:
            yield Diagnostic(*_unused_path(file, name))
    for number, item in enumerate(manifest.objects):
        yield from _not_compiled(file, number, item)
        if item.role != "fallback":
            continue
        tool = registry.toolchain(manifest.toolchain_of(item).compiler)
        if tool.packaged:
            yield from wrong_objects(file, number, item, tool.packaged)
            yield from _versions_unknown(file, number, item)
            continue
        if item.form == "library" and not tool.by_command:
            yield from _versions_unknown(file, number, item)
            yield from _no_library(file, number, item, tool)
            yield from _not_for_gpus(file, number, item, tool)
        elif f"fallback {item.form}" not in tool.uses:
            able = " and ".join(of_modules())
            message = f"object {item.name!r}: modules are compiled by {able} only, so far"
            place = file.place("objects", number, "toolchain")
            yield Diagnostic(message, place, f"name a toolchain whose compiler is {able}")


def _not_compiled(file: ManifestFile, number: int, item: Object) -> Iterator[Diagnostic]:
    """Yield sources of a library that a toolchain hands to the linker, as it does not know their names."""
    for name in filter(None, (item.toolchain, *item.toolchains) if item.form == "library" else ()):
        own = file.manifest.toolchains[name]
        suffix = registry.toolchain(own.compiler).no_libraries_of
        sources = [source for source in item.sources if suffix and source.endswith(suffix)]
        if sources and not any(flag.startswith("-x") for flag in (*own.flags, *item.flags)):
            yield Diagnostic(
                f"object {item.name!r}: {own.compiler} does not compile {sources[0]}",
                file.place("objects", number, "sources"),
                "name a toolchain that compiles all sources, such as nvcc or clang++, or make them two objects",
            )


def _uses(file: ManifestFile, name: str) -> set[str]:
    """Return the uses of a toolchain: roles of objects, and the host build."""
    roles = {item.role for item in file.manifest.objects if name in (item.toolchain, *item.toolchains)}
    return roles | ({"host build"} if host_toolchain(file)[0] == name else set())


def _unused_path(file: ManifestFile, name: str) -> tuple[str, Place, str]:
    """Return message, place and hint for a `path` that would change nothing."""
    tool = registry.toolchain(file.manifest.toolchains[name].compiler)
    if tool.of_toolkit:
        message = f"[toolchains.{name}] path: {tool.name} is always the one of the toolkit"
        hint = "leave it out; [cuda.*] toolkit and provider choose the toolkit"
    elif "user-compiled" in _uses(file, name):
        message = f"[toolchains.{name}] path: the compiler is looked for on the user's machine"
        hint = "leave it out; `version` says which ones are taken"
    elif tool.packaged:
        message = f"[toolchains.{name}] path: the compiler comes from its package"
        hint = "leave it out; `version` chooses the release"
    else:
        message = f"[toolchains.{name}] path: nothing is compiled with this toolchain here"
        hint = "leave it out; the host build uses [toolchains.host]"
    return message, file.place("toolchains", name, "path"), hint


def _unknown_needs(file: ManifestFile) -> Iterator[Diagnostic]:
    """Yield each name in `needs` of host-only objects that is not a known library of a GPU stack."""
    for number, item in enumerate(file.manifest.objects):
        for index, name in enumerate(item.needs):
            if not stack.is_name(name):
                close = difflib.get_close_matches(name, stack.names(), 1)
                hint = (
                    f"did you mean {close[0]!r}?"
                    if close
                    else "remove it: only GPU libraries are listed in `needs`"
                )
                yield Diagnostic(
                    f"object {item.name!r}: `needs` names {name!r}, which is not a known library of a GPU stack",
                    file.place("objects", number, "needs", index),
                    hint,
                )


def _narrowed_variants(file: ManifestFile, cells: Sequence[Cell]) -> Iterator[Diagnostic]:
    """Yield an error if a wheel for a quick try is a variant: an index would offer it to others."""
    if file.narrowed and any(cell.naming == "variant" for cell in cells):
        yield Diagnostic(
            '--archs cannot be used with naming = ["variant"]: an index would offer the incomplete wheel to users',
            file.place("wheel", "naming"),
            "leave --archs out, or choose a cell of another naming with --cell",
        )


def _no_library(file: ManifestFile, number: int, item: Object, tool: Toolchain) -> Iterator[Diagnostic]:
    if not (tool.of_toolkit or tool.compiles_libraries):
        able = ", ".join(each for each in OWN if "fallback library" in registry.toolchain(each).uses)
        yield Diagnostic(
            f"object {item.name!r}: {tool.name} makes no libraries for a wheel, so far",
            file.place("objects", number, "toolchain"),
            f"name a toolchain whose compiler is one of {able}",
        )


def _not_for_gpus(file: ManifestFile, number: int, item: Object, tool: Toolchain) -> Iterator[Diagnostic]:
    """Yield what is missing for GPU code by a host compiler: architectures, or where its runtimes come from."""
    own = file.manifest.toolchain_of(item)
    call = (
        tool.library(item.sources, (*own.flags, *item.flags))
        if tool.library and not tool.of_toolkit
        else None
    )
    if call is None or not call.for_gpus:
        return
    title, place = (
        f"object {item.name!r}: {tool.name} compiles for GPUs",
        file.place("objects", number, "toolchain"),
    )
    if any(library.startswith("libcudart") for library in call.runtimes):
        yield Diagnostic(
            f"object {item.name!r}: CUDA for a wheel is compiled by nvcc",
            place,
            f"name a toolchain whose compiler is nvcc; {tool.name} compiles .cu files on users' machines",
        )
        return
    if not any(target.real for cuda in file.manifest.cuda.versions.values() for target in cuda.targets):
        yield Diagnostic(f"{title}, and no architecture is named", place, "list them in [cuda.*] archs")
    if kernels_wheels.is_split(file.manifest):
        yield Diagnostic(
            f"{title}, and goes into the package's wheel, which is for every CUDA version",
            place,
            'leave out [wheel] kernels = "own", or compile it by nvcc',
        )
    if item.cpu:
        yield Diagnostic(
            f"{title}: it has no `cpu` levels", file.place("objects", number, "cpu"), "leave them out"
        )
    names = [re.sub(r"^lib|\.so.*$", "", soname) for soname in call.runtimes]
    inside = [name for name in names if name not in file.manifest.wheel.exclude]
    if inside:
        exclude = ", ".join(f'"{name}"' for name in dict.fromkeys((*file.manifest.wheel.exclude, *names)))
        yield Diagnostic(
            f"{title}, with runtimes that fit one release and must not be copied into a wheel: {', '.join(inside)}",
            place,
            f"leave them to the user's machine: [wheel] exclude = [{exclude}]; without them a library for the CPU is "
            "used, if another fallback stands in for the same object",
        )


def _versions_unknown(file: ManifestFile, number: int, item: Object) -> Iterator[Diagnostic]:
    """Yield libraries whose ABI id needs installed versions: a compiler gets the id before anything is installed."""
    if abi_packages_of(file.manifest, number):
        yield Diagnostic(
            f"object {item.name!r}: its ABI has `packages`, which only a library made by a command can have, so far",
            file.place("objects", number, "toolchain"),
            'name a toolchain with compiler = "command"',
        )


def refuse_same_modules(file: ManifestFile, item: LoweredObject) -> None:
    """Raise UsageError when two sources of a fallback object would give modules of one name."""
    by_name: dict[str, str] = {}
    for source in item.sources:
        other = by_name.setdefault(PurePosixPath(source).stem, source)
        if item.role == "fallback" and item.kind == "module" and other != source:
            raise UsageError.of(
                f"object {item.name!r}: {other} and {source} would both give the module {PurePosixPath(source).stem!r}",
                hint="a module has its source's name without the suffix: rename one of them",
                place=file.place("objects", item.number, "sources"),
            )


def _named_for_others(file: ManifestFile, cells: Sequence[Cell]) -> Iterator[Diagnostic]:
    """Yield each CUDA major whose wheels cannot be named, because the project's name contains another major."""
    problems: dict[str, Diagnostic] = {}
    for cell in (cell for cell in cells if cell.naming == "suffix"):
        try:
            named_for(file.at(cell.point).manifest.package.name, major_of(cell.toolkit))
        except UsageError as error:
            problems.update({problem.message: problem for problem in error.diagnostics})
    place = file.place("package", "name")
    yield from (Diagnostic(each.message, place, each.hint) for each in problems.values())


_ABI_VALUE = re.compile(r"\d+(\.\d+){0,2}")


def _variants_of_axes(file: ManifestFile, cells: Sequence[Cell]) -> Iterator[Diagnostic]:
    """Yield each axis of variant wheels by which no installer can choose: only releases of packages are known to it."""
    wrong: dict[str, str] = {}
    for cell in (cell for cell in cells if cell.naming == "variant" and cell.axes):
        own = file.at(cell.point).manifest
        lines = (*own.build.requires, *own.wheel.requires)
        packages = {canonicalize_name(Requirement(line).name) for line in lines}
        for name, value in cell.axes:
            if canonicalize_name(name) not in packages or not _ABI_VALUE.fullmatch(value):
                wrong.setdefault(name, value)
    for name, value in wrong.items():
        yield Diagnostic(
            f'naming = ["variant"] tells {name}{value} apart by `abi_dependency`, which is for releases only',
            file.place("axes", name),
            f'give the axis the name of a package in [build] requires, and values such as "2.11"; or let one wheel '
            f'serve all values: [wheel] spans = ["{name}"]',
        )


def _same_wheels(file: ManifestFile, cells: Sequence[Cell]) -> Iterator[Diagnostic]:
    """Yield each pair of cells whose wheels would have one file name."""
    seen: dict[tuple[str, ...], Cell] = {}
    for cell in cells:
        named = cell.naming != "plain" or kernels_wheels.is_split(file.manifest)
        own = file.at(cell.point).manifest
        label = "" if not named else f"{cell.naming} {major_of(cell.toolkit)}"
        if cell.naming in {"local", "variant"}:
            label = label_of(own, cell) if cell.naming == "local" else variant_label(cell.toolkit, cell.axes)
        name = canonicalize_name(own.package.name)
        other = seen.setdefault((name, cell.python, cell.machine, label), cell)
        if other is cell:
            continue
        apart = (
            'choose one of them with --cuda, or name them apart: naming = ["suffix"] tells CUDA majors apart'
        )
        if other.axes != cell.axes:
            axis = next(one for one, two in zip(cell.axes, other.axes, strict=True) if one != two)[0]
            apart = (
                f'name them apart: naming = ["local"] or ["variant"] puts {axis} into the file name, and '
                f'{{{axis}}} in [package] name into the name; or let one wheel serve all values: spans = ["{axis}"]'
            )
        yield Diagnostic(
            f"the wheels of {other.id} and {cell.id} would have the same file name",
            file.place("wheel", "naming"),
            apart,
        )


def notes(file: ManifestFile, *, test: bool) -> Iterator[str]:
    """Yield notes on what the manifest requests and this plan does not do, with the place."""
    if not test:
        place = f"{file.place('test', 'command')}: " if file.manifest.test.command else ""
        yield f"{place}the wheels are not tested, as --no-test says"
    requires = {Requirement(line).name.lower() for line in file.manifest.build.requires}
    for each in linked_frameworks():
        if each.builder and each.package in requires and "ninja" not in requires:
            at = file.place("build", "requires")
            yield f'{at}: {each.package} compiles one file after another without ninja: add "ninja" to [build] requires'
    if file.narrowed:
        names = " ".join(arch.sm for arch in file.narrowed)
        yield f"the wheels are for a quick try: compiled for {names} only, as --archs says; PyPI refuses their versions"


def tested_where_built(cells: Iterable[Cell], machine: Machine) -> Iterator[str]:
    """Yield the Pythons that an image for tests lacks: their wheels are tested in the image with the compilers."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        built, tested = machine.at(cell), machine.tested_at(cell)
        if built.image and built.tests and built.tests.image and tested is built:
            lacking.setdefault((built.image.name, built.tests.image.name), []).append(cell.python)
    for (image, clean), pythons in lacking.items():
        lacks = f"image {clean} has no CPython {', '.join(dict.fromkeys(pythons))}"
        yield (
            f"{lacks}: these wheels are tested in {image}, where they are built; [test] image can name another, "
            f'such as "python:{pythons[0]}-slim"'
        )


_KEYS = (("build", "requires"), ("wheel", "requires"), ("test", "requires"))


def impossible_pairs(file: ManifestFile, cells: Sequence[Cell]) -> Iterator[Diagnostic]:
    """Yield each point at which only wheels of another CUDA major than the toolkit's meet a requirement."""
    seen = set()
    for cell in cells:
        for point in cell.points:
            if (cell.cuda, point) not in seen:
                seen.add((cell.cuda, point))
                yield from islice(_pairs_at(file, cell, point), 1)


def _pairs_at(file: ManifestFile, cell: Cell, point: Point) -> Iterator[Diagnostic]:
    there = file.at(point).manifest
    for table, key in _KEYS:
        for number, text in enumerate(getattr(getattr(there, table), key)):
            elsewhere = canonicalize_name(Requirement(text).name) in map(canonicalize_name, there.indexes)
            if not elsewhere and (majors := _others(text, cell)):
                yield _wrong_pair(file, cell, point, (table, key, number), text, majors)


def _others(text: str, cell: Cell) -> frozenset[int]:
    """Return the CUDA majors of a requirement's wheels if none of them is the toolkit's."""
    majors = cuda_majors(Requirement(text))
    return frozenset() if not cell.cuda or _major(cell) in majors else majors


_TORCH_INDEX = (
    '; or [indexes] torch = "https://download.pytorch.org/whl/cu{cuda-short}", where it is for each CUDA'
)


def _wrong_pair(
    file: ManifestFile, cell: Cell, point: Point, at: tuple[str, str, int], text: str, majors: frozenset[int]
) -> Diagnostic:
    written = _written(file.data, at)
    axis = next((name for name, _ in point.values if name in written), None)
    found = " or ".join(map(str, sorted(majors)))
    message = f"the wheels of {text} on PyPI are for CUDA {found}, and [cuda.{cell.cuda}] is {cell.toolkit}"
    major, name = _major(cell), Requirement(text).name
    version = newest(name, major)
    newest_release = f" ({name} {version} is the newest known)" if version else ""
    remove = f"or remove [cuda.{cell.cuda}]"
    own_index = _TORCH_INDEX if name == "torch" else ""
    if axis is None:
        hint = f"require a release for CUDA {major}{newest_release}, {remove}"
        return Diagnostic(message, file.place(*at), hint + own_index)
    if fitting := ", ".join(f'"{value}"' for value in _fitting(file, cell, axis, at)):
        hint = f"write axes = {{ {axis} = [{fitting}] }} below [cuda.{cell.cuda}]"
    else:
        hint = f"no value of [axes] {axis} has wheels for CUDA {major}: add one{newest_release}, {remove}"
    own = file.manifest.cuda.versions[cell.cuda].axes
    return Diagnostic(
        message, file.place("cuda", cell.cuda, *(("axes", axis) if axis in own else ())), hint + own_index
    )


def _fitting(file: ManifestFile, cell: Cell, axis: str, at: tuple[str, str, int]) -> list[str]:
    """Return the values of an axis at which a requirement has wheels for a cell's CUDA major."""
    found = []
    for value in file.manifest.axes[axis]:
        point = Point(((axis, value),), ((axis, value),))
        text = braces.fill_known(_text(file.data, at), point.names)
        if "{" not in text and not _others(text, cell):
            found.append(value)
    return found


def _written(data: Mapping[str, object], at: tuple[str, str, int]) -> set[str]:
    return {name.removesuffix("-next") for name in braces.names(_text(data, at))}


def _text(data: Mapping[str, object], at: tuple[str, str, int]) -> str:
    table, key, number = at
    found = data[table]
    return str(found[key][number])  # type: ignore[index]  # it was read from there


def _major(cell: Cell) -> int:
    return major_of(cell.toolkit)
