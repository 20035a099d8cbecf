"""The errors that gpuforge raises; the command line turns each into its exit code, in one place."""

from collections.abc import Iterable
from typing import ClassVar, Self

from gpuforge.diagnostics import Diagnostic, Place


class GpuforgeError(Exception):
    """A failure that a user can do something about; carries one diagnostic or more."""

    exit_code: ClassVar[int] = 1

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("\n".join(str(d) for d in diagnostics))
        self.diagnostics = diagnostics

    @classmethod
    def of(cls, message: str, *, hint: str = "", place: Place | None = None) -> Self:
        """Make the error for a single problem."""
        return cls(Diagnostic(message, place, hint))

    @classmethod
    def all_of(cls, diagnostics: Iterable[Diagnostic]) -> Self:
        """Make one error that reports every problem found."""
        return cls(*diagnostics)


class ActionError(GpuforgeError):
    """Some work failed: a build, a download that arrived broken, a wheel that cannot be repaired (exit 1)."""


class UsageError(GpuforgeError):
    """The call or the manifest is wrong (exit 2)."""

    exit_code = 2


class MissingError(GpuforgeError):
    """Something is missing on this machine: compiler, toolkit, engine, network (exit 3)."""

    exit_code = 3


class MalformedError(ActionError):
    """Bytes that contradict their own headers, or that would take all memory or time to read."""


class CorruptError(MalformedError):
    """A file that cannot be unpacked from its archive: no installer can do it either."""


class TooLargeError(ActionError):
    """A file that would take all memory or time to judge; not malformed, so that no reader goes on without a part."""
