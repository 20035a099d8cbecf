"""Which files of a recipe an action reads: the host build's tree and each object's sources."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from gpuforge import digest
from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import Object
from gpuforge.plan.action import FileInput

# Never part of a source tree: version control, environments, caches and the products of earlier builds.
LEFT_OUT = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "venv",
        "__pycache__",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".tox",
        ".nox",
    }
)
MOST_EXPLAINED = 200  # files of one input whose changes are told one by one
LEFT_OUT_AT_TOP = frozenset({"dist", "build", "wheelhouse"})


def host_tree(file: ManifestFile, root: Path) -> FileInput:
    """Return the host build's source tree: all below `root` but build products, the manifest and object sources.

    Sources of an object with `in-host-build` stay in. So a changed kernel does not rebuild the host code.
    """
    apart = {
        member
        for item in file.manifest.objects
        if item.sources and not item.in_host_build
        for member in matches(file, item)
    }
    apart |= {path for folder in file.manifest.build.overlay for path in digest.walk(file.folder / folder)}
    members = sorted(path for path in _tree(root) if path not in apart and path != file.path)
    return _files(root, members)


def build_files(root: Path, tree: FileInput) -> str:
    """Return the digest of what decides on build requirements: pyproject.toml, setup.py and setup.cfg."""
    names = ("pyproject.toml", "setup.py", "setup.cfg")
    return digest.of_files(root, [root / name for name in names if name in (tree.members or ())])


def object_sources(file: ManifestFile, item: Object) -> FileInput:
    """Return the sources and headers of one object; raises UsageError when a pattern matches nothing."""
    return _files(file.folder, matches(file, item))


def matches(file: ManifestFile, item: Object) -> list[Path]:
    """Return the files that an object's `sources` and `headers` match, sorted; raises UsageError for none."""
    index = file.manifest.objects.index(item)
    found: set[Path] = set()
    for key, patterns in (("sources", item.sources), ("headers", item.headers)):
        for number, pattern in enumerate(patterns):
            hits = [path for path in file.folder.glob(pattern) if path.is_file()]
            if not hits:
                raise UsageError.of(
                    f"object {item.name!r}: {pattern!r} matches no file in {file.folder}",
                    hint="patterns are relative to the manifest's folder; ** crosses folders",
                    place=file.place("objects", index, key, number),
                )
            found.update(hits)
    return sorted(found)


def compiled(file: ManifestFile, item: Object) -> list[PurePosixPath]:
    """Return the files of an object that are compiled (its `sources`), relative to the manifest's folder."""
    hits = {path for pattern in item.sources for path in file.folder.glob(pattern) if path.is_file()}
    return sorted(PurePosixPath(path.relative_to(file.folder).as_posix()) for path in hits)


def _files(root: Path, members: Sequence[Path]) -> FileInput:
    parts = digest.of_each(root, members)
    explained = tuple(parts.items()) if len(parts) <= MOST_EXPLAINED else ()
    return FileInput(root, digest.of_data(parts), tuple(parts), explained)


def _tree(root: Path) -> Iterator[Path]:
    for name, folders, files in os.walk(root):
        folder = Path(name)
        top = LEFT_OUT_AT_TOP if folder == root else frozenset()
        folders[:] = [
            f for f in folders if f not in LEFT_OUT and f not in top and not f.endswith(".egg-info")
        ]
        yield from (folder / file for file in files if not file.endswith((".pyc", ".pyo")))
