"""Kernels by a compiler from a package: its environment, one action per source and target, and the linking.

The sources may be programs of the project (Python, for Halide), so they run as builds do: without a network, in an
environment that holds the compiler and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpuforge.package import contents
from gpuforge.package.contents import CompiledBy, CompiledLibrary, CompiledModule
from gpuforge.plan import packaged_compilers, source_files, variables
from gpuforge.plan.action import Action, ActionInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.literal import literal, literals
from gpuforge.plan.lower import compiler
from gpuforge.plan.lower.build_environment import LOCK
from gpuforge.plan.lower.kernels_step import KernelsStep, library_index, module_index
from gpuforge.plan.lower.plan_context import PlanContext, kernels_name, of_kernels
from gpuforge.plan.lowered_object import LoweredObject
from gpuforge.plan.requests.build import MakeEnvironment
from gpuforge.plan.requests.kernels import LockedPackage
from gpuforge.plan.requests.packaged_compiler import FetchCompilerPackage, PackagedCompile
from gpuforge.plan.site import Location
from gpuforge.runtime.placeholders import fill
from gpuforge.toolchains import registry
from gpuforge.toolchains.toolchain import CompilerTarget, PackagedCompiler


def lower(context: PlanContext, cell: Cell, item: LoweredObject) -> KernelsStep:
    """Compile one library for each target, or a module of each source for each."""
    package = registry.toolchain(item.toolchain.compiler).packaged
    assert package is not None  # noqa: S101  the caller has checked
    compilation = _Compilation(context, cell, item, package)
    return compilation.modules() if package.makes == "module" else compilation.libraries()


@dataclass(frozen=True)
class _Compilation:
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

    @property
    def locked(self) -> LockedPackage:
        """The compiler's package, whose version is in the lock."""
        return LockedPackage(self.package.requires, Path("${in:lock}"))

    def targets(self) -> Sequence[CompilerTarget]:
        """Return the targets that it compiles for; `plan.supported` has refused targets that it does not know."""
        return self.package.targets(self.item.toolchain.targets, self.cell.machine)

    def modules(self) -> KernelsStep:
        """Compile a module of each source for each target."""
        lock = {"lock": ActionInput(self._fetch(), LOCK)}
        pairs = [(source, target) for source in self.item.sources for target in self.targets()]
        compiled = {
            f"module{number}": self._compile(target, source) for number, (source, target) in enumerate(pairs)
        }
        made = [
            CompiledModule(
                name=PurePosixPath(source).stem,
                source=source,
                path=Path("${in:sources}", literal(source)),
                compiled=Path(f"${{in:{name}}}"),
                target=target.name,
                suffix=self.package.suffix,
                images=(target.image,),
            )
            for name, (source, target) in zip(compiled, pairs, strict=True)
        ]
        runs_with = packaged_compilers.runs_with(self.item.toolchain)
        install = f'pip install "{runs_with}"' if runs_with else ""
        made_by = CompiledBy(self.compiler)
        index = module_index(self.cell, self.item, made_by, made, package=self.locked, install=install)
        return KernelsStep(index, {**compiled, **lock})

    def libraries(self) -> KernelsStep:
        """Link a library for each target, of all sources."""
        lock = {"lock": ActionInput(self._fetch(), LOCK)}
        targets = self.targets()
        linked = {f"library{number}": self._link(target) for number, target in enumerate(targets)}
        made = [
            CompiledLibrary(Path(f"${{in:{name}}}"), (target.image,))
            for name, target in zip(linked, targets, strict=True)
        ]
        index = library_index(self.cell, self.item, CompiledBy(self.compiler), made, package=self.locked)
        return KernelsStep(index, {**linked, **lock})

    def _compile(self, target: CompilerTarget, source: str) -> ActionInput:
        """Compile one source for one target."""
        words = self.package.compile(
            target, self.cell.machine, (*self.item.toolchain.flags, *self.item.flags)
        )
        staged = {
            "source": [f"${{stage:sources}}/{literal(source)}"],
            "name": [literal(PurePosixPath(source).stem)],
        }
        inputs = {"sources": self.item.files_for(source)}
        return self._run(f"{source}-{target.name}", f"{source} for {target.name}", words, staged, inputs)

    def _runtime(self, target: CompilerTarget) -> list[ActionInput]:
        """Compile the compiler's runtime, which is linked once with all objects of a target; empty if it has none."""
        if self.package.runtime is None:
            return []
        words = self.package.runtime(target, self.cell.machine)
        return [self._run(f"runtime-{target.name}", f"the runtime for {target.name}", words, {}, {})]

    def _run(
        self,
        name: str,
        what: str,
        words: Sequence[str],
        values: Mapping[str, list[str]],
        inputs: Mapping[str, Input],
    ) -> ActionInput:
        """Run one command of the compiler."""
        context, cell, at = self.context, self.cell, self.context.machine.at(self.cell)
        output = f"made{self.package.suffix}"
        filled = {"programs": ["${stage:programs}"], "output": [f"${{out:{output}}}"], **values}
        request = PackagedCompile(
            compiler=self.compiler,
            argv=tuple(fill(literals(words), filled)),
            environment=Path("${in:env}"),
            python=Path("${in:python}"),
            scratch=Path("${work}"),
            output=Path(f"${{out:{output}}}"),
        )
        return context.add_request(
            request,
            at,
            id=f"{self.prefix}/{name}",
            kind="compile",
            title=f"compile {what} with {self.compiler}",
            inputs={
                "env": self._environment(),
                "python": compiler.interpreter(cell, at),
                **self._programs(),
                **inputs,
            },
            staged=(*self._programs(), *inputs),
            outputs=(output,),
            facts={"toolchain": registry.identity(self.compiler)},
            by_content=True,
            cells=context.users(cuda=cell.cuda, part=of_kernels),
        )

    def _link(self, target: CompilerTarget) -> ActionInput:
        """Compile all sources for a target; link them, with the compiler's runtime, into a library with the ABI id."""
        context, cell, item = self.context, self.cell, self.item
        at = context.machine.kernels_at(cell.cuda)
        used = compiler.use(context, at.hosts[cell.cuda], at, lay=False)
        compiled = [*(self._compile(target, source) for source in item.sources), *self._runtime(target)]
        objects = {f"object{number}": made for number, made in enumerate(compiled)}
        others = self.package.links(target) if self.package.links else ()
        action = Action(
            id=f"{self.prefix}/library-{target.name}",
            kind="compile",
            title=f"link {item.name} for {target.name}",
            argv=(
                *(used.programs["cxx"], "-shared", "-O2", "-fPIC"),
                literal(item.abi_macro),
                "${stage:abi}/abi.c",
                *(f"${{in:{name}}}" for name in objects),
                *fill(literals(others), {"programs": ["${stage:programs}"]}),
                *("-o", "${out:library}"),
            ),
            inputs={
                "abi": source_files.files(contents.FOLDER, [contents.ABI_C], context.contents),
                **objects,
                **self._programs(),
                **used.inputs,
            },
            staged=("abi", *self._programs()),
            outputs=("library",),
            env=variables.plain(self.context.environ) | {"PATH": at.path},
            image=at.image_id,
            facts={"toolchain": registry.identity(self.compiler)},
            cells=context.users(cuda=cell.cuda, part=of_kernels),
        )
        return context.add(action, "library")

    def _fetch(self) -> str:
        """Fetch the compiler's package; return the action's id."""
        context, cell, at = self.context, self.cell, self.context.machine.at(self.cell)
        ((name, toolchain),) = self.item.toolchains.items()
        request = FetchCompilerPackage(
            toolchain=name,
            requires=(f"{self.package.requires}{toolchain.version or ''}",),
            python=Path("${in:python}"),
            output=Path("${out:wheels}"),
            lock=Path(f"${{out:{LOCK}}}"),
        )
        return context.add_request(
            request,
            at,
            id=f"{self._python_name(at)}/{name}-packages",
            kind="fetch",
            title=f"fetch {request.requires[0]}",
            inputs={"python": compiler.interpreter(cell, at)},
            outputs=("wheels", LOCK),
            by_content=True,
            cells=context.users(part=of_kernels),
            **context.by_pip,
        ).action

    def _environment(self) -> ActionInput:
        """Make the environment that the compiler runs in."""
        context, cell, at = self.context, self.cell, self.context.machine.at(self.cell)
        (name,) = self.item.toolchains
        request = MakeEnvironment(
            wheels=Path("${in:wheels}"), python=Path("${in:python}"), output=Path("${out:environment}")
        )
        return context.add_request(
            request,
            at,
            id=f"{self._python_name(at)}/{name}-environment",
            kind="prepare",
            title=f"install {self.package.requires} for [toolchains.{name}]",
            inputs={
                "wheels": ActionInput(self._fetch(), "wheels"),
                "python": compiler.interpreter(cell, at),
            },
            outputs=("environment",),
            links_out=True,
            by_content=True,
            cells=context.users(part=of_kernels),
        )

    def _python_name(self, at: Location) -> str:
        """Return the prefix for ids of actions that run once per Python: "py3.11", in an image "py3.11-bookworm"."""
        label = self.context.label(of_kernels)
        return f"py{self.cell.python}{label}" + (f"-{at.image.name}" if at.image else "")

    def _programs(self) -> dict[str, Input]:
        """Return the plug-in's own files that its commands need, as an input; empty without any."""
        folder = self.package.programs
        if folder is None:
            return {}
        members = sorted(path for path in folder.iterdir() if path.is_file())
        return {"programs": source_files.files(folder, members, self.context.contents)}
