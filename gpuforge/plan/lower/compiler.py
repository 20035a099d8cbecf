"""A host compiler in actions: what they read of it, and the words that call it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from gpuforge.plan import programs, variables
from gpuforge.plan.action import Action, ActionInput, FileInput, ImageInput, Input
from gpuforge.plan.site import Location
from gpuforge.toolchains.family import Compiler
from gpuforge.toolkits.compilers import FetchedCompiler


class Lowering(Protocol):
    """What the lowering of a whole manifest gives to that of its compilers."""

    def add(self, action: Action) -> str:
        """Add an action unless the same is there already; return its id."""

    def step(self, program: str, **arguments: Any) -> tuple[str, ...]:
        """Return the argv of one of gpuforge's own steps."""

    def users_of(self, host: Compiler) -> tuple[str, ...]:
        """Return the ids of the cells that a compiler is used for."""


@dataclass(frozen=True, slots=True)
class Use:
    """The inputs that a compiler is, and its programs, by what they compile ("cxx", "cc"), as commands name them."""

    inputs: Mapping[str, Input]
    programs: Mapping[str, str]


def use(lowering: Lowering, host: Compiler, at: Location, *, lay: bool) -> Use:
    """Return how an action calls a compiler of a place.

    One that is fetched is found, with `lay`, at the same path on every machine: what is compiled may name its headers.
    """
    names = variables.compilers(host)
    paths = {"cxx": host.path, "cc": host.c_path or host.path}
    if isinstance(host, FetchedCompiler):
        where = "${lay:host}" if lay else "${in:host}"
        return Use({"host": fetch(lowering, host)}, {name: f"{where}/{paths[name]}" for name in names})
    inputs = {name: program(paths[name], host.identity, at) for name in names}
    return Use(inputs, {name: f"${{in:{name}}}" for name in names})


def fetch(lowering: Lowering, host: FetchedCompiler) -> ActionInput:
    """Fetch a compiler, once for all that use it."""
    action = Action(
        id=f"{host.path.name}/compiler",
        kind="fetch",
        title=f"fetch {host.family} {host.version} from Debian {host.suite} ({host.size / 1e6:.0f} MB)",
        argv=lowering.step(
            "fetch_compiler",
            parts=json.dumps([part.as_data() for part in host.parts], sort_keys=True),
            output="${out:compiler}",
        ),
        inputs={"gpuforge": programs.itself("fetch_compiler")},
        outputs=("compiler",),
        env=variables.fetch(),
        passes=variables.fetch_passes(),
        network=True,
        cells=lowering.users_of(host),
    )
    return ActionInput(lowering.add(action), "compiler")


def program(path: Path, identity: str, at: Location) -> Input:
    """Return a program of a place as an input."""
    return ImageInput(PurePosixPath(path), identity) if at.image else FileInput(path, identity)
