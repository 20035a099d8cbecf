"""Kernels by a compiler from a package: its environment, one action per source and target, and the linking.

The sources may be programs of the project (Python, for Halide), so they run as builds do: without a network, in an
environment that holds the compiler and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpuforge.cuda.cpu_level import CpuLevel
from gpuforge.plan import packaged_compilers, source_files, variables
from gpuforge.plan.action import Action, ActionInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import compiler
from gpuforge.plan.lower.build_environment import LOCK
from gpuforge.plan.lower.lowered import Lowered, library_index, module_index
from gpuforge.plan.lower.plan_context import PlanContext, kernels_name, of_kernels
from gpuforge.plan.lowered_object import LoweredObject
from gpuforge.plan.requests.build import MakeEnvironment
from gpuforge.plan.requests.kernels import CompiledLibrary, CompiledModule, IndexModules, KernelCompiler
from gpuforge.plan.requests.packaged_compiler import FetchCompilerPackage, PackagedCompile
from gpuforge.plan.site import Location
from gpuforge.toolchains import registry
from gpuforge.toolchains.placeholders import fill
from gpuforge.toolchains.toolchain import PackagedCompiler, Target

_ABI_C = Path(__file__).resolve().parents[2] / "runtime" / "abi.c"


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

    def targets(self) -> Sequence[Target]:
        """Return the targets that it compiles for; `plan.supported` has refused targets that it does not know."""
        return self.package.targets(self.item.toolchain.targets, self.cell.machine)


def lower(context: PlanContext, cell: Cell, item: LoweredObject) -> Lowered:
    """Compile one library for each target, or a module of each source for each."""
    this = _of(context, cell, item)
    made_by = KernelCompiler(this.compiler, package=this.package.requires, lock=Path("${in:lock}"))
    lock = {"lock": ActionInput(_fetch(this), LOCK)}
    if this.package.makes == "module":
        modules = {name: _compile(this, target, source) for name, (source, target) in _modules(this).items()}
        return Lowered(_module_index(this, made_by), {**modules, **lock})
    libraries = {
        f"library{number}": _link(this, target, [_compile(this, target, source) for source in item.sources])
        for number, target in enumerate(this.targets())
    }
    made = [
        CompiledLibrary(
            Path(f"${{in:{name}}}"), level if isinstance(level := target.built_for, CpuLevel) else None
        )
        for name, target in zip(libraries, this.targets(), strict=True)
    ]
    return Lowered(library_index(cell, item, made_by, made), {**libraries, **lock})


def _module_index(this: _Compilation, made_by: KernelCompiler) -> IndexModules:
    runs_with = packaged_compilers.runs_with(this.item.toolchain)
    made = [
        CompiledModule(
            name=PurePosixPath(source).stem,
            source=source,
            path=Path("${in:sources}", source),
            compiled=Path(f"${{in:{name}}}"),
            target=target.name,
            suffix=this.package.suffix,
            kind=target.kind,
            built_for=target.built_for,
        )
        for name, (source, target) in _modules(this).items()
    ]
    install = f'pip install "{runs_with}"' if runs_with else ""
    return module_index(this.cell, this.item, made_by, made, install=install)


def _modules(this: _Compilation) -> dict[str, tuple[str, Target]]:
    """Return the sources and targets of an object's modules, by the names of inputs."""
    pairs = [(source, target) for source in this.item.sources for target in this.targets()]
    return {f"module{number}": pair for number, pair in enumerate(pairs)}


def _of(context: PlanContext, cell: Cell, item: LoweredObject) -> _Compilation:
    package = registry.toolchain(item.toolchain.compiler).packaged
    assert package is not None  # noqa: S101  the caller has asked
    return _Compilation(context, cell, item, package)


def _compile(this: _Compilation, target: Target, source: str) -> ActionInput:
    """Compile one source for one target."""
    words = this.package.compile(target, this.cell.machine, (*this.item.toolchain.flags, *this.item.flags))
    staged = {"source": [f"${{stage:sources}}/{source}"], "name": [PurePosixPath(source).stem]}
    inputs = {"sources": this.item.files_for(source)}
    return _run(this, f"{source}-{target.name}", f"{source} for {target.name}", words, staged, inputs)


def _runtime(this: _Compilation, target: Target) -> list[ActionInput]:
    """Compile the compiler's runtime, which is linked once with all objects of a target; empty if it has none."""
    if this.package.runtime is None:
        return []
    words = this.package.runtime(target, this.cell.machine)
    return [_run(this, f"runtime-{target.name}", f"the runtime for {target.name}", words, {}, {})]


def _run(
    this: _Compilation,
    name: str,
    what: str,
    words: Sequence[str],
    values: Mapping[str, list[str]],
    inputs: Mapping[str, Input],
) -> ActionInput:
    """Run one command of the compiler."""
    context, cell, at = this.context, this.cell, this.context.machine.at(this.cell)
    output = f"made{this.package.suffix}"
    programs: dict[str, Input] = {}
    if this.package.programs:
        programs = {"programs": _programs(this, this.package.programs)}
    filled = {
        "programs": ["${stage:programs}"],
        "output": [f"${{out:{output}}}"],
        **values,
    }
    request = PackagedCompile(
        compiler=this.compiler,
        argv=tuple(fill(words, filled)),
        environment=Path("${in:env}"),
        python=Path("${in:python}"),
        scratch=Path("${work}"),
        output=Path(f"${{out:{output}}}"),
    )
    return context.add_step(
        request,
        at,
        id=f"{this.prefix}/{name}",
        kind="compile",
        title=f"compile {what} with {this.compiler}",
        inputs={
            "env": _environment(this),
            "python": compiler.interpreter(cell, at),
            **programs,
            **inputs,
        },
        outputs=(output,),
        facts={"toolchain": registry.identity(this.compiler)},
        by_content=True,
        cells=context.users(cuda=cell.cuda, part=of_kernels),
    )


def _link(this: _Compilation, target: Target, objects: Sequence[ActionInput]) -> ActionInput:
    """Link the objects of a target, with the compiler's runtime once, into a library with the ABI id."""
    context, cell, item = this.context, this.cell, this.item
    at = context.machine.kernels_at(cell.cuda)
    used = compiler.use(context, at.hosts[cell.cuda], at, lay=False)
    inputs: dict[str, Input] = {
        f"object{number}": made for number, made in enumerate([*objects, *_runtime(this, target)])
    }
    linked = [f"${{in:{name}}}" for name in inputs]
    others = this.package.links(target) if this.package.links else ()
    if this.package.programs:
        inputs["programs"] = _programs(this, this.package.programs)
    action = Action(
        id=f"{this.prefix}/library-{target.name}",
        kind="compile",
        title=f"link {item.name} for {target.name}",
        argv=(
            *(used.programs["cxx"], "-shared", "-O2", "-fPIC"),
            item.abi_macro,
            "${stage:abi}/abi.c",
            *linked,
            *fill(others, {"programs": ["${stage:programs}"]}),
            *("-o", "${out:library}"),
        ),
        inputs={
            "abi": source_files.files(_ABI_C.parent, [_ABI_C], context.contents),
            **inputs,
            **used.inputs,
        },
        outputs=("library",),
        env=variables.plain() | {"PATH": at.path},
        image=at.image_id,
        facts={"toolchain": registry.identity(this.compiler)},
        cells=context.users(cuda=cell.cuda, part=of_kernels),
    )
    return context.add(action, "library")


def _python_name(this: _Compilation, at: Location) -> str:
    """Return the prefix for ids of actions that run once per Python: "py3.11", in an image "py3.11-bookworm"."""
    label = this.context.label(of_kernels)
    return f"py{this.cell.python}{label}" + (f"-{at.image.name}" if at.image else "")


def _programs(this: _Compilation, folder: Path) -> Input:
    members = sorted(path for path in folder.iterdir() if path.is_file())
    return source_files.files(folder, members, this.context.contents)


def _fetch(this: _Compilation) -> str:
    """Fetch the compiler's package; return the action's id."""
    context, cell, at = this.context, this.cell, this.context.machine.at(this.cell)
    ((name, toolchain),) = this.item.toolchains.items()
    request = FetchCompilerPackage(
        toolchain=name,
        requires=(f"{this.package.requires}{toolchain.version or ''}",),
        python=Path("${in:python}"),
        output=Path("${out:wheels}"),
        lock=Path(f"${{out:{LOCK}}}"),
    )
    return context.add_step(
        request,
        at,
        id=f"{_python_name(this, at)}/{name}-packages",
        kind="fetch",
        title=f"fetch {request.requires[0]}",
        inputs={"python": compiler.interpreter(cell, at)},
        outputs=("wheels", LOCK),
        by_content=True,
        cells=context.users(part=of_kernels),
        **context.by_pip,
    ).action


def _environment(this: _Compilation) -> ActionInput:
    """Make the environment that the compiler runs in."""
    context, cell, at = this.context, this.cell, this.context.machine.at(this.cell)
    (name,) = this.item.toolchains
    request = MakeEnvironment(
        wheels=Path("${in:wheels}"), python=Path("${in:python}"), output=Path("${out:environment}")
    )
    return context.add_step(
        request,
        at,
        id=f"{_python_name(this, at)}/{name}-environment",
        kind="prepare",
        title=f"install {this.package.requires} for [toolchains.{name}]",
        inputs={
            "wheels": ActionInput(_fetch(this), "wheels"),
            "python": compiler.interpreter(cell, at),
        },
        outputs=("environment",),
        links_out=True,
        by_content=True,
        cells=context.users(part=of_kernels),
    )
