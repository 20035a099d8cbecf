"""The environment of the host builds of one Python: its build requirements, fetched."""

from __future__ import annotations

from pathlib import Path

from gpuforge import digest
from gpuforge.plan import sources, variables
from gpuforge.plan.action import ActionInput, FileInput
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import compiler
from gpuforge.plan.lower.context import Context
from gpuforge.plan.lower.source import source
from gpuforge.plan.requests.build import FetchRequirements
from gpuforge.plan.site import Location

LOCK = "requirements.json"  # the output with what was requested, and each wheel's sha256


def requirements(context: Context, cell: Cell, at: Location) -> ActionInput:
    """Fetch the PEP 517 build requirements into an environment, once per Python."""
    build, tree = context.file.manifest.build, source(context)
    if context.tree is not None:  # what decides on requirements is in the key; the backend may read more
        deciding = sources.build_files(context.tree.path, context.tree)
        tree = FileInput(context.tree.path, deciding, context.tree.members)
    constraints = (
        {"constraints": content(context.file.folder / build.constraints)} if build.constraints else {}
    )
    names = {**variables.NAMES, "toolkit": "${work}/toolkit", "env": "${work}/env"}  # shared by toolkits
    return context.add_step(
        FetchRequirements(
            source=Path("${stage:source}"),
            python=Path("${in:python}"),
            requires=build.requires,
            config_settings=variables.settings(build.config_settings, names),
            constraints=Path("${in:constraints}") if constraints else None,
            scratch=Path("${work}"),
            output=Path("${out:environment}"),
            lock=Path(f"${{out:{LOCK}}}"),
        ),
        at,
        "environment",
        id=f"{python_name(cell, at)}/requirements",
        kind="fetch",
        title=f"fetch the build requirements for Python {cell.python}",
        inputs={"source": tree, "python": compiler.interpreter(cell, at), **constraints},
        outputs=("environment", LOCK),
        links_out=True,
        facts=context.pip_facts,
        env=variables.fetch(),
        passes=variables.requirement_passes(),
        caches=variables.PIP_CACHE,
        network=True,
        cells=context.users(python=cell.python),
    )


def lock(context: Context, cell: Cell, at: Location) -> ActionInput:
    """Return the file that lists the build requirements."""
    return ActionInput(requirements(context, cell, at).action, LOCK)


def python_name(cell: Cell, at: Location) -> str:
    """Return the name of what is done once for a Python: "py3.11", in an image "py3.11-bookworm"."""
    return f"py{cell.python}" + (f"-{at.image.name}" if at.image else "")


def content(path: Path) -> FileInput:
    """Return a file or folder of this machine as an input."""
    return FileInput(path, digest.of_tree(path))
