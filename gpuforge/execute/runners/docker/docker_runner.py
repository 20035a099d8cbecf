"""Runs actions in containers of Docker, or of Podman by its Docker-compatible socket."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuforge.containers import connect as engine
from gpuforge.containers.leftovers import labels
from gpuforge.errors import ActionError, GpuforgeError, MissingError
from gpuforge.execute import failure, workdir
from gpuforge.execute.runners.docker import fetch_settings, image_venv
from gpuforge.execute.runners.local.local_runner import GRACE, header
from gpuforge.execute.runners.runner import Exit, Limits, Runner, Task
from gpuforge.execute.substitution import Places, fill, laid, staged
from gpuforge.plan.programs import IN_IMAGE
from gpuforge.plan.site import ContainerImage

INSIDE = workdir.DEFAULT  # what the folder of working directories is called in every container
_CACHES = Path("/opt/gpuforge-caches")
# By `docker stop`, `docker kill`, or for want of memory.
_FROM_OUTSIDE = {signal.SIGINT, signal.SIGTERM, signal.SIGKILL}
_AGAIN = "run the same command again: what is finished is kept"


@dataclass(frozen=True, slots=True)
class _Mount:
    source: Path
    target: Path
    writable: bool = False


class DockerRunner:
    """Runs each action that names an image in a container of its own; the others with `local`.

    A container runs as the caller, without network unless the action fetches, without capabilities, within
    `limits`. It sees its working directory and its outputs' folder at the same path on every machine, what it
    reads as read-only mounts, and gpuforge for the image's Python. `images` are those that actions name, by id;
    below `cache` lie those environments and, by their names, the cache folders of actions that `caches` does not
    name; `root` and `project` are as in LocalRunner.
    """

    def __init__(
        self,
        images: Mapping[str, ContainerImage],
        *,
        local: Runner,
        cache: Path,
        limits: Limits | None = None,
        connect: Callable[[], Any] = engine.connect,
        environ: Mapping[str, str] | None = None,
        caches: Mapping[str, Path] | None = None,
        root: Path | None = None,
        project: str = "",
        grace: float = GRACE,
    ) -> None:
        self._images = images
        self._local = local
        self._cache = cache
        self._limits = limits or Limits()
        self._connect = connect
        self._environ = dict(os.environ if environ is None else environ)
        self._caches = caches or {}
        self._root = root
        self._project = project
        self._grace = grace
        self._cancelled = threading.Event()
        self._made: dict[str, Path] = {}  # the environments of gpuforge's steps, by image
        self._guard = threading.Condition()  # over the two below
        self._running: dict[str, Any] = {}  # containers by id
        self._busy = 0

    def run(self, task: Task) -> Exit:
        """Run a task to its end; see `Runner.run`."""
        if task.action.image is None:
            return self._local.run(task)
        begin = time.monotonic()
        with self._occupied(), closing(self._connect()) as client:  # one each: a client is for one thread
            paths = workdir.WorkPaths.below(self._folder(), task.action.id)
            with workdir.claimed(paths, self._cancelled) as held:
                if not held:
                    return Exit(-signal.SIGTERM, time.monotonic() - begin, cancelled=True)
                mounts, places = self._mounts(client, task, paths)
                argv, env = fill(task.action, places)
                env |= task.job_variables()
                for name in staged(task.action):
                    workdir.stage(task.inputs[name], paths.work / name)
                for name in laid(task.action):
                    (paths.work / name).mkdir()  # what is mounted there would else make it, as another user
                env |= {"HOME": str(places.work)} | {
                    name: value for name, value in self._passed(task).items() if name != "HOME"
                }
                env |= {each.variable: str(_CACHES / each.name) for each in task.action.caches}
                begin = time.monotonic()
                status = self._contain(client, task, argv, env, mounts, places)
        return Exit(status, time.monotonic() - begin, cancelled=self._cancelled.is_set() and status != 0)

    def cancel(self) -> None:
        """Stop everything: by SIGTERM, after a grace time by SIGKILL; returns when nothing runs any more."""
        self._cancelled.set()
        self._local.cancel()
        self._signal("SIGTERM")
        with self._guard:
            quiet = self._guard.wait_for(lambda: not self._busy, timeout=self._grace)
        if not quiet:
            self.kill()

    def kill(self) -> None:
        """Stop everything by SIGKILL, at once."""
        self._cancelled.set()
        self._local.kill()
        self._signal("SIGKILL")
        with self._guard:
            self._guard.wait_for(lambda: not self._busy, timeout=self._grace)

    def _signal(self, name: str) -> None:
        with self._guard:
            running = list(self._running)
        with suppress(GpuforgeError), closing(self._connect()) as client:
            for container in running:
                with suppress(engine.DockerException, OSError):  # it may just have ended
                    client.containers.get(container).kill(signal=name)

    @contextmanager
    def _occupied(self) -> Iterator[None]:
        with self._guard:
            self._busy += 1
        try:
            yield
        finally:
            with self._guard:
                self._busy -= 1
                self._guard.notify_all()

    def _folder(self) -> Path:
        folder = (self._root or workdir.root(self._environ)) / self._project
        folder.mkdir(exist_ok=True)
        return folder

    def _mounts(self, client: Any, task: Task, paths: workdir.WorkPaths) -> tuple[list[_Mount], Places]:
        """Return what the container is to see, and where."""
        inside = workdir.WorkPaths.below(INSIDE / self._project, task.action.place or task.action.id)
        mounts = [_Mount(paths.work, inside.work, writable=True), _Mount(task.out, inside.out, writable=True)]
        inputs = {}
        copied, here = staged(task.action), laid(task.action)
        for name, source in task.inputs.items():
            if source.in_image:
                inputs[name] = source.path
                continue
            inputs[name] = (inside.work if name in here else inside.inputs) / name
            if not source.path.is_dir():
                inputs[name] /= source.path.name
            if name not in copied:
                mounts.append(_Mount(source.path, inputs[name]))
        mounts += self._gpuforge(client, task)
        if task.action.network:
            mounts += [_Mount(*each) for each in fetch_settings.files(self._passed(task), inside.work)]
        for each in task.action.caches:
            folder = self._caches.get(each.name, self._cache / each.name)
            folder.mkdir(parents=True, exist_ok=True)
            mounts.append(_Mount(folder, _CACHES / each.name, writable=True))
        return mounts, Places(inside.work, inside.out, inputs)

    def _passed(self, task: Task) -> dict[str, str]:
        return {name: self._environ[name] for name in task.action.passes if name in self._environ}

    def _gpuforge(self, client: Any, task: Task) -> list[_Mount]:
        """Return the mounts of gpuforge itself, for an action that runs one of its steps."""
        if not any(s.in_image and s.path.is_relative_to(IN_IMAGE) for s in task.inputs.values()):
            return []
        image = self._images[task.action.image or ""]
        if image.id not in self._made:
            self._made[image.id] = image_venv.ensure(
                image.inventory, self._cache / "steps", lambda folder: _compile(client, image, folder)
            )
        minor = ".".join(image.inventory.steps_python().version.split(".")[:2])
        code = image_venv.site_packages(Path(IN_IMAGE), minor) / "gpuforge"
        return [_Mount(self._made[image.id], Path(IN_IMAGE)), _Mount(image_venv.CODE, code)]

    def _contain(
        self,
        client: Any,
        task: Task,
        argv: list[str],
        env: Mapping[str, str],
        mounts: list[_Mount],
        places: Places,
    ) -> int:
        """Run the command in a container, which is gone afterwards; return its status (negative: a signal)."""
        image = self._images[task.action.image or ""]
        where = [f"in a container of image {image.name} ({image.id})"]
        where += [f"  {'writes' if m.writable else 'reads'} {m.target}: {m.source}" for m in mounts]
        with task.log.open("wb") as log:
            log.write(
                header(task.action, argv, env, places.work, where=where).encode(errors="surrogateescape")
            )
        container = self._create(client, task, argv, env, mounts, places)
        try:
            with engine.told(f"to run {task.action.id}"):
                status = self._follow(container, task)
            return self._judge(container, task, argv[0], status)
        finally:
            with self._guard:
                self._running.pop(container.id, None)
            with suppress(engine.DockerException, OSError):
                container.remove(force=True, v=True)

    def _create(
        self,
        client: Any,
        task: Task,
        argv: list[str],
        env: Mapping[str, str],
        mounts: list[_Mount],
        places: Places,
    ) -> Any:
        options = _shut_in() | {"network_mode": "host" if task.action.network else "none"}
        options["log_config"] = {"type": "none"}  # what it says is read as it comes
        options["init"] = True  # hands signals on, and reaps what nobody waits for
        if task.action.gpu:
            options["device_requests"] = [engine.every_gpu()]
        limits = self._limits
        try:
            with engine.told(f"to make a container for {task.action.id}"):
                return client.containers.create(
                    task.action.image,
                    entrypoint=argv[:1],
                    command=argv[1:],
                    environment=dict(env),
                    working_dir=str(places.work),
                    **engine.caller(client),
                    labels=labels(task.action.id, self._limits.seconds),
                    mounts=_as_engine_mounts(mounts),
                    mem_limit=limits.memory,
                    nano_cpus=self._nano_cpus(client),
                    pids_limit=limits.pids,
                    **options,
                )
        except GpuforgeError as error:
            if isinstance(error.__cause__, engine.ImageNotFound):
                name = self._images[task.action.image or ""].name
                raise MissingError.of(
                    f"image {name} is no longer there", hint=f"run gpuforge images build {name}, then again"
                ) from error
            raise

    def _nano_cpus(self, client: Any) -> int | None:
        """Return the most processor time of a container; None for no limit, also where the engine would refuse one.

        An engine without root has the controller for it only where the system hands it down, which few do.
        """
        if not self._limits.cpus:
            return None
        info = client.info()
        return int(min(self._limits.cpus, info["NCPU"]) * 1e9) if info.get("CpuCfsQuota", True) else None

    def _follow(self, container: Any, task: Task) -> int:
        """Run a container to its end, with its output in the log; return its status as the engine says it."""
        with closing(container.attach(stdout=True, stderr=True, stream=True)) as output:
            return self._listen(container, task, output)

    def _listen(self, container: Any, task: Task, output: Iterable[bytes]) -> int:
        with self._guard:  # so that `cancel` sees either no container, or one that it can signal
            if self._cancelled.is_set():
                return 128 + signal.SIGTERM
            self._running[container.id] = container
            container.start()
        expired = threading.Event()

        def end() -> None:
            expired.set()
            with suppress(engine.DockerException, GpuforgeError, OSError), closing(self._connect()) as client:
                client.containers.get(container.id).kill()

        timer = threading.Timer(self._limits.seconds, end)
        timer.daemon = True
        timer.start()
        try:
            with task.log.open("ab", buffering=0) as log:
                for chunk in output:
                    log.write(chunk)
            status = int(container.wait()["StatusCode"])
            container.reload()
        except engine.NotFound:  # `docker rm -f` kills it, and removes it
            status = 128 + signal.SIGKILL
        finally:
            timer.cancel()
        if expired.is_set():
            hours = self._limits.seconds / 3600
            raise ActionError.of(
                f"{task.action.id} ran longer than {hours:g} h and was stopped", hint="--timeout allows more"
            )
        return status

    def _judge(self, container: Any, task: Task, program: str, status: int) -> int:
        """Return a container's status (negative: a signal); raises what is told of one that did not end by itself."""
        if not status or self._cancelled.is_set():
            return _signed(status)
        name = self._images[task.action.image or ""].name
        if why := engine.not_started("".join(failure.tail(task.log)[-1:])):
            raise MissingError.of(
                f"{task.action.id} cannot be started in image {name}: {program} failed: {why}",
                hint=f"gpuforge images check {name} says what it lacks",
            )
        if container.attrs["State"].get("OOMKilled"):
            raise ActionError.of(
                f"{task.action.id} needed more memory than its container has",
                hint="try a smaller --jobs, or allow more by --memory",
            )
        if -_signed(status) in _FROM_OUTSIDE:
            # Podman does not always know that its container had too little memory.
            hint = f"{_AGAIN}; if memory ran out, try a smaller --jobs"
            limited = ", or allow more by --memory" if self._limits.memory else ""
            message = (
                f"{task.action.id} was ended by {signal.Signals(-_signed(status)).name}, not by gpuforge"
            )
            raise ActionError.of(message, hint=hint + limited)
        return _signed(status)


def _signed(status: int) -> int:
    """Return a container's status as a process's: a signal that ended it as a negative number."""
    return 128 - status if 128 < status <= 128 + signal.SIGRTMAX else status


def _compile(client: Any, image: ContainerImage, folder: Path) -> None:
    """Compile the packages of a new environment by the Python that will run them."""
    command = [str(IN_IMAGE / "bin" / "python"), "-I", "-m", "compileall", "-q", str(IN_IMAGE / "lib")]
    with engine.told(f"to run image {image.name}"):
        engine.run_once(
            client,
            image.id,
            entrypoint=command,
            command=[],
            labels=labels(),
            **engine.caller(client),
            **_shut_in(),
            mounts=_as_engine_mounts([_Mount(folder, Path(IN_IMAGE), writable=True)]),
        )


def _shut_in() -> dict[str, Any]:
    """Return the options of every container: no way out, no rights beyond a plain user's."""
    return {
        "network_mode": "none",
        "cap_drop": ["ALL"],
        # What is mounted has this machine's SELinux labels, which a container's own would forbid to read.
        "security_opt": ["no-new-privileges", "label=disable"],
    }


def _as_engine_mounts(mounts: list[_Mount]) -> list[dict[str, Any]]:
    """Return mounts in the words of the engine's API, outer folders first."""
    return [
        {
            "Type": "bind",
            "Source": str(mount.source.absolute()),
            "Target": str(mount.target),
            "ReadOnly": not mount.writable,
        }
        for mount in sorted(mounts, key=lambda m: len(m.target.parts))
    ]
