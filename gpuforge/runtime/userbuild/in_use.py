"""Describes what of an object is in use: the library, or the kernels of each module of a set."""

from __future__ import annotations

from .. import layout
from ..candidates import candidates
from ..errors import KernelUnavailable
from ..explain import facts_of
from ..image import Candidate, Origin
from ..kernelset import KernelSet
from ..loading import named
from ..lookup import Lookup


def library_in_use(lookup: Lookup) -> Candidate | None:
    """Return the library of an object that is in use, None for none; raises KernelUnavailable for a damaged wheel."""
    return next((c for c in candidates(lookup) if c.accepted), None)


def describe(lookup: Lookup, kind: str) -> str:
    """Return a description of the library in use or, for the kind "module", of the kernels.

    It is part of other messages, so a damaged wheel is described, too.
    """
    try:
        return _modules(lookup) if kind == "module" else _library(lookup)
    except KernelUnavailable as error:
        return f"nothing is in use: {' '.join(str(error).splitlines()[:1])}"


def _library(lookup: Lookup) -> str:
    used = library_in_use(lookup)
    if used is None:
        return "no library is in use"
    if used.origin is not Origin.SHIPPED:
        return f"in use: {used.origin.label} ({used.build.place}), {used.reason}"
    wheel = f"of {used.build.wheel}" if used.build.wheel else ""
    what = " ".join(filter(None, ("the shipped library", used.shipped_image, wheel)))
    return f"in use: {what}, {used.reason}"


def _modules(lookup: Lookup) -> str:
    folder = layout.kernels(lookup.home, lookup.name)
    facts = facts_of(KernelSet(folder, package=lookup.package, env=lookup.env))
    texts = {module.name: _used(module.verdicts[0].candidates) for module in facts.modules}
    if not any(texts.values()):
        return "no kernels are in use"
    if len(set(texts.values())) == 1:
        return f"in use: {next(iter(texts.values()))}"
    return "in use: " + "; ".join(f"{name}: {text or 'nothing'}" for name, text in texts.items())


def _used(judged: tuple[Candidate, ...]) -> str:
    """Return the first candidate with its reason, "" if it is not accepted: the accepted ones come first."""
    return next((f"{named(c)}, {c.reason}" for c in judged if c.accepted), "")
