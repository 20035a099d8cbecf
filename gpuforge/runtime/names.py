"""Finds the module and the kernel that a caller's name means in a kernel set, without a look at the machine."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from . import layout
from .errors import KernelUnavailable, UnknownKernel
from .image import Candidate, Origin
from .index import Module, Refused
from .reason import Reason
from .signature import Entry, matching, nearest, plain_entry, plain_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .build_place import BuildPlace
    from .sources import Sources

_ABSENT = "no-such-kernel"


class Wanted(NamedTuple):
    """A kernel that a caller wants: its module, the name as given, and its entry in an index.

    Without an entry some image of the module has no list of its kernels, so only a back end knows whether it has one of
    this name. `message` is the text of the error if none has.
    """

    module: str
    name: str
    entry: Entry | None
    message: str = ""

    def entries(self, module: Module, origin: Origin) -> tuple[Entry, ...]:
        """Return the entries to look up in a module's file, one after the other, the first with its parameters.

        Empty if its list does not have the kernel. A file without a list may have it by its symbol, if it was compiled
        from the same source, or by the name as given. If it is the user's own, its parameters are not known.
        """
        if module.kernels:
            same = [each for each in module.kernels if self.entry and each.symbol == self.entry.symbol]
            return tuple(same) or matching(module.kernels, self.name)[:1]
        if self.entry is None:
            return (plain_entry(self.name),)
        parameters = None if origin <= Origin.USER_BUILD else self.entry.parameters
        symbols = dict.fromkeys((self.entry.symbol, self.name))
        return tuple(Entry(symbol, self.entry.name, parameters) for symbol in symbols)


def find(set_name: str, places: Sequence[BuildPlace], name: str, module: str | None) -> Wanted:
    """Return the kernel of a name; raises UnknownKernel, and KernelUnavailable if the set cannot be read."""
    known = listed(places)
    modules = [module] if module is not None else sorted(known)
    if module is not None and module not in known:
        raise UnknownKernel(_sentence("no-module", set_name, module, known))
    found = [(each, one) for each in modules for one in known[each]]
    entries = matching([one for _, one in found], name)
    homes = sorted({each for each, one in found if one in entries})
    if len(entries) == 1 and len(homes) == 1:
        return Wanted(homes[0], name, entries[0])
    if len(entries) > 1:
        signatures = "".join(f"\n  {one.signature}" for one in entries)
        raise UnknownKernel(f"kernel set {set_name} has several kernels {name!r}: name one of{signatures}")
    if homes:
        raise UnknownKernel(
            f"kernel set {set_name} has the kernel {name!r} in several modules: name one of {', '.join(homes)}"
        )
    unlisted = [each for each in modules if has_unlisted(places, each)]
    message = _unknown(set_name, modules, known, name)
    if not unlisted:
        raise UnknownKernel(message)
    if len(unlisted) > 1:
        raise UnknownKernel(_sentence("several-modules", set_name, name, unlisted))
    return Wanted(unlisted[0], name, None, message)


def module_named(set_name: str, places: Sequence[BuildPlace], module: str | None) -> str:
    """Return the module's name, for None that of the only one; raises UnknownKernel, KernelUnavailable."""
    known = listed(places)
    if module is None and len(known) == 1:
        return next(iter(known))
    if module is None or module not in known:
        kind = "several-modules" if module is None else "no-module"
        raise UnknownKernel(_sentence(kind, set_name, module or "", known))
    return module


def listed(places: Iterable[BuildPlace]) -> Mapping[str, tuple[Entry, ...]]:
    """Return the kernels that any index lists for each module of a set.

    Raises UnknownKernel if there is no such set, KernelUnavailable if it cannot be read.
    """
    known: dict[str, dict[str, Entry]] = {}
    problems, no_set = [], None
    for place in places:
        if place.problem:
            problems.append(place.problem)
            no_set = place if place.problem.kind == "no-set" else no_set
        for name, files in (place.contents.modules if place.contents else {}).items():
            entries = known.setdefault(name, {})
            for entry in (entry for file in files for entry in file.kernels):
                entries.setdefault(entry.symbol, entry)
    if not known and no_set and len(problems) == 1:
        raise UnknownKernel(f"{no_set.problem}; it has: {_sets(no_set.path)}")
    if not known:
        raise KernelUnavailable([str(problem) for problem in problems])
    return {name: tuple(entries.values()) for name, entries in known.items()}


def _sets(folder: str) -> str:
    """Return the names of what the wheel itself has, with those first that are spelled like the one of a folder."""
    home = layout.home_of(folder)
    names = {*layout.names(layout.kernels(home)), *layout.names(layout.sources(home))}
    return ", ".join(nearest(sorted(names), os.path.basename(folder))) or "none"


def has_unlisted(places: Iterable[BuildPlace], module: str) -> bool:
    """Return whether a place has a file for a module without a list of its kernels."""
    usable = (place for place in places if place.problem is None)
    return any(not file.kernels for place in usable for file in place.files(module))


def is_absent(
    wanted: Wanted,
    candidates: Sequence[Candidate],
    failures: Mapping[str, Reason],
    places: Sequence[BuildPlace],
) -> bool:
    """Return whether no place of a set has a kernel, rather than that none can be used here.

    A place lacks it if a back end has looked for it there, if it is the wheel's and an index of the wheel lists the
    module's kernels, or if it is a source that does not mention the name.
    """
    if wanted.entry is not None:
        return False
    lists = any(
        file.kernels
        for place in places
        if place.origin > Origin.USER_BUILD
        for file in place.files(wanted.module)
    )
    sources = {
        file.file
        for place in places
        if place.sources
        for file in place.files(wanted.module)
        if not _mentions(place.sources, file, wanted.name)
    }
    judged = [candidate for candidate in candidates if candidate.build.place not in {"", *sources}]
    return bool(judged or sources) and all(_lacks(candidate, failures, lists) for candidate in judged)


def _lacks(candidate: Candidate, failures: Mapping[str, Reason], lists: bool) -> bool:
    reason = failures.get(candidate.build.place, candidate.reason)
    return reason.kind in {_ABSENT, "not-compiled"} or (lists and candidate.origin > Origin.USER_BUILD)


def _mentions(sources: Sources, module: Module, name: str) -> bool:
    """Return whether a source or its headers may have a kernel: its name is in them, or they join words to names."""
    word = re.compile(rb"\b" + re.escape(plain_name(name).encode()) + rb"\b")
    try:
        texts = [module.read(), *sources.included().values()]
    except Refused:
        return True
    return any(b"##" in text or word.search(text) for text in texts)


def absent(kernel: str, problem: str) -> Reason:
    """Return the reason for a file that does not have a kernel."""
    return Reason(_ABSENT, {"kernel": kernel, "problem": problem})


def _sentence(kind: str, set_name: str, name: str, names: Collection[str]) -> str:
    known = ", ".join(sorted(names)) or "none"
    return str(Reason(kind, {"set": set_name, "name": name, "known": known}))


def _unknown(set_name: str, modules: Sequence[str], known: Mapping[str, Sequence[Entry]], name: str) -> str:
    signatures = [one.signature for module in modules for one in known[module]]
    lines = "".join(f"\n  {one}" for one in nearest(signatures, name))
    where = f"module {modules[0]} of kernel set {set_name}" if len(modules) == 1 else f"kernel set {set_name}"
    return f"{where} has no kernel {name!r}" + (f"; it has{lines}" if lines else "")
