"""The project's own build: once per Python and toolkit, or per Python alone; all namings share it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuforge.plan import advice, source_files, variables
from gpuforge.plan.action import ActionInput, FileInput
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import compiler
from gpuforge.plan.lower.build_environment import build_environment, python_name
from gpuforge.plan.lower.plan_context import PlanContext, of_build, placeholders
from gpuforge.plan.lower.source import sdist, source
from gpuforge.plan.lower.toolkit import toolkit
from gpuforge.plan.requests.build import HostBuild

LIBRARIES = "libraries"  # the output with those of the overlays


def host_build(context: PlanContext, cell: Cell) -> ActionInput:
    """Run the project's own build."""
    manifest = context.file.manifest
    build, cuda = manifest.build, manifest.host_cuda
    at, host = context.machine.host_at(cell)
    overlays = {
        f"overlay{n}": source_files.overlay(context.file, n, each, context.contents)
        for n, each in build.overlay_folders
    }
    sdists = {f"sdist-{each.folder}": sdist(context, each) for each in build.overlay_sdists}
    used = compiler.use(context, host, at, lay=True)
    env = variables.host_build(
        context.environ, host, f"{variables.TOOLKIT_SEEN}/bin:{at.path}" if cuda else at.path
    )
    if cuda:
        targets = manifest.cuda.versions[cell.cuda].targets
        env |= variables.host_cuda(host, targets, manifest.cuda.linkage)
    name, users = _shared(context, cell)
    return context.add_request(
        _request(context, cell, used, overlays),
        at,
        id=f"{name}/host-build",
        kind="build",
        title=f"build {manifest.package.name} for Python {cell.python}"
        + (f" and CUDA {cell.toolkit}" if cuda else ""),
        inputs={
            "source": source(context),
            "env": build_environment(context, cell, at),
            **({"toolkit": toolkit(context, cell, at)} if cuda else {}),
            "python": compiler.interpreter(cell, at),
            **used.inputs,
            **overlays,
            **sdists,
        },
        staged=("source",),
        laid=("env", *used.laid),
        outputs=("wheel", LIBRARIES) if build.overlay else ("wheel",),
        env=env | {name: variables.with_names(text, variables.NAMES) for name, text in build.env.items()},
        passes=variables.build_passes(context.environ, contained=at.image is not None),
        caches=variables.COMPILER_CACHE,
        place="host-build",
        cells=users,
        parallel=True,
        advice=advice.of_host_build(context.file),
    )


def _shared(context: PlanContext, cell: Cell) -> tuple[str, tuple[str, ...]]:
    """Return the name of the host build of a cell, and the cells that share it."""
    if context.file.manifest.host_cuda:
        users = context.users(cuda=cell.cuda, python=cell.python, axes=cell.axes)
        return cell.build_id, users
    at, _ = context.machine.host_at(cell)
    return python_name(context, cell, at), context.users(python=cell.python, part=of_build)


def _request(
    context: PlanContext, cell: Cell, used: compiler.CompilerUse, overlays: Mapping[str, FileInput]
) -> HostBuild:
    manifest = context.file.manifest
    build = manifest.build
    _, host = context.machine.host_at(cell)
    return HostBuild(
        source=Path("${stage:source}"),
        environment=Path("${lay:env}"),
        python=Path("${in:python}"),
        compilers={program: Path(used.programs[what]) for what, program in variables.compilers(host).items()},
        nvcc=Path("${in:toolkit}/bin/nvcc") if manifest.host_cuda else None,
        overlays=placeholders(overlays),
        sdists={each.folder: Path(f"${{in:sdist-{each.folder}}}") for each in build.overlay_sdists},
        config_settings=variables.settings(build.config_settings, variables.NAMES),
        version=context.git_version,
        before=tuple(
            tuple(variables.with_names(word, variables.NAMES) for word in command) for command in build.before
        ),
        scratch=Path("${work}"),
        output=Path("${out:wheel}"),
        libraries=Path(f"${{out:{LIBRARIES}}}") if build.overlay else None,
    )
