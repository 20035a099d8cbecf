"""The test of a finished wheel: its requirements are fetched, then it is installed, imported and tested."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import ClassVar

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpuforge.actions import compiler
from gpuforge.actions.environment import python_name
from gpuforge.actions.source import source
from gpuforge.actions.toolkit import toolkit
from gpuforge.errors import ActionError
from gpuforge.manifest import braces, kernels_wheels
from gpuforge.manifest.model import Manifest
from gpuforge.plan import source_files, variables
from gpuforge.plan.action import ActionInput, Handle, P, Staged, Step, Workdir
from gpuforge.plan.cell import Cell
from gpuforge.plan.context import PlanContext, of_tests
from gpuforge.plan.recipe import indexes_of, names_cuda


@dataclass(frozen=True, kw_only=True)
class FetchTestRequirements(Step[P]):
    """Fetch wheels, to be installed without an index: of `requires`, and of what `wheel` declares."""

    packages: ClassVar = ("pip",)
    python: P
    wheel: P | None = None  # the wheel, one of its metadata alone, or the folder that holds it
    shared: P | None = None  # a folder of wheels: what lies there already is left out
    kernels: P | None = None  # folder of the wheel's own kernels wheel, which no index has
    # folders of wheels that were built before, for packages without wheels on the index
    built: tuple[P, ...] = ()
    requires: tuple[str, ...] = ()  # what the tests need
    extras: tuple[str, ...] = ()  # the wheel's extras to install
    cuda: str = ""  # the CUDA version that it is for: its extra is fetched, too
    indexes: Mapping[str, str] = field(default_factory=dict)  # of packages that have an index of their own
    oldest: bool = False  # take the oldest release of each package that the wheel declares, not the newest

    def run(self: FetchTestRequirements[Path], at: Workdir) -> None:
        """Fill the folder of wheels."""
        from gpuforge.actions import declared_sets, wheelhouse
        from gpuforge.wheel import filename

        output = at.output("wheels")
        output.mkdir()
        known: set[str] = set()
        if self.wheel:
            wheel = wheelhouse.one_wheel(self.wheel)
            known.add(wheel.name)
            *others, extras = declared_sets.declared_sets(wheel, self.extras, self.cuda)
            pins = [self._pins(at.scratch, wheel, {*extras, *chain(*others)})] if self.oldest else []
            for each in others:
                self._fetch(output, wheel, each, [], pins)
            self._fetch(output, wheel, extras, self.requires, pins)
        else:
            self._download(output, self.requires, [], "what the tests need")
        for folder in (self.shared, *self.built):
            known |= {path.name for path in folder.glob("*.whl")} if folder else set()
        own = {filename.project(path.name) for path in self.kernels.glob("*.whl")} if self.kernels else set()
        for path in sorted(output.iterdir()):
            if path.name in known or filename.project(path.name) in own:
                path.unlink()

    def _fetch(
        self: FetchTestRequirements[Path],
        output: Path,
        wheel: Path,
        extras: Sequence[str],
        requires: Sequence[str],
        pins: Sequence[Path],
    ) -> None:
        """Fetch the requirements of a wheel that is installed with some of its extras, and those required beside it."""
        from gpuforge.actions import declared_sets
        from gpuforge.wheel import metadata

        declared = metadata.requirements(metadata.of_wheel(wheel))
        metadata.refuse_references(declared, wheel.name)
        if not declared_sets.declares(wheel, extras):
            print(f"{wheel.name}, {declared_sets.title(extras)}, declares nothing")
            return
        named = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
        what = "what the wheel declares and its tests need"
        self._download(output, [named, *requires], pins, what, metadata.installed_with(declared, extras))

    def _pins(self: FetchTestRequirements[Path], scratch: Path, wheel: Path, extras: Iterable[str]) -> Path:
        """Return a file of constraints: the oldest release of each package that the wheel declares.

        uv chooses them, and pip everything else: of what only these packages or the tests need, the newest. What the
        tests need limits the choice.
        """
        from gpuforge.requirements import parse_requirement
        from gpuforge.wheel import metadata, package_index

        text = metadata.of_wheel(wheel)
        declared = metadata.requirements(text)
        words: dict[str, list[str]] = {"": []}
        for each in declared:
            for extra in metadata.extras_in(each.marker) or [""]:
                words.setdefault(canonicalize_name(extra), []).append(str(each))
        project = scratch / "pyproject.toml"  # in which uv knows what is declared directly
        lines = [f"{key} = {json.dumps(metadata.required(text, key.title()))}" for key in ("name", "version")]
        lines += [f"dependencies = {json.dumps(words[''])}", "[project.optional-dependencies]"]
        lines += [f"{json.dumps(extra)} = {json.dumps(each)}" for extra, each in words.items() if extra]
        project.write_text("\n".join(["[project]", *lines, *package_index.sources(self.indexes), ""]))
        limits = scratch / "limits.txt"
        tests = map(parse_requirement, self.requires)
        limits.write_text("".join(f"{each.name}{each.specifier}\n" for each in tests))
        options = ["--resolution=lowest-direct", f"--python={self.python}", f"--constraints={limits}"]
        options += [f"--extra={extra}" for extra in sorted({*map(canonicalize_name, extras)} & words.keys())]
        answer = package_index.compile_requirements(project, options, f"what {wheel.name} declares")
        if answer.returncode:
            raise ActionError.of(
                f"the oldest of what {wheel.name} declares cannot be installed{package_index.reason(answer.stderr)}",
                hint="raise the lower bounds of the project's dependencies",
            )
        direct = {canonicalize_name(each.name) for each in declared}
        pins = scratch / "oldest.txt"
        chosen = [line for line in answer.stdout.splitlines() if line.partition("==")[0] in direct]
        pins.write_text("".join(f"{line}\n" for line in chosen))
        print(f"the oldest of what {wheel.name} declares: {', '.join(chosen) or 'nothing'}")
        return pins

    def _download(
        self: FetchTestRequirements[Path],
        output: Path,
        requires: Sequence[str],
        pins: Sequence[Path],
        what: str,
        declared: Sequence[Requirement] = (),
    ) -> None:
        from gpuforge.actions import wheelhouse

        wheelhouse.download(
            self.python,
            requires,
            output,
            [folder for folder in (self.shared, self.kernels, *self.built) if folder],
            constraints=pins,
            indexes=self.indexes,
            declared=declared,
            what=what,
            hint="correct the project's dependencies, or what its tests need (`[test] requires`, test --with); "
            "`[test] build` builds packages that have no wheels, and `gpuforge build --no-test` makes wheels without a "
            "test",
        )


@dataclass(frozen=True, kw_only=True)
class TryWheel(Step[P]):
    """Install a wheel as users do, import it, run the manifest's test command."""

    packages: ClassVar = ("uv",)
    python: P
    wheel: P  # the wheel, or a folder with nothing else
    needed: P | None = None  # folders of the wheels that it needs
    shared: P | None = None
    kernels: P | None = None
    built: tuple[P, ...] = ()
    project: P | None = None  # the source tree
    tests: P | None = None  # where the command runs; default: an empty folder
    toolkit: P | None = None  # the toolkit of the machine that the wheel is meant for
    cell: str  # what messages call the wheel
    extras: tuple[str, ...] = ()  # to install it with
    cuda: str = ""  # the CUDA version that it is for: its extra is tried, too
    package: str  # the import package
    imports: tuple[str, ...] = ()  # further modules to import
    drivers: tuple[str, ...] = ()  # drivers' libraries that have a stand-in for all imports and the command
    stub: bool = True  # import them with stand-ins for all drivers' libraries
    requires: tuple[str, ...] = ()  # what the command needs beside the wheel
    command: tuple[str, ...] = ()  # words, in which {project} is filled in

    def needs_gpu(self) -> bool:
        """Return whether the tests see the machine's GPUs."""
        return not self.stub

    @property
    def found(self: TryWheel[Path]) -> tuple[Path, ...]:
        """The folders of wheels that it may install."""
        return tuple(folder for folder in (self.needed, self.shared, self.kernels, *self.built) if folder)

    def run(self: TryWheel[Path], at: Workdir) -> None:
        """Write the tests and their outcomes; raises ActionError for a wheel that fails."""
        from gpuforge.actions.trial_runs import proved

        try:
            result = proved(self, at)
        except ActionError as error:
            (problem,) = error.diagnostics
            raise ActionError.of(f"{self.cell}: {problem.message}", hint=problem.hint) from error
        result.write(at.output("result.json"))


def tests(
    context: PlanContext, cell: Cell, wheel: ActionInput, own: ActionInput | None
) -> tuple[ActionInput, ...]:
    """Test the wheel at each point of the manifest's axes that it serves."""
    return tuple(_test(context.at(point), cell, wheel, own) for point in cell.points)


def _test(context: PlanContext, cell: Cell, wheel: ActionInput, own: ActionInput | None) -> ActionInput:
    """Install the wheel with nothing but its declared requirements, import it, and run the manifest's command.

    `own` is its kernels wheel, if it has one. A wheel for many Pythons is tested on the Python that builds it, the
    oldest one available.
    """
    manifest, test = context.file.manifest, context.file.manifest.test
    at = context.machine.tested_at(cell)
    where = _where(context, cell)
    shared = _shared(context, cell)
    reads_project = any("project" in braces.names(word) for word in test.command)
    step = TryWheel[Handle](
        python=compiler.interpreter(cell, at),
        wheel=wheel,
        needed=_declared(context, cell, wheel, own, shared),
        shared=shared,
        kernels=own,
        built=source_files.built_wheels(context.file, context.contents),
        project=Staged(source(context)) if reads_project else None,
        tests=Staged(source_files.test_sources(context.file, context.contents))
        if test.command and test.sources
        else None,
        toolkit=toolkit(context, cell, at) if manifest.cuda.linkage == "system" else None,
        cell=cell.id + where,
        extras=extras(context.file.manifest, cell),
        cuda=cell.toolkit,
        package=manifest.package.import_,
        imports=test.imports,
        drivers=test.drivers,
        stub=not context.gpu,
        requires=test.requires,
        command=test.command,
    )
    return context.add_step(
        step,
        at,
        id=f"{cell.id}/test{where}",
        kind="test",
        title=f"test the wheel of {cell.id}{where} on Python {_python(context, cell)}",
        outputs=("result.json",),
        env=variables.test(context.environ, manifest.cuda.linkage, at.path, gpu=context.gpu),
    )


def _shared(context: PlanContext, cell: Cell) -> ActionInput | None:
    """Fetch the requirements of the test command, once per Python, while the wheels are built; None without any."""
    test = context.file.manifest.test
    if not (test.command and test.requires):
        return None
    at = context.machine.tested_at(cell)
    indexes = indexes_of(context.file.manifest, cell.toolkit)
    of_toolkit = names_cuda(context.file.manifest)
    name = python_name(context, cell, at, of_tests) + (f"-cu{cell.toolkit}" if of_toolkit else "")
    return context.add_step(
        FetchTestRequirements[Handle](
            python=compiler.interpreter(cell, at),
            built=source_files.built_wheels(context.file, context.contents),
            requires=test.requires,
            indexes=indexes,
        ),
        at,
        id=f"{name}/test-requirements",
        kind="fetch",
        title=f"fetch what the tests need on Python {_python(context, cell)}{context.words(of_tests)}",
        outputs=("wheels",),
        **context.by_pip,
    )


def _declared(
    context: PlanContext, cell: Cell, wheel: ActionInput, own: ActionInput | None, shared: ActionInput | None
) -> ActionInput:
    """Fetch a wheel's requirements, chosen together with those of the test command.

    Wheels that declare the same share the result.
    """
    test = context.file.manifest.test
    at = context.machine.tested_at(cell)
    step = FetchTestRequirements[Handle](
        python=compiler.interpreter(cell, at),
        wheel=ActionInput(wheel.action, "declared"),
        shared=shared,
        kernels=ActionInput(own.action, "declared") if own else None,
        built=source_files.built_wheels(context.file, context.contents),
        requires=test.requires if test.command else (),
        extras=extras(context.file.manifest, cell),
        cuda=cell.toolkit,
        indexes=indexes_of(context.file.manifest, cell.toolkit),
    )
    where = _where(context, cell)
    return context.add_step(
        step,
        at,
        id=f"{cell.id}/test-requirements{where}",
        kind="fetch",
        title=f"fetch what the wheel of {cell.id}{where} declares",
        outputs=("wheels",),
        **context.by_pip,
    )


def extras(manifest: Manifest, cell: Cell) -> tuple[str, ...]:
    """Return the extras that a user would install: that of the kernels or CUDA packages, and the tests'."""
    cuda = manifest.cuda
    by_extra = (cuda.linkage, cuda.requires) == ("pip", "extra") or kernels_wheels.is_split(manifest)
    own = [kernels_wheels.extra_for(cell.toolkit)] if by_extra else []
    return tuple(dict.fromkeys([*own, *manifest.test.extras]))


def _where(context: PlanContext, cell: Cell) -> str:
    """Return the suffix for the point that a wheel is tested at: "-torch2.11"; "" if it serves only one."""
    return f"-{context.point.label}" if len(cell.points) > 1 else ""


def _python(context: PlanContext, cell: Cell) -> str:
    """Return the Python that a cell's wheel is tested on: "3.11", also where the wheel serves every Python 3."""
    return context.machine.tested_at(cell).interpreters[cell.python].minor
