"""The environment of the host builds of one Python: what is fetched for it, and what the project's backend asks for.

Fetches run pip alone, from lists of names and versions, and no code of the project. The hook of its build backend runs
as builds do: without a network, in an environment that is thrown away, and once for each toolkit, as it may look for
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Unpack

from gpuforge import digest
from gpuforge.plan import advice, source_files, variables
from gpuforge.plan.action import ActionInput, FileInput, Input, Kind
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import compiler
from gpuforge.plan.lower.plan_context import PlanContext, StepFields, of_build
from gpuforge.plan.lower.source import source
from gpuforge.plan.lower.toolkit import toolkit
from gpuforge.plan.requests.build import AskBackend, FetchRequirements, MakeEnvironment
from gpuforge.plan.requests.request import Request
from gpuforge.plan.site import Location

LOCK = "requirements.json"  # the output with what was requested, and each wheel's sha256
# The answer of a backend that needs nothing else.
_ANSWER = Path(__file__).with_name("answer.json")
NOTHING = FileInput(_ANSWER, digest.of_output([(_ANSWER.name, digest.of_file(_ANSWER), "", False)]))


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
    own = _Step("requirements", "fetch the build requirements")
    answer = _ask_backend(context, cell, at, _fetch(context, cell, at, NOTHING, own))
    further = _Step("backend-requirements", "fetch what the build backend needs", answered=True)
    return _fetch(context, cell, at, answer, further)


def _fetch(context: PlanContext, cell: Cell, at: Location, answer: Input, step: _Step) -> str:
    """Fetch what pyproject.toml, the manifest and an answer of the backend require; return the action's id."""
    build, tree = context.file.manifest.build, source(context)
    if context.tree is not None:
        tree = source_files.of_tree(context.tree, ["pyproject.toml"], context.contents)
    constraints = {"constraints": _constraints(context, build.constraints)} if build.constraints else {}
    request = FetchRequirements(
        source=Path("${stage:source}"),
        python=Path("${in:python}"),
        requires=build.requires,
        answer=Path("${in:answer}"),
        constraints=Path("${in:constraints}") if constraints else None,
        scratch=Path("${work}"),
        output=Path("${out:wheels}"),
        lock=Path(f"${{out:{LOCK}}}"),
    )
    return _add(
        context,
        cell,
        at,
        request,
        step,
        kind="fetch",
        inputs={"source": tree, "answer": answer, **constraints},
        staged=("source",),
        outputs=("wheels", LOCK),
        **context.by_pip,
    ).action


def _installed(context: PlanContext, cell: Cell, at: Location, fetch: str, step: _Step) -> ActionInput:
    """Install what an action fetched into an environment."""
    request = MakeEnvironment(
        wheels=Path("${in:wheels}"), python=Path("${in:python}"), output=Path("${out:environment}")
    )
    inputs = {"wheels": ActionInput(fetch, "wheels")}
    return _add(context, cell, at, request, step, inputs=inputs, outputs=("environment",), links_out=True)


def _ask_backend(context: PlanContext, cell: Cell, at: Location, fetch: str) -> ActionInput:
    """Ask the project's build backend what else it needs; its hook sees a toolkit if the build has one."""
    manifest = context.file.manifest
    build = manifest.build
    names = {**variables.NAMES, "toolkit": "${in:toolkit}", "env": "${in:env}"}
    request = AskBackend(
        source=Path("${stage:source}"),
        environment=Path("${in:env}"),
        python=Path("${in:python}"),
        config_settings=variables.settings(build.config_settings, names),
        version=context.git_version,
        lock=Path("${in:lock}"),
        scratch=Path("${work}"),
        answer=Path(f"${{out:{_ANSWER.name}}}"),
    )
    env = _installed(context, cell, at, fetch, _Step("hook-environment", "install the build requirements"))
    inputs = {"source": source(context), "env": env, "lock": ActionInput(fetch, LOCK)}
    seen = variables.hook(context.environ, at.path)
    if manifest.host_cuda:
        inputs["toolkit"] = toolkit(context, cell, at)
        seen |= variables.hook_cuda(at.path, manifest.cuda.versions[cell.cuda].targets)
    return _add(
        context,
        cell,
        at,
        request,
        _Step("hook", "ask the build backend what it needs", answered=True),
        inputs=inputs,
        staged=("source",),
        outputs=(_ANSWER.name,),
        env=seen | {name: variables.with_names(text, names) for name, text in build.env.items()},
        advice=advice.of_host_build(context.file),
    )


def _add(
    context: PlanContext,
    cell: Cell,
    at: Location,
    request: Request,
    step: _Step,
    *,
    inputs: Mapping[str, Input],
    outputs: tuple[str, ...],
    kind: Kind = "prepare",
    **fields: Unpack[StepFields],
) -> ActionInput:
    """Add an action for each Python or, if it depends on what the backend answered, for each Python and toolkit."""
    of_toolkit = step.answered and context.file.manifest.host_cuda
    shared = environment_name(context, cell, at) if step.answered else python_name(context, cell, at)
    return context.add_request(
        request,
        at,
        id=f"{shared}/{step.name}",
        kind=kind,
        title=f"{step.title} for Python {cell.python}{f' and CUDA {cell.toolkit}' if of_toolkit else ''}"
        + context.words(of_build),
        inputs={**inputs, "python": compiler.interpreter(cell, at)},
        outputs=outputs,
        cells=context.users(cuda=cell.cuda if of_toolkit else None, python=cell.python, part=of_build),
        **fields | {"by_content": True},
    )


def python_name(context: PlanContext, cell: Cell, at: Location) -> str:
    """Return the prefix for ids of actions that run once per Python: "py3.11", in an image "py3.11-bookworm"."""
    return f"py{cell.python}{context.label(of_build)}" + (f"-{at.image.name}" if at.image else "")


def environment_name(context: PlanContext, cell: Cell, at: Location) -> str:
    """Return the prefix for ids of actions that run once per build environment: "py3.11", or "py3.11-cu13.0"."""
    of_toolkit = f"-cu{cell.toolkit}" if context.file.manifest.host_cuda else ""
    return f"{python_name(context, cell, at)}{of_toolkit}"


def _constraints(context: PlanContext, name: str) -> FileInput:
    """Return the file of constraints, which may be a link to another beside the manifest."""
    path = (context.file.folder / name).resolve()
    return FileInput(path, context.contents.of(path.parent, path.name))
