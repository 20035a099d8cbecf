"""Runs actions as processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from gpuforge.errors import ActionError, MissingError
from gpuforge.execute import workdir
from gpuforge.execute.runners.activity import GRACE, Activity
from gpuforge.execute.runners.local.watchdog import Watchdog
from gpuforge.execute.runners.log_header import header
from gpuforge.execute.runners.runner import Exit, Task
from gpuforge.execute.substitution import Places, fill, laid, staged, write_request
from gpuforge.plan.action import Action


class _CancelledError(Exception):
    """The run ended before its command was started."""


class LocalRunner:
    """Runs each action in a fixed working directory, in its own process group, with exactly its environment.

    `environ` is where the variables that actions pass through come from; `root` holds the working directories
    (default: see `workdir.root`), below it those of one `project`.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str] | None = None,
        root: Path | None = None,
        project: str = "",
        grace: float = GRACE,
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._root = root
        self._project = project
        self._activity = Activity(self._signal, grace)
        self._groups: set[int] = set()  # of processes; under the activity's guard, as the next
        self._watchdog: Watchdog | None = None

    def run(self, task: Task) -> Exit:
        """Run a task to its end; see `Runner.run`."""
        begin = time.monotonic()
        try:
            with self._activity.task(), self._workplace(task) as places:
                argv, env = fill(task.action, places)
                for name in (*staged(task.action), *laid(task.action)):
                    workdir.stage(task.inputs[name], places.work / name)
                request = write_request(task.action, places, places.work)
                env |= task.job_variables()
                env |= {n: self._environ[n] for n in task.action.passes if n in self._environ}
                begin = time.monotonic()
                status = self._execute(task, argv, env, places.work, request)
        except _CancelledError:
            return Exit(-signal.SIGTERM, time.monotonic() - begin, cancelled=True)
        return Exit(
            status, time.monotonic() - begin, cancelled=self._activity.cancelled.is_set() and status != 0
        )

    def cancel(self) -> None:
        """Stop everything: by SIGTERM, after a grace time by SIGKILL; returns when nothing runs any more."""
        self._activity.cancel()

    def kill(self) -> None:
        """Stop everything by SIGKILL, at once."""
        self._activity.kill()

    def _signal(self, number: signal.Signals) -> None:
        with self._activity.guard:
            for group in self._groups:
                with suppress(ProcessLookupError):
                    os.killpg(group, number)

    @contextmanager
    def _workplace(self, task: Task) -> Iterator[Places]:
        """Give the action its working directory, empty, and remove it in the end.

        Folders that are read and the outputs' folder, which lie elsewhere on every machine, get fixed names
        beside it, as links: compilers write the paths of what they read into what they make.
        """
        if self._root is None:
            self._root = workdir.root(self._environ) / self._project
            self._root.mkdir(exist_ok=True)
        paths = workdir.WorkPaths.below(self._root, task.action.place or task.action.id)
        with workdir.claimed(paths, self._activity.cancelled) as is_claimed:
            if not is_claimed:
                raise _CancelledError
            paths.out.symlink_to(task.out.absolute())
            paths.inputs.mkdir()
            inputs = {name: _linked(source.path, paths.inputs / name) for name, source in task.inputs.items()}
            yield Places(paths.work, paths.out, inputs)

    def _execute(self, task: Task, argv: list[str], env: dict[str, str], work: Path, request: str) -> int:
        with task.log.open("wb") as log:
            log.write(header(task.action, argv, env, work, request=request).encode(errors="surrogateescape"))
        with task.log.open("ab", buffering=0) as log:
            process = self._start(task.action, argv, env, work, log)
            try:
                # The group is cleared before its leader is reaped: until then nobody else can get its number.
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            finally:
                self._finish(process)
        return process.returncode

    def _start(
        self, action: Action, argv: list[str], env: dict[str, str], work: Path, log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        with self._activity.guard:  # so that `cancel` sees either no process, or one that it can signal
            if self._activity.cancelled.is_set():
                raise _CancelledError
            if self._watchdog is None:
                self._watchdog = Watchdog()
                weakref.finalize(self, self._watchdog.close)
            try:
                process = subprocess.Popen(
                    argv,
                    cwd=work,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    umask=0o022,
                )
            except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
                raise _not_started(action, argv, env, error) from error
            except ValueError as error:  # a NUL byte in an argument or a variable
                message = f"{action.id} cannot be started: {error} in its command line or environment"
                raise ActionError.of(message) from error
            self._groups.add(process.pid)
            self._watchdog.watch(process.pid)
        return process

    def _finish(self, process: subprocess.Popen[bytes]) -> None:
        with self._activity.guard:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._groups.discard(process.pid)
            if self._watchdog:
                self._watchdog.forget(process.pid)


def _linked(path: Path, link: Path) -> Path:
    """Return a link to a folder; a file keeps its own path, by which programs know where they are installed."""
    if not path.is_dir():
        return path
    link.symlink_to(path.absolute())
    return link


def _not_started(
    action: Action, argv: list[str], env: Mapping[str, str], error: OSError
) -> ActionError | MissingError:
    program = argv[0]
    if isinstance(error, PermissionError):
        message = f"{action.id} cannot be started: {program} may not be executed"
        return ActionError.of(message, hint=f"check the permissions of {program} (is it a program?)")
    if "/" in program and Path(program).exists():
        message = f"{action.id} cannot be started: the interpreter that {program} names is not there"
        return MissingError.of(message, hint=f"look at the first line of {program}")
    message = f"{action.id} cannot be started: {program} is not there"
    where = "" if "/" in program else f" (its PATH is {env.get('PATH') or 'empty'})"
    return MissingError.of(message, hint=f"install {program} or correct the path to it{where}")
