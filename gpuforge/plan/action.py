"""An action: the unit that runs, is cached and is shown. Data only; the engine decides nothing about it.

An action calls a program, such as a compiler, or it does a step: work of gpuforge's own code, as a value whose fields
are plain values and its inputs. In a plan a field for a file or folder has a handle, and when the step runs a path: it
is a `Step[Handle]`, then a `Step[Path]`. Handles are made into paths by `located` alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType, NoneType
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from gpuforge import tree
from gpuforge.diagnostics import Diagnostic, Place

Kind = Literal["fetch", "prepare", "compile", "build", "package", "audit", "test"]
Program = Literal["gpuforge", "interpreter", "compiler", "toolkit"]
Pool = Literal["jobs", "downloads"]  # which slots an action takes; downloads wait more than they work
# of the actions of one image that share a `place`
Turns = Literal["together", "one at a time", "first alone"]


@dataclass(frozen=True, slots=True)
class FileInput:
    """A file or folder of this machine. `digest` is its identity in the key; the path itself is not.

    With `members`, only these files (relative to `path`) belong to the input and are staged. `parts` are the identities
    of single files, by which a change is explained file by file. With `program`, it is a program that is installed
    here: it is not sent to another machine, which must have the same one.
    """

    path: Path
    digest: str
    members: tuple[str, ...] | None = None
    parts: tuple[tuple[str, str], ...] = ()
    program: Program | None = None


@dataclass(frozen=True, slots=True)
class ImageInput:
    """A file or folder of the action's image: `path` as the container sees it, `digest` its identity in the key."""

    path: PurePosixPath
    digest: str


@dataclass(frozen=True, slots=True)
class ActionInput:
    """An output (`output`, one of its names) of another action (`action`, its id); `links_out` is that action's."""

    action: str
    output: str
    links_out: bool = False


class Advice(NamedTuple):
    """What to try when a line of the log of a failed action matches `pattern`, a regular expression."""

    pattern: str
    hint: str


class CacheFolder(NamedTuple):
    """A folder that outlives actions and changes no result: the environment variable `variable` has its path."""

    name: str
    variable: str


Input = FileInput | ImageInput | ActionInput


@dataclass(frozen=True, slots=True)
class Staged:
    """An input that is copied into the working directory, under its name, and may be changed there."""

    of: Input


@dataclass(frozen=True, slots=True)
class Laid:
    """An input that is found in the working directory, under its name, and only read: a container need not copy it."""

    of: Input


Handle: TypeAlias = FileInput | ImageInput | ActionInput | Staged | Laid
P = TypeVar("P")  # what a step has for a file or folder: a `Handle`, or a `Path`
_HANDLES = frozenset(get_args(Handle))
_LEAVES = frozenset({str, int, bool, float, NoneType})  # types of most values
_FIELDS: dict[type[Any], tuple[str, ...]] = {}  # of each type in steps, as `fields` is slow


class Workdir(NamedTuple):
    """Where a step runs: its folder for scratch files, empty at the start, and the folder of its outputs."""

    scratch: Path
    outputs: Path

    def output(self, name: str) -> Path:
        """Return where the step writes one of its outputs; nothing is there yet."""
        return self.outputs / name


@dataclass(frozen=True)
class Step(Generic[P]):
    """The base of every step: a frozen dataclass in a module of `gpuforge.actions`.

    An input has the name of its field, in a tuple with a number ("kernels0"), in a mapping with the key ("sdist-x").
    """

    packages: ClassVar[tuple[str, ...]] = ()  # installed ones whose versions the outputs depend on
    copied: ClassVar[tuple[str, ...]] = ()  # folders of gpuforge that go into the outputs
    writes_wheel: ClassVar[bool] = False  # zlib decides on the bytes of a wheel
    links_out: ClassVar[bool] = False  # links in them may lead to this machine's files, such as Python

    @classmethod
    def program(cls) -> str:
        """Return its module in `gpuforge.actions` and its class: "wheel.PackageWheel"."""
        return f"{cls.__module__.rpartition('.')[2]}.{cls.__qualname__}"

    def code(self) -> tuple[str, ...]:
        """Return further modules of gpuforge that it runs, which no import names."""
        return ()

    def needs_gpu(self) -> bool:
        """Return whether the machine's GPUs are handed to its container."""
        return False

    def plain(self) -> dict[str, Any]:
        """Return its fields as plain data, for JSON."""
        return {name: _plain(getattr(self, name)) for name in _fields(type(self))}

    def text(self) -> str:
        """Return its fields as JSON: the same text for equal steps."""
        return json.dumps(self.plain(), indent=1, sort_keys=True)

    def run(self: Step[Path], at: Workdir) -> Mapping[str, Any] | None:
        """Do the work; return counts for the report of its action ("compiler_cache"), if there are any."""
        raise NotImplementedError


def handles(step: Step[Handle]) -> dict[str, Handle]:
    """Return the handles in a step's fields, by the names of the inputs."""
    found: dict[str, Handle] = {}

    def keep(name: str, handle: Handle) -> Handle:
        if name in found:
            msg = f"{step.program()} has two inputs that are called {name}"
            raise ValueError(msg)
        found[name] = handle
        return handle

    for name in _fields(type(step)):
        _each(getattr(step, name), name, keep)
    return found


def located(step: Step[Handle], path: Callable[[str, Handle], Path]) -> Step[Path]:
    """Return a step for its run, with the path of each handle, which `path` returns for the name of the input."""
    values = {name: _replaced(getattr(step, name), name, path) for name in _fields(type(step))}
    return type(step)(**values)  # type: ignore[return-value]  # of the same class


def _fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of a dataclass's fields; empty for another type."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(each.name for each in fields(kind)) if is_dataclass(kind) else ()
    return _FIELDS[kind]


def _each(value: Any, name: str, keep: Callable[[str, Handle], Any]) -> None:
    """Call `keep` for each handle in a value, as `_replaced` does, which takes twice the time."""
    kind = type(value)
    if kind in _LEAVES:
        return
    if kind in _HANDLES:
        keep(name, value)
    elif kind is tuple:
        for number, each in enumerate(value):
            if type(each) not in _LEAVES:
                _each(each, f"{name}{number}", keep)
    elif own := _fields(kind):
        for key in own:
            _each(getattr(value, key), name, keep)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            _each(each, f"{name}-{key}", keep)


def _replaced(value: Any, name: str, change: Callable[[str, Handle], Any]) -> Any:
    kind = type(value)
    if kind in _LEAVES:
        return value
    if kind in _HANDLES:
        return change(name, value)
    if kind is tuple:
        return tuple([_replaced(each, f"{name}{number}", change) for number, each in enumerate(value)])
    if own := _fields(kind):
        return kind(**{key: _replaced(getattr(value, key), name, change) for key in own})
    if isinstance(value, Mapping):
        return {key: _replaced(each, f"{name}-{key}", change) for key, each in value.items()}
    return value


def _plain(value: Any) -> Any:
    """Return data for JSON: how an input is laid, not what it is, as each has a digest of its own."""
    kind = type(value)
    if kind in _LEAVES:
        return value
    if kind in _HANDLES:
        return kind.__name__ if kind in {Staged, Laid} else "input"
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if own := _fields(kind):
        return {name: _plain(getattr(value, name)) for name in own}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return str(value) if isinstance(value, Path) else value


@dataclass(frozen=True, slots=True)
class Action:
    """One step of a plan.

    `argv` and the values of `env` may hold placeholders, which the engine fills when the action runs:
    `${in:NAME}` (absolute path of an input), `${out:NAME}` (absolute path to write an output to),
    `${work}` (the action's working directory, empty at the start, the same path on every run and machine
    that can have it), `${stage:NAME}` (an input that is copied to `work/NAME`, writable, for programs whose
    result depends on the path of what they read) and `${lay:NAME}` (one that is found at `work/NAME` and only
    read: a container need not copy it). A step is called with `${request}` (a file with its fields, in which
    handles are paths) and `${result}` (where its `StepResult` is written).
    `$$` is a `$`: text that is not gpuforge's own is written so (`literal.py`).
    Everything that influences the result is in the key; paths are not.
    """

    id: str  # unique in its plan and stable between runs: "cp311-cu13.0-x86_64/host-build"
    kind: Kind
    title: str  # one line for people: "compile saxpy.cu with nvcc 13.0 for sm_80 sm_90 + PTX 9.0"
    argv: tuple[str, ...]
    step: Step[Handle] | None = None
    inputs: Mapping[str, Input] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()  # names; each a file or folder the action must leave behind
    env: Mapping[str, str] = field(default_factory=dict)  # the whole environment, except what `passes` adds
    # variables of the caller handed through (proxies, CA bundles): not in the key
    passes: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)  # what else the result depends on
    image: str | None = None  # the container image's id, a digest; None: this machine itself
    cells: tuple[str, ...] = ()  # the ids of the cells that need it
    advice: tuple[Advice, ...] = ()  # what to try when it fails; the first that fits counts; not in the key
    place: str = ""  # the name of its working directory, which others may use at other times; default: its id
    caches: tuple[CacheFolder, ...] = ()  # folders that a container leaves to the next one; not in the key

    def __post_init__(self) -> None:
        for name in ("inputs", "env", "facts"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[Any, ...]:
        """Make it fit for pickle, which cannot write read-only mappings."""
        values = (getattr(self, each.name) for each in fields(self))
        return type(self), tuple(dict(v) if isinstance(v, MappingProxyType) else v for v in values)

    @property
    def gpu(self) -> bool:
        """Whether the machine's GPUs are handed to its container."""
        return self.step is not None and self.step.needs_gpu()

    @property
    def network(self) -> bool:
        """Whether it may use the network: only fetches do."""
        return self.kind == "fetch"

    @property
    def parallel(self) -> bool:
        """Whether it runs several jobs at once, as a project's own build does; the runner sets how many."""
        return self.kind == "build"

    @property
    def by_content(self) -> bool:
        """Whether an earlier result is reused if the outputs that it reads have the same content.

        Equal inputs make equal outputs, but for the build of a project, which may read more.
        """
        return self.step is not None and self.kind != "build"

    @property
    def links_out(self) -> bool:
        """Whether links in its outputs may lead to this machine's files."""
        return self.step is not None and self.step.links_out

    @property
    def staged(self) -> tuple[str, ...]:
        """The inputs that are copied into its working directory."""
        return self._placed(Staged, "stage")

    @property
    def laid(self) -> tuple[str, ...]:
        """The inputs that it reads in its working directory without changing them."""
        return self._placed(Laid, "lay")

    def _placed(self, kind: type[Staged | Laid], word: str) -> tuple[str, ...]:
        own = (
            (name for name, handle in handles(self.step).items() if isinstance(handle, kind))
            if self.step
            else ()
        )
        texts = (*self.argv, *self.env.values())
        named = (match[2] for text in texts for match in PLACEHOLDER.finditer(text) if match[1] == word)
        return tuple(dict.fromkeys((*own, *(name for name in named if name in self.inputs))))

    @property
    def pool(self) -> Pool:
        """Which slots it takes."""
        return "downloads" if self.network else "jobs"

    @property
    def turns(self) -> Turns:
        """How actions take turns that share a `place`.

        On this machine they have one directory. In containers the first fills the compiler cache of the others, which
        wait until it has ended, unless it is known to be short.
        """
        if not self.place:
            return "together"
        return "one at a time" if self.image is None else "first alone"

    @property
    def needs(self) -> tuple[str, ...]:
        """The ids of the actions whose outputs it reads, sorted."""
        return tuple(sorted({i.action for i in self.inputs.values() if isinstance(i, ActionInput)}))


def priorities(actions: Sequence[Action]) -> dict[str, int]:
    """Return, by id, the priority of each action among those that are ready.

    For downloads and preparations it is the length of the longest chain of actions that waits for each. Packaging is
    short and others wait for it, so it comes before long actions.
    """
    waiting = {action.id: 0 for action in actions}
    for action in reversed(actions):
        for need in action.needs:
            waiting[need] = max(waiting[need], waiting[action.id] + 1)
    short = {"fetch", "prepare"}
    return {
        each.id: waiting[each.id] if each.kind in short else int(each.kind == "package") for each in actions
    }


PLACEHOLDER = re.compile(r"\$\$|\$\{(?:(in|out|stage|lay):([^}]+)|(work|request|result))\}")
RESULT = "step-result.json"  # its name beside the outputs
MOST_OF_RESULT = 1_000_000  # bytes of it that are read


@dataclass(frozen=True, slots=True)
class StepResult:
    """How a step ended: the error that it raised, if any, and its counts by name ("compiler_cache").

    `notes` are the lines that explain the error better than the end of the step's log; `memory` is the most that one of
    the programs took which it called, in bytes.
    """

    error: Diagnostic | None = None
    counts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    memory: int = 0

    def write(self, file: Path) -> None:
        """Write it as JSON."""
        problem = self.error
        error = problem and {
            "message": problem.message,
            "place": problem.place and list(problem.place),
            "hint": problem.hint,
        }
        data = {"error": error, "counts": dict(self.counts), "notes": self.notes, "memory": self.memory}
        file.write_text(json.dumps(data) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> StepResult:
        """Read the file that `write` wrote; the result is empty if the step ended before the file was complete.

        A project's build can write there, too: a file of another form is ignored, and pipes are not opened.
        """
        try:
            data = json.loads(tree.read(file.parent, file.name, MOST_OF_RESULT))
            counts = data["counts"] if isinstance(data["counts"], dict) else {}
            error, memory = data["error"], int(data["memory"])
            if not error:
                return cls(None, counts, (), memory)
            place = Place(*error["place"]) if error["place"] else None
            notes = tuple(data["notes"])
            words = (error["message"], error["hint"], *notes, *(place[:1] if place else ()))
            is_sound = all(isinstance(word, str) for word in words) and all(
                isinstance(number, int) for number in (place or ())[1:]
            )
            return (
                cls(Diagnostic(error["message"], place, error["hint"]), counts, notes, memory)
                if is_sound
                else cls()
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return cls()
