"""What this machine or an image offers to a plan: compilers, interpreters and toolkits, found and checked."""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from gpuforge.cpython import CPython
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import MissingError, UsageError
from gpuforge.manifest.checks import OLDEST_PYTHON
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import Manifest
from gpuforge.plan.cell import Cell, LeftOut, LeftOutReason, Selection
from gpuforge.plan.site import (
    Location,
    Machine,
    Site,
    ThisMachine,
    accepted,
    host_compiler,
    host_compilers,
    host_keys,
    host_place,
    library_compilers,
    to_install,
)
from gpuforge.runtime.arch import Arch
from gpuforge.toolchains import registry
from gpuforge.toolchains.cpython import Interpreter
from gpuforge.toolchains.toolchain import Compiler
from gpuforge.toolkits import select
from gpuforge.toolkits.pins import UnknownLibraryError
from gpuforge.toolkits.select import select as select_toolkit
from gpuforge.toolkits.toolkit import Toolkit

T = TypeVar("T")


def machine_type() -> str:
    """Return this machine's type as platform tags write it ("x86_64", "aarch64")."""
    return platform.machine()


def resolve(
    file: ManifestFile,
    selection: Selection,
    sites: Sequence[Site] | None = None,
) -> tuple[Machine, Selection]:
    """Find what the selected cells need; return it with the selection that can be built there.

    `sites` are the images to build in, the preferred one first; by default it is this machine. A cell that needs
    something they lack is left out, with the reason. It is an error if the user requested it, if no cell is left, or if
    only `[test] image` lacks it. Raises UsageError for combinations that cannot work, all of them at once, and
    MissingError for what is not there.
    """
    every = [_Survey(file, selection, site) for site in sites or [ThisMachine()]]
    surveys = {
        machine: [survey for survey in every if survey.location.machine == machine] or every[:1]
        for machine in _names(selection, "machine")
    }
    buildable = tuple(c for c in selection.cells if any(not survey.lacks(c) for survey in surveys[c.machine]))
    others = [c for c in selection.cells if c not in buildable]
    chosen = [
        c
        for c in others
        if all(
            selection.requested & survey.lacks(c).keys() or c.python in survey.untestable
            for survey in surveys[c.machine]
        )
    ]
    if chosen or not buildable:
        refused = dict.fromkeys(
            e for c in chosen or others for s in surveys[c.machine] for e in s.lacks(c).values()
        )
        problems = [d for error in refused for d in error.diagnostics]
        raise MissingError.all_of(dict.fromkeys(problems))
    left_out = [LeftOut(c, _missing([survey.problem(c) for survey in surveys[c.machine]])) for c in others]
    machine = Machine(tuple(survey.location for survey in every), file.manifest.host_cuda)
    return machine, Selection(buildable, (*selection.left_out, *left_out), selection.requested)


class _Survey:
    """Searches one site for all that the cells need, and collects what is missing, to report it at once."""

    def __init__(self, file: ManifestFile, selection: Selection, site: Site) -> None:
        self._missing: dict[tuple[str, str], MissingError] = {}  # by dimension and name
        self._usual: Compiler | None = None
        self._others: Mapping[str, Compiler] = {}
        self.untestable: set[str] = set()  # the Pythons that only `[test] image` lacks
        cudas = _names(selection, "cuda")
        machine = _machine(site)
        file = file.on(machine)
        hosts = self._hosts(file, cudas, site, by_hand="cuda" in selection.requested)
        toolkits = self._all("cuda", filter(None, cudas), lambda name: toolkit_of(file, name, machine, site))
        unfit = [p for name, toolkit in toolkits.items() for p in unfit_compilers(file, name, toolkit)]
        if unfit:
            raise UsageError.all_of(unfit)
        interpreters = self._all(
            "python", _names(selection, "python"), lambda name: _interpreter(file, name, site)
        )
        hosts = {name: host for name, host in hosts.items() if name in toolkits or not name}
        tests = self._clean(file, site, interpreters, toolkits)
        interpreters = {
            name: each for name, each in interpreters.items() if ("python", name) not in self._missing
        }
        self.location = Location(site.image, hosts, interpreters, toolkits, tests, self._usual, self._others)

    def lacks(self, cell: Cell) -> dict[str, MissingError]:
        """Return the needs of a cell that the site does not have, by dimension."""
        if cell.machine != self.location.machine:
            return {"machine": _of_another_machine(cell.machine, self.location)}
        names = (("cuda", cell.cuda), ("python", cell.python))
        return {key[0]: self._missing[key] for key in names if key in self._missing}

    def problem(self, cell: Cell) -> Diagnostic:
        """Return why a cell cannot be built at this site."""
        return next(iter(self.lacks(cell).values())).diagnostics[0]

    def _hosts(
        self, file: ManifestFile, cudas: Sequence[str], site: Site, *, by_hand: bool
    ) -> dict[str, Compiler]:
        try:
            self._usual = host_compiler(file, site)
            self._others = library_compilers(file, site)
        except MissingError as error:
            if site.image is None:
                raise
            self._missing |= {("cuda", name): error for name in cudas}
            return {}
        hosts = host_compilers(file, cudas, site, self._usual)
        found = {name: list(impossible(file, name, host, site)) for name, host in hosts.items()}
        ours = by_hand and site.image is None  # another image may have another compiler
        problems = [p for each in found.values() for p in each if ours or p.place != host_place(file)]
        if problems:
            raise UsageError.all_of(problems)
        where = f"image {site.image.name}: " if site.image else ""
        for name, each in found.items():
            if each:
                problems = [Diagnostic(f"{where}{d.message}", d.place, d.hint) for d in each]
                self._missing["cuda", name] = MissingError.all_of(problems)
        return hosts

    def _clean(
        self, file: ManifestFile, site: Site, pythons: Iterable[str], toolkits: Mapping[str, Toolkit]
    ) -> Location | None:
        """Return the image that the site's wheels are tested in; a Python that it lacks counts as missing here."""
        image = site.image.test if site.image else None
        if image is None:
            return None
        newer = file.manifest.package.abi is not None
        found = {}
        for python in pythons:
            oldest = _oldest(file.manifest, python)
            try:
                found[python] = image.inventory.find(oldest, or_newer=newer, headers=False)
            except MissingError as error:
                if site.image and not site.image.spare:
                    self.untestable.add(python)
                    self._missing["python", python] = _for_tests(file, oldest, error)
        return Location(image, {}, found, toolkits)

    def _all(self, dimension: str, names: Iterable[str], look: Callable[[str], T]) -> dict[str, T]:
        found = {}
        for name in names:
            if (dimension, name) in self._missing:
                continue
            try:
                found[name] = look(name)
            except MissingError as error:
                self._missing[dimension, name] = error
        return found


def _of_another_machine(machine: str, at: Location) -> MissingError:
    """Return the error for wheels of another machine type than all places to build in."""
    where = f"image {at.image.name}" if at.image else "local processes"
    return MissingError.of(
        f"{where} cannot build wheels for {machine}: this machine is {machine_type()}",
        hint=f"--runner docker builds them where QEMU emulates {machine} (gpuforge images build NAME --machine "
        f"{machine}); or build them on a machine of that type, which `gpuforge matrix` names for CI; --machine "
        f"{at.machine} leaves them out",
    )


def _missing(problems: Sequence[Diagnostic]) -> LeftOutReason:
    hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
    return LeftOutReason(
        "missing", {"problems": tuple(problem.message for problem in problems), "hints": tuple(hints)}
    )


def _for_tests(file: ManifestFile, python: str, error: MissingError) -> MissingError:
    """Return the error for a Python that the image of the tests lacks, with a hint."""
    hint = f'name an image that has it in [test] image, such as "python:{python}-slim", or choose others with --python'
    place = file.place("test", "image")
    return MissingError.all_of(Diagnostic(d.message, place, hint) for d in error.diagnostics)


def _names(selection: Selection, field: str) -> list[str]:
    return list(dict.fromkeys(getattr(cell, field) for cell in selection.cells))


def toolkit_of(file: ManifestFile, cuda: str, machine: str, site: Site) -> Toolkit:
    """Return the toolkit of `[cuda.<cuda>]`; its errors carry that place."""
    cuda_version = file.manifest.cuda.versions[cuda]
    try:
        return select_toolkit(
            cuda_version.toolkit,
            provider=cuda_version.provider,
            libraries=file.manifest.cuda.libraries,
            machine=machine,
            inventory=site.image.inventory if site.image else None,
        )
    except (UsageError, MissingError) as error:
        unknown = isinstance(error, UnknownLibraryError)
        place = file.place("cuda", "libraries") if unknown else file.place("cuda", cuda, "toolkit")
        raise type(error).all_of(
            [Diagnostic(d.message, d.place or place, d.hint) for d in error.diagnostics]
        ) from error


def _machine(site: Site) -> str:
    return site.image.inventory.machine if site.image else machine_type()


def impossible(file: ManifestFile, cuda: str, host: Compiler | None, site: Site) -> Iterable[Diagnostic]:
    """Yield what cannot work in `[cuda.<cuda>]` with this host compiler (None: any), and the nearest that can."""
    if not cuda:
        return
    cuda_version = file.manifest.cuda.versions[cuda]
    archs = [target.arch for target in cuda_version.targets if target.real]
    ptx = Arch.parse(cuda_version.ptx) if cuda_version.ptx else None
    own = (_machine(site),) if cuda_version.own(_machine(site)) else ()
    for problem in select.unsupported(toolkit=cuda_version.toolkit, host=host, archs=archs, ptx=ptx):
        keys: tuple[str | int, ...] = ("cuda", cuda, *own, problem.subject)
        hint = problem.hint
        if problem.subject == "toolkit":
            keys = ("cuda", cuda, "toolkit")
        elif problem.subject == "host" and host is not None:
            keys = host_keys(file)
            offers = (site.offered(*each) for each in accepted(file, cuda, host.family).items())
            hint = next((to_install(offer) for offer in offers if offer), hint)
            hint += "; `gpuforge images list` shows the compilers of each image" if site.image else ""
        elif problem.item is not None:
            keys = (*keys, problem.item)
        yield Diagnostic(problem.message, file.place(*keys), hint)


def unfit_compilers(file: ManifestFile, cuda: str, toolkit: Toolkit) -> Iterator[Diagnostic]:
    """Yield the toolchains of fallback objects that use the toolkit's compiler and whose `version` excludes it."""
    used = {item.toolchain for item in file.manifest.objects if item.role == "fallback"}
    for name, toolchain in file.manifest.toolchains.items():
        of_toolkit = registry.toolchain(toolchain.compiler).of_toolkit
        if name in used and of_toolkit and toolkit.nvcc not in toolchain.versions:
            yield Diagnostic(
                f"[cuda.{cuda}] has nvcc {toolkit.nvcc}, which is not {toolchain.version}",
                file.place("toolchains", name, "version"),
                "widen the range, or choose a toolkit in it",
            )


def _interpreter(file: ManifestFile, python: str, site: Site) -> Interpreter:
    return site.find(_oldest(file.manifest, python), or_newer=file.manifest.package.abi is not None)


def _oldest(manifest: Manifest, python: str) -> str:
    """Return the oldest Python that serves a cell: its own, or the first of a wheel for every Python 3.

    A wheel of the stable ABI may promise an older one than gpuforge can build with.
    """
    package = manifest.package
    if package.abi == "none":
        return package.python[0] if package.python else "3.11"
    return max(python, OLDEST_PYTHON, key=CPython.parse)
