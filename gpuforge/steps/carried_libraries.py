"""Write which libraries that a wheel uses at run time are in the packages of a build environment."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from gpuforge.binary.elf import linked_file
from gpuforge.cuda import carriers
from gpuforge.cuda.carriers import BuildLibraries, Carried
from gpuforge.errors import ActionError, MalformedError
from gpuforge.plan.requests.carried import CarriedLibraries
from gpuforge.steps import entry, value_file


def main(request: CarriedLibraries) -> None:
    """Write `output`, the environment's `BuildLibraries`.

    Raises ActionError for a package that the environment lacks, or that has no library.
    """
    (site,) = request.environment.glob("lib/python3*/site-packages")
    installed = {canonicalize_name(each.name): each for each in distributions(path=[str(site)])}
    named = [canonicalize_name(name) for name in request.packages]
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
        place.name: name for name in sorted(installed.keys() - chosen) for place in _places(installed[name])
    }
    value_file.write(BuildLibraries(tuple(found), apart), request.output)


def _carried(name: str, distribution: Distribution, site: Path) -> Carried:
    """Return a package's libraries, without extension modules."""
    libraries = dict(sorted(_libraries(distribution, site)))
    tops = {folder.partition("/")[0] for folder in libraries.values()}
    modules = sorted(top for top in tops if top.isidentifier() and (site / top / "__init__.py").is_file())
    return Carried(name, distribution.version, modules[0] if modules else "", libraries)


def _libraries(distribution: Distribution, site: Path) -> Iterator[tuple[str, str]]:
    """Yield SONAME and folder of each library of a package."""
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


if __name__ == "__main__":
    entry.run(CarriedLibraries, main)
