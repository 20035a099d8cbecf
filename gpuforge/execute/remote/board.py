"""What client and worker write for each other about one job: small objects beside the store.

They are gone after the job; `taken`, which says who has it, when the run is over. `beat` changes for as long as the
worker has the job, `log-N` is a piece of its output, `end` how it ended; the client's are `kill` and, for all jobs of a
run, `client`, which changes for as long as it wants their results.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from uuid import uuid4

from pydantic import TypeAdapter

from gpuforge.execute.locks import file_name
from gpuforge.execute.objects.port import Objects, ObjectsError
from gpuforge.execute.outcome import ActionResult

End = Literal["ended", "unfit"]  # the work has a result; this worker cannot do it, another perhaps can


@dataclass(frozen=True, slots=True)
class _End:
    how: End
    result: ActionResult


class Board:
    """The objects of one job."""

    def __init__(self, objects: Objects, run: str, job: str) -> None:
        self._objects = objects
        self._run = f"runs/{run}"
        self._job = f"{self._run}/{file_name(job)}"

    def take(self, worker: str) -> bool:
        """Note which worker has the job; False where one had it before, and may still have."""
        name, text = f"{self._job}/taken", f"{uuid4().hex} {worker}".encode()
        return self._objects.create(name, text) or self._objects.read(name) == text

    def taken_by(self) -> str:
        """Return the worker that has the job; "" for none."""
        text = self._objects.read(f"{self._job}/taken") or b""
        return text.decode(errors="replace").partition(" ")[2]

    def beat(self, count: int) -> None:
        """Let the client see that the worker is there."""
        self._objects.put(f"{self._job}/beat", str(count).encode())

    def beaten(self) -> bytes | None:
        """Return what the worker last wrote to show that it is there."""
        return self._objects.read(f"{self._job}/beat")

    def client(self) -> bytes | None:
        """Return what the client last wrote to show that it is there."""
        return self._objects.read(f"{self._run}/client")

    def kill(self) -> None:
        """Tell the worker to stop."""
        self._objects.put(f"{self._job}/kill", b"")

    def is_killed(self) -> bool:
        """Return whether the client wants the job to stop."""
        return self._objects.read(f"{self._job}/kill") is not None

    def log(self, number: int, text: bytes) -> None:
        """Hand on a piece of the log, the first by number 0."""
        self._objects.put(f"{self._job}/log-{number:08}", text)

    def logged(self, start: int) -> Iterator[bytes]:
        """Yield the pieces of the log that are there, in order, from one on."""
        while (text := self._objects.read(f"{self._job}/log-{start:08}")) is not None:
            yield text
            start += 1

    def keep(self, archive: Path) -> None:
        """Hand on the working directory of an action that failed."""
        self._objects.upload(archive, f"{self._job}/kept")

    def fetch_kept(self, archive: Path, most: int) -> bool:
        """Fetch what `keep` handed on; False where it is not there."""
        return self._objects.download(f"{self._job}/kept", archive, most)

    def end(self, how: End, result: ActionResult) -> None:
        """Write down how the job ended; nothing is written to its log after it."""
        data = TypeAdapter(_End).dump_python(_End(how, replace(result, log=None)), mode="json")
        text = json.dumps(data, ensure_ascii=False).encode(errors="replace")  # names of files may be no UTF-8
        self._objects.put(f"{self._job}/end", text)

    def ended(self, action: str) -> tuple[End, ActionResult] | None:
        """Return how the job of an action ended, None as long as it has not.

        Raises ObjectsError for what no worker writes.
        """
        data = self._objects.read(f"{self._job}/end")
        if data is None:
            return None
        try:
            end = TypeAdapter(_End).validate_json(data, strict=True)
            if end.result.id != action or not math.isfinite(end.result.seconds):
                msg = "it is not the end of this job"
                raise ValueError(msg)
        except ValueError as error:
            message = (
                f"what a worker wrote to {self._objects.url} about the end of {self._job} cannot be read"
            )
            raise ObjectsError.of(f"{message}: {error}", hint="run the same command again") from error
        return end.how, replace(end.result, log=None)

    def close(self) -> None:
        """Remove what is written about the job, but for who took it: a worker that gets it again leaves it alone."""
        for name in self._objects.names(f"{self._job}/"):
            if name != f"{self._job}/taken":
                self._objects.remove(name)

    def clear(self) -> None:
        """Remove all that is written about the job."""
        for name in self._objects.names(f"{self._job}/"):
            self._objects.remove(name)


class Pulse:
    """Whether somebody is there: what they write changes. Only this machine's clock counts, and no other's."""

    def __init__(
        self, read: Callable[[], bytes | None], seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._seconds = seconds
        self._clock = clock
        self._last: bytes | None = None
        self._changed = clock()

    def is_there(self) -> bool:
        """Return whether there was a change within the last seconds; a store that cannot be read shows none."""
        try:
            now = self._read()
        except (OSError, ObjectsError):
            now = self._last
        if now != self._last:
            self._last, self._changed = now, self._clock()
        return self._clock() - self._changed < self._seconds
