"""What is wrong, where, and what to do: the one shape of every message to a user."""

from typing import NamedTuple


class Place(NamedTuple):
    """A place in a file; `line` and `column` count from 1, and 0 means "the whole file"."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Write `file:line:column`, the form that editors and CI logs turn into a link."""
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


class Diagnostic(NamedTuple):
    """One problem: its cause in a sentence, its place if it has one, and the next step as `hint`."""

    message: str
    place: Place | None = None
    hint: str = ""

    def __str__(self) -> str:
        """Write `place: message`, then the hint on a line of its own."""
        head = f"{self.place}: {self.message}" if self.place else self.message
        return f"{head}\n  hint: {self.hint}" if self.hint else head
