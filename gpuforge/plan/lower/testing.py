"""The test of a finished wheel: its requirements are fetched, then it is installed, imported and tested."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuforge.manifest import braces, kernels_wheels
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan import source_files, variables
from gpuforge.plan.action import ActionInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import compiler
from gpuforge.plan.lower.plan_context import PlanContext, of_tests, placeholders
from gpuforge.plan.lower.source import source
from gpuforge.plan.lower.toolkit import toolkit
from gpuforge.plan.requests.trial import FetchTestRequirements, TryWheel


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
    wheels = installed(context, cell, wheel, own) | ({"kernels": own} if own else {})
    inputs: dict[str, Input] = {"python": compiler.interpreter(cell, at), "wheel": wheel, **wheels}
    if any("project" in braces.names(word) for word in test.command):
        inputs["project"] = source(context)
    if test.command and test.sources:
        inputs["tests"] = source_files.test_sources(context.file, context.contents)
    if manifest.cuda.linkage == "system":
        inputs["toolkit"] = toolkit(context, cell, at)
    where = _where(context, cell)
    request = TryWheel(
        cell=cell.id + where,
        wheel=Path("${in:wheel}"),
        python=Path("${in:python}"),
        wheels=placeholders(wheels),
        extras=extras(context.file, cell),
        cuda=cell.toolkit,
        package=manifest.package.import_,
        imports=test.imports,
        stub=not context.gpu,
        requires=test.requires,
        command=test.command,
        project=Path("${stage:project}") if "project" in inputs else None,
        folder=Path("${stage:tests}") if "tests" in inputs else None,
        toolkit=Path("${in:toolkit}") if "toolkit" in inputs else None,
        scratch=Path("${work}"),
        result=Path("${out:result.json}"),
    )
    return context.add_request(
        request,
        at,
        id=f"{cell.id}/test{where}",
        kind="test",
        title=f"test the wheel of {cell.id}{where} on Python {_python(context, cell)}",
        inputs=inputs,
        staged=tuple(name for name in ("project", "tests") if name in inputs),
        outputs=("result.json",),
        by_content=True,
        env=variables.test(context.environ, manifest.cuda.linkage, at.path, gpu=context.gpu),
        gpu=context.gpu,
        cells=(cell.id,),
    )


def installed(
    context: PlanContext, cell: Cell, wheel: ActionInput, own: ActionInput | None
) -> dict[str, ActionInput]:
    """Return the folders of wheels that the test installs beside the wheel itself."""
    shared = _shared(context, cell)
    return {"needed": _declared(context, cell, wheel, own, shared), **({"shared": shared} if shared else {})}


def _shared(context: PlanContext, cell: Cell) -> ActionInput | None:
    """Fetch the requirements of the test command, once per Python, while the wheels are built; None without any."""
    test = context.file.manifest.test
    if not (test.command and test.requires):
        return None
    image = context.machine.tested_at(cell).image
    request = FetchTestRequirements(
        python=Path("${in:python}"), requires=test.requires, output=Path("${out:wheels}")
    )
    return _fetch(
        context,
        cell,
        request,
        id=f"py{cell.python}{context.label(of_tests)}{f'-{image.name}' if image else ''}/test-requirements",
        title=f"fetch what the tests need on Python {_python(context, cell)}{context.words(of_tests)}",
        inputs={},
        by_content=False,
        cells=context.users(python=cell.python, part=of_tests),
    )


def _declared(
    context: PlanContext, cell: Cell, wheel: ActionInput, own: ActionInput | None, shared: ActionInput | None
) -> ActionInput:
    """Fetch a wheel's requirements, chosen together with those of the test command.

    Wheels that declare the same share the result.
    """
    test = context.file.manifest.test
    request = FetchTestRequirements(
        python=Path("${in:python}"),
        requires=test.requires if test.command else (),
        wheel=Path("${in:wheel}"),
        extras=extras(context.file, cell),
        cuda=cell.toolkit,
        at_hand=(Path("${in:shared}"),) if shared else (),
        own=Path("${in:kernels}") if own else None,
        output=Path("${out:wheels}"),
    )
    return _fetch(
        context,
        cell,
        request,
        id=f"{cell.id}/test-requirements{_where(context, cell)}",
        title=f"fetch what the wheel of {cell.id}{_where(context, cell)} declares",
        cells=(cell.id,),
        by_content=True,
        inputs={
            "wheel": ActionInput(wheel.action, "declared"),
            **({"shared": shared} if shared else {}),
            **({"kernels": ActionInput(own.action, "declared")} if own else {}),
        },
    )


def _fetch(
    context: PlanContext,
    cell: Cell,
    request: FetchTestRequirements,
    *,
    id: str,  # noqa: A002  the field of Action
    title: str,
    inputs: Mapping[str, Input],
    by_content: bool,
    cells: tuple[str, ...],
) -> ActionInput:
    at = context.machine.tested_at(cell)
    return context.add_request(
        request,
        at,
        id=id,
        kind="fetch",
        title=title,
        inputs={"python": compiler.interpreter(cell, at), **inputs},
        outputs=("wheels",),
        by_content=by_content,
        cells=cells,
        **context.by_pip,
    )


def extras(file: ManifestFile, cell: Cell) -> tuple[str, ...]:
    """Return the extras that a user would install: that of the kernels or CUDA packages, and the tests'."""
    cuda = file.manifest.cuda
    by_extra = (cuda.linkage, cuda.requires) == ("pip", "extra") or kernels_wheels.is_split(file.manifest)
    own = [kernels_wheels.extra_for(cell.toolkit)] if by_extra else []
    return tuple(dict.fromkeys([*own, *file.manifest.test.extras]))


def _where(context: PlanContext, cell: Cell) -> str:
    """Return the suffix for the point that a wheel is tested at: "-torch2.11"; "" if it serves only one."""
    return f"-{context.point.label}" if len(cell.points) > 1 else ""


def _python(context: PlanContext, cell: Cell) -> str:
    """Return the Python that a cell's wheel is tested on: "3.11", also where the wheel serves every Python 3."""
    return context.machine.tested_at(cell).interpreters[cell.python].minor
