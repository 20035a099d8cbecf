"""A kernel library: chooses between the user's own and the shipped ones, and opens it with local symbols."""

from __future__ import annotations

import os
from typing import NamedTuple

from .process import KernelUnavailable, UnknownKernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    import subprocess
    from collections.abc import Mapping
    from typing import Any

    from .driver import Probe
    from .values import Candidate, Reason

_HERE = os.path.dirname(os.path.abspath(__file__))


class LibraryFacts(NamedTuple):
    """What `explain` prints of a kernel library."""

    name: str
    candidates: tuple[Candidate, ...]
    problem: str = ""
    what: str = "library"

    def as_text(self) -> str:
        from .explain import table

        if self.problem:
            return f"kernel library {self.name}: cannot be used\n  {self.problem}"
        return "\n".join(
            [f"kernel {self.what} {self.name}", *(f"  {line}" for line in table(self.candidates))]
        )

    def as_data(self) -> dict[str, Any]:
        from .explain import candidates_data

        return {
            "name": self.name,
            "problem": self.problem,
            "candidates": [*candidates_data(self.candidates)],
        }


class KernelLibrary:
    """The library of one object of the manifest. Safe to use from several threads.

    The order is: the file that the environment names, the user's build, the wheel's fallbacks. Of these, libraries with
    code for the first GPU come first, then those for CPUs, the highest level that this CPU has. Without a `machine`, it
    is looked at when needed.
    """

    def __init__(
        self,
        name: str,
        *,
        home: str = _HERE,
        package: str = "",
        env: Mapping[str, str] | None = None,
        machine: Probe | None = None,
    ) -> None:
        import threading

        self.name = name
        self.machine = machine
        self.package = package
        self.home = os.fspath(home)
        self.env: Mapping[str, str] = os.environ if env is None else env
        self._lock = threading.Lock()
        self._opened: ctypes.CDLL | None = None
        self._failed: dict[str, Reason] = {}  # why a file could not be opened at the last attempt

    @classmethod
    def shipped(cls, name: str) -> KernelLibrary:
        """Return the library of that object beside this runtime. It reads nothing yet and never raises."""
        return cls(name, package=(__package__ or "").rpartition(".")[0])

    def load(self) -> ctypes.CDLL:
        """Open the first usable library and return it, the same one each time.

        No other library sees its symbols (RTLD_LOCAL). A warning has the reason if a file that the environment names,
        or the user's own build, cannot be used. Raises KernelUnavailable, with the reason of every place, if there is
        none, and UnknownKernel if the wheel has no library of this name.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def path(self) -> str:
        """Return the file that `load` has opened, for a program that opens it itself; raises KernelUnavailable."""
        return self.load()._name

    def candidates(self) -> tuple[Candidate, ...]:
        """Return every place that is looked in, in order; raises KernelUnavailable, UnknownKernel.

        After `load` a file that could not be opened is refused, with the loader's reason.
        """
        from .layout import Lookup
        from .libraries import candidates

        found = candidates(Lookup(self.name, self.home, self.package, self.env, self.machine))
        return tuple(
            c._replace(accepted=False, reason=self._failed[c.build.place])
            if c.accepted and c.build.place in self._failed
            else c
            for c in found
        )

    def explain(self) -> str:
        """Return for each place whether its library is used, fits or is refused, and why."""
        return self.facts().as_text()

    def facts(self) -> LibraryFacts:
        """Look for the library; raises nothing."""
        from .libraries import is_program

        try:
            found = self.candidates()
        except KernelUnavailable as error:
            return LibraryFacts(self.name, (), str(error))
        except UnknownKernel as error:  # without what there is, which `explain` lists anyway
            return LibraryFacts(self.name, (), str(error).partition(";")[0])
        judged = (*(c for c in found if c.accepted), *(c for c in found if not c.accepted))
        return LibraryFacts(
            self.name, judged, what="program" if is_program(self.home, self.name) else "library"
        )

    def _use(self, place: str) -> Any:
        """Open the file of a candidate; raises OSError."""
        import ctypes

        return ctypes.CDLL(place, mode=os.RTLD_NOW | os.RTLD_LOCAL)

    def _open(self) -> Any:
        import warnings

        from .values import Origin, Reason

        reasons = []
        self._failed = failed = {}  # a library has an image for each of several GPUs, and is opened once
        for candidate in self.candidates():
            reason: Reason = candidate.reason
            place = candidate.build.place
            if candidate.accepted and place not in failed:
                try:
                    return self._use(place)
                except OSError as error:
                    if not os.path.exists(place):  # `compile` has put another one in its place
                        return self._open()
                    failed[place] = Reason("not-opened", {"problem": str(error)})
            reason = failed.get(place, reason) if candidate.accepted else reason
            built = candidate.origin is Origin.USER_BUILD and reason.kind != "not-compiled"
            built &= bool(candidate.build.problem) or place in failed  # not one for another GPU
            if built or candidate.origin is Origin.EXPLICIT:
                warnings.warn(f"{self.name}: {reason}", RuntimeWarning, stacklevel=4)
            reasons.append(f"{candidate.label}: {reason}")
        raise KernelUnavailable(reasons)


class KernelProgram(KernelLibrary):
    """The program of one object of the manifest: found and judged as a library is, and run in its own process."""

    @classmethod
    def shipped(cls, name: str) -> KernelProgram:
        """Return the program of that object beside this runtime. It reads nothing yet and never raises."""
        return cls(name, package=(__package__ or "").rpartition(".")[0])

    def path(self) -> str:
        """Return the file of the first usable program; raises KernelUnavailable, with the reason of every place."""
        return str(self._open())

    def run(self, *arguments: str | os.PathLike[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run the program with `options` of subprocess.run; raises KernelUnavailable, OSError if it cannot be run."""
        import subprocess

        return subprocess.run([self.path(), *arguments], **options)  # noqa: PLW1510  the caller chooses

    def load(self) -> Any:
        """Raise TypeError: it is a program."""
        raise TypeError(f"{self.name} is a program: `run` runs it, and `path` names its file")

    def _use(self, place: str) -> str:
        if not os.access(place, os.X_OK):
            raise PermissionError(f"{place} is not executable")
        problem = start_problem(place, self.env)
        if problem:
            raise OSError(problem)
        return place


def start_problem(program: str, env: Mapping[str, str]) -> str:
    """Return why the loader would not start a program, "" if it would; the program itself is not run."""
    import subprocess
    from pathlib import Path

    from . import elf

    if not elf.read_dynamic(Path(program)).needed:  # a static program would run
        return ""
    env = {**env, "LD_TRACE_LOADED_OBJECTS": "1"}
    ended = subprocess.run([program], env=env, capture_output=True, text=True, errors="replace", check=False)
    lines = (ended.stdout + ended.stderr).strip().splitlines()
    missing = [line.split()[0] for line in lines if "not found" in line]
    return f"{', '.join(missing)} not found" if missing else lines[-1] if ended.returncode and lines else ""
