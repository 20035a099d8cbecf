"""`gpuforge build --inplace`: the project as an editable install in the active environment, compiled where it lies."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from gpuforge import digest, tree
from gpuforge.actions import compiler_cache, venv
from gpuforge.actions.cell_actions import Plan
from gpuforge.actions.host_build import HostBuild, build
from gpuforge.cli import folders
from gpuforge.cli.planning import Planned
from gpuforge.cli.terminal import say
from gpuforge.errors import ActionError, UsageError
from gpuforge.execute.outcome import Step
from gpuforge.execute.runners.choice import RunnerSettings
from gpuforge.execute.store import Store
from gpuforge.execute.substitution import RunPaths, fill
from gpuforge.package import embed
from gpuforge.plan.action import Action, ActionInput, FileInput, Handle, Input, Laid, Staged, Workdir, located
from gpuforge.private_mounts import Overlay, can_lay
from gpuforge.runtime.layout import HOME

_MINOR = "import sys; print('%d.%d' % sys.version_info[:2] + ('t' if 't' in sys.abiflags else ''))"
# Lines of a .pth file that begin with `import` are run when Python starts (https://docs.python.org/3/library/site.html).
_FINDER = (
    "import sys, importlib.machinery as m; sys.meta_path.append(type('Kernels', (), dict(find_spec=staticmethod(lambda "
    "name, *_, m=m: m.PathFinder.find_spec(name, [{folder!r}]) if name == {name!r} else None))))\n"
)


def active(environ: Mapping[str, str]) -> tuple[Path, str]:
    """Return the interpreter of the active environment and its version ("3.13"); raises UsageError if none is."""
    folder = environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX")
    python = Path(folder or "", "bin", "python")
    if not folder or not python.exists():
        raise UsageError.of(
            "--inplace installs into the active environment, and none is active",
            hint="python -m venv .venv && . .venv/bin/activate, then the same command",
        )
    return python, _answer(python, _MINOR)


def part(plan: Plan) -> Plan:
    """Return the part of a plan of one cell that an install in place needs: the inputs of its build, and kernels."""
    if len(plan.cells) != 1:
        raise UsageError.of(
            f"--inplace builds one cell, and these are {len(plan.cells)}: {', '.join(c.id for c in plan.cells)}",
            hint="choose one by --cuda, --axis or --cell",
        )
    host = _host(plan)
    if not isinstance(host.inputs["source"], FileInput):
        raise UsageError.of("--inplace needs the project's folder", hint='[package] source is { path = "." }')
    ends = {
        f"{number}": each
        for number, each in enumerate([*host.inputs.values(), *_kernels(plan)])
        if isinstance(each, ActionInput)
    }
    by_id = {action.id: action for action in plan.actions}
    needed, todo = set(), [end.action for end in ends.values()]
    while todo:
        needed.add(name := todo.pop())
        todo += by_id[name].needs
    actions = tuple(action for action in plan.actions if action.id in needed)
    return replace(plan, actions=actions, wheels=ends, reports={}, tests={}, kernels={}, front=None)


def install(
    made: Planned, store: Store, steps: Sequence[Step], python: Path, settings: RunnerSettings
) -> None:
    """Build the editable wheel of the project with its own backend and install it, then let it find the kernels.

    The working directory stays, for the next build and for backends that compile again when the package is imported.
    """
    (cell,), host = made.plan.cells, _host(made.plan)
    name = digest.of_data([str(made.file.path)])[:8]
    work = settings.cache / folders.INPLACE / f"{made.file.manifest.package.name}-{name}" / cell.id
    links = (*host.laid, *host.staged)
    changes = {name: f"{name}.changes" for name in host.laid}
    for each in ("bin", "files-read", "cuda", "nvcc", "overlay", "out", *links, *changes.values()):
        tree.remove(work / each)
    at = Workdir(work, work / "out")
    at.output("wheel").mkdir(parents=True)
    inputs = {name: _path_of(each, store, steps) for name, each in host.inputs.items()}
    for each in links:
        (work / each).symlink_to(inputs[each])

    def path(name: str, handle: Handle) -> Path:
        return work / name if isinstance(handle, (Staged, Laid)) else inputs[name]

    step = replace(
        cast("HostBuild[Path]", located(cast("HostBuild[Handle]", host.step), path)), source=inputs["source"]
    )
    env = fill(host, RunPaths(work, at.outputs, inputs))[1]
    step.make_ready(at, in_place=True)
    with compiler_cache.serving(compiler_cache.take_settings(dict(settings.variables)), work) as wrapped:
        shared = {name: inputs[name].resolve() for name in changes}  # which the build must not change
        overlays = [
            Overlay(str(folder), str(work / changes[name]), str(folder))
            for name, folder in shared.items()
            if can_lay(folder, work)
        ]
        build(step, at, venv.runner_of(step.env / "bin" / "python", env | wrapped, overlays), "editable")
    venv.install(python, at.output("wheel"))
    packed = [_path_of(each, store, steps) for each in _kernels(made.plan)]
    _lay_kernels(packed, made.file.manifest.package.import_, python, work)
    title = made.file.manifest.package.name
    say(f"{title} is installed in {python.parents[1]}; its Python files are those in {step.source}")
    try:
        venv.check(python)
    except ActionError as error:
        say(f"note: {error.diagnostics[0].message}")


def _lay_kernels(packed: list[Path], package: str, python: Path, work: Path) -> None:
    """Let the environment find kernels and runtime as a part of the package, wherever its backend has that found."""
    site = Path(_answer(python, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    finder = site / f"{package}.{HOME}.pth"
    finder.unlink(missing_ok=True)
    tree.remove(work / "kernels")
    if packed:
        laid = work / "kernels" / Path(*package.split("."))
        laid.mkdir(parents=True)
        (laid / "__init__.py").touch()
        embed.kernel_sets(work / "kernels", package, packed)
        finder.write_text(_FINDER.format(name=f"{package}.{HOME}", folder=str(laid)))


def _path_of(value: Input, store: Store, steps: Sequence[Step]) -> Path:
    """Return the path of an input; outputs of actions that were done are in the store."""
    if not isinstance(value, ActionInput):
        return Path(value.path)
    key = next(step.key for step in steps if step.action.id == value.action)
    stored = store.get(key, links_out=value.links_out)
    if stored is None:
        raise ActionError.of(f"{value.action} is no longer in the store", hint="run the same command again")
    return stored.path(value.output)


def _host(plan: Plan) -> Action:
    return next(each for each in plan.actions if isinstance(each.step, HostBuild))


def _kernels(plan: Plan) -> list[ActionInput]:
    """Return the folders of kernels that the wheels of a plan get."""
    found = [
        h
        for each in plan.actions
        for h in getattr(each.step, "kernels", None) or ()
        if isinstance(h, ActionInput)
    ]
    return list(dict.fromkeys(found))


def _answer(python: Path, program: str, *words: str) -> str:
    """Return what a program prints in an environment; raises ActionError if it fails."""
    answer = subprocess.run(
        [python, "-c", program, *words], capture_output=True, text=True, check=False, cwd=python.parent
    )
    if answer.returncode:
        last = (answer.stderr.strip().splitlines() or [""])[-1]
        raise ActionError.of(f"{python} could not be asked: {last}", hint="make the environment anew")
    return answer.stdout.strip()
