"""The releases that the test of a wheel installs and that the index lookup has not read, for the audit."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name, parse_wheel_filename

from gpuforge.binary.elf import linked_file
from gpuforge.cuda.provided import PackageRelease, Provided, Shared
from gpuforge.errors import ActionError, MalformedError
from gpuforge.wheel import metadata
from gpuforge.wheel.archive import Archive, shared_libraries

ROLE = "installed by the test"


def with_tested(provided: Provided, folders: Iterable[Path]) -> Provided:
    """Add releases of the same packages from folders of wheels, in versions that were not looked up on the index."""
    seen: dict[str, set[str]] = {}
    for release in provided.releases:
        seen.setdefault(release.package, set()).update(library.soname for library in release.libraries)
    known = {(release.package, release.version) for release in provided.releases}
    found = []
    for path in sorted(path for folder in folders for path in folder.glob("*.whl")):
        name, version, _, _ = parse_wheel_filename(path.name)
        if name in seen and (name, str(version)) not in known:
            found.append(_release(path, name, str(version), seen))
    return provided._replace(releases=(*provided.releases, *found))


def _release(path: Path, package: str, version: str, seen: Mapping[str, set[str]]) -> PackageRelease:
    with Archive(path) as archive:
        requirements = metadata.requirements(metadata.of_archive(archive))
        here = metadata.marker_environment(platform.machine())
        requires = {canonicalize_name(r.name) for r in requirements if metadata.holds(r.marker, here)}
        libraries = tuple(_loaded(archive, seen[package]))
    return PackageRelease(package, version, ROLE, path.name, "", tuple(sorted(requires)), libraries)


def _loaded(archive: Archive, sonames: Iterable[str]) -> Iterator[Shared]:
    """Yield libraries of a wheel, and those of its own that they need."""
    present = shared_libraries(archive)
    queue, done = [name for name in sonames if name in present], set[str]()
    while queue:
        soname = queue.pop(0)
        if soname in done:
            continue
        done.add(soname)
        with tempfile.NamedTemporaryFile(prefix="library-") as file:
            file.writelines(archive.chunks(present[soname]))
            file.flush()
            try:
                found = linked_file.read(Path(file.name))
            except MalformedError as error:
                message = f"{present[soname].name} is a damaged ELF file: {error.diagnostics[0].message}"
                raise ActionError.of(message) from error
        if found:
            yield Shared(
                soname, str(PurePosixPath(present[soname].name).parent), found.needed, found.search_path
            )
            queue += [needed for needed in found.needed if needed in present]
