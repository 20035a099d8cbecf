"""Which files of a recipe an action reads: the host build's tree and each object's sources."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from gpuforge import digest, tree
from gpuforge.diagnostics import Place
from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model.object import Object
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
LEFT_OUT_AT_TOP = frozenset({"dist", "build", "wheelhouse"})


def host_tree(file: ManifestFile, root: Path) -> FileInput:
    """Return the host build's source tree: all below `root` but build products, the manifest and object sources.

    Sources of an object with `in-host-build` stay in. So a changed kernel does not rebuild the host code. The file that
    this process's output goes to (`gpuforge build > build.log`) is no source.
    """
    apart = {
        member
        for item in file.manifest.objects
        if item.sources and not item.in_host_build
        for member in matches(file, item)
    }
    overlays = {file.folder / folder for _, folder in file.manifest.build.overlay_folders}
    apart |= {file.path, *_own_output(root)}
    members = sorted(path for path in _tree(root) if path not in apart and overlays.isdisjoint(path.parents))
    return files(root, members)


def _own_output(root: Path) -> set[Path]:
    """Return the files below `root` that this process's stdout and stderr are written to."""
    with suppress(OSError):  # of a closed one
        written = [os.fstat(number) for number in (1, 2)]
        outputs = [status for status in written if stat.S_ISREG(status.st_mode)]
        if outputs:
            return {p for p in _tree(root) if any(os.path.samestat(p.lstat(), status) for status in outputs)}
    return set()


def of_tree(tree: FileInput, *names: str) -> FileInput:
    """Return those of some files of a source tree that are there, as an input of their own."""
    members = tuple(name for name in names if name in (tree.members or ()))
    return FileInput(tree.path, digest.of_files(tree.path, [tree.path / name for name in members]), members)


def object_sources(file: ManifestFile, item: Object) -> FileInput:
    """Return the sources and headers of one object; raises UsageError when a pattern matches nothing."""
    return files(file.folder, matches(file, item))


def test_sources(file: ManifestFile) -> FileInput:
    """Return the files of `[test] sources`; raises UsageError for what is not beside the manifest."""
    found: set[Path] = set()
    for number, name in enumerate(file.manifest.test.sources):
        path, place = file.folder / name, file.place("test", "sources", number)
        if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
            raise UsageError.of(
                f"[test] sources: {name!r} leads out of the manifest's folder",
                hint="name what lies beside the manifest; in the command, {project} is the source tree",
                place=place,
            )
        if not path.exists():
            raise UsageError.of(
                f"[test] sources: there is no {name!r} beside the manifest",
                hint="the path starts from the manifest's folder; in the command, {project} is the source tree",
                place=place,
            )
        found.update(_tree(path) if path.is_dir() else [path])
    return files(file.folder, sorted(found))


def overlay(file: ManifestFile, number: int, folder: str) -> FileInput:
    """Return all of a folder of `[build] overlay`; raises UsageError for what leads out of it."""
    root = file.folder / folder
    if tree.leaves(file.folder, folder):
        raise UsageError.of(
            f"[build] overlay: {root.name!r} leads out of the manifest's folder",
            hint="put a copy there in place of the link",
            place=file.place("build", "overlay", number),
        )
    return files(root, [root / each.path for each in tree.walk(root) if not each.is_folder])


def one_source(file: ManifestFile, item: Object, source: str) -> FileInput:
    """Return what one compilation reads of its object: the source itself, and every header."""
    headers = {path for pattern in item.headers for path in _glob(file, item, "headers", pattern)}
    return files(file.folder, sorted({file.folder / source, *headers}))


def matches(file: ManifestFile, item: Object) -> list[Path]:
    """Return the files that an object's `sources` and `headers` match, sorted; raises UsageError for none."""
    found: set[Path] = set()
    for key, patterns in (("sources", item.sources), ("headers", item.headers)):
        for pattern in patterns:
            found.update(_glob(file, item, key, pattern))
    return sorted({*found, *abi_headers(file, item)})


def abi_headers(file: ManifestFile, item: Object) -> list[Path]:
    """Return the headers that an object's ABI is made of, sorted; raises UsageError for a pattern without a file."""
    if item.abi is None:
        return []
    return sorted({path for pattern in item.abi.headers for path in _glob(file, item, "abi", pattern)})


def _glob(file: ManifestFile, item: Object, key: str, pattern: str) -> list[Path]:
    """Return the files that one pattern matches; raises UsageError for none, and for a pattern that is wrong."""
    number = file.manifest.objects.index(item)
    if key == "abi":
        place = file.place("objects", number, "abi", "headers")
    else:
        place = file.place("objects", number, key, getattr(item, key).index(pattern))
    try:
        hits = [path for path in file.folder.glob(pattern) if path.is_file()]
    except ValueError as error:
        raise UsageError.of(
            f"object {item.name!r}: {pattern!r} is not a valid pattern: {error}",
            hint="** stands for folders and alone between slashes: kernels/**/*.cu",
            place=place,
        ) from error
    if ".." in PurePosixPath(pattern).parts:
        raise UsageError.of(
            f"object {item.name!r}: {pattern!r} leads out of the manifest's folder",
            hint="keep sources below the manifest's folder",
            place=place,
        )
    if not hits:
        raise UsageError.of(
            f"object {item.name!r}: {pattern!r} matches no file in {file.folder}",
            hint="patterns are relative to the manifest's folder; ** crosses folders",
            place=place,
        )
    return hits


def compiled(file: ManifestFile, item: Object) -> list[PurePosixPath]:
    """Return the files of an object that are compiled (its `sources`), relative to the manifest's folder."""
    hits = {path for pattern in item.sources for path in _glob(file, item, "sources", pattern)}
    return sorted(PurePosixPath(path.relative_to(file.folder).as_posix()) for path in hits)


def files(root: Path, members: Sequence[Path]) -> FileInput:
    """Return some files below a folder as one input.

    Raises UsageError for a link that leads out of the folder, and for anything but a file: a pipe, a device.
    """
    for member in members:
        _refuse_what_is_no_source(root, member)
    parts = digest.of_each(root, members)
    return FileInput(root, digest.of_data(parts), tuple(parts), tuple(parts.items()))


def _refuse_what_is_no_source(root: Path, member: Path) -> None:
    name, kind = member.relative_to(root).as_posix(), stat.S_IFMT(member.lstat().st_mode)
    if kind not in {stat.S_IFREG, stat.S_IFLNK}:
        raise UsageError.of(
            f"{name} is {tree.KINDS.get(kind, 'no file')}, and sources are files and folders",
            hint="remove it, or build from a copy of the project without it",
            place=Place(str(root)),
        )
    target = member.readlink() if kind == stat.S_IFLNK else None
    if tree.leaves(root, name):
        raise UsageError.of(
            f"{name} leads out of its folder{f', to {target}' if target else ''}: "
            "what lies there would come into the build",
            hint="put a copy there in place of the link; a link within the folder is relative",
            place=Place(str(root)),
        )


def _tree(root: Path) -> Iterator[Path]:
    def leaves_out(entry: tree.TreeEntry) -> bool:
        folder, name = os.path.split(entry.path)
        if not (entry.is_folder or entry.link):
            return name.endswith((".pyc", ".pyo")) or name == ".git"  # a worktree's
        return (
            name in LEFT_OUT
            or (not folder and name in LEFT_OUT_AT_TOP)
            or name.endswith(".egg-info")
            or (root / entry.path / "pyvenv.cfg").is_file()  # a virtual environment of any name
        )

    yield from (root / each.path for each in tree.walk(root, leaves_out) if not each.is_folder)
