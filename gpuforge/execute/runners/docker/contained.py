"""One action's container, from its creation to its removal: its output goes to the log, its exit becomes a result."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass

from gpuforge.containers.container import Container, ContainerEnd, Containers, ContainerSpec
from gpuforge.containers.engine import engine_errors, not_started
from gpuforge.errors import ActionError, GpuforgeError, MissingError
from gpuforge.execute import failure
from gpuforge.execute.runners.runner import Activity, Limits, Task

# Signals of `docker stop`, `docker kill`, or of the kernel when memory ran out.
_FROM_OUTSIDE = {signal.SIGINT, signal.SIGTERM, signal.SIGKILL}
MOST_PRINTED = 2 * 10**9  # bytes of a log; the largest builds print 100 MB
_AGAIN = "run the same command again: finished work is kept"


@dataclass(frozen=True, slots=True)
class Contained:
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
        if why := not_started("".join(failure.tail(self.task.log)[-1:])):
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
