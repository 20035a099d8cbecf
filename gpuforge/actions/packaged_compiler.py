"""Kernels by a compiler from a package: its environment, one action per source and target, and the linking.

The sources may be programs of the project (Python, for Halide), so they run as builds do: without a network, in an
environment that holds the compiler and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, NamedTuple

from gpuforge.actions import compiler
from gpuforge.actions.environment import LOCK, FetchRequirements, MakeEnvironment, python_name
from gpuforge.actions.kernel_index import IndexLibraries, IndexModules, LayingStep
from gpuforge.errors import ActionError
from gpuforge.package import contents
from gpuforge.package.contents import CompiledBy, CompiledLibrary, CompiledModule
from gpuforge.plan import source_files, variables
from gpuforge.plan.action import Action, ActionInput, FileInput, Handle, P, Staged, Step, Workdir
from gpuforge.plan.cell import Cell
from gpuforge.plan.context import PlanContext, kernels_name, of_kernels
from gpuforge.plan.recipe import runs_with
from gpuforge.plan.source_files import LoweredObject
from gpuforge.plan.variables import literal, literals
from gpuforge.runtime.placeholders import fill
from gpuforge.runtime.values import kind_of
from gpuforge.toolchains import registry
from gpuforge.toolchains.toolchain import CompilerTarget, PackagedCompiler


@dataclass(frozen=True, kw_only=True)
class PackagedCompile(Step[P]):
    """Run one command of a packaged compiler in its environment; it writes `output`.

    In the command, `{python}` is the environment's interpreter, `{source}` the source and `{name}` its name without a
    suffix, `{programs}` the folder of the plug-in's own files, and `{output}` the file to write.
    """

    packages: ClassVar = ("uv",)
    env: P
    python: P
    programs: P | None = None
    sources: P | None = None
    compiler: str
    argv: tuple[str, ...]
    source: str = ""  # its name in `sources`
    output: str

    def run(self: PackagedCompile[Path], at: Workdir) -> None:
        """Run it; raises ActionError when it fails or writes nothing."""
        from gpuforge.actions.venv import protected, run_command

        python = protected(self.env, self.python, at.scratch)
        output = at.output(self.output)
        values = {
            "output": [str(output)],
            "programs": [str(self.programs or at.scratch / "programs")],
            **({"source": [str(self.sources / self.source)]} if self.sources else {}),
            **({"name": [PurePosixPath(self.source).stem]} if self.sources else {}),
        }
        argv = [word.replace("{python}", str(python)) for word in fill(self.argv, values)]
        hint = f"the package of {self.compiler} should bring it"
        run_command(python, argv, at.scratch, name=self.compiler, program=argv[0], hint=hint)
        if not output.is_file():
            raise ActionError.of(
                f"{self.compiler} ended well and wrote no {output.name}", hint="its output is in the log"
            )


def lower(context: PlanContext, cell: Cell, item: LoweredObject) -> LayingStep[Handle]:
    """Compile one library for each target, or a module of each source for each."""
    package = registry.toolchain(item.toolchain.compiler).packaged
    assert package is not None  # noqa: S101  the caller has checked
    compilation = _Compilation(context, cell, item, package)
    return compilation.modules() if package.makes == "module" else compilation.libraries()


class _Compilation(NamedTuple):
    """One object's compilation by a packaged compiler, for the toolkit of a cell."""

    context: PlanContext
    cell: Cell
    item: LoweredObject
    package: PackagedCompiler

    @property
    def prefix(self) -> str:
        """The prefix of its actions' ids."""
        return f"{kernels_name(self.context, self.cell)}/{self.item.name}"

    @property
    def compiler(self) -> str:
        """The compiler's name."""
        return self.item.toolchain.compiler

    def targets(self) -> Sequence[CompilerTarget]:
        """Return the targets that it compiles for; `plan.supported` has refused targets that it does not know."""
        return self.package.targets(self.item.toolchain.targets, self.cell.machine)

    def modules(self) -> IndexModules[Handle]:
        """Compile a module of each source for each target."""
        compiled = tuple(
            CompiledModule[Handle](
                source, self._compile(target, source), (target.image,), target.name, self.package.suffix
            )
            for source in self.item.sources
            for target in self.targets()
        )
        of_toolkit = any(kind_of(target.kind).of_toolkit for target in self.targets())
        needed = runs_with(self.item.toolchain)
        install = f'pip install "{needed}"' if needed else ""
        return IndexModules[Handle](
            sources=self.item.files,
            modules=compiled,
            lock=ActionInput(self._fetch(), LOCK),
            requires=self.package.requires,
            made=self.item.module_set(
                self.cell.toolkit if of_toolkit else "", CompiledBy(self.compiler), install=install
            ),
        )

    def libraries(self) -> IndexLibraries[Handle]:
        """Link a library for each target, of all sources."""
        linked = tuple(CompiledLibrary[Handle](self._link(each), (each.image,)) for each in self.targets())
        return IndexLibraries[Handle](
            sources=self.item.files,
            libraries=linked,
            lock=ActionInput(self._fetch(), LOCK),
            requires=self.package.requires,
            made=self.item.library_set(self.cell.toolkit, CompiledBy(self.compiler)),
        )

    def _compile(self, target: CompilerTarget, source: str) -> ActionInput:
        """Compile one source for one target."""
        flags = (*self.item.toolchain.flags, *self.item.flags)
        words = self.package.compile(target, self.cell.machine, flags)
        return self._run(f"{source}-{target.name}", f"{source} for {target.name}", words, source)

    def _runtime(self, target: CompilerTarget) -> list[ActionInput]:
        """Compile the compiler's runtime, which is linked once with all objects of a target; empty if it has none."""
        if self.package.runtime is None:
            return []
        words = self.package.runtime(target, self.cell.machine)
        return [self._run(f"runtime-{target.name}", f"the runtime for {target.name}", words)]

    def _run(self, name: str, what: str, words: Sequence[str], source: str = "") -> ActionInput:
        """Run one command of the compiler, with a source or without."""
        context, cell, at = self.context, self.cell, self.context.machine.at(self.cell)
        output = f"made{self.package.suffix}"
        step = PackagedCompile[Handle](
            env=self._environment(),
            python=compiler.interpreter(cell, at),
            programs=Staged(programs) if (programs := self._programs()) else None,
            sources=Staged(self.item.files_for(source)) if source else None,
            compiler=self.compiler,
            argv=tuple(words),
            source=source,
            output=output,
        )
        return context.add_step(
            step,
            at,
            id=f"{self.prefix}/{name}",
            kind="compile",
            title=f"compile {what} with {self.compiler}",
            outputs=(output,),
            facts={"toolchain": registry.identity(self.compiler)},
        )

    def _link(self, target: CompilerTarget) -> ActionInput:
        """Compile all sources for a target; link them, with the compiler's runtime, into a library with the ABI id."""
        context, cell, item = self.context, self.cell, self.item
        at = context.machine.kernels_at(cell.cuda, cell.machine)
        used = compiler.use(context, at.hosts[cell.cuda], at)
        compiled = [*(self._compile(target, source) for source in item.sources), *self._runtime(target)]
        objects = {f"object{number}": made for number, made in enumerate(compiled)}
        others = self.package.links(target) if self.package.links else ()
        programs = {"programs": found} if (found := self._programs()) else {}
        action = Action(
            id=f"{self.prefix}/library-{target.name}",
            kind="compile",
            title=f"link {item.name} for {target.name}",
            argv=(
                *(used.programs["cxx"], "-shared", "-O2", "-fPIC"),
                literal(item.abi_macro),
                "${stage:runtime}/abi.c",
                *(f"${{in:{name}}}" for name in objects),
                *fill(literals(others), {"programs": ["${stage:programs}"]}),
                *("-o", "${out:library}"),
            ),
            inputs={
                "runtime": source_files.files(contents.FOLDER, [contents.ABI_C], context.contents),
                **objects,
                **programs,
                **used.inputs,
            },
            outputs=("library",),
            env=variables.plain(self.context.environ) | {"PATH": at.path},
            image=at.image_id,
            facts={"toolchain": registry.identity(self.compiler)},
        )
        return context.add(action, "library")

    def _fetch(self) -> str:
        """Fetch the compiler's package; return the action's id."""
        context, cell, at = self.context, self.cell, self.context.machine.at(self.cell)
        ((name, toolchain),) = self.item.toolchains.items()
        requirement = f"{self.package.requires}{toolchain.version or ''}"
        step = FetchRequirements[Handle](
            python=compiler.interpreter(cell, at),
            requires=(requirement,),
            what=f"the compiler of [toolchains.{name}]",
            hint=f"[toolchains.{name}] version can choose a release that has a wheel",
        )
        return context.add_step(
            step,
            at,
            id=f"{python_name(context, cell, at, of_kernels)}/{name}-packages",
            kind="fetch",
            title=f"fetch {requirement}",
            outputs=("wheels", LOCK),
            **context.by_pip,
        ).action

    def _environment(self) -> ActionInput:
        """Make the environment that the compiler runs in."""
        context, cell, at = self.context, self.cell, self.context.machine.at(self.cell)
        (name,) = self.item.toolchains
        wheels = ActionInput(self._fetch(), "wheels")
        return context.add_step(
            MakeEnvironment[Handle](wheels=wheels, python=compiler.interpreter(cell, at)),
            at,
            id=f"{python_name(context, cell, at, of_kernels)}/{name}-environment",
            kind="prepare",
            title=f"install {self.package.requires} for [toolchains.{name}]",
            outputs=("environment",),
        )

    def _programs(self) -> FileInput | None:
        """Return the plug-in's own files that its commands need, as an input."""
        folder = self.package.programs
        if folder is None:
            return None
        members = sorted(path for path in folder.iterdir() if path.is_file())
        return source_files.files(folder, members, self.context.contents)
