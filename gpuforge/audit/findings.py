"""The findings of an audit, their subjects and the accepted findings, as values."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from gpuforge.audit.layout import Route
from gpuforge.audit.model import Compilers
from gpuforge.grouping import grouped

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


def at_least(severity: Severity) -> tuple[Severity, ...]:
    """Return the severities from the worst to this one."""
    return SEVERITIES[: SEVERITIES.index(severity) + 1]


# The topics of the audit's proofs: a finding may contradict one.
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


class GpuTrace(NamedTuple):
    """A trace of a GPU toolchain in a host-only file, or in a library of the wheel that the file loads."""

    name: str  # of the code, the compiler or the library; "" if the kind of the problem has it
    library: str = ""  # the library's file; "" for the file itself
    archs: tuple[str, ...] = ()  # of fatbin containers


Table = tuple[tuple[str, str | int], ...]  # of rows
Fact = str | int | tuple[str, ...] | Table
Facts = tuple[tuple[str, Fact], ...]  # names and values, in their order


def facts_of(**values: Fact) -> Facts:
    """Return the facts that fill a subject's detail, each under its name; sizes are in bytes."""
    return tuple(values.items())


class Subject(NamedTuple):
    """One thing that a finding is about.

    `file`, `library`, `item`, `kind` and `parts` identify it in baselines, with each file of `needed_by` and each of
    `names`; the other fields may be reworded. `audit.report.sentences` makes a line of text from it.
    """

    file: str = ""  # a member of the wheel
    library: str = ""  # a library: its SONAME if it is NEEDED, its file if it is loaded
    # the part of the file: an architecture, a platform tag, a CUDA version, a search path
    item: str | Route | PatternOf | Compilers | GpuTrace = ""
    provider: str = ""  # the package or the file that has the library
    # more facts: a template that `audit.report.detail` fills with facts, the provider and `parts`
    detail: str = ""
    facts: Facts = ()
    kind: str = ""  # the problem: a constant word that no text shows, without names or numbers
    # the package or the architecture of the problem; the detail has it in words
    about: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # the symbols, versions or files that the detail lists
    needed_by: tuple[str, ...] = ()
    loaded_by: tuple[str, ...] = ()
    imported_by: tuple[str, ...] = ()  # the packages whose import loads the library
    routes: tuple[Route, ...] = ()  # the search path that leads to the library; several in their order
    # the wheel of its file, or of the file that loads it; set if several wheels make the finding
    wheel: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The facts that tell it from others, as baselines and JSON have them: `about`, or the fields of its item."""
        match self.item:
            case PatternOf():
                return self.item
            case Compilers(_, version, tools):
                return (version, *tools)
            case GpuTrace(name, library, archs):
                return (name, library, *archs) if library or archs else (name,) if name else ()
        return self.about


class Finding(NamedTuple):
    """One cause and all its subjects, which differ by file.

    `what` is the fact and `why` what breaks for users, each in one sentence. `fix` is what to do about it, in one
    sentence for all files; `commands` do it file by file.
    """

    code: str
    severity: Severity
    wheel: str
    files: tuple[str, ...]
    subjects: tuple[Subject, ...]
    what: str
    why: str
    fix: str
    # the facts that its sentences depend on, beside code and severity: findings of one cause are joined
    cause: tuple[object, ...] = ()
    across: bool = False  # it is true of several wheels together, not of one alone
    beside: str = ""  # the requirement beside which it is true, if it is not true without
    commands: tuple[str, ...] = ()  # for a shell in the unpacked wheel
    project: str = ""  # of the wheel, as baselines have it; "" means the one in the wheel's name

    @property
    def file(self) -> str:
        """The first of its files; "" if it is about the whole wheel."""
        return self.files[0] if self.files else ""

    @property
    def message(self) -> str:
        """The cause as in reports: what, and why it breaks."""
        beside = f"beside {self.beside}:" if self.beside else ""
        return " ".join(filter(None, (beside, self.what, self.why)))


class Ignored(NamedTuple):
    """A finding that was accepted, and why."""

    finding: Finding
    reason: str


def by_cause(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Join findings of one rule, severity and cause, which differ in files and subjects; the worst come first."""
    groups = grouped(((f.code, f.severity, f.cause, f.across), f) for f in findings)
    joined = [
        group[0]._replace(
            files=tuple(dict.fromkeys(file for f in group for file in f.files)),
            subjects=join(subject for f in group for subject in f.subjects),
            commands=tuple(dict.fromkeys(command for f in group for command in f.commands)),
        )
        for group in groups.values()
    ]
    return worst_first(joined)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order of their severities, then of their codes."""
    return tuple(sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.code)))


def join(subjects: Iterable[Subject]) -> tuple[Subject, ...]:
    """Join the subjects that differ only in the files that need, load or import them, in the order of the first."""
    needed: dict[Subject, dict[str, None]] = {}
    loaded: dict[Subject, dict[str, None]] = {}
    imported: dict[Subject, dict[str, None]] = {}
    for subject in subjects:
        same = subject._replace(needed_by=(), loaded_by=(), imported_by=())
        needed.setdefault(same, {}).update(dict.fromkeys(subject.needed_by))
        loaded.setdefault(same, {}).update(dict.fromkeys(subject.loaded_by))
        imported.setdefault(same, {}).update(dict.fromkeys(subject.imported_by))
    return tuple(
        s._replace(needed_by=tuple(needed[s]), loaded_by=tuple(loaded[s]), imported_by=tuple(imported[s]))
        for s in needed
    )
