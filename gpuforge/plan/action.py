"""An action: the unit that runs, is cached and is shown. Data only; the engine decides nothing about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Literal

Kind = Literal["fetch", "prepare", "compile", "build", "package", "audit", "test"]
Program = Literal["gpuforge", "interpreter", "compiler", "toolkit"]
Pool = Literal["jobs", "downloads"]  # which slots an action takes; downloads wait more than they work
Turns = Literal[
    "together", "one at a time", "first alone"
]  # of the actions of one image that share a `place`


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


@dataclass(frozen=True, slots=True)
class Advice:
    """What to try when a line of the log of a failed action matches `pattern`, a regular expression."""

    pattern: str
    hint: str


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """A folder that outlives actions and changes no result: the environment variable `variable` has its path.

    With `given`, the command only reads it, and it is there only if the runner has it.
    """

    name: str
    variable: str
    given: bool = False


Input = FileInput | ImageInput | ActionInput


@dataclass(frozen=True, slots=True)
class Action:
    """One step of a plan.

    `argv` and the values of `env` may hold placeholders, which the engine fills when the action runs:
    `${in:NAME}` (absolute path of an input), `${out:NAME}` (absolute path to write an output to),
    `${work}` (the action's working directory, empty at the start, the same path on every run and machine
    that can have it), `${stage:NAME}` (an input of `staged`, copied to `work/NAME`, writable, for programs
    whose result depends on the path of what they read) and `${lay:NAME}` (one of `laid`, found at `work/NAME`
    and only read: a container need not copy it). A step program is called with `${request}` (a file with
    `request`, whose strings may hold placeholders, too) and `${result}` (where it writes a `StepResult`).
    `$$` is a `$`: text that is not gpuforge's own is written so (`literal.py`).
    Everything that influences the result is in the key; paths are not.
    """

    id: str  # unique in its plan and stable between runs: "cp311-cu13.0-x86_64/host-build"
    kind: Kind
    title: str  # one line for people: "compile saxpy.cu with nvcc 13.0 for sm_80 sm_90 + PTX 9.0"
    argv: tuple[str, ...]
    request: str = ""  # JSON
    inputs: Mapping[str, Input] = field(default_factory=dict)
    staged: tuple[str, ...] = ()  # the inputs that are copied into its working directory
    laid: tuple[str, ...] = ()  # the inputs that it reads in its working directory without changing them
    outputs: tuple[str, ...] = ()  # names; each a file or folder the action must leave behind
    links_out: bool = False  # links in them may lead to this machine's files: an environment's, to its Python
    env: Mapping[str, str] = field(default_factory=dict)  # the whole environment, except what `passes` adds
    passes: tuple[
        str, ...
    ] = ()  # variables of the caller handed through (proxies, CA bundles): not in the key
    facts: Mapping[str, str] = field(default_factory=dict)  # what else the result depends on
    network: bool = False
    gpu: bool = False  # the machine's GPUs are handed to its container
    image: str | None = None  # the container image's id, a digest; None: this machine itself
    cells: tuple[str, ...] = ()  # the ids of the cells that need it
    advice: tuple[Advice, ...] = ()  # what to try when it fails; the first that fits counts; not in the key
    place: str = ""  # the name of its working directory, which others may use at other times; default: its id
    by_content: bool = False  # an earlier result is reused if the outputs that it reads have the same content
    parallel: bool = False  # it runs several jobs at once; the runner sets how many
    caches: tuple[CacheFolder, ...] = ()  # folders that a container leaves to the next one; not in the key
    pool: Pool = "jobs"
    priority: int = 0  # the ready action with the highest starts first; equal ones in the plan's order
    # "first alone": the others wait until one has ended, unless it is known to be short
    turns: Turns = "together"

    def __post_init__(self) -> None:
        for name in ("inputs", "env", "facts"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[Any, ...]:
        """Make it fit for pickle, which cannot write read-only mappings."""
        values = (getattr(self, each.name) for each in fields(self))
        return type(self), tuple(dict(v) if isinstance(v, MappingProxyType) else v for v in values)

    @property
    def needs(self) -> tuple[str, ...]:
        """The ids of the actions whose outputs it reads, sorted."""
        return tuple(sorted({i.action for i in self.inputs.values() if isinstance(i, ActionInput)}))
