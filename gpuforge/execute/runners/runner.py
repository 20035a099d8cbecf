"""The port to a runner of actions: on this machine, in a container, in a cluster."""

import shlex
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from gpuforge.errors import ActionError
from gpuforge.plan.action import Action

GRACE = 5.0  # seconds between asking a process to stop and stopping it


class InputPath(NamedTuple):
    """Where an input lies: on this machine or, with `in_image`, in the action's image.

    With `members`, only these files of it are staged.
    """

    path: Path
    members: tuple[str, ...] | None = None
    in_image: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """An action with its paths: `out` is an existing empty folder, outputs go to `out/NAME`.

    `jobs` is how many processes it should run in parallel, if it runs several. Once `stop` is set, it is not started.
    """

    action: Action
    inputs: Mapping[str, InputPath]
    out: Path
    log: Path = field(default=Path("/dev/null"))
    jobs: int = 1
    stop: threading.Event = field(default_factory=threading.Event)

    def job_variables(self) -> dict[str, str]:
        """Return the variables with a build's number of jobs, except those that the manifest sets.

        CMake and torch's extension builder read them; no result depends on them, so they are in no key.
        """
        names = ("CMAKE_BUILD_PARALLEL_LEVEL", "MAX_JOBS") if self.action.parallel else ()
        return {name: str(self.jobs) for name in names if name not in self.action.env}


class Exit(NamedTuple):
    """How a command ended: its exit status (negative: the number of the signal that ended it) and time.

    `kept` is the folder to which a failed one's working directory was moved; `memory` the most bytes that one of its
    processes took, 0 if that is not known.
    """

    status: int
    seconds: float
    cancelled: bool = False
    kept: Path | None = None
    memory: int = 0


class Limits(NamedTuple):
    """The limits of one action: `seconds` everywhere; `memory` in bytes, `cpus`, `pids` (processes) in a container."""

    memory: int | None = None
    cpus: float | None = None
    pids: int = 8192
    seconds: float = 6 * 3600

    def exceeded(self, action: str) -> ActionError:
        """Return the error of an action whose time was over."""
        return ActionError.of(
            f"{action} ran longer than {self.seconds / 3600:g} h and was stopped",
            hint="--timeout allows more",
        )


def of_terminal(argv: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a shell gets beside those of an action: the terminal's, and the action's command."""
    found = {name: environ[name] for name in ("TERM", "COLORTERM") if name in environ}
    return found | {"GPUFORGE_COMMAND": shlex.join(argv)}


class Runner(Protocol):
    """Runs tasks, several at once from several threads. Output of the commands goes to the task's log."""

    def prepare(self, actions: Sequence[Action]) -> None:
        """Get ready for actions that will run."""

    def run(self, task: Task) -> Exit:
        """Run a task to its end.

        Raises GpuforgeError when it cannot be started and OSError when the machine fails (a full disk).
        """

    def enter(self, task: Task, words: Sequence[str], failed: Path) -> int:
        """Run other words where a task's command would run, with its environment, on the caller's terminal.

        What a failed run left in the folder `failed` is brought back before, and taken there again afterwards. Returns
        the exit status.
        """

    def stop(self, action: str) -> None:
        """Ask the command of one action to stop, and kill it if it does not; its task has `stop` set."""

    def cancel(self) -> None:
        """Ask running commands to stop, kill those that do not, start nothing more; return when none runs."""

    def kill(self) -> None:
        """Stop everything at once, by force, and start nothing more."""


class Activity:
    """The running tasks of a runner, and how they are stopped: the same for every runner of this machine.

    `send` sends a signal to the commands of some actions; `guard` is the lock of a runner's own notes.
    """

    def __init__(self, send: Callable[[signal.Signals, Collection[str]], None], grace: float) -> None:
        self.guard = threading.Condition()
        self._send = send
        self._grace = grace
        self._is_over = False
        self._running: dict[str, threading.Event] = {}  # by action: what tells it to stop

    @contextmanager
    def task(self, task: Task) -> Iterator[None]:
        """Count a task as running during the `with`."""
        with self.guard:
            self._running[task.action.id] = task.stop
            if self._is_over:
                task.stop.set()
        try:
            yield
        finally:
            with self.guard:
                del self._running[task.action.id]
                self.guard.notify_all()

    def stop(self, action: str) -> None:
        """Stop one action: by SIGTERM, after a grace time by SIGKILL."""
        with self.guard:
            running = self._running.get(action)

        def kill() -> None:
            if self._running.get(action) is running:
                self._send(signal.SIGKILL, [action])

        if running:
            self._send(signal.SIGTERM, [action])
            timer = threading.Timer(self._grace, kill)
            timer.daemon = True
            timer.start()

    def cancel(self) -> None:
        """Stop everything: by SIGTERM, after a grace time by SIGKILL; returns when nothing runs any more."""
        self._stop_all(signal.SIGTERM)
        if not self._quiet():
            self.kill()

    def kill(self) -> None:
        """Stop everything by SIGKILL, at once."""
        self._stop_all(signal.SIGKILL)
        self._quiet()

    def _stop_all(self, number: signal.Signals) -> None:
        with self.guard:
            self._is_over = True
            for stop in self._running.values():
                stop.set()
            running = [*self._running]
        self._send(number, running)

    def _quiet(self) -> bool:
        with self.guard:
            return self.guard.wait_for(lambda: not self._running, timeout=self._grace)
