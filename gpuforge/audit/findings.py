"""Findings of an audit with their subjects, and accepted findings. Data only."""

from typing import Literal, NamedTuple

from gpuforge.audit.model import Compilers
from gpuforge.audit.route import Route

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
# What an audit proves something about: a finding may contradict it.
Topic = Literal[
    "providers",
    "requirements",
    "GPU code",
    "platform",
    "host-only",
    "kernel sets",
    "sources",
    "stable ABI",
    "against",
    "beside",
]


class PatternOf(NamedTuple):
    """A pattern of files, and the object of the manifest that has it."""

    pattern: str
    object: str


Table = tuple[tuple[str, str | int], ...]  # of rows
Fact = str | int | tuple[str, ...] | Table
Facts = tuple[tuple[str, Fact], ...]  # names and values, in their order


def facts_of(**values: Fact) -> Facts:
    """Return the facts that a subject's detail is filled with, each under its name; sizes are in bytes."""
    return tuple(values.items())


class Subject(NamedTuple):
    """One thing that a finding is about.

    `file`, `library`, `item`, `kind` and `about` identify it in baselines, with each file of `needed_by` and each of
    `names`; the other fields may be reworded. `audit.report.sentences` makes a line of text from it.
    """

    file: str = ""  # a member of the wheel
    library: str = ""  # a library: its SONAME where it is NEEDED, its file where it is loaded
    # what in the file: an architecture, a platform tag, a CUDA version, a search path; a `PatternOf` and `Compilers`
    # have their fields in `about`, too
    item: str | Route | PatternOf | Compilers = ""
    provider: str = ""  # the package or the file that has the library
    # what else is known about it: a template that `audit.report.detail` fills with facts, the provider and `about`
    detail: str = ""
    facts: Facts = ()
    kind: str = ""  # the problem: a constant word that no text shows, without names or numbers
    # what the problem is about, and the detail has in words: a package, an architecture
    about: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # what the detail lists: symbols, versions, files
    needed_by: tuple[str, ...] = ()
    loaded_by: tuple[str, ...] = ()
    imported_by: tuple[str, ...] = ()  # the packages whose import loads the library
    routes: tuple[Route, ...] = ()  # the search path that leads to the library; of several, in their order
    wheel: str = (
        ""  # the one that its file, or what loads it, belongs to; kept where several wheels make the finding
    )


class Finding(NamedTuple):
    """One cause, and everything that it is true of: `subjects` differ by file.

    `what` is the fact and `why` what breaks for users, each in one sentence. `fix` is a command or a line to add.
    """

    code: str
    severity: Severity
    wheel: str
    files: tuple[str, ...]
    subjects: tuple[Subject, ...]
    what: str
    why: str
    fix: str
    # with the code and the severity, all that its sentences depend on: findings of one cause are joined
    cause: tuple[object, ...] = ()
    across: bool = False  # it is true of several of the wheels together, and of none alone
    beside: str = ""  # the requirement that it is true beside of, if it is not true without it

    @property
    def file(self) -> str:
        """The first of its files; "" when it is about the wheel as a whole."""
        return self.files[0] if self.files else ""

    @property
    def message(self) -> str:
        """The cause as reports have it: what, and why it breaks."""
        beside = f"beside {self.beside}:" if self.beside else ""
        return " ".join(filter(None, (beside, self.what, self.why)))

    @property
    def remedy(self) -> str:
        """The fix, by the name that reports have for it."""
        return self.fix


class Ignored(NamedTuple):
    """A finding that was accepted, and why."""

    finding: Finding
    reason: str
