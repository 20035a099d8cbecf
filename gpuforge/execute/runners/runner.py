"""The port to a runner of actions: on this machine, in a container, in a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpuforge.errors import ActionError
from gpuforge.plan.action import Action


@dataclass(frozen=True, slots=True)
class InputPath:
    """Where an input lies: on this machine or, with `in_image`, in the action's image.

    With `members`, only these files of it are staged.
    """

    path: Path
    members: tuple[str, ...] | None = None
    in_image: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """An action with its paths: `out` is an existing empty folder, outputs go to `out/NAME`.

    `jobs` is how many processes it should run in parallel, if it runs several.
    """

    action: Action
    inputs: Mapping[str, InputPath]
    out: Path
    log: Path = field(default=Path("/dev/null"))
    jobs: int = 1

    def job_variables(self) -> dict[str, str]:
        """Return the variables with a build's number of jobs, except those that the manifest sets.

        CMake and torch's extension builder read them; no result depends on them, so they are in no key.
        """
        names = ("CMAKE_BUILD_PARALLEL_LEVEL", "MAX_JOBS") if self.action.parallel else ()
        return {name: str(self.jobs) for name in names if name not in self.action.env}


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended: its exit status (negative: the number of the signal that ended it) and time.

    `kept` is the folder to which a failed one's working directory was moved.
    """

    status: int
    seconds: float
    cancelled: bool = False
    kept: Path | None = None


@dataclass(frozen=True, slots=True)
class Limits:
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


class Runner(Protocol):
    """Runs tasks, several at once from several threads. Output of the commands goes to the task's log."""

    def prepare(self, actions: Sequence[Action]) -> None:
        """Get ready for actions that will run."""

    def run(self, task: Task) -> Exit:
        """Run a task to its end.

        Raises GpuforgeError when it cannot be started and OSError when the machine fails (a full disk).
        """

    def cancel(self) -> None:
        """Ask running commands to stop, kill those that do not, start nothing more; return when none runs."""

    def kill(self) -> None:
        """Stop everything at once, by force, and start nothing more."""
