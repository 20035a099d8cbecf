"""Checks a library that was just compiled before it is put in use: ABI, GPU code, whether it loads, and runtimes."""

from __future__ import annotations

import csv
import mmap
import os
import platform
import re
import struct
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import Distribution, PathDistribution, distributions
from pathlib import Path

from .. import elf, layout, wheels
from ..arch import Arch
from ..kernellibrary import start_problem
from ..libraries import wrong_abi
from ..recipe import Recipe, UserToolchain
from .execute import Stopped, execute
from .families import FAMILIES, NVIDIAS, ONE_RELEASE, OPENMP, PROJECTS
from .gpu_code import gpu_code, refused_by_openmp
from .invoke import abi_of

_CACHE = Path("/etc/ld.so.cache")
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_HEAD, _CACHE_ENTRY = 48, 24  # bytes


@dataclass(frozen=True)
class Loaded:
    """A library that will be in the process: the name in NEEDED, and the name by which the loader identifies it."""

    name: str
    path: Path
    soname: str = ""


def graph(first: Sequence[Path], env: Mapping[str, str]) -> list[Loaded]:
    """Return the given libraries and everything that they need, transitively, each file once; not what is missing."""
    found: dict[Path, Loaded] = {}
    pending = [Loaded(path.name, path) for path in first]
    while pending:
        library = pending.pop(0)
        real = library.path.resolve()
        if real in found:
            continue
        try:
            dynamic = elf.read_dynamic(library.path)
        except (OSError, elf.NotReadable):
            continue
        found[real] = replace(library, soname=dynamic.soname or library.name)
        for name in dynamic.needed:
            path = _find(name, dynamic, env)
            if path:
                pending.append(Loaded(name, path))
    return list(found.values())


def _find(name: str, needed_by: elf.Dynamic, env: Mapping[str, str]) -> Path | None:
    origin = needed_by.path.resolve().parent
    own = [_expanded(entry, origin) for entry in needed_by.search]
    named = [folder for folder in env.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for folder in (*own, *named) if needed_by.first else (*named, *own):
        path = Path(folder, name)
        if path.is_file():
            return path
    if name in _system():
        return Path(_system()[name])
    return next((path for folder in _usual() if (path := Path(folder, name)).is_file()), None)


def _expanded(entry: str, origin: Path) -> str:
    for token in ("$ORIGIN", "${ORIGIN}"):
        entry = entry.replace(token, str(origin))
    return os.path.normpath(entry)  # for messages: $ORIGIN is a real path, and libraries are in ../name.libs


def _usual() -> Iterator[str]:
    machine = platform.machine()
    yield from (f"/lib/{machine}-linux-gnu", f"/usr/lib/{machine}-linux-gnu")
    yield from ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")


@lru_cache(maxsize=1)
def _system() -> dict[str, str]:
    """Return the libraries in the loader's cache; an empty table without a cache.

    Format: struct cache_file_new in https://sourceware.org/git/?p=glibc.git;a=blob;f=sysdeps/generic/dl-cache.h
    """
    try:
        data = _CACHE.read_bytes()
    except OSError:
        return {}
    start = data.find(_CACHE_MAGIC)
    if start < 0 or len(data) < start + _CACHE_HEAD:
        return {}
    (count,) = struct.unpack_from("<I", data, start + len(_CACHE_MAGIC))
    entries = data[start + _CACHE_HEAD : start + _CACHE_HEAD + count * _CACHE_ENTRY]
    table: dict[str, str] = {}
    for _, key, value, _, hwcap in struct.iter_unpack("<iIIIQ", entries[: len(entries) // 24 * 24]):
        name, path = (_text(data, start + at) for at in (key, value))
        if not hwcap and (name not in table) and _is_native(path):
            table[name] = path
    return table


def _text(data: bytes, at: int) -> str:
    return os.fsdecode(data[at : data.find(b"\0", at)])


def _is_native(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            return stream.read(5) == b"\x7fELF\x02"  # a 64-bit file
    except OSError:
        return False


_LIBRARY = re.compile(r".*\.so(\.[0-9.]+)?")
# https://packaging.python.org/en/latest/specifications/dependency-specifiers/
_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[(?P<extras>[^\]]*)\])?[^;]*;?(?P<marker>.*)"
)
_EXTRA = re.compile(r"""\bextra\s*==\s*["']([^"']+)["']|["']([^"']+)["']\s*==\s*extra\b""")


@dataclass(frozen=True)
class LibraryGroup:
    """Libraries that are loaded together: the wheel's (`owner` is ""), or those of another package.

    That is one that the wheel requires or, with `build`, a user's build for the package `owner`.
    """

    owner: str
    libraries: tuple[Path, ...]
    build: bool = False


@dataclass(frozen=True)
class _Requirement:
    name: str
    extras: frozenset[str]  # the extras that it requires
    of: frozenset[str]  # the extras that require it; empty: it is always required


def parts(home: Path, package: str, *, without: Sequence[str]) -> list[LibraryGroup]:
    """Return the wheel's libraries, then those of each installed package that it requires.

    `home` is this runtime's folder in the package (an import name). The kernel sets `without` are left out, also those
    in kernels wheels, as another library will be loaded in their place. Without a RECORD the requirements are unknown.
    """
    site, wheel = home.parents[package.count(".") + 1], _wheel(home, package)
    own = list(_beside(site, package)) if wheel is None else _recorded(wheel)
    kernels = [home, *(Path(apart.home) for apart in wheels.installed(str(home), package))]
    unused = {Path(layout.kernels(str(place), name)) for place in kernels for name in without}
    required = _required(wheel, site) if wheel else ()
    found = [
        LibraryGroup("", loaded(own, unused)),
        *(LibraryGroup(str(other.metadata["Name"]), loaded(_files(other), unused)) for other in required),
    ]
    return [part for part in found if part.libraries]


def release(home: Path, package: str) -> str:
    """Return the name and version of this runtime's wheel, "" if it is not known."""
    wheel = _wheel(home, package)
    name = _name(wheel) if wheel else ""
    return f"{name} {wheel.version}" if wheel and name else ""


def _wheel(home: Path, package: str) -> PathDistribution | None:
    site = home.parents[package.count(".") + 1]
    marker = f"{home.relative_to(site).as_posix()}/__init__.py"
    for record in sorted(site.glob("*.dist-info/RECORD")):
        found = PathDistribution(record.parent)
        if site / marker in _recorded(found):
            return found
    return None


def _name(of: Distribution) -> str:
    """Return a package's name, "" if its METADATA is damaged."""
    try:
        return str(of.metadata["Name"] or "")
    except (OSError, ValueError):
        return ""


def _recorded(wheel: PathDistribution) -> list[Path]:
    folder = Path(str(wheel.locate_file("")))
    try:
        return [folder / row[0] for row in csv.reader((wheel.read_text("RECORD") or "").splitlines()) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def _files(other: Distribution) -> Iterator[Path]:
    try:
        files = other.files or ()
    except (OSError, TypeError, ValueError, csv.Error):  # its RECORD is damaged
        return
    for file in files:
        if _LIBRARY.fullmatch(file.name):
            yield Path(os.path.normpath(str(other.locate_file(file))))


def loaded(files: Iterable[Path], unused: Collection[Path]) -> tuple[Path, ...]:
    """Return the libraries among files that a process may load, without the folders `unused`.

    A grafted one (libx-0a1b2c3d.so) is loaded only by those that need it, and so left to `graph`.
    """
    return tuple(
        sorted(
            path
            for path in files
            if _LIBRARY.fullmatch(path.name)
            and not _HASHED.fullmatch(path.name)
            and path.is_file()
            and not any(folder in path.parents for folder in unused)
        )
    )


def _beside(site: Path, package: str) -> Iterator[Path]:
    yield from (site / package.partition(".")[0]).rglob("*.so*")
    for folder in site.glob("*.libs"):
        yield from folder.glob("*.so*")


def _required(wheel: Distribution, site: Path) -> Iterator[Distribution]:
    """Yield the installed packages that a wheel requires, directly or through others, each once.

    An extra of the wheel counts if all its requirements are installed.
    """
    installed: dict[str, Distribution] = {}
    for found in (*distributions(path=[str(site)]), *distributions()):
        installed.setdefault(_normal(_name(found)), found)
    pending = [(wheel, _complete(wheel, installed))]
    seen: dict[str, frozenset[str]] = {_normal(_name(wheel)): frozenset()}
    while pending:
        needing, extras = pending.pop(0)
        for one in _requirements(needing):
            other = installed.get(one.name)
            if other is None or (one.of and not one.of & extras):
                continue
            if one.name not in seen:
                yield other
            elif one.extras <= seen[one.name]:
                continue
            seen[one.name] = seen.get(one.name, frozenset()) | one.extras
            pending.append((other, one.extras))


def _complete(wheel: Distribution, installed: Iterable[str]) -> frozenset[str]:
    names: dict[str, list[bool]] = {}
    for one in _requirements(wheel):
        for extra in one.of:
            names.setdefault(extra, []).append(one.name in installed)
    return frozenset(extra for extra, there in names.items() if all(there))


def _requirements(of: Distribution) -> Iterator[_Requirement]:
    for line in of.requires or ():
        match = _REQUIREMENT.match(line)
        if match:
            extras = frozenset(
                _normal(extra.strip()) for extra in (match["extras"] or "").split(",") if extra.strip()
            )
            owners = frozenset(_normal(a or b) for a, b in _EXTRA.findall(match["marker"]))
            yield _Requirement(_normal(match["name"]), extras, owners)


def _normal(name: str) -> str:
    """https://packaging.python.org/en/latest/specifications/name-normalization/"""
    return re.sub(r"[-_.]+", "-", name).lower()


# auditwheel's libx-0a1b2c3d.so.1 and delocate's libx.0a1b2c3d.so.1
_HASHED = re.compile(r"(?P<stem>lib[^/]+?)[-.][0-9a-f]{8}(?P<rest>(\.[^/]*)?\.so.*)")
_CUDART, _OPENMP = "CUDA runtime", "OpenMP runtime"
# Runtimes with different names and one purpose: two of them in a process are as bad as two of one name.
_KINDS = {"libcudart.so": _CUDART, **dict.fromkeys(OPENMP, _OPENMP)}
# Symbols that every OpenMP runtime exports to compiled code: GCC's, and LLVM's, Intel's and NVIDIA's.
_OPENMP_ENTRIES = ("GOMP_parallel", "__kmpc_fork_call")
# Texts that are only in libcudart, and in libraries that it is linked into.
_STATIC_CUDART = (b"cudaErrorCudartUnloading", b"/cudart.shm.%")


@dataclass(frozen=True)
class Runtime:
    """A runtime in a process: `kind` is its purpose or its name ("libnvc.so"), `image` the loader's name for it.

    `image` is "" if it is linked into a library. `of` are the libraries that bring it.
    """

    kind: str
    image: str
    path: Path
    of: LibraryGroup


@dataclass(frozen=True)
class Conflict:
    """A runtime that would be in the process twice: the existing one, and that of the new library."""

    there: Runtime
    brought: Runtime


def conflicts(parts: Sequence[LibraryGroup], library: Path, env: Mapping[str, str]) -> list[Conflict]:
    """Return the runtimes of which a new library would bring another copy into a process with these parts."""
    brought = list(_runtimes(LibraryGroup("", (library,)), {_CUDART, _OPENMP}, env))
    kinds = {runtime.kind for runtime in brought}
    there = [runtime for part in parts for runtime in _runtimes(part, kinds, env)] if kinds else []
    own = {runtime.image for runtime in there if not runtime.of.owner and runtime.image}
    return [
        Conflict(old, new)
        for new in brought
        for old in there
        if old.kind == new.kind and _two_copies(old, new) and (new.image not in own or old.image == new.image)
    ]


def _runtimes(part: LibraryGroup, searched: set[str], env: Mapping[str, str]) -> Iterator[Runtime]:
    """Yield the runtimes that a part loads. Files are searched only for those of the kinds `searched`."""
    for library in graph(part.libraries, env):
        kind = _kind(library.soname) or _kind(library.name)
        if kind:
            yield Runtime(kind, library.soname, library.path, part)
            continue
        if _OPENMP in searched and _exports(library.path, _OPENMP_ENTRIES):
            yield Runtime(_OPENMP, library.soname, library.path, part)
        of_nvidia = _stem(library.name) in NVIDIAS or part.owner.startswith(PROJECTS)
        if _CUDART in searched and not of_nvidia and _holds_cudart(library.path):
            yield Runtime(_CUDART, "", library.path, part)


def _kind(name: str) -> str:
    stem = _stem(name)
    return _KINDS.get(stem) or (stem if stem in FAMILIES else "")


def _stem(name: str) -> str:
    """Return a name without hash and version: "libgomp.so" of "libgomp-a34b3233.so.1.0.0"."""
    match = _HASHED.fullmatch(name)
    plain = match["stem"] + match["rest"] if match else name
    head, dot_so, _ = plain.partition(".so")
    return head + dot_so


def _two_copies(old: Runtime, new: Runtime) -> bool:
    """Return whether both are loaded: the loader takes two files with the same SONAME for one."""
    if old.path.resolve() == new.path.resolve():
        return False
    # copies that are linked in see the same device; a shared one beside them does not
    if not (old.image and new.image):
        return bool(old.image or new.image)
    if old.image != new.image:
        return True
    return FAMILIES.get(_stem(new.image)) in ONE_RELEASE and old.path.read_bytes() != new.path.read_bytes()


def _exports(path: Path, symbols: Sequence[str]) -> bool:
    try:
        return elf.defines(path, symbols)
    except elf.NotReadable:  # its symbols are damaged, but its NEEDED entries are known
        return False


def _holds_cudart(path: Path) -> bool:
    with path.open("rb") as stream:
        if not path.stat().st_size:
            return False
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(text) >= 0 for text in _STATIC_CUDART)


_LOAD = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_LOCAL)"
_LOADING_S = 120  # seconds; a runtime may look for devices
_FOLDER = "; add its folder, which may be the compiler's, to LD_LIBRARY_PATH"


def check(
    library: Path,
    recipe: Recipe,
    toolchain: UserToolchain,
    parts: Sequence[LibraryGroup],
    env: Mapping[str, str],
    arch: Arch | None = None,
) -> None:
    """Raise Stopped unless the library can be used in one process with the wheel and its requirements.

    `arch` is the GPU's that it was compiled for: it must have code for it.
    """
    refusal = wrong_abi(str(library), abi_of(recipe))
    if refusal:
        raise Stopped(f"what was compiled cannot be used: {refusal}")
    target = arch.sm if arch and toolchain.takes_arch else toolchain.offload
    if target:
        _require_gpu_code(library, target, arch if toolchain.takes_arch else None)
    if recipe.program:  # in a process of its own
        _start(library, env)
        return
    for conflict in conflicts(parts, library, env):
        raise Stopped(_refusal(conflict, library, recipe))
    _load(library, env)


def _require_gpu_code(library: Path, target: str, arch: Arch | None) -> None:
    found = gpu_code(library)
    if not found:
        raise Stopped(
            f"what was compiled has no GPU code: the compiler made none for {target}, although it has the flags for "
            "it; look for the kernels or pragmas that it should come from"
        )
    if arch and not any(image.runs_on(arch) for image in found):
        has = ", ".join(image.label for image in found)
        raise Stopped(
            f"what was compiled does not run on {arch.sm}: it has GPU code for {has}; look for flags that choose "
            "another architecture"
        )
    refusal = refused_by_openmp(library)
    if refusal:
        raise Stopped(f"what was compiled does not run: {refusal}")


def _refusal(conflict: Conflict, library: Path, recipe: Recipe) -> str:
    there, brought = conflict.there, conflict.brought
    has = "has it inside of" if not there.image else "has"
    needs = (
        "has it inside"
        if brought.path == library
        else f"needs {brought.path}" + " with it inside" * (not brought.image)
    )
    owner = "the package"
    if there.of.owner:
        owner = (
            f"your build for {there.of.owner}"
            if there.of.build
            else f"{there.of.owner}, which the package requires,"
        )
    return (
        f"what was compiled brings a second {there.kind} into the process: {owner} {has} {there.path}, and the "
        f"compiled library {needs}; {_remedy(conflict, recipe)}"
    )


def _remedy(conflict: Conflict, recipe: Recipe) -> str:
    there, of = conflict.there, conflict.there.of
    if of.build and FAMILIES.get(_stem(there.image)) in ONE_RELEASE:
        return f"compile both by one release of the compiler (--toolchain NAME=PATH){_drop(of)}"
    others = [
        other.name
        for other in recipe.toolchains
        if not other.by_command and there.kind not in map(_kind, other.runtimes)
    ]
    if others:
        return f"--toolchain {others[0]} makes one without it{_drop(of)}"
    return f"none of the package's toolchains does without it: ask its maintainer for one{_drop(of)}"


def _drop(of: LibraryGroup) -> str:
    return f", or drop that build: python -m {of.owner}._gpuforge compile --remove" if of.build else ""


def _load(library: Path, env: Mapping[str, str]) -> None:
    """Load it in a separate process, which its initialisers may end."""
    argv = [sys.executable, "-I", "-S", "-c", _LOAD, str(library)]
    ended = execute(argv, env=env, limit=_LOADING_S)
    if ended.status is None:
        raise Stopped(f"what was compiled does not load: it took more than {_LOADING_S} s")
    if ended.status:
        lines = ended.output.decode(errors="replace").strip().splitlines() or [f"signal {-ended.status}"]
        problem = lines[-1].replace("OSError: ", "")
        hint = _FOLDER * ("cannot open shared object file" in problem)
        raise Stopped(f"what was compiled does not load: {problem}{hint}")


def _start(program: Path, env: Mapping[str, str]) -> None:
    program.chmod(0o755)
    problem = start_problem(str(program), env)
    if problem:
        hint = _FOLDER * problem.endswith("not found")
        raise Stopped(f"what was compiled does not start: {problem}{hint}")
