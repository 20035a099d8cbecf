"""Which files of a recipe an action reads: the host build's tree, and the sources of objects, which become kernels."""

import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from gpuforge import digest, tree
from gpuforge.diagnostics import Place
from gpuforge.digest import Contents
from gpuforge.errors import UsageError
from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import DeclaredToolchain, Manifest, Object, Role
from gpuforge.package.contents import CompiledBy, LibrarySet, ModuleSet
from gpuforge.plan.action import FileInput

PatternKey = Literal["sources", "headers", "abi"]
"""What an object's patterns of files are for."""

# In the folder of finished wheels, wherever it is: file name -> its package, cell and sha256 when it was put there;
# outdated wheels, which `dist/*.whl` and `dist/*` do not match; the working directories of failed actions.
RECORD, SET_ASIDE, FAILED = ".gpuforge.json", ".set-aside", ".failed"
# Never part of a source tree: version control, environments, caches and the products of earlier builds.
LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
    | {".tox", ".nox", SET_ASIDE, FAILED}
)
LEFT_OUT_AT_TOP = frozenset({"dist", "build", "wheelhouse"})


def host_tree(file: ManifestFile, root: Path, contents: Contents) -> FileInput:
    """Return the host build's source tree: all of `root` except build products, the manifest and object sources.

    Sources of an object with `in-host-build` stay in. A changed kernel thus does not rebuild the host code.  The file
    that this process's output goes to (`gpuforge build > build.log`) is left out.
    """
    apart = {
        member
        for number, item in enumerate(file.manifest.objects)
        if item.sources and not item.in_host_build
        for member in matches(file, number)
    }
    overlays = {file.folder / folder for _, folder in file.manifest.build.overlay_folders}
    apart |= {file.path, *_own_output(root)}
    members = sorted(path for path in _tree(root) if path not in apart and overlays.isdisjoint(path.parents))
    return files(root, members, contents)


def _own_output(root: Path) -> set[Path]:
    """Return the files below `root` that this process's stdout and stderr are written to."""
    with suppress(OSError):  # of a closed one
        written = [os.fstat(number) for number in (1, 2)]
        outputs = [status for status in written if stat.S_ISREG(status.st_mode)]
        if outputs:
            return {p for p in _tree(root) if any(os.path.samestat(p.lstat(), status) for status in outputs)}
    return set()


def of_tree(tree: FileInput, names: Sequence[str], contents: Contents) -> FileInput:
    """Return the files of a source tree that are among `names`, as an input."""
    members = tuple(name for name in names if name in (tree.members or ()))
    files = [tree.path / name for name in members]
    return FileInput(tree.path, digest.of_files(tree.path, files, contents), members)


def test_sources(file: ManifestFile, contents: Contents) -> FileInput:
    """Return the files of `[test] sources`; raises UsageError for files that are not beside the manifest."""
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
    return files(file.folder, sorted(found), contents)


def built_wheels(file: ManifestFile, contents: Contents, *, for_test: bool = True) -> tuple[FileInput, ...]:
    """Return the wheels of the manifests to build first, those in the `dist` of each: for the build or the tests."""
    tables = (file.manifest.build, *((file.manifest.test,) if for_test else ()))
    folders = [file.folder / name / "dist" for table in tables for name in table.build]
    return tuple(files(folder, sorted(folder.glob("*.whl")), contents) for folder in folders)


def overlay(file: ManifestFile, number: int, folder: str, contents: Contents) -> FileInput:
    """Return all files in a folder of `[build] overlay`; raises UsageError for links that lead out of it."""
    root = file.folder / folder
    if tree.leaves(file.folder, folder):
        raise UsageError.of(
            f"[build] overlay: {root.name!r} leads out of the manifest's folder",
            hint="put a copy there in place of the link",
            place=file.place("build", "overlay", number),
        )
    members = [root / each.path for each in tree.walk(root) if not each.is_folder]
    return files(root, members, contents)


def matches(file: ManifestFile, number: int) -> list[Path]:
    """Return the sources and headers of an object, sorted; raises UsageError for a pattern without a file."""
    keys: tuple[PatternKey, ...] = ("sources", "headers", "abi")
    return sorted({file.folder / name for key in keys for name in matching(file, number, key)})


def matching(file: ManifestFile, number: int, key: PatternKey) -> tuple[str, ...]:
    """Return the files of an object that its patterns of one key match, relative to the manifest's folder, sorted.

    Raises UsageError for a pattern that matches none, and for one that is wrong.
    """
    item = file.manifest.objects[number]
    patterns = (item.abi.headers if item.abi else ()) if key == "abi" else getattr(item, key)
    found: set[Path] = set()
    for index, pattern in enumerate(patterns):
        keys = ("abi", "headers") if key == "abi" else (key, index)
        found.update(_glob(file.folder, pattern, item.name, file.place("objects", number, *keys)))
    return tuple(path.relative_to(file.folder).as_posix() for path in sorted(found))


def _glob(folder: Path, pattern: str, name: str, place: Place) -> list[Path]:
    """Return the files that one pattern of an object matches; raises UsageError for none, and outside of the folder."""
    hits = [path for path in folder.glob(pattern) if path.is_file()]
    if ".." in PurePosixPath(pattern).parts:
        raise UsageError.of(
            f"object {name!r}: {pattern!r} leads out of the manifest's folder",
            hint="keep sources below the manifest's folder",
            place=place,
        )
    if not hits:
        raise UsageError.of(
            f"object {name!r}: {pattern!r} matches no file in {folder}",
            hint="patterns are relative to the manifest's folder; ** crosses folders",
            place=place,
        )
    return hits


def part(tree: FileInput, names: Collection[str]) -> FileInput:
    """Return some files of an input as an input of their own."""
    parts = {name: identity for name, identity in tree.parts if name in names}
    return FileInput(tree.path, digest.of_data(parts), tuple(parts), tuple(parts.items()))


def files(root: Path, members: Sequence[Path], contents: Contents) -> FileInput:
    """Return some files below a folder as one input.

    Raises UsageError for a link that leads out of the folder, and for anything but a file: a pipe, a device.
    """
    for member in members:
        _refuse_what_is_no_source(root, member)
    parts = digest.of_each(root, members, contents)
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


def _made(folder: Path) -> frozenset[str]:
    """Return the names of the wheels that builds put into a folder, and of their list of variants."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        wheels: list[str] = [*json.loads((folder / RECORD).read_bytes())["wheels"]]
        return frozenset(wheels + ["-".join(wheel.split("-")[:2]) + "-variants.json" for wheel in wheels])
    return frozenset()


def _tree(root: Path) -> Iterator[Path]:
    made = cache(lambda folder: _made(root / folder))

    def leaves_out(entry: tree.TreeEntry) -> bool:
        folder, name = os.path.split(entry.path)
        if not (entry.is_folder or entry.link):
            # .git: a worktree's
            return name in {".git", RECORD} or name.endswith((".pyc", ".pyo")) or name in made(folder)
        return (
            name in LEFT_OUT
            or (not folder and name in LEFT_OUT_AT_TOP)
            or name.endswith(".egg-info")
            or (root / entry.path / "pyvenv.cfg").is_file()  # a virtual environment of any name
        )

    yield from (root / each.path for each in tree.walk(root, leaves_out) if not each.is_folder)


class LoweredObject(NamedTuple):
    """An object of the manifest that has sources. Names of files are relative to the manifest's folder."""

    name: str
    number: int  # its index among the manifest's objects
    role: Role
    kind: Literal["library", "module"]
    toolchains: Mapping[str, DeclaredToolchain]  # by name, in the order they are tried; a fallback has one
    flags: tuple[str, ...]
    levels: tuple[str, ...]  # of CPUs, each with a library; none: one library
    files: FileInput  # sources and headers
    sources: tuple[str, ...]  # what is compiled
    headers: frozenset[str]  # what each source may include
    abi: str  # the id of its ABI, or ""
    # installed packages that are part of its ABI, with what counts of their versions
    abi_packages: Mapping[str, str]
    stands_in_for: str  # the object that this fallback replaces, or ""
    fallbacks: tuple[str, ...]  # those of the same kind that replace this object
    cpu: str  # the library that does the work of a set of modules on the CPU, or ""
    in_kernels_wheel: bool
    program: bool = False  # instead of a library

    @property
    def toolchain(self) -> DeclaredToolchain:
        """The toolchain of a fallback."""
        (only,) = self.toolchains.values()
        return only

    @property
    def abi_macro(self) -> str:
        """The compiler's option for the id that `runtime/c` puts into a library."""
        return f'-DGPUFORGE_ABI_ID="{self.abi}"'

    def module_set(self, toolkit: str, made_by: CompiledBy, *, install: str = "") -> ModuleSet:
        """Return the set of a fallback's modules, without them; `install` is the command for what runs them."""
        return ModuleSet(
            name=self.name,
            toolkit=toolkit,
            toolchain=made_by,
            stands_in_for=self.stands_in_for,
            cpu=self.cpu,
            install=install,
        )

    def library_set(self, toolkit: str, made_by: CompiledBy) -> LibrarySet:
        """Return the set of a fallback's libraries, without them."""
        return LibrarySet(
            name=self.name,
            toolkit=toolkit,
            toolchain=made_by,
            abi=self.abi,
            packages=self.abi_packages,
            stands_in_for=self.stands_in_for,
            fallbacks=self.fallbacks,
            program=self.program,
        )

    def files_for(self, source: str) -> FileInput:
        """Return what the compilation of one source reads: the source itself, and every header."""
        return part(self.files, {source, *self.headers})


def lower_objects(file: ManifestFile, contents: Contents) -> tuple[LoweredObject, ...]:
    """Return the manifest's objects that have sources; raises UsageError for a pattern that matches nothing."""
    return tuple(
        _lower_object(file, number, contents)
        for number, item in enumerate(file.manifest.objects)
        if item.sources
    )


def _lower_object(file: ManifestFile, number: int, contents: Contents) -> LoweredObject:
    manifest = file.manifest
    item = manifest.objects[number]
    names = [item.toolchain] if item.toolchain else item.toolchains
    return LoweredObject(
        name=item.name,
        number=number,
        role=item.role,
        kind=item.form,
        program=item.kind == "program",
        toolchains={name: manifest.toolchains[name] for name in names},
        flags=item.flags,
        levels=item.cpu,
        files=files(file.folder, matches(file, number), contents),
        sources=matching(file, number, "sources"),
        headers=frozenset(matching(file, number, "headers")),
        abi=abi_identity(file, number, contents),
        abi_packages=abi_packages_of(file.manifest, number),
        stands_in_for=item.stands_in_for or "",
        fallbacks=_stand_ins(manifest, item, item.form),
        cpu=next(iter(_stand_ins(manifest, item, "library")), "") if item.kind == "module" else "",
        in_kernels_wheel=kernels_wheels.in_kernels_wheel(manifest, item),
    )


def abi_identity(file: ManifestFile, number: int, contents: digest.Contents) -> str:
    """Return "VERSION-DIGEST" over the declared headers, their names and contents; "" without an `abi`.

    A fallback that stands in for another object has that object's. Raises UsageError for patterns without a file.
    """
    owner = _owner(file.manifest, number)
    about = file.manifest.objects[owner].abi
    if about is None:
        return ""
    headers = matching(file, owner, "abi")
    parts = {name: contents.of(file.folder, name) for name in headers}
    return f"{about.version}-{digest.of_data([about.version, parts])}"


def abi_packages_of(manifest: Manifest, number: int) -> dict[str, str]:
    """Return the installed packages whose version is part of an object's ABI, each with the part that counts."""
    about = manifest.objects[_owner(manifest, number)].abi
    return dict(about.packages) if about else {}


def _stand_ins(manifest: Manifest, item: Object, kind: str) -> tuple[str, ...]:
    others = (other for other in manifest.objects if other.stands_in_for == item.name)
    return tuple(other.name for other in others if other.form == kind)


def _owner(manifest: Manifest, number: int) -> int:
    """Return the index of the object whose ABI an object has: its own, or that of the one that it stands in for."""
    name = manifest.objects[number].stands_in_for
    return next((n for n, other in enumerate(manifest.objects) if other.name == name), number)
