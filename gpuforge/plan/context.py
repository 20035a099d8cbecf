"""The inputs of lowering (the manifest, cells and machine), and the actions of the plan so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypedDict, Unpack

from gpuforge import digest
from gpuforge.digest import Contents
from gpuforge.manifest.axes import Point, label
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import Manifest, PathSource
from gpuforge.plan import advice, git_version, programs, source_files, variables
from gpuforge.plan.action import (
    Action,
    ActionInput,
    Advice,
    CacheFolder,
    FileInput,
    Handle,
    Input,
    Kind,
    Laid,
    Staged,
    Step,
    handles,
)
from gpuforge.plan.cell import Cell
from gpuforge.plan.site import ContainerImage, Location, Machine
from gpuforge.plan.source_files import LoweredObject, lower_objects
from gpuforge.toolchains import registry
from gpuforge.toolchains.cpython import Interpreter

Part = Callable[[Manifest], object]
"""A function that returns the part of a manifest that an action depends on."""


def of_build(manifest: Manifest) -> object:
    """Return the part that a host build and its environment depend on."""
    return manifest.build, manifest.package.name, manifest.indexes


def of_kernels(manifest: Manifest) -> object:
    """Return the part that kernels depend on; commands run in the environment of the host build."""
    commands = any(registry.toolchain(each.compiler).by_command for each in manifest.toolchains.values())
    return manifest.toolchains, manifest.objects, manifest.build if commands else None


def of_tests(manifest: Manifest) -> object:
    """Return the part that decides which packages a test installs beside the wheel."""
    return manifest.test, manifest.indexes


class StepFields(TypedDict, total=False):
    """The fields of an `Action` that callers of `add_step` may set."""

    env: Mapping[str, str]
    passes: tuple[str, ...]
    facts: Mapping[str, str]
    advice: tuple[Advice, ...]
    place: str
    caches: tuple[CacheFolder, ...]


@dataclass(frozen=True)
class PlanContext:
    """The manifest at a point of its axes, the chosen cells and the machine.

    With `test` the wheels are tested, with `gpu` on its GPUs.
    """

    file: ManifestFile
    cells: tuple[Cell, ...]
    machine: Machine
    test: bool = True
    gpu: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)  # the variables that fetches and builds may see
    files: Mapping[Point, ManifestFile] = field(default_factory=dict)  # at every point; empty without axes
    point: Point = field(default_factory=Point)
    actions: dict[str, Action] = field(default_factory=dict)  # by id, in the order of the data flow
    contents: Contents = field(default_factory=Contents)  # of the files that it reads
    _pythons: dict[str, Interpreter] = field(default_factory=dict)  # by image: what runs gpuforge's steps

    def at(self, point: Point) -> PlanContext:
        """Return the context at another point; both have the same actions."""
        return replace(self, file=self.files[point], point=point) if self.files else self

    def on(self, machine: str) -> PlanContext:
        """Return the context for wheels of a machine type; both have the same actions."""
        files = {point: file.on(machine) for point, file in self.files.items()}
        return replace(self, file=self.file.on(machine), files=files)

    def label(self, part: Part) -> str:
        """Return the suffix for the id of an action that depends on a part of the manifest: "-torch2.11".

        It is empty if the part is the same at every point. Points with the same part have the same suffix.
        """
        same = self._same(part)
        if len(same) == len(self.files):
            return ""
        others = {point.label for point in self.files if point not in same}
        return f"-{same[0].label}" + (f"-to-{label(same[0].ends)}" if same[0].label in others else "")

    def words(self, part: Part) -> str:
        """Return the suffix for a title: " with torch 2.11"."""
        same = self._same(part)
        values = " and ".join(f"{name} {value}" for name, value in same[0].values) if same else ""
        return f" with {values}" if len(same) < len(self.files) else ""

    def _same(self, part: Part) -> list[Point]:
        """Return the points at which a part of the manifest is the same as here."""
        mine = part(self.file.manifest)
        return [point for point, file in self.files.items() if part(file.manifest) == mine]

    def add(self, action: Action, output: str) -> ActionInput:
        """Add an action unless several cells share it and it is there already; return one of its outputs."""
        if self.actions.setdefault(action.id, action) != action:
            msg = f"two different actions are called {action.id}"
            raise ValueError(msg)
        return ActionInput(action.id, output, links_out=action.links_out)

    def add_step(
        self,
        step: Step[Handle],
        at: Location | None,
        *,
        id: str,  # noqa: A002  the field of Action
        kind: Kind,
        title: str,
        outputs: tuple[str, ...],
        **fields: Unpack[StepFields],
    ) -> ActionInput:
        """Add the action that does a step, at a place or (None) on this machine; return its first output."""
        environ = fields.get("env", variables.plain(self.environ))
        fields["env"] = {"PATH": at.path, **environ} if at else environ
        image = at.image if at else None
        known = self.actions.get(id)
        action = Action(
            id=id,
            kind=kind,
            title=title,
            argv=(
                *("${in:gpuforge}", "-I", "-m", "gpuforge.actions.entry"),
                *(step.program(), "${request}", "${result}"),
            ),
            step=step,
            inputs=known.inputs if known and known.step == step else self._inputs(step, image),
            outputs=outputs,
            image=image.id if image else None,
            **fields,
        )
        return self.add(action, outputs[0])

    def _inputs(self, step: Step[Handle], image: ContainerImage | None) -> dict[str, Input]:
        """Return the inputs of a step: gpuforge itself, and what its fields name."""
        found = {name: h.of if isinstance(h, (Staged, Laid)) else h for name, h in handles(step).items()}
        return {"gpuforge": programs.of_step(step, self._python_of(image) if image else None), **found}

    def _python_of(self, image: ContainerImage) -> Interpreter:
        if image.id not in self._pythons:
            self._pythons[image.id] = image.inventory.steps_python()
        return self._pythons[image.id]

    @cached_property
    def build_advice(self) -> tuple[Advice, ...]:
        """The advice for the project's own build."""
        return advice.of_host_build(self.file)

    @cached_property
    def manifest_digest(self) -> str:
        """The digest of all of the manifest but comments, [test] and [audit]."""
        whole = self.file.whole or self.file.manifest
        return digest.of_data(
            whole.model_dump(mode="json", by_alias=True, exclude={"test", "audit"}, exclude_defaults=True)
        )

    @cached_property
    def by_pip(self) -> StepFields:
        """The fields that all actions that fetch by pip share."""
        return {
            "facts": variables.pip_facts(self.environ),
            "env": variables.fetch(),
            "passes": variables.requirement_passes(self.environ),
            "caches": variables.PIP_CACHE,
        }

    @cached_property
    def objects(self) -> tuple[LoweredObject, ...]:
        """The objects whose sources become kernels."""
        return lower_objects(self.file, self.contents)

    @cached_property
    def tree(self) -> FileInput | None:
        """The host build's files when the source is a folder of this machine; else None."""
        source = self.file.manifest.package.source
        if not isinstance(source, PathSource) or (self.file.folder / source.path).is_file():
            return None
        return source_files.host_tree(self.file, self.file.folder / source.path, self.contents)

    @cached_property
    def git_version(self) -> str:
        """The version of a source folder that is a git checkout, if the project takes it from git; else ""."""
        if self.tree is None or not (self.tree.path / ".git").exists():
            return ""
        needed = git_version.is_needed(self.tree.path / name for name in git_version.DECLARING)
        return git_version.described(self.tree.path, self.environ) if needed else ""


def kernels_name(context: PlanContext, cell: Cell, *, of_machine: bool = True) -> str:
    """Return the name of the kernels that are made once for a toolkit: "cu13.0/kernels".

    Kernels for GPUs are the same for all machine types, unless the toolkit's architectures differ by them; then, and
    for kernels that are code of the machine type (`of_machine`), each further type has a name of its own.
    """
    of_cuda = f"cu{cell.toolkit}" if cell.toolkit else ""
    table = context.file.manifest.cuda.versions.get(cell.cuda)
    own = of_machine or (table and (table.x86_64 or table.aarch64))
    suffix = context.machine.suffix(cell.machine) if own else ""
    return f"{of_cuda}{context.label(of_kernels)}{suffix}/kernels".lstrip("/")
