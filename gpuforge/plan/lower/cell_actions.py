"""From the manifest and its chosen cells to actions: every decision of a build is taken here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from gpuforge import digest
from gpuforge.manifest import braces, kernels_wheels
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model.object import Object
from gpuforge.manifest.model.package import GitSource, PathSource, PypiSource
from gpuforge.plan import abi, advice, programs, provenance, recipe, sources, variables, variant
from gpuforge.plan.action import Action, ActionInput, FileInput, ImageInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import audit as lower_audit
from gpuforge.plan.lower import command_library as lower_command
from gpuforge.plan.lower import compiler as lower_compiler
from gpuforge.plan.lower import kernels_wheel as lower_apart
from gpuforge.plan.lower import library as lower_library
from gpuforge.plan.lower import provided as lower_provided
from gpuforge.plan.lower import testing as lower_test
from gpuforge.plan.narrow import having
from gpuforge.plan.schedule import scheduled
from gpuforge.plan.site import Location, Machine
from gpuforge.plan.supported import notes, refuse, refuse_same_modules
from gpuforge.toolchains import nvcc
from gpuforge.toolchains.family import Compiler
from gpuforge.toolkits import redist
from gpuforge.toolkits.debian import Part
from gpuforge.toolkits.pypi import Pin


@dataclass(frozen=True)
class Plan:
    """What will be done: the cells, their actions, and where each cell's wheel, report and test result will be.

    `kernels` are the cells' kernels wheels, none where kernels lie inside the wheels, and `kernels_reports` what the
    audit says of them. `tests` is empty when the wheels are not tested. `notes` say what the manifest asks for and this
    plan does not do.
    """

    cells: tuple[Cell, ...]
    actions: tuple[Action, ...]
    wheels: dict[str, ActionInput]
    reports: dict[str, ActionInput]
    tests: dict[str, ActionInput]
    machine: Machine
    notes: tuple[str, ...] = ()
    kernels: Mapping[str, ActionInput] = field(default_factory=dict)
    kernels_reports: Mapping[str, ActionInput] = field(default_factory=dict)


def lower(
    file: ManifestFile, cells: Sequence[Cell], machine: Machine, *, test: bool = True, gpu: bool = False
) -> Plan:
    """Return the plan of `cells`, in the order of the data flow; raises UsageError for what cannot be done.

    With `test`, each wheel is installed, imported and tested besides; with `gpu`, where the machine's GPUs are seen.
    """
    refuse(file, cells)
    lowering = _Lowering(file, tuple(cells), machine, gpu=gpu, test=test)
    tests = {}
    for cell in cells:
        wheel = lowering.add_cell(cell)
        if test:
            tests[cell.id] = lower_test.test(lowering, cell, wheel)
    actions = scheduled(lowering.actions.values())
    split = kernels_wheels.is_split(file.manifest)
    wheels = {
        cell.id: lowering.hosts[cell.id] if split else ActionInput(f"{cell.id}/{_last_step(cell)}", "wheel")
        for cell in cells
    }
    reports = {cell.id: ActionInput(f"{cell.id}/audit", "report.json") for cell in cells}
    own = {cell.id: ActionInput(f"{cell.id}/audit", "kernels.json") for cell in cells if split}
    said = tuple(notes(file, test=test))
    return Plan(tuple(cells), actions, wheels, reports, tests, machine, said, lowering.apart, own)


def _last_step(cell: Cell) -> str:
    return "variant" if cell.naming == "variant" else "wheel"


class _Lowering:
    """Builds the actions of one manifest; an action that several cells need is made once and lists them."""

    def __init__(
        self, file: ManifestFile, cells: tuple[Cell, ...], machine: Machine, *, gpu: bool, test: bool
    ) -> None:
        self.file = file
        self.manifest = file.manifest
        self.cells = cells
        self.machine = machine
        self.gpu = gpu
        self.test = test
        self._steps: dict[tuple[str, str | None], Input] = {}  # by program and image
        self._users: dict[tuple[str | None, str | None], tuple[str, ...]] = {}
        self._kernels: dict[str, dict[str, ActionInput]] = {}  # by Cell.cuda and the object's name
        self.hosts: dict[str, ActionInput] = {}  # by Cell.id: the wheel for all CUDA versions
        self.apart: dict[str, ActionInput] = {}  # by Cell.id: the kernels wheel
        self.actions: dict[str, Action] = {}

    def add_cell(self, cell: Cell) -> ActionInput:
        """Add everything that one cell's wheel needs, to its proof; return the wheel that is proved."""
        if cell.cuda not in self._kernels:
            self._kernels[cell.cuda] = {
                item.name: self.kernels(cell, item)
                for item in self.manifest.objects
                if item.role != "host-only"
            }
        kernels = list(self._kernels[cell.cuda].values())
        host = self.host_build(cell)
        if kernels_wheels.is_split(self.manifest):
            wheel = self.hosts[cell.id] = lower_apart.host_wheel(
                self, cell, host, self._gathered(cell, own=False)
            )
            self.apart[cell.id] = lower_apart.kernels_wheel(self, cell, self._gathered(cell, own=True))
        else:
            wheel = self.package(cell, host, kernels)
        report = lower_audit.audit(self, cell, wheel, host, test=self.test)
        if cell.naming == "variant":
            self.variant(cell, wheel, report)
        return wheel

    def _gathered(self, cell: Cell, *, own: bool) -> list[ActionInput]:
        """Return the objects' kernels that go into a cell's kernels wheel (`own`), or into the package's."""
        objects = [item for item in self.manifest.objects if item.role != "host-only"]
        cuda = cell.cuda if own else lower_apart.first_of(self, cell).cuda
        chosen = [
            item.name for item in objects if kernels_wheels.in_kernels_wheel(self.manifest, item) is own
        ]
        return [self._kernels[cuda][name] for name in chosen]

    def add(self, action: Action) -> str:
        """Add an action unless the same is there already; return its id."""
        if self.actions.setdefault(action.id, action) != action:
            msg = f"two different actions are called {action.id}"
            raise ValueError(msg)
        return action.id

    def step(self, program: str, **arguments: Any) -> tuple[str, ...]:
        """Return the argv of one of gpuforge's own steps; arguments that are None are left out."""
        words = ["${in:gpuforge}", "-I", "-m", f"gpuforge.steps.{program}"]
        for name, value in arguments.items():
            for item in value if isinstance(value, list) else [value]:
                if item is not None:
                    text = item if isinstance(item, str) else json.dumps(item, sort_keys=True)
                    words += [f"--{name.replace('_', '-')}", text]
        return tuple(words)

    def itself(self, program: str, at: Location) -> Input:
        """Return gpuforge's own step as an input: of this machine or, in an image, where the runner lays it."""
        key = (program, at.image_id)
        if key not in self._steps:
            image = at.image
            self._steps[key] = (
                programs.in_image(program, image.inventory.steps_python())
                if image
                else programs.itself(program)
            )
        return self._steps[key]

    def users(self, *, cuda: str | None = None, python: str | None = None) -> tuple[str, ...]:
        """Return the ids of the cells that share something of one toolkit, one Python, or everything."""
        if (cuda, python) not in self._users:
            wanted = tuple(c.id for c in self.cells if cuda in {None, c.cuda} and python in {None, c.python})
            self._users[cuda, python] = wanted
        return self._users[cuda, python]

    def users_of(self, host: Compiler) -> tuple[str, ...]:
        """Return the ids of the cells whose host build or kernels a compiler is used for."""
        found = []
        for cell in self.cells:
            of_kernels = self.machine.kernels_at(cell.cuda).hosts[cell.cuda]
            if host in (of_kernels, self.machine.host_at(cell)[1]):
                found.append(cell.id)
        return tuple(found)

    def toolkit(self, cell: Cell, at: Location) -> Input:
        """Return the toolkit of a cell: a folder of this machine or of the image, or the output of a fetch."""
        toolkit = at.toolkits[cell.cuda]
        if toolkit.provider == "image":
            return ImageInput(PurePosixPath(str(toolkit.root)), toolkit.identity)
        if toolkit.root is not None:
            return FileInput(toolkit.root, toolkit.identity)
        size = f" ({toolkit.size / 1e6:.0f} MB)" if toolkit.size else ""
        action = Action(
            id=f"cu{cell.toolkit}/toolkit",
            kind="fetch",
            title=f"fetch CUDA {cell.toolkit} from {toolkit.origin}{size}",
            argv=self.step(
                "fetch_toolkit",
                pins=_as_json(toolkit.pins),
                parts=_as_json(toolkit.parts),
                archives=toolkit.archives and json.dumps(toolkit.archives.as_data(), sort_keys=True),
                output="${out:toolkit}",
            ),
            inputs={"gpuforge": programs.itself(f"fetch_toolkit {toolkit.provider}")},
            outputs=("toolkit",),
            facts={"toolkit": toolkit.identity, "provider": toolkit.provider},
            env=variables.fetch(),
            passes=variables.fetch_passes(),
            network=True,
            cells=self.users(cuda=cell.cuda),
        )
        return ActionInput(self.add(action), "toolkit")

    @cached_property
    def pip_facts(self) -> dict[str, str]:
        """What of pip's variables decides on what it fetches."""
        return variables.pip_facts()

    @cached_property
    def tree(self) -> FileInput | None:
        """The host build's files when the source is a folder of this machine; else None."""
        source = self.manifest.package.source
        return (
            sources.host_tree(self.file, self.file.folder / source.path)
            if isinstance(source, PathSource)
            else None
        )

    def source(self) -> Input:
        """Return the source tree: a folder of this machine, or the output of a fetch."""
        if self.tree is not None:
            return self.tree
        source = self.manifest.package.source
        if isinstance(source, PypiSource):
            what, wanted = source.pypi, {"pypi": source.pypi, "sha256": source.sha256}
        else:
            assert isinstance(source, GitSource)  # noqa: S101  the manifest has these three
            what, wanted = f"{source.git} at {source.rev}", {"git": source.git, "rev": source.rev}
        action = Action(
            id="source",
            kind="fetch",
            title=f"fetch the source {what}",
            argv=self.step("fetch_source", **wanted, output="${out:source}", scratch="${work}"),
            inputs={"gpuforge": programs.itself("fetch_source")},
            outputs=("source",),
            env=variables.fetch(),
            passes=variables.fetch_passes(),
            network=True,
            cells=self.users(),
        )
        return ActionInput(self.add(action), "source")

    def requirements(self, cell: Cell, at: Location) -> ActionInput:
        """Fetch the PEP 517 build requirements into an environment, once per Python."""
        source = self.source()
        if self.tree is not None:  # what decides on requirements is in the key; the backend may read more
            deciding = sources.build_files(self.tree.path, self.tree)
            source = FileInput(self.tree.path, deciding, self.tree.members)
        named = self.manifest.build.constraints
        constraints = {"constraints": _content(self.file.folder / named)} if named else {}
        action = Action(
            id=f"{_python_name(cell, at)}/requirements",
            kind="fetch",
            title=f"fetch the build requirements for Python {cell.python}",
            argv=self.step(
                "fetch_requirements",
                source="${stage:source}",
                python="${in:python}",
                requires=json.dumps(list(self.manifest.build.requires)),
                config_settings=json.dumps(
                    self.settings({**_NAMES, "toolkit": "${work}/toolkit", "env": "${work}/env"})
                ),  # shared by toolkits
                constraints="${in:constraints}" if constraints else None,
                output="${out:environment}",
                lock="${out:requirements.json}",
                scratch="${work}",
            ),
            inputs={
                "gpuforge": self.itself("fetch_requirements", at),
                "source": source,
                "python": self.python(cell, at),
                **constraints,
            },
            outputs=("environment", "requirements.json"),
            facts=self.pip_facts,
            env=variables.fetch() | {"PATH": at.path},
            passes=variables.requirement_passes(),
            network=True,
            caches=variables.PIP_CACHE,
            image=at.image_id,
            cells=self.users(python=cell.python),
        )
        return ActionInput(self.add(action), "environment")

    def python(self, cell: Cell, at: Location) -> Input:
        """Return a cell's interpreter as an input."""
        found = at.interpreters[cell.python]
        return lower_compiler.program(found.path, found.identity, at)

    def settings(self, names: Mapping[str, str]) -> dict[str, str | list[str]]:
        """Return the config settings with the manifest's names filled in."""
        return {
            key: braces.fill(value, names)
            if isinstance(value, str)
            else [braces.fill(v, names) for v in value]
            for key, value in self.manifest.build.config_settings.items()
        }

    def host_build(self, cell: Cell) -> ActionInput:
        """Run the project's own build, once per Python and toolkit, or per Python alone, whatever the wheels' names."""
        build, cuda = self.manifest.build, self.manifest.build.cuda
        at, host = self.machine.host_at(cell)
        overlays = {f"overlay{n}": _content(self.file.folder / name) for n, name in enumerate(build.overlay)}
        names = variables.compilers(host)
        compiler = lower_compiler.use(self, host, at, lay=True)
        env = variables.host_build(host, f"${{in:toolkit}}/bin:{at.path}" if cuda else at.path)
        if cuda:
            wanted = self.manifest.cuda.versions[cell.cuda]
            env |= variables.host_cuda(host, wanted.archs, wanted.ptx, self.manifest.cuda.linkage)
        users = self.users(cuda=cell.cuda if cuda else None, python=cell.python)
        action = Action(
            id=f"{self._host_name(cell, at)}/host-build",
            kind="build",
            title=f"build {self.manifest.package.name} for Python {cell.python}"
            + (f" and CUDA {cell.toolkit}" if cuda else ""),
            argv=self.step(
                "host_build",
                source="${stage:source}",
                environment="${lay:env}",
                python="${in:python}",
                compiler=[f"{program}={compiler.programs[name]}" for name, program in names.items()],
                nvcc="${in:toolkit}/bin/nvcc" if cuda else None,
                overlay=[f"${{in:{name}}}" for name in overlays],
                config_settings=json.dumps(self.settings(_NAMES)),
                before=json.dumps(
                    [[braces.fill(word, _NAMES) for word in command] for command in build.before]
                ),
                scratch="${work}",
                output="${out:wheel}",
            ),
            inputs={
                "gpuforge": self.itself("host_build", at),
                "source": self.source(),
                "env": self.requirements(cell, at),
                **({"toolkit": self.toolkit(cell, at)} if cuda else {}),
                "python": self.python(cell, at),
                **compiler.inputs,
                **overlays,
            },
            outputs=("wheel",),
            env=env | variables.with_names(build.env, _NAMES),
            image=at.image_id,
            passes=variables.build_passes(contained=at.image is not None),
            caches=variables.COMPILER_CACHE,
            place="host-build",
            cells=users,
            parallel=True,
            advice=advice.of_host_build(self.file),
        )
        return ActionInput(self.add(action), "wheel")

    def _host_name(self, cell: Cell, at: Location) -> str:
        """Return what a cell's host build is called: like the cell, or like its Python where it serves them all."""
        own = self.manifest.build.cuda
        return cell.id.removesuffix(f"-{cell.naming}") if own else _python_name(cell, at)

    def kernels(self, cell: Cell, item: Object) -> ActionInput:
        """Compile and index (fallback) or gather (user-compiled) one object, once per toolkit."""
        at = self.machine.kernels_at(cell.cuda)
        files = sources.object_sources(self.file, item)
        compiled = [str(source) for source in sources.compiled(self.file, item)]
        refuse_same_modules(self.file, item, compiled)
        modules: dict[str, Input] = {}
        spec: dict[str, Any] = {"name": item.name, "role": item.role, "toolkit": cell.toolkit}
        if item.role == "fallback" and self.manifest.toolchains[item.toolchain or ""].compiler == "command":
            modules = {"library": lower_command.run_command(self, cell, item, compiled)}
            spec |= lower_command.described(self, cell, item)
        elif item.role == "fallback" and item.kind == "library":
            modules = lower_library.compile_libraries(self, cell, item, compiled)
            spec |= lower_library.described(self, cell, item, modules)
        elif item.role == "fallback":
            modules = {f"module{n}": self.compile(cell, item, source) for n, source in enumerate(compiled)}
            spec["toolchain"] = {"family": "nvcc", "version": at.toolkits[cell.cuda].nvcc}
            spec["stands_in_for"] = item.stands_in_for or ""
            spec["cpu"] = abi.cpu_of(self.file, item)
            spec["modules"] = [
                {
                    "name": PurePosixPath(source).stem,
                    "source": source,
                    "path": f"${{in:sources}}/{source}",
                    "fatbin": f"${{in:{module}}}",
                }
                for source, module in zip(compiled, modules, strict=True)
            ]
        else:
            spec["archs"] = list(variables.real(self.manifest.cuda.versions[cell.cuda].archs))
            newest = cell.toolkit
            if kernels_wheels.is_split(self.manifest):  # the wheel that they go into is for all CUDA versions
                newest = kernels_wheels.toolkits(self.manifest)[0]
                spec |= {"toolkit": "", "archs": []}
            for key, names in (
                ("sources", compiled),
                ("includes", sorted({*(files.members or ())} - {*compiled})),
            ):
                spec[key] = [{"source": name, "path": f"${{in:sources}}/{name}"} for name in names]
            spec["toolchains"] = recipe.toolchains(self.file, item, compiled, newest)
            spec["abi"] = abi.identity(self.file, item)
            spec["packages"] = abi.packages(self.file, item)
            spec["kind"] = item.kind
            spec["fallbacks"] = abi.fallbacks_of(self.file, item)
            spec["cpu"] = abi.cpu_of(self.file, item)
        action = Action(
            id=f"cu{cell.toolkit}/kernels/{item.name}",
            kind="package",
            title=f"{'index' if modules else 'gather'} {item.name} for CUDA {cell.toolkit}",
            argv=self.step("kernel_index", spec=spec, output="${out:kernels}"),
            inputs={"gpuforge": self.itself("kernel_index", at), "sources": files, **modules},
            outputs=("kernels",),
            env=variables.plain() | {"PATH": at.path},
            image=at.image_id,
            cells=self.users(cuda=cell.cuda),
        )
        return ActionInput(self.add(action), "kernels")

    def kernel_libraries(self, cell: Cell) -> list[ActionInput]:
        """Return the kernel sets of a cell's wheel that are libraries: they need others, as the host wheel does."""
        libraries = (o for o in self.manifest.objects if o.role == "fallback" and o.kind == "library")
        names = [item.name for item in libraries if not kernels_wheels.in_kernels_wheel(self.manifest, item)]
        return [self._kernels[cell.cuda][name] for name in names]

    def compile(self, cell: Cell, item: Object, source: str) -> ActionInput:
        """Compile one source of a fallback object for every architecture of its toolkit into one fatbin."""
        wanted = self.manifest.cuda.versions[cell.cuda]
        toolchain = self.manifest.toolchains[item.toolchain or ""]
        at = self.machine.kernels_at(cell.cuda)
        host = lower_compiler.use(self, at.hosts[cell.cuda], at, lay=False)
        archs, ptx = variables.real(wanted.archs), variables.virtual(wanted.archs, wanted.ptx)
        action = Action(
            id=f"cu{cell.toolkit}/kernels/{item.name}/{source}",
            kind="compile",
            title=f"compile {source} with nvcc {cell.toolkit} for {nvcc.images(archs, ptx)}",
            advice=advice.of_compile(self.file, item),
            argv=nvcc.module_argv(
                "${in:toolkit}/bin/nvcc",
                source=f"${{stage:sources}}/{source}",
                output="${out:fatbin}",
                archs=archs,
                ptx=ptx,
                host=host.programs["cxx"],
                includes=("${stage:sources}",),
                flags=(*toolchain.flags, *item.flags),
            ),
            inputs={
                "sources": sources.one_source(self.file, item, source),
                "toolkit": self.toolkit(cell, at),
                **host.inputs,
            },
            outputs=("fatbin",),
            env=variables.plain() | {"PATH": at.path},
            image=at.image_id,
            cells=self.users(cuda=cell.cuda),
        )
        return ActionInput(self.add(action), "fatbin")

    def package(self, cell: Cell, host: ActionInput, kernels: Sequence[ActionInput]) -> ActionInput:
        """Make the wheel: kernels and runtime in, repaired, named, with its requirements, in fixed bytes."""
        at = self.machine.at(cell)
        host_at, host_compiler = self.machine.host_at(cell)
        of_nvcc = self.machine.kernels_at(cell.cuda).hosts[cell.cuda]
        toolkit = at.toolkits[cell.cuda]
        wheel = self.manifest.wheel
        provided = lower_provided.provided(self, cell, host)
        spec = {
            "wheel": "${in:wheel}",
            "name": self.manifest.package.name,
            "kernels": [f"${{in:kernels{number}}}" for number in range(len(kernels))],
            "import": self.manifest.package.import_,
            "cuda": cell.toolkit,
            "linkage": self.manifest.cuda.linkage,
            "requires": self.manifest.cuda.requires,
            "naming": "plain" if cell.naming == "variant" else cell.naming,
            "narrowed": having(
                (self.file.whole or self.manifest).cuda.versions[cell.cuda], self.file.narrowed
            ),
            "python": None if cell.python == "3" else "cp" + cell.python.replace(".", ""),
            "abi": self.manifest.package.abi,
            "pins": {pin.package: pin.version for pin in toolkit.pins},
            "pins_file": f"${{in:toolkit}}/{redist.VERSIONS}" if toolkit.archives else None,
            "size_limit": wheel.size_limit_bytes,
            "exclude": list(wheel.exclude),
            "search_path": ["${in:toolkit}/lib64", "${in:toolkit}/lib"],
            "provided": "${in:provided}" if provided else None,
            "record": provenance.of(self.file, at, cell, host_at, host_compiler, of_nvcc),
            "requirements": "${in:requirements}",
            "extras": recipe.extras(self.file, cell.toolkit),
            "work": "${work}",
        }
        action = Action(
            id=f"{cell.id}/wheel",
            kind="package",
            title=f"repair and name the wheel of {cell.id}",
            argv=self.step("package_wheel", spec=spec, output="${out:wheel}", declared="${out:declared}"),
            inputs={
                "gpuforge": self.itself("package_wheel", at),
                "wheel": host,
                "toolkit": self.toolkit(cell, at),
                "requirements": ActionInput(self.requirements(cell, host_at).action, "requirements.json"),
                **({"provided": provided} if provided else {}),
                **{f"kernels{number}": value for number, value in enumerate(kernels)},
            },
            outputs=("wheel", "declared"),
            by_content=True,
            env=variables.plain() | {"PATH": at.path},
            image=at.image_id,
            cells=(cell.id,),
        )
        return ActionInput(self.add(action), "wheel")

    def variant(self, cell: Cell, wheel: ActionInput, report: ActionInput) -> ActionInput:
        """Make the variant wheel of the proved one; after the audit, as few tools read the names of variants yet."""
        at = self.machine.at(cell)
        wanted = self.manifest.cuda.versions[cell.cuda]
        action = Action(
            id=f"{cell.id}/variant",
            kind="package",
            title=f"make the variant wheel of {cell.id}",
            argv=self.step(
                "variant_wheel",
                wheel="${in:wheel}",
                cuda=cell.toolkit,
                gpu=list(variant.gpus(wanted.archs, wanted.ptx)),
                output="${out:wheel}",
            ),
            inputs={"gpuforge": self.itself("variant_wheel", at), "wheel": wheel, "report": report},
            outputs=("wheel",),
            by_content=True,
            env=variables.plain() | {"PATH": at.path},
            image=at.image_id,
            cells=(cell.id,),
        )
        return ActionInput(self.add(action), "wheel")


_NAMES = {
    "project": "${stage:source}",
    "overlay": "${work}/overlay",
    "toolkit": "${in:toolkit}",
    "env": "${lay:env}",
}


def _python_name(cell: Cell, at: Location) -> str:
    """Return the name of what is done once for a Python: "py3.11", in an image "py3.11-bookworm"."""
    return f"py{cell.python}" + (f"-{at.image.name}" if at.image else "")


def _as_json(items: Sequence[Pin] | Sequence[Part]) -> str | None:
    """Return what identifies the items as a JSON list; None when there are none."""
    return json.dumps([item.as_data() for item in items], sort_keys=True) if items else None


def _content(path: Path) -> FileInput:
    return FileInput(path, digest.of_tree(path))
