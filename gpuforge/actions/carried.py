"""The libraries of the build environment's packages that a wheel uses at run time, such as torch's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from gpuforge.actions.environment import build_environment, environment_name
from gpuforge.cuda import carriers
from gpuforge.cuda.carriers import BuildLibraries, Carried
from gpuforge.errors import ActionError, MalformedError
from gpuforge.plan.action import ActionInput, Handle, P, Step, Workdir
from gpuforge.plan.cell import Cell
from gpuforge.plan.context import PlanContext


@dataclass(frozen=True, kw_only=True)
class CarriedLibraries(Step[P]):
    """List the libraries of packages in a build environment: of `named`, and of packages known to carry some."""

    env: P
    named: tuple[str, ...] = ()  # the manifest's packages: each must be there

    def run(self: CarriedLibraries[Path], at: Workdir) -> None:
        """Write the environment's `BuildLibraries`.

        Raises ActionError for a package that the environment lacks, or that has no library.
        """
        from gpuforge.actions import value_file

        (site,) = self.env.glob("lib/python3*/site-packages")
        installed = {canonicalize_name(each.name): each for each in distributions(path=[str(site)])}
        named = [canonicalize_name(name) for name in self.named]
        for name in named:
            if name not in installed:
                raise ActionError.of(
                    f"[wheel] provided-by names {name}, which the build environment does not have",
                    hint=f'add it to [build] requires = ["{name}"], or remove it from provided-by',
                )
        found = []
        linked = {canonicalize_name(each.package) for each in carriers.linked_frameworks()}
        chosen = {*named, *(linked & installed.keys())}
        for name in sorted(chosen):
            package = _carried(name, installed[name], site)
            if name in named and not package.libraries:
                raise ActionError.of(
                    f"[wheel] provided-by names {name}, but {name} {package.version} has no shared libraries",
                    hint="remove it from provided-by; [wheel] requires declares a package without libraries",
                )
            found.append(package)
            print(f"{name} {package.version} has {len(package.libraries)} libraries")
        apart = {
            place.name: name
            for name in sorted(installed.keys() - chosen)
            for place in _places(installed[name])
        }
        value_file.write(BuildLibraries(tuple(found), apart), at.output("carried.json"))


def _carried(name: str, distribution: Distribution, site: Path) -> Carried:
    """Return a package's libraries, without extension modules."""
    libraries = dict(sorted(_libraries(distribution, site)))
    tops = {folder.partition("/")[0] for folder in libraries.values()}
    modules = sorted(top for top in tops if top.isidentifier() and (site / top / "__init__.py").is_file())
    return Carried(name, distribution.version, modules[0] if modules else "", libraries)


def _libraries(distribution: Distribution, site: Path) -> Iterator[tuple[str, str]]:
    """Yield SONAME and folder of each library of a package."""
    from gpuforge.binary.elf import linked_file

    for place in _places(distribution):
        try:
            found = linked_file.read(site / place)
        except (MalformedError, OSError):
            continue
        if found:
            yield found.soname or place.name, str(place.parent)


def _places(distribution: Distribution) -> list[PurePosixPath]:
    """Return the files of a package that have names of libraries."""
    places = map(PurePosixPath, distribution.files or ())
    return [p for p in places if p.name.startswith("lib") and ".so" in p.name and ".." not in p.parts]


def carried(context: PlanContext, cell: Cell) -> ActionInput:
    """List them, while the host build runs in another copy of that environment."""
    at, _ = context.machine.host_at(cell)
    env = build_environment(context, cell, at)
    return context.add_step(
        CarriedLibraries[Handle](env=env, named=context.file.manifest.wheel.provided_by),
        at,
        id=f"{environment_name(context, cell, at)}/carried",
        kind="prepare",
        title=f"list the libraries of the build environment for Python {cell.python}",
        outputs=("carried.json",),
    )
