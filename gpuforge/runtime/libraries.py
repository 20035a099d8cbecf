"""Finds the places where the library of an object may be, and why each is accepted or refused; nothing is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, Union

from . import document, elf, layout
from .arch import Arch
from .decide import gpu_refusal, judge, neighbours, target
from .driver import Probe, probe, switched_off
from .layout import BuildUnusable, Lookup, home_problem, user_folder, variable
from .process import KernelUnavailable, UnknownKernel
from .values import (
    Build,
    BuildPlace,
    Candidate,
    CompiledBy,
    Image,
    Origin,
    Reason,
    Refused,
    damaged,
    image_of,
    made_by,
    place_in,
    unreadable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .builds import BuildsFolder
    from .wheels import Listing

_Part = TypeVar("_Part")
ABI_SYMBOL = "gpuforge_abi_id"


class Demands(NamedTuple):
    """The objects to use if no library runs, the wheel's part of the ABI id, and the packages in it, by version."""

    fallbacks: tuple[str, ...]
    abi: str
    packages: Mapping[str, str]


class Library(NamedTuple):
    """One library of an object, of `size` bytes: for the CPUs of a level, or for the GPUs of its images."""

    file: str
    size: int
    images: tuple[Image, ...]


class Libraries(NamedTuple):
    """The libraries of an object, and their compiler."""

    compiler: CompiledBy
    files: tuple[Library, ...]


class LibraryIndex(NamedTuple):
    """The index of an object's libraries. Instead of a damaged part there is a reason.

    Without `is_library` it is the index of a kernel set.
    """

    is_library: bool
    demands: Union[Demands, Reason]
    stands_in_for: Union[str, Reason]  # the object that this one replaces, "" for none
    libraries: Union[Libraries, Reason]


def read_named(path: str) -> dict[str, Any] | None:
    """Read an index or a recipe with a name, None without a file; raises Refused."""
    try:
        data = document.read(path)
        document.text(data, "name")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(unreadable(path, error)) from error
    except document.Damaged as error:
        raise Refused(damaged(path, error)) from error
    return data


def demands_of(data: dict[str, Any]) -> Demands:
    """Return the demands of an index or a recipe on libraries; raises Damaged."""
    fallbacks, abi = document.file_names(data, "fallbacks"), document.text(data, "abi", "")
    packages = document.table(data, "packages") if "packages" in data else {}
    return Demands(fallbacks, abi, {name: document.text(packages, name) for name in packages})


def read_demands(folder: str) -> Demands | None:
    """Return an object's demands on its libraries; None without a recipe. Raises Refused."""
    file = layout.recipe(folder)
    data = read_named(file)
    try:
        return None if data is None else demands_of(data)
    except document.Damaged as error:
        raise Refused(damaged(file, error)) from error


def read_libraries(path: str) -> LibraryIndex | None:
    """Read the index of an object's libraries, None without a file; raises Refused for a file that is not an index."""
    data = read_named(path)
    if data is None:
        return None
    return LibraryIndex(
        data.get("kind") == "library",
        _part(path, demands_of, data),
        _part(path, stands_in_for, data),
        _part(path, libraries_of, data),
    )


def _part(path: str, read: Callable[[dict[str, Any]], _Part], data: dict[str, Any]) -> _Part | Reason:
    try:
        return read(data)
    except document.Damaged as error:
        return damaged(path, error)


def is_program(home: str, name: str) -> bool:
    """Return whether an object is a program instead of a library; false if its documents cannot be read."""
    files = layout.recipe(layout.sources(home, name)), layout.index(layout.kernels(home, name))
    try:
        return any((read_named(file) or {}).get("program") is True for file in files)
    except Refused:
        return False


def stands_in_for(data: dict[str, Any]) -> str:
    """Return the object that a library replaces, "" for none; raises Damaged."""
    return document.text(data, "stands-in-for", "")


def libraries_of(data: dict[str, Any]) -> Libraries:
    """Return the libraries that an index lists; raises Damaged."""
    compiler, toolkit = made_by(data), document.text(data, "toolkit")
    return Libraries(
        compiler, tuple(_library(entry, toolkit) for entry in document.tables(data, "libraries"))
    )


def _library(entry: dict[str, Any], toolkit: str) -> Library:
    file = document.file_name(entry, "file")
    images = tuple(image_of(each, toolkit) for each in document.tables(entry, "images"))
    if not images:
        raise document.Damaged("'images' is empty")
    return Library(file, document.whole(entry, "size"), images)


def candidates(lookup: Lookup) -> tuple[Candidate, ...]:
    """Return every place where a library is looked for, in order.

    A shipped library is judged for the first GPU, which is the default of CUDA's runtime. The driver is opened only if
    a library has GPU code. Raises KernelUnavailable for a damaged wheel, UnknownKernel if it has nothing of this name.
    """
    try:
        compiled = read_demands(layout.sources(lookup.home, lookup.name))
        kernels = layout.kernels(lookup.home, lookup.name)
        index = None if compiled else read_libraries(layout.index(kernels))
    except Refused as refused:
        raise KernelUnavailable([str(refused)]) from refused
    known = _listing(lookup.home)
    if compiled is None:
        names, abi = _without_sources(lookup, index, known)
    else:
        names, abi = compiled.fallbacks, identity_of(compiled)
    return (
        *explicit_library(lookup, abi),
        *([built_library(lookup, abi)] if compiled else []),
        *_shipped(lookup, names, abi, known),
    )


def _listing(home: str) -> Listing | None:
    try:
        from .wheels import listing
    except ImportError:  # as in `find`, which not all wheels with libraries have
        return None
    return listing(home)


def identity_of(demands: Demands) -> str | Reason:
    """Return the ABI id that a library must have here, "" for none, or why no library can have it."""
    if not demands.packages:
        return demands.abi
    from .abi_id import PackageMissing, identity

    try:
        return identity(demands.abi, demands.packages)
    except PackageMissing as missing:
        return Reason("no-package", {"package": missing.args[0]})


def _without_sources(
    lookup: Lookup, index: LibraryIndex | None, listed: Listing | None
) -> tuple[tuple[str, ...], str | Reason]:
    if index is not None and index.is_library:
        if isinstance(index.demands, Reason):
            raise KernelUnavailable([str(index.demands)])
        return (lookup.name, *index.demands.fallbacks), identity_of(index.demands)
    if listed is None or lookup.name not in listed.sets:
        folder = layout.kernels(lookup.home, lookup.name)
        if index is not None:
            raise KernelUnavailable([str(Reason("is-set", {"file": layout.index(folder)}))])
        none = Reason("no-library-set", {"name": lookup.name})
        raise UnknownKernel(f"{none}; it has: {neighbours(folder)}")
    others = (name for name, each in listed.sets.items() if each.stands_in_for == lookup.name)
    return (lookup.name, *others), listed.sets[lookup.name].abi


def wrong_abi(path: str, abi: str | Reason) -> Reason | None:
    """Return why a file is not a library with this ABI id. It is read, not loaded; "" requires no id."""
    if isinstance(abi, Reason):
        return abi
    try:
        found = elf.read_string(path, ABI_SYMBOL)
    except OSError as error:
        return unreadable(path, error)
    except elf.NotReadable as error:
        return Reason("unreadable", {"file": path, "problem": str(error)})
    if not abi or found == abi:
        return None
    if found is None:
        return Reason("no-abi", {"file": path, "symbol": ABI_SYMBOL})
    return Reason("other-abi", {"file": path, "found": found, "expected": abi})


def place_of(lookup: Lookup) -> BuildsFolder:
    """Return the place of the user's builds of an object; other sources or toolchains have another place.

    Raises KernelUnavailable if the recipe cannot be read.
    """
    from .builds import place_in as builds_in

    file = layout.recipe(layout.sources(lookup.home, lookup.name))
    try:
        return builds_in(user_folder(lookup.package, lookup.name, lookup.env), file)
    except OSError as error:
        raise KernelUnavailable([str(unreadable(file, error))]) from error


def explicit_library(lookup: Lookup, abi: str | Reason) -> list[Candidate]:
    """Return the library that the environment names, if it names one."""
    named = variable(lookup.package, lookup.name)
    file = lookup.env.get(named, "")
    if not file:
        return []
    file = os.path.abspath(file)  # the loader would look for a bare name in the system's folders
    refusal = wrong_abi(file, abi)
    return [_candidate(Origin.EXPLICIT, file, refusal, Reason("unread", {"variable": named}))]


def built_library(lookup: Lookup, abi: str | Reason) -> Candidate:
    """Return the user's build: a library or, for a set of modules, a folder of device images."""
    wrong = home_problem(lookup.env)
    if wrong:
        return _candidate(Origin.USER_BUILD, "", wrong)
    place = place_of(lookup)
    try:
        build = place.active()
    except BuildUnusable as error:
        return _candidate(Origin.USER_BUILD, str(place.folder), error.reason)
    if build is None:
        from .builds import former

        facts = {"command": f"python -m {lookup.package}._gpuforge compile"}
        earlier = former(place, lookup.home)
        if earlier is None:
            return _candidate(Origin.USER_BUILD, "", Reason("not-compiled", facts))
        facts["release"] = earlier[1].release
        return _candidate(Origin.USER_BUILD, "", Reason("compiled-before", facts))
    file = str(build.file)
    refusal = place.changed(build) or (None if os.path.isdir(file) else wrong_abi(file, abi))
    if refusal and not build.file.exists() and place.replaced(build):
        return built_library(lookup, abi)
    if refusal is None:
        place.touch()
    facts = {"compiler": build.compiler, "arch": build.arch}
    why = refusal or _not_for(lookup, build.images)
    own = Build(Origin.USER_BUILD, file, problem=refusal)
    return Candidate(own, None, why is None, why or Reason("made-here", facts))


def _not_for(lookup: Lookup, labels: Sequence[str]) -> Reason | None:
    """Return why no image of a library runs on the first GPU, None if one does or there is none."""
    archs = [(label, Arch.parse(label)) for label in labels]
    images = tuple(Image("ptx" if label.startswith("c") else "cubin", arch) for label, arch in archs)
    if not images:
        return None
    here = target(_machine(lookup, [Build(Origin.USER_BUILD, "", images)]), lookup.env)
    refusals = [here.obstacle or gpu_refusal(image, arch, here) for image, (_, arch) in zip(images, archs)]
    return refusals[0] if all(refusals) else None


def _shipped(
    lookup: Lookup, names: Sequence[str], abi: str | Reason, listed: Listing | None
) -> tuple[Candidate, ...]:
    found = [build for name in names for build in _builds(lookup, name, abi, listed)]
    if not found:
        folder = layout.kernels(lookup.home)
        found = [Build(Origin.SHIPPED, folder, problem=Reason("nothing-shipped"))]
    return judge(found, _machine(lookup, found), lookup.env)


def _machine(lookup: Lookup, found: Sequence[Build]) -> Probe:
    if lookup.machine is not None:
        return lookup.machine
    images = [image for build in found for image in build.images]
    gpu = any(image.about.built_for != "CPU" for image in images) and not switched_off(lookup.env)
    return probe() if gpu else Probe(None)


def _builds(lookup: Lookup, name: str, abi: str | Reason, listed: Listing | None) -> list[Build]:
    if listed is None or name not in listed.sets:
        return _in_folder(layout.kernels(lookup.home, name), name, abi)
    from .wheels import none_installed

    return list(_apart(lookup, name, abi)) or [Build(Origin.SHIPPED, "", problem=none_installed(listed))]


def _apart(lookup: Lookup, name: str, abi: str | Reason) -> Iterator[Build]:
    """Yield the libraries in the installed kernels wheels, those for the newest CUDA first."""
    from .wheels import installed

    for wheel in installed(lookup.home, lookup.package):
        problem = wheel.problem_of(name)
        if problem is not None:
            yield Build(Origin.SHIPPED, wheel.home, problem=problem, wheel=wheel.distribution)
            continue
        for build in _in_folder(layout.kernels(wheel.home, name), name, abi):
            yield build._replace(wheel=wheel.distribution)


def _in_folder(folder: str, name: str, abi: str | Reason) -> list[Build]:
    file = layout.index(folder)
    made = Build(Origin.SHIPPED, folder, name=name)
    try:
        index = read_libraries(file)
    except Refused as refused:
        return [made._replace(problem=refused.reason)]
    if index is None:
        return [made._replace(problem=Reason("unreadable", {"file": file, "problem": "it is missing"}))]
    if isinstance(index.libraries, Reason):
        problem = index.libraries if index.is_library else Reason("is-set", {"file": file})
        return [made._replace(problem=problem)]
    made = made._replace(compiler=index.libraries.compiler.label)
    return [_build(made, library, abi) for library in index.libraries.files]


def _build(made: Build, library: Library, abi: str | Reason) -> Build:
    file = os.path.join(made.place, library.file)
    problem = _cut_short(file, library.size) or wrong_abi(file, abi)
    return made._replace(place=file, images=() if problem else library.images, problem=problem)


def _candidate(origin: Origin, place: str, refusal: Reason | None, merit: Reason | None = None) -> Candidate:
    reason = refusal or merit
    assert reason is not None  # noqa: S101  there is one or the other
    return Candidate(Build(origin, place, problem=refusal), None, refusal is None, reason)


def _cut_short(file: str, size: int) -> Reason | None:
    try:
        found = os.stat(file).st_size
    except OSError as error:
        return unreadable(file, error)
    return None if found == size else Reason("cut-short", {"file": file, "found": found, "expected": size})


def explicit_place(lookup: Lookup, abi: str | Reason) -> BuildPlace:
    """Return the place of the library that the environment names."""
    (candidate,) = explicit_library(lookup, abi)
    return _place(candidate.build)


def built_place(lookup: Lookup, abi: str | Reason) -> BuildPlace:
    """Return the place of the user build of a set's sources: images, or a library for the CPU."""
    build = built_library(lookup, abi).build
    if build.problem is None and os.path.isdir(build.place):
        return place_in(Origin.USER_BUILD, build.place)
    return _place(build)


def cpu_places(lookup: Lookup, name: str, abi: str | Reason) -> tuple[BuildPlace, ...]:
    """Return the places of the libraries of the object `name`, which do a set's work on the CPU."""
    found = _builds(lookup, name, abi, _listing(lookup.home))
    return tuple(_place(build._replace(origin=Origin.CPU)) for build in found)


def _place(build: Build) -> BuildPlace:
    image, file = (*build.images, Image("library"))[0], build.place
    return BuildPlace(build.origin, file, None, file, image, build.problem, build.wheel)
