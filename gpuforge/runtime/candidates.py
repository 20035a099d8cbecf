"""Where the library of an object is looked for, and why each is accepted or refused; nothing is loaded here."""

from __future__ import annotations

import os
from typing import Any

from . import builds, document, elf
from .errors import KernelUnavailable
from .index import made_by
from .look import Wanted, user_folder, variable
from .reason import Reason
from .resolve import Build, Candidate, Origin
from .wheels import Listing, installed, listing, none_installed

__all__ = ["Wanted", "candidates", "place_of"]
ABI_SYMBOL = "gpuforge_abi_id"


def candidates(wanted: Wanted) -> tuple[Candidate, ...]:
    """Return every place where a library is looked for, in order; raises KernelUnavailable for a damaged wheel."""
    file = os.path.join(wanted.home, "sources", wanted.name, "recipe.json")
    recipe = read(file)
    try:
        fallback = document.file_name(recipe, "fallback", "") if recipe else wanted.name
        index = None
        if fallback:
            file = os.path.join(wanted.home, "kernels", fallback, "index.json")
            index = read(file)
        known = listing(wanted.home)
        apart = known and known.sets.get(fallback)
        if recipe is None and not apart and (index is None or index.get("kind") != "library"):
            raise KernelUnavailable([str(Reason("no-library-set", {"name": wanted.name}))])
        abi = apart.abi if apart and not recipe else demanded(recipe or index or {})
    except document.Damaged as error:
        raise KernelUnavailable([str(Reason("damaged", {"file": file, "problem": error}))]) from error
    return (
        *explicit_library(wanted, abi),
        *([built_library(wanted, abi)] if recipe else []),
        *(
            _apart(wanted.home, wanted.package, known, fallback, abi, Origin.SHIPPED)
            if known and apart
            else [_shipped(wanted.home, index, fallback, abi, Origin.SHIPPED)]
        ),
    )


def demanded(data: dict[str, Any]) -> str | Reason:
    """Return the ABI id that a recipe or an index demands of a library here, "" for none, or why none can serve.

    Raises document.Damaged.
    """
    own = document.text(data, "abi", "")
    packages = document.table(data, "packages") if "packages" in data else {}
    if not packages:
        return own
    from .abi_id import PackageMissing, identity

    try:
        return identity(own, {name: document.text(packages, name) for name in packages})
    except PackageMissing as missing:
        return Reason("no-package", {"package": missing.args[0]})


def wrong_abi(path: str, abi: str | Reason) -> Reason | None:
    """Return why a file is not a library with this ABI id. It is read, not loaded; "" demands no id."""
    if isinstance(abi, Reason):
        return abi
    try:
        found = elf.read_string(path, ABI_SYMBOL)
    except OSError as error:
        return Reason("unreadable", {"file": path, "problem": error.strerror or str(error)})
    except elf.NotReadable as error:
        return Reason("unreadable", {"file": path, "problem": str(error)})
    if not abi or found == abi:
        return None
    if found is None:
        return Reason("no-abi", {"file": path, "symbol": ABI_SYMBOL})
    return Reason("other-abi", {"file": path, "found": found, "expected": abi})


def place_of(wanted: Wanted) -> builds.Place:
    """Return where the user's builds of an object lie: sources or toolchains that change give another place.

    Raises KernelUnavailable when the recipe cannot be read.
    """
    recipe = os.path.join(wanted.home, "sources", wanted.name, "recipe.json")
    try:
        return builds.place_in(user_folder(wanted.package, wanted.name, wanted.env), recipe)
    except OSError as error:
        raise KernelUnavailable([f"{recipe}: {error.strerror or error}"]) from error


def read(path: str) -> dict[str, Any] | None:
    """Return a recipe or an index, None when there is none; raises KernelUnavailable."""
    try:
        data = document.read(path)
        document.text(data, "name")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KernelUnavailable([f"{path}: {error.strerror or error}"]) from error
    except document.Damaged as error:
        raise KernelUnavailable([str(Reason("damaged", {"file": path, "problem": error}))]) from error
    return data


def explicit_library(wanted: Wanted, abi: str | Reason) -> list[Candidate]:
    """Return the library that the environment names, if it names one."""
    named = variable(wanted.package, wanted.name)
    file = wanted.env.get(named, "")
    if not file:
        return []
    file = os.path.abspath(file)  # the loader would look for a bare name in the system's folders
    refusal = wrong_abi(file, abi)
    return [_candidate(Origin.EXPLICIT, file, refusal, Reason("unread", {"variable": named}))]


def built_library(wanted: Wanted, abi: str | Reason) -> Candidate:
    """Return what the user has compiled: a library or, of a set of modules, a folder of device images."""
    place = place_of(wanted)
    try:
        build = place.active()
    except builds.BuildUnusable as error:
        return _candidate(Origin.USER_BUILD, str(place.folder), Reason("unusable", {"problem": str(error)}))
    if build is None:
        facts = {"command": f"python -m {wanted.package}._gpuforge compile"}
        earlier = builds.former(place, wanted.home)
        if earlier is None:
            return _candidate(Origin.USER_BUILD, "", Reason("not-compiled", facts))
        facts["release"] = earlier[1].release or "an earlier release"
        return _candidate(Origin.USER_BUILD, "", Reason("compiled-before", facts))
    file = str(build.file)
    refusal = None if os.path.isdir(file) else _cut_short(file, build.size) or wrong_abi(file, abi)
    if refusal and not build.file.exists() and _replaced(place, build):
        return built_library(wanted, abi)
    if refusal is None:
        place.touch()
    facts = {"compiler": build.compiler, "arch": f" for {build.arch}" if build.arch else ""}
    return _candidate(Origin.USER_BUILD, file, refusal, Reason("made-here", facts))


def _replaced(place: builds.Place, build: builds.Build) -> bool:
    """Return whether `compile` has put another build in use since this one was read."""
    try:
        return place.active() != build
    except builds.BuildUnusable:
        return True


def cpu_library(wanted: Wanted, name: str, abi: str | Reason) -> list[Candidate]:
    """Return the library `name` of the wheel, which does a kernel set's work where there is no GPU."""
    try:
        index = read(os.path.join(wanted.home, "kernels", name, "index.json"))
        known = None if index else listing(wanted.home)
        if known and name in known.sets:
            return _apart(wanted.home, wanted.package, known, name, abi, Origin.CPU)
    except KernelUnavailable as error:
        return [_candidate(Origin.CPU, name, Reason("unusable", {"problem": error.reasons[0]}))]
    return [_shipped(wanted.home, index, name, abi, Origin.CPU)]


def _shipped(
    home: str, index: dict[str, Any] | None, name: str, abi: str | Reason, origin: Origin
) -> Candidate:
    folder = os.path.join(home, "kernels", name)
    if index is None:
        return _candidate(origin, folder, Reason("nothing-shipped"))
    try:
        library = document.table(index, "library")
        file = os.path.join(folder, document.file_name(library, "file"))
        size = document.whole(library, "size")
        made = made_by(index)
    except document.Damaged as error:
        facts = {"file": os.path.join(folder, "index.json"), "problem": str(error)}
        return _candidate(origin, folder, Reason("damaged", facts))
    refusal = _cut_short(file, size) or wrong_abi(file, abi)
    return _candidate(origin, file, refusal, Reason("made-there", {"name": name, "compiler": made}))


def _apart(
    home: str, package: str, known: Listing, name: str, abi: str | Reason, origin: Origin
) -> list[Candidate]:
    """Return the library's places in the kernels wheels that are installed, those for the newest CUDA first."""
    found = []
    for wheel in installed(home, package):
        problem = wheel.problem_of(name)
        if problem is None:
            index = read(os.path.join(wheel.home, "kernels", name, "index.json"))
            candidate = _shipped(wheel.home, index, name, abi, origin)
        else:
            candidate = _candidate(origin, wheel.home, problem)
        found.append(candidate._replace(build=candidate.build._replace(wheel=wheel.distribution)))
    return found or [_candidate(origin, "", none_installed(known))]


def _candidate(origin: Origin, place: str, refusal: Reason | None, merit: Reason | None = None) -> Candidate:
    reason = refusal or merit
    assert reason is not None  # noqa: S101  there is one or the other
    return Candidate(Build(origin, place, problem=refusal), None, refusal is None, reason)


def _cut_short(file: str, size: int) -> Reason | None:
    try:
        found = os.stat(file).st_size
    except OSError as error:
        return Reason("unreadable", {"file": file, "problem": error.strerror or str(error)})
    return None if found == size else Reason("cut-short", {"file": file, "found": found, "expected": size})
