"""What an action's container sees: its mounts, their paths in it, and gpuforge's environment for the image's Python."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gpuforge import locks
from gpuforge.containers import fetch_settings, image_environment
from gpuforge.containers.container import Mount
from gpuforge.execute import workdir
from gpuforge.execute.runners.runner import Task
from gpuforge.execute.substitution import RunPaths
from gpuforge.toolchains.inventory import Inventory
from gpuforge.tree import remove

INSIDE = workdir.DEFAULT  # the folder of working directories in every container
CACHES = Path("/opt/gpuforge-caches")


class View(NamedTuple):
    """What a container sees: the mounts, and the paths of the action in it."""

    mounts: tuple[Mount, ...]
    places: RunPaths


def view(task: Task, paths: workdir.WorkPaths, project: str) -> View:
    """Return the mounts of an action's container: its working directory, its outputs' folder and its inputs."""
    inside = workdir.WorkPaths.below(INSIDE / project, task.action.place or task.action.id)
    mounts = [Mount(paths.work, inside.work, writable=True), Mount(task.out, inside.out, writable=True)]
    inputs = {}
    for name, source in task.inputs.items():
        if source.in_image:
            inputs[name] = source.path
            continue
        inputs[name] = (inside.work if name in task.action.laid else inside.inputs) / name
        if not source.path.is_dir():
            inputs[name] /= source.path.name
        if name not in task.action.staged:
            mounts.append(Mount(source.path, inputs[name]))
    return View(tuple(mounts), RunPaths(inside.work, inside.out, inputs))


def of_settings(task: Task, passed: Mapping[str, str], home: Path) -> Iterator[Mount]:
    """Yield the files of this machine's settings that an action with a network reads, such as pip's."""
    if task.action.network:
        yield from (Mount(*each) for each in fetch_settings.files(passed, home))


def of_caches(task: Task, folders: Mapping[str, Path], default: Path) -> Iterator[Mount]:
    """Yield the cache folders of an action: those of `folders` by name, the others below `default`.

    Other users cannot enter them: a build may leave a program there that runs as the caller (setuid).
    """
    for each in task.action.caches:
        folder = folders.get(each.name, default / each.name)
        folder.mkdir(parents=True, exist_ok=True)
        if default in folder.parent.parents:
            folder.parent.chmod(0o700)
        yield Mount(folder, CACHES / each.name, writable=True)


def venv_of_image(inventory: Inventory, cache: Path, finish: Callable[[Path], None]) -> Path:
    """Return the environment for an image's Python, made in `cache` if it is not there.

    `finish` is called with a new one before it is used. Raises the errors of `image_environment.write`.
    """
    folder = cache / image_environment.name(inventory)
    with locks.wait(folder.with_suffix(".lock")):
        if not folder.is_dir():
            part = folder.with_suffix(".part")
            remove(part)
            try:
                image_environment.write(part, inventory)
                finish(part)
                part.rename(folder)
            finally:
                remove(part)
    return folder
