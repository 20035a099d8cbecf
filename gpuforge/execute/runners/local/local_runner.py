"""Runs actions as processes of this machine, without a limit except on time."""

import errno
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from gpuforge import private_mounts
from gpuforge.errors import ActionError, MissingError
from gpuforge.execute import workdir
from gpuforge.execute.action_log import header
from gpuforge.execute.runners.local.kept_command import End, Keepers, KeptCommand
from gpuforge.execute.runners.runner import GRACE, Activity, Exit, Limits, Task, of_terminal
from gpuforge.execute.substitution import RunPaths, fill, write_request
from gpuforge.plan import programs
from gpuforge.plan.action import Action
from gpuforge.private_mounts import Overlay, can_lay


class LocalRunner:
    """Runs each action in a fixed working directory, in its own session, with exactly its environment.

    When the command has ended or its time is over, none of its processes runs any more (see `keeper`).

    `environ` has the variables that actions pass through. `root` has the working directories (default: see
    `workdir.root`), in a folder for each `project`.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str] | None = None,
        root: Path | None = None,
        project: str = "",
        grace: float = GRACE,
        limits: Limits | None = None,
        failed: Path | None = None,
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._root = root
        self._project = project
        self._activity = Activity(self._signal, grace)
        self.stop, self.cancel, self.kill = self._activity.stop, self._activity.cancel, self._activity.kill
        self._limits = limits or Limits()
        self._failed = failed
        self._commands: dict[str, KeptCommand] = {}  # by action, under the activity's guard

    def prepare(self, actions: Sequence[Action]) -> None:
        """Start the program that starts commands, and import into it the steps that will run."""
        if actions:
            Keepers.of_this_process().prepare(dict.fromkeys(m for each in actions for m in _modules(each)))

    def run(self, task: Task) -> Exit:
        """Run a task to its end; see `Runner.run`."""
        action, begin = task.action, time.monotonic()
        with self._activity.task(task), self._workplace(task) as places:
            if places is None:
                return Exit(-signal.SIGTERM, time.monotonic() - begin, cancelled=True)
            argv, env, request, overlays = self._prepared(task, places)
            if any("\0" in word for word in (*argv, *env, *env.values())):
                message = (
                    f"{action.id} cannot be started: embedded null byte in its command line or environment"
                )
                raise ActionError.of(message)
            begin = time.monotonic()
            head = header(action, argv, env, places.work, request=request)
            task.log.write_bytes(head.encode(errors="surrogateescape"))
            with self._activity.guard:  # so that `cancel` finds either no process, or one that it can signal
                if task.stop.is_set():
                    return Exit(-signal.SIGTERM, time.monotonic() - begin, cancelled=True)
                with task.log.open("ab", buffering=0) as log:
                    command = Keepers.of_this_process().start(
                        argv,
                        env,
                        places.work,
                        log,
                        self._limits.seconds,
                        step=_step(action),
                        overlays=overlays,
                    )
                self._commands[action.id] = command
            try:
                end = command.wait()
            finally:
                with self._activity.guard:
                    del self._commands[action.id]
            if task.stop.is_set():
                status = end.status if end.status is not None else -signal.SIGKILL
            else:
                status = self._judge(action, argv, env, end)
            kept = workdir.keep(places.work, self._failed, action.id) if status else None
        return Exit(status, time.monotonic() - begin, task.stop.is_set() and status != 0, kept, end.memory)

    def enter(self, task: Task, words: Sequence[str], failed: Path) -> int:
        """Run other words where a task's command would run, on the caller's terminal; see `Runner.enter`."""
        with self._workplace(task) as places:
            if places is None:
                return -signal.SIGTERM
            argv, env, _, overlays = self._prepared(task, places)
            with workdir.brought_back(places.work, failed, task.action.id):
                env |= of_terminal(argv, self._environ)
                lay = partial(private_mounts.lay, overlays) if overlays else None
                return subprocess.run(words, cwd=places.work, env=env, check=False, preexec_fn=lay).returncode

    def _prepared(self, task: Task, places: RunPaths) -> tuple[list[str], dict[str, str], str, list[Overlay]]:
        """Fill the working directory; return the command, its environment, the text of its request, and overlays.

        Inputs that are laid there are overlays, so that large ones need no copy, where the system allows this.
        """
        action = task.action
        argv, env = fill(action, places)
        overlays = []
        changes = workdir.WorkPaths.of(places.work).changes
        for name in (*action.staged, *action.laid):
            given = task.inputs[name]
            is_folder = given.members is None and given.path.is_dir()
            if name in action.laid and is_folder and can_lay(given.path.resolve(), places.work.parent):
                (places.work / name).mkdir(parents=True)
                overlays.append(
                    Overlay(str(given.path.resolve()), str(changes / name), str(places.work / name))
                )
            else:
                workdir.stage(given, places.work / name)
        env |= task.job_variables()
        env |= {n: self._environ[n] for n in action.passes if n in self._environ}
        return argv, env, write_request(action, places, places.work), overlays

    def _signal(self, number: signal.Signals, actions: Collection[str]) -> None:
        with self._activity.guard:
            for command in (self._commands[name] for name in actions if name in self._commands):
                command.kill() if number == signal.SIGKILL else command.stop()

    @contextmanager
    def _workplace(self, task: Task) -> Iterator[RunPaths | None]:
        """Give the action its working directory, empty, and remove it in the end; None if it was stopped before.

        Input folders and the outputs' folder have other paths on every machine. They get links with fixed names beside
        it, because compilers write the paths of inputs into outputs.
        """
        if self._root is None:
            self._root = workdir.project_folder(workdir.root(self._environ), self._project)
        paths = workdir.WorkPaths.below(self._root, task.action.place or task.action.id)
        with workdir.claimed(paths, task.stop) as is_claimed:
            if not is_claimed:
                yield None
                return
            paths.out.symlink_to(task.out.absolute())
            paths.inputs.mkdir()
            inputs = {name: _linked(source.path, paths.inputs / name) for name, source in task.inputs.items()}
            yield RunPaths(paths.work, paths.out, inputs)

    def _judge(self, action: Action, argv: list[str], env: Mapping[str, str], end: End) -> int:
        """Return the command's status; raises if something else ended it."""
        if end.error:
            raise _not_started(action, argv, env, end.error)
        if end.is_late:
            raise self._limits.exceeded(action.id)
        if end.left:
            processes = f"{end.left} processes" if end.left > 1 else "a process"
            raise ActionError.of(
                f"{action.id} left {processes} that cannot be stopped",
                hint="`ps -eo pid,stat,wchan,args` shows what they wait for (state D: the kernel, often a file system)",
            )
        if end.status is None:
            raise ActionError.of(
                f"{action.id} was ended by something else than gpuforge",
                hint="its processes may still run; run the same command again: finished work is kept",
            )
        return end.status


def _step(action: Action) -> str:
    """Return the module of gpuforge that an action runs with gpuforge's own Python, "" for any other command."""
    return action.argv[3] if action.argv[:3] == ("${in:gpuforge}", "-I", "-m") else ""


def _modules(action: Action) -> list[str]:
    """Return the modules of gpuforge that an action's work imports."""
    own = [_step(action)] if _step(action) else []
    return [*own, *(programs.modules_of(type(action.step)) if action.step else ())]


def _linked(path: Path, link: Path) -> Path:
    """Return a link to a folder; a file keeps its own path, from which programs derive where they are installed."""
    if not path.is_dir():
        return path
    link.symlink_to(path.absolute())
    return link


def _not_started(
    action: Action, argv: list[str], env: Mapping[str, str], error: int
) -> ActionError | MissingError:
    program = argv[0]
    if error == errno.EACCES:
        message = f"{action.id} cannot be started: {program} may not be executed"
        return ActionError.of(message, hint=f"check the permissions of {program} (is it a program?)")
    if error not in {errno.ENOENT, errno.ENOTDIR}:
        return ActionError.of(f"{action.id} cannot be started: {program}: {os.strerror(error)}")
    if "/" in program and Path(program).exists():
        message = f"{action.id} cannot be started: the interpreter that {program} names is not there"
        return MissingError.of(message, hint=f"look at the first line of {program}")
    message = f"{action.id} cannot be started: {program} is not there"
    where = "" if "/" in program else f" (its PATH is {env.get('PATH') or 'empty'})"
    return MissingError.of(message, hint=f"install {program} or correct the path to it{where}")
