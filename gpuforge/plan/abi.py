"""The ABI id of a library: what it and the code that calls it must agree on, as one string."""

from __future__ import annotations

from pathlib import Path

from gpuforge import digest
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model.object import Object
from gpuforge.plan import source_files


def identity(file: ManifestFile, item: Object) -> str:
    """Return "VERSION-DIGEST" over the declared headers, their names and contents; "" without an `abi`.

    A fallback that stands in for another object has that object's. Raises UsageError for patterns without a file.
    """
    owner = _owner(file, item)
    if owner.abi is None:
        return ""
    headers: list[Path] = source_files.abi_headers(file, owner)
    parts = {path.relative_to(file.folder).as_posix(): digest.of_file(path) for path in headers}
    return f"{owner.abi.version}-{digest.of_data([owner.abi.version, parts])}"


def packages(file: ManifestFile, item: Object) -> dict[str, str]:
    """Return the installed packages whose version is part of an object's ABI, each with the part that counts."""
    owner = _owner(file, item)
    return dict(owner.abi.packages) if owner.abi else {}


def fallbacks_of(file: ManifestFile, item: Object) -> list[str]:
    """Return the names of the fallbacks that stand in for an object and are of its kind, in the manifest's order."""
    return _stand_ins(file, item, item.kind)


def cpu_of(file: ManifestFile, item: Object) -> str:
    """Return the name of the library that does the work of a set of modules on the CPU, or ""."""
    return next(iter(_stand_ins(file, item, "library")), "") if item.kind == "module" else ""


def _stand_ins(file: ManifestFile, item: Object, kind: str) -> list[str]:
    others = (other for other in file.manifest.objects if other.stands_in_for == item.name)
    return [other.name for other in others if other.kind == kind]


def _owner(file: ManifestFile, item: Object) -> Object:
    return next((other for other in file.manifest.objects if other.name == item.stands_in_for), item)
