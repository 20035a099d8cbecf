"""Runs actions in containers of Docker, or of Podman by its Docker-compatible socket."""

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gpuforge.containers import image_environment
from gpuforge.containers.container import (
    Container,
    ContainerEnd,
    Containers,
    ContainerSpec,
    Mount,
    labels,
    run_once,
)
from gpuforge.containers.engine import engine_errors, not_started
from gpuforge.errors import ActionError, GpuforgeError, MissingError
from gpuforge.execute import action_log, workdir
from gpuforge.execute.action_log import header
from gpuforge.execute.runners.docker import mounts
from gpuforge.execute.runners.runner import GRACE, Activity, Exit, Limits, Runner, Task, of_terminal
from gpuforge.execute.substitution import fill, write_request
from gpuforge.plan.action import Action
from gpuforge.plan.programs import IN_IMAGE
from gpuforge.plan.site import ContainerImage


class DockerRunner:
    """Runs each action that names an image in a container of its own; the others with `local`.

    A container runs as the caller, without network unless the action fetches, without capabilities, within `limits`. It
    sees its working directory and its outputs' folder at the same path on every machine, its inputs as read-only
    mounts, and gpuforge for the image's Python. `images` are the images of actions, by id. Below `cache` lie the
    environments with gpuforge and the cache folders of actions that `caches` does not have; `root` and `project` are as
    in LocalRunner.
    """

    def __init__(
        self,
        images: Mapping[str, ContainerImage],
        *,
        local: Runner,
        cache: Path,
        limits: Limits | None = None,
        connect: Callable[[], Containers] = Containers,
        environ: Mapping[str, str] | None = None,
        caches: Mapping[str, Path] | None = None,
        root: Path | None = None,
        project: str = "",
        grace: float = GRACE,
        failed: Path | None = None,
    ) -> None:
        self._images = images
        self._local = local
        self._cache = cache
        self._limits = limits or Limits()
        self._failed = failed
        self._connect = connect
        self._environ = dict(os.environ if environ is None else environ)
        self._caches = caches or {}
        self._root = root
        self._project = project
        self._activity = Activity(self._signal, grace)
        self._folder: Path | None = None
        self._running: dict[str, str] = {}  # ids of containers by action, under the activity's guard
        self._venvs: dict[str, Path] = {}  # the environments of gpuforge's steps, by image

    def prepare(self, actions: Sequence[Action]) -> None:
        """Get ready for actions that will run."""
        self._local.prepare([each for each in actions if each.image is None])

    def run(self, task: Task) -> Exit:
        """Run a task to its end; see `Runner.run`."""
        if task.action.image is None:
            return self._local.run(task)
        begin = time.monotonic()
        with self._activity.task(task), closing(self._connect()) as containers:
            paths = workdir.WorkPaths.below(self._places(), task.action.id)
            with workdir.claimed(paths, task.stop) as is_claimed:
                if not is_claimed:
                    return Exit(-signal.SIGTERM, time.monotonic() - begin, cancelled=True)
                spec = self._spec(containers, task, paths)
                begin = time.monotonic()
                contained = Contained(task, spec, self._limits, self._activity, self._running, self._connect)
                status = contained.run(containers)
                kept = workdir.keep(paths.work, self._failed, task.action.id) if status else None
        return Exit(status, time.monotonic() - begin, task.stop.is_set() and status != 0, kept)

    def enter(self, task: Task, words: Sequence[str], failed: Path) -> int:
        """Run other words where a task's command would run, on the caller's terminal; see `Runner.enter`."""
        if task.action.image is None:
            return self._local.enter(task, words, failed)
        with closing(self._connect()) as containers:
            paths = workdir.WorkPaths.below(self._places(), task.action.id)
            with workdir.claimed(paths, task.stop):
                spec = self._spec(containers, task, paths)
                with workdir.brought_back(paths.work, failed, task.action.id):
                    env = {**spec.env, **of_terminal(spec.argv, self._environ)}
                    return containers.enter(replace(spec, argv=words, env=env))

    def stop(self, action: str) -> None:
        """Stop one action: by SIGTERM, after a grace time by SIGKILL."""
        self._local.stop(action)
        self._activity.stop(action)

    def cancel(self) -> None:
        """Stop everything: by SIGTERM, after a grace time by SIGKILL; returns when nothing runs any more."""
        self._local.cancel()
        self._activity.cancel()

    def kill(self) -> None:
        """Stop everything by SIGKILL, at once."""
        self._local.kill()
        self._activity.kill()

    def _signal(self, number: signal.Signals, actions: Collection[str]) -> None:
        with self._activity.guard:
            running = [self._running[name] for name in actions if name in self._running]
        with suppress(GpuforgeError), closing(self._connect()) as containers:
            for container in running:
                containers.signal(container, number.name)

    def _places(self) -> Path:
        with self._activity.guard:
            if self._folder is None:
                root = self._root or workdir.root(self._environ)
                self._folder = workdir.project_folder(root, self._project)
        return self._folder

    def _spec(self, containers: Containers, task: Task, paths: workdir.WorkPaths) -> ContainerSpec:
        """Return the container of a task, its working directory filled and the head of its log written."""
        action, image = task.action, self._images[task.action.image or ""]
        seen = mounts.view(task, paths, self._project)
        passed = {name: self._environ[name] for name in action.passes if name in self._environ}
        mounted = (
            *seen.mounts,
            *self._gpuforge(containers, task),
            *mounts.of_settings(task, passed, seen.places.work),
            *mounts.of_caches(task, self._caches, self._cache),
        )
        for name in action.staged:
            workdir.stage(task.inputs[name], paths.work / name)
        for name in action.laid:
            (paths.work / name).mkdir()  # otherwise the mount would create it, as another user
        argv, env = fill(action, seen.places)
        env |= (
            task.job_variables()
            | passed
            | {"HOME": str(seen.places.work)}
            | {each.variable: str(mounts.CACHES / each.name) for each in action.caches}
        )
        where = [f"in a container of image {image.name} ({image.id})"]
        where += [f"  {'writes' if m.writable else 'reads'} {m.target}: {m.source}" for m in mounted]
        request = write_request(action, seen.places, paths.work)
        head = header(action, argv, env, seen.places.work, where=where, request=request)
        task.log.write_bytes(head.encode(errors="surrogateescape"))
        return ContainerSpec(
            image=image.id,
            image_name=image.name,
            argv=argv,
            env=env,
            folder=str(seen.places.work),
            labels=labels(action.id, self._limits.seconds),
            mounts=mounted,
            as_caller=True,
            network=action.network,
            gpus=action.gpu,
            memory=self._limits.memory,
            cpus=self._limits.cpus,
            pids=self._limits.pids,
        )

    def _gpuforge(self, containers: Containers, task: Task) -> list[Mount]:
        """Return the mounts of gpuforge itself, for an action that runs one of its steps."""
        if not any(s.in_image and s.path.is_relative_to(IN_IMAGE) for s in task.inputs.values()):
            return []
        image = self._images[task.action.image or ""]
        if image.id not in self._venvs:
            self._venvs[image.id] = mounts.venv_of_image(
                image.inventory, self._cache / "steps", lambda folder: _compile(containers, image, folder)
            )
        minor = image.inventory.steps_python().minor
        code = image_environment.site_packages(Path(IN_IMAGE), minor) / "gpuforge"
        return [Mount(self._venvs[image.id], Path(IN_IMAGE)), Mount(image_environment.CODE, code)]


def _compile(containers: Containers, image: ContainerImage, folder: Path) -> None:
    """Compile the packages of a new environment with the Python that runs them, and pip with every Python that fetches.

    Compiled modules lie in a folder that containers only read, so no action can change them.
    """
    argv = ["/bin/sh", "-c", image_environment.compiling(image.inventory)]
    mounted = (Mount(folder, Path(IN_IMAGE), writable=True),)
    spec = ContainerSpec(
        image.id, argv, labels(), image.name, mounts=mounted, as_caller=True, keeps_output=True
    )
    ran = run_once(containers, spec)
    if ran.status:
        raise ActionError.of(
            f"gpuforge's requirements cannot be compiled in image {image.name}: {ran.reason}"
        )


# Signals of `docker stop`, `docker kill`, or of the kernel when memory ran out.
_FROM_OUTSIDE = {signal.SIGINT, signal.SIGTERM, signal.SIGKILL}
MOST_PRINTED = 2 * 10**9  # bytes of a log; the largest builds print 100 MB
_AGAIN = "run the same command again: finished work is kept"


class Contained(NamedTuple):
    """Runs one task in a container.

    `running` has the ids of the runner's containers by action, under the activity's guard.
    """

    task: Task
    spec: ContainerSpec
    limits: Limits
    activity: Activity
    running: dict[str, str]
    connect: Callable[[], Containers]

    def run(self, containers: Containers) -> int:
        """Return the command's status (negative: a signal); raises if something else ended it."""
        container = containers.create(self.spec)
        try:
            with engine_errors(f"to run {self.task.action.id}"), closing(container.attach()) as output:
                ended = self._follow(container, output)
            return self._judge(ended)
        finally:
            with self.activity.guard:
                self.running.pop(self.task.action.id, None)
            container.remove()

    def _follow(self, container: Container, output: Iterable[bytes]) -> ContainerEnd:
        with self.activity.guard:  # so that `cancel` finds either no container, or one that it can signal
            if self.task.stop.is_set():
                return ContainerEnd(-signal.SIGTERM)
            self.running[self.task.action.id] = container.id
            container.start()
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self._kill(container)

        timer = threading.Timer(self.limits.seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            is_long = self._write_log(container, output)
            ended = container.wait()
        finally:
            timer.cancel()
        if expired.is_set():
            raise self.limits.exceeded(self.task.action.id)
        if is_long:
            raise ActionError.of(
                f"{self.task.action.id} printed more than {MOST_PRINTED // 10**9} GB",
                hint="its log has the first of it",
            )
        return ended

    def _write_log(self, container: Container, output: Iterable[bytes]) -> bool:
        """Write the container's output into the log, and stop it if it prints too much; return whether it did.

        The engine stops a container only while its output is read, so another thread requests the stop.
        """
        left = MOST_PRINTED
        with self.task.log.open("ab", buffering=0) as log:
            for chunk in output:
                if left >= 0:
                    log.write(chunk)
                    left -= len(chunk)
                    if left < 0:
                        threading.Thread(target=self._kill, args=(container,), daemon=True).start()
        return left < 0

    def _kill(self, container: Container) -> None:
        with suppress(GpuforgeError, OSError), closing(self.connect()) as containers:
            containers.signal(container.id, "SIGKILL")

    def _judge(self, ended: ContainerEnd) -> int:
        if not ended.status or self.task.stop.is_set():
            return ended.status
        action, image = self.task.action.id, self.spec.image_name
        if why := not_started("".join(action_log.tail(self.task.log)[-1:])):
            raise MissingError.of(
                f"{action} cannot be started in image {image}: {self.spec.argv[0]} failed: {why}",
                hint=f"gpuforge images check {image} shows what it lacks",
            )
        if ended.out_of_memory:
            raise ActionError.of(
                f"{action} needed more memory than its container has",
                hint="try a smaller --jobs, or allow more by --memory",
            )
        if -ended.status in _FROM_OUTSIDE:
            # Podman does not always report that its container had too little memory.
            limited = ", or allow more by --memory" if self.limits.memory else ""
            raise ActionError.of(
                f"{action} was ended by {signal.Signals(-ended.status).name}, not by gpuforge",
                hint=f"{_AGAIN}; if memory ran out, try a smaller --jobs{limited}",
            )
        return ended.status
