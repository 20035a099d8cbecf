"""The ABI id of a library: one string that the library and its callers must share."""

from __future__ import annotations

from gpuforge import digest
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import Manifest, Object
from gpuforge.plan import source_files


def identity(file: ManifestFile, number: int, contents: digest.Contents) -> str:
    """Return "VERSION-DIGEST" over the declared headers, their names and contents; "" without an `abi`.

    A fallback that stands in for another object has that object's. Raises UsageError for patterns without a file.
    """
    owner = _owner(file.manifest, number)
    about = file.manifest.objects[owner].abi
    if about is None:
        return ""
    headers = source_files.matching(file, owner, "abi")
    parts = {name: contents.of(file.folder, name) for name in headers}
    return f"{about.version}-{digest.of_data([about.version, parts])}"


def packages(file: ManifestFile, number: int) -> dict[str, str]:
    """Return the installed packages whose version is part of an object's ABI, each with the part that counts."""
    about = file.manifest.objects[_owner(file.manifest, number)].abi
    return dict(about.packages) if about else {}


def fallbacks_of(manifest: Manifest, item: Object) -> tuple[str, ...]:
    """Return the names of the fallbacks that stand in for an object and are of its kind, in the manifest's order."""
    return _stand_ins(manifest, item, item.kind)


def cpu_of(manifest: Manifest, item: Object) -> str:
    """Return the name of the library that does the work of a set of modules on the CPU, or ""."""
    return next(iter(_stand_ins(manifest, item, "library")), "") if item.kind == "module" else ""


def _stand_ins(manifest: Manifest, item: Object, kind: str) -> tuple[str, ...]:
    others = (other for other in manifest.objects if other.stands_in_for == item.name)
    return tuple(other.name for other in others if other.kind == kind)


def _owner(manifest: Manifest, number: int) -> int:
    """Return the index of the object whose ABI an object has: its own, or that of the one that it stands in for."""
    name = manifest.objects[number].stands_in_for
    return next((n for n, other in enumerate(manifest.objects) if other.name == name), number)
