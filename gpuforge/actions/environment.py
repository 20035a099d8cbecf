"""The environment of the host builds of one Python: what is fetched for it, and what the project's backend asks for.

Fetches run pip alone, from lists of names and versions, and no code of the project. The hook of its build backend runs
as builds do: without a network, in an environment that is thrown away, and once for each toolkit, as it may look for
one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple, Unpack

from gpuforge import digest
from gpuforge.actions import compiler
from gpuforge.actions.source import source
from gpuforge.actions.toolkit import toolkit
from gpuforge.errors import ActionError
from gpuforge.plan import source_files, variables
from gpuforge.plan.action import ActionInput, FileInput, Handle, Input, Kind, P, Staged, Step, Workdir
from gpuforge.plan.cell import Cell
from gpuforge.plan.context import Part, PlanContext, StepFields, of_build
from gpuforge.plan.recipe import indexes_of, names_cuda
from gpuforge.plan.site import Location

LOCK = "requirements.json"  # the output with what was requested, and each wheel's sha256
# The answer of a backend that needs nothing else.
_ANSWER = Path(__file__).with_name("answer.json")
NOTHING = FileInput(_ANSWER, digest.of_output([(_ANSWER.name, digest.of_file(_ANSWER), "", False)]))
Indexes = Mapping[str, str]
Settings = Mapping[str, str | tuple[str, ...]]  # config settings of PEP 517, as the manifest writes them


@dataclass(frozen=True, kw_only=True)
class FetchRequirements(Step[P]):
    """Fetch requirements of one Python as wheels: of a project's build, or the package of a compiler.

    `requires` are the manifest's, `answer` is a file with those of the project's backend (`AskBackend`), `constraints`
    a file as pip reads it. `what` and `hint` are for messages: see `wheelhouse.download`.
    """

    packages: ClassVar = ("build", "pip")
    source: P | None = None
    answer: P | None = None
    constraints: P | None = None
    python: P
    # folders of wheels that were built before, for packages without wheels on the index
    built: tuple[P, ...] = ()
    requires: tuple[str, ...] = ()
    indexes: Indexes = field(default_factory=dict)  # of packages that have an index of their own
    what: str = "the build requirements"
    hint: str = (
        "`[build] build` builds packages that have no wheels; `requires` and `constraints` can narrow a requirement to "
        "a version that has one"
    )

    def run(self: FetchRequirements[Path], at: Workdir) -> None:
        """Write the wheels, and what was requested with each wheel's sha256."""
        from gpuforge.actions import value_file, wheelhouse
        from gpuforge.actions.project_requirements import answered, required, rewritten
        from gpuforge.wheel.filename import LockedWheels

        own = required(self.source) if self.source else ()
        by_backend = answered(self.answer) if self.answer else ()
        everything = list(dict.fromkeys([*own, *self.requires, *by_backend]))
        limits = [rewritten(self.constraints, at.scratch)] if self.constraints else []
        wheelhouse.download(
            self.python,
            everything,
            at.output("wheels"),
            self.built,
            constraints=limits,
            indexes=self.indexes,
            what=self.what,
            hint=self.hint,
        )
        locked = LockedWheels.of_folder(everything, at.output("wheels"))
        value_file.write(locked, at.output(LOCK))
        print(locked, flush=True)


@dataclass(frozen=True, kw_only=True)
class MakeEnvironment(Step[P]):
    """Install the wheels of a folder, and nothing else, into an environment, by uv."""

    packages: ClassVar = ("uv",)
    links_out: ClassVar = True
    wheels: P
    python: P

    def run(self: MakeEnvironment[Path], at: Workdir) -> None:
        """Make the environment."""
        from gpuforge.actions.venv import create, install

        install(create(self.python, at.output("environment")), self.wheels)


@dataclass(frozen=True, kw_only=True)
class AskBackend(Step[P]):
    """Ask a project's build backend what it needs for a wheel (`get_requires_for_build_wheel`).

    It is the project's code, and runs as builds do, in an environment that has the wheels of `lock`.
    """

    packages: ClassVar = ("build",)
    source: P
    env: P
    lock: P
    toolkit: P | None = None
    python: P
    config_settings: Settings
    version: str = ""  # of a checkout, as `git describe` writes it

    def run(self: AskBackend[Path], at: Workdir) -> None:
        """Write the backend's requirements as JSON: none if the wheels of `lock` meet all of them."""
        from gpuforge.actions import value_file
        from gpuforge.actions.project_requirements import is_met
        from gpuforge.actions.venv import protected
        from gpuforge.plan import git_version
        from gpuforge.wheel.filename import LockedWheels

        git_version.write(self.source, self.version)
        answer = requested(self, protected(self.env, self.python, at.scratch), at)
        locked = value_file.read(LockedWheels, self.lock)
        unmet = [] if all(is_met(text, locked) for text in answer) else answer
        at.output("answer.json").write_text(json.dumps(unmet) + "\n")
        print(f"the backend requires: {', '.join(answer) or 'nothing else'}", flush=True)


def requested(step: AskBackend[Path], python: Path, at: Workdir) -> list[str]:
    """Return the backend's requirements, by name and version; raises ActionError for anything else."""
    from build import BuildBackendException, BuildException, ProjectBuilder

    from gpuforge.actions.project_requirements import checked
    from gpuforge.actions.venv import filled, runner_of

    names = {
        "project": step.source,
        "overlay": at.scratch / "overlay",
        "toolkit": step.toolkit,
        "env": step.env,
    }
    settings = filled(step.config_settings, {name: str(path) for name, path in names.items() if path})
    try:
        backend = ProjectBuilder(step.source, python_executable=str(python), runner=runner_of(python))
        return checked(backend.get_requires_for_build("wheel", settings), "its build backend")
    except BuildBackendException as error:
        raise ActionError.of(
            f"the project's build backend failed to list its requirements: {error}"
        ) from error
    except BuildException as error:
        raise ActionError.of(
            f"the project cannot be built: {error}", hint="it needs a pyproject.toml"
        ) from error


class _Step(NamedTuple):
    """The name and title of an action, and whether it depends on what the backend answered."""

    name: str
    title: str
    answered: bool = False


def build_environment(context: PlanContext, cell: Cell, at: Location) -> ActionInput:
    """Return the environment that holds all build requirements.

    The backend's own requirements are fetched together with the others. If it has none, or the same with several
    toolkits, the actions that fetch and install read the same content as before, and their results are reused.
    """
    step = _Step("environment", "make the build environment", answered=True)
    return _installed(context, cell, at, _all(context, cell, at), step)


def lock(context: PlanContext, cell: Cell, at: Location) -> ActionInput:
    """Return the file that lists the build requirements."""
    return ActionInput(_all(context, cell, at), LOCK)


def _all(context: PlanContext, cell: Cell, at: Location) -> str:
    further = _Step("backend-requirements", "fetch what the build backend needs", answered=True)
    name = f"{environment_name(context, cell, at)}/{further.name}"
    if name in context.actions:
        return name
    own = _Step("requirements", "fetch the build requirements")
    answer = _ask_backend(context, cell, at, _fetch(context, cell, at, NOTHING, own))
    return _fetch(context, cell, at, answer, further)


def _fetch(context: PlanContext, cell: Cell, at: Location, answer: Input, step: _Step) -> str:
    """Fetch what pyproject.toml, the manifest and an answer of the backend require; return the action's id."""
    build, tree = context.file.manifest.build, source(context)
    if context.tree is not None:
        tree = source_files.of_tree(context.tree, ["pyproject.toml"], context.contents)
    fetch = FetchRequirements[Handle](
        source=Staged(tree),
        answer=answer,
        constraints=_constraints(context, build.constraints) if build.constraints else None,
        python=compiler.interpreter(cell, at),
        built=source_files.built_wheels(context.file, context.contents, for_test=False),
        requires=build.requires,
        indexes=indexes_of(context.file.manifest, cell.toolkit),
    )
    outputs = ("wheels", LOCK)
    return _add(context, cell, at, fetch, step, kind="fetch", outputs=outputs, **context.by_pip).action


def _installed(context: PlanContext, cell: Cell, at: Location, fetch: str, step: _Step) -> ActionInput:
    """Install what an action fetched into an environment."""
    wheels = ActionInput(fetch, "wheels")
    install = MakeEnvironment[Handle](wheels=wheels, python=compiler.interpreter(cell, at))
    return _add(context, cell, at, install, step, outputs=("environment",), passes=(variables.FILES,))


def _ask_backend(context: PlanContext, cell: Cell, at: Location, fetch: str) -> ActionInput:
    """Ask the project's build backend what else it needs; its hook sees a toolkit if the build has one."""
    manifest = context.file.manifest
    build = manifest.build
    names = {**variables.NAMES, "toolkit": "${in:toolkit}", "env": "${in:env}"}
    seen = variables.hook(context.environ, at.path)
    if manifest.host_cuda:
        seen |= variables.hook_cuda(at.path, manifest.cuda.versions[cell.cuda].targets)
    ask = AskBackend[Handle](
        source=Staged(source(context)),
        env=_installed(context, cell, at, fetch, _Step("hook-environment", "install the build requirements")),
        lock=ActionInput(fetch, LOCK),
        toolkit=toolkit(context, cell, at) if manifest.host_cuda else None,
        python=compiler.interpreter(cell, at),
        config_settings=build.config_settings,
        version=context.git_version,
    )
    return _add(
        context,
        cell,
        at,
        ask,
        _Step("hook", "ask the build backend what it needs", answered=True),
        outputs=(_ANSWER.name,),
        env=seen | {name: variables.with_names(text, names) for name, text in build.env.items()},
        advice=context.build_advice,
    )


def _add(
    context: PlanContext,
    cell: Cell,
    at: Location,
    work: Step[Handle],
    step: _Step,
    *,
    outputs: tuple[str, ...],
    kind: Kind = "prepare",
    **fields: Unpack[StepFields],
) -> ActionInput:
    """Add an action for each Python or, if it depends on what the backend answered, for each Python and toolkit."""
    manifest = context.file.manifest
    of_toolkit = manifest.host_cuda and (step.answered or names_cuda(manifest))
    shared = environment_name(context, cell, at) if of_toolkit else python_name(context, cell, at)
    return context.add_step(
        work,
        at,
        id=f"{shared}/{step.name}",
        kind=kind,
        title=f"{step.title} for Python {cell.python}{f' and CUDA {cell.toolkit}' if of_toolkit else ''}"
        + context.words(of_build),
        outputs=outputs,
        **fields,
    )


def python_name(context: PlanContext, cell: Cell, at: Location, part: Part = of_build) -> str:
    """Return the prefix for ids of actions that run once per Python: "py3.11", in an image "py3.11-bookworm".

    `part` is the part of the manifest that they depend on.
    """
    image = f"-{at.image.name}{context.machine.suffix(at.machine)}" if at.image else ""
    return f"py{cell.python}{context.label(part)}{image}"


def environment_name(context: PlanContext, cell: Cell, at: Location) -> str:
    """Return the prefix for ids of actions that run once per build environment: "py3.11", or "py3.11-cu13.0"."""
    of_toolkit = f"-cu{cell.toolkit}" if context.file.manifest.host_cuda else ""
    return f"{python_name(context, cell, at)}{of_toolkit}"


def _constraints(context: PlanContext, name: str) -> FileInput:
    """Return the file of constraints, which may be a link to another beside the manifest."""
    path = (context.file.folder / name).resolve()
    return FileInput(path, context.contents.of(path.parent, path.name))
