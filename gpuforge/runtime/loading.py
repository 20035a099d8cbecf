"""Walks the candidates of a module until one loads."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .context import Context, Function, given_context, primary_context
from .driver import NoDriver, open_driver
from .errors import DriverError
from .index import Module, Refused
from .kernel import Kernel
from .look import Place
from .machine import Probe
from .reason import Reason
from .resolve import CPU, Candidate, Origin


def home_of(machine: Probe, driver: tuple[str, ...], device: int, context: Any) -> Context | None:
    """Return the context that kernels are to be loaded for, None when there is no such device.

    Raises ValueError when no context is current, TypeError for what is no context, DriverError.
    """
    opened = None if machine.problem else open_driver(driver)
    if opened is None or isinstance(opened, NoDriver):
        return None
    if context is not None:
        return given_context(opened, context)
    return primary_context(opened, device) if 0 <= device < len(machine.devices) else None


def load(
    name: str,
    module: str,
    home: Context | None,
    candidates: Sequence[Candidate],
    places: Sequence[Place],
    env: Mapping[str, str],
    *,
    use_cache: bool = True,
) -> tuple[Kernel | None, dict[str, Reason]]:
    """Return the kernel of the first accepted candidate that loads, and why the files before it did not, by file.

    A fatbin is loaded once, whatever number of its images fit: the driver chooses among them. PTX that it has to
    compile is looked up in the kernel cache that `env` names. When what the environment names is not used, a warning
    says so.
    """
    modules = {found.file: found for place in places for found in [place.module(module)] if found}
    failures: dict[str, Reason] = {}
    for candidate in candidates:
        file = candidate.build.place
        if not candidate.accepted or candidate.build is CPU or file in failures:
            continue
        found = modules[file]
        if home is None:
            break
        try:
            function = _function(name, candidate, found, home, env, use_cache=use_cache)
        except (DriverError, Refused) as error:
            failures[file] = _failure(name, error)
            continue
        _warn(candidates, failures, candidate)
        return Kernel(name, home, function), failures
    return None, failures


def _function(
    name: str, candidate: Candidate, module: Module, home: Context, env: Mapping[str, str], *, use_cache: bool
) -> Function:
    if candidate.image and candidate.image.kind == "ptx":
        from . import jit
        from .cache import KernelCache

        compiled = jit.function(name, module, home, KernelCache.of_user(env), use=use_cache)
        if compiled is not None:
            return compiled
    return home.function(name, module.sha256 or module.file, module.read)


def reasons(
    candidates: Sequence[Candidate], failures: Mapping[str, Reason], machine: Probe
) -> tuple[str, ...]:
    """Return one line for each place tried; the machine's own problem alone, where it has one."""
    if machine.problem:
        return (str(machine.problem),)
    lines = [
        f"{named(candidate)}: "
        f"{failures.get(candidate.build.place, candidate.reason) if candidate.accepted else candidate.reason}"
        for candidate in candidates
        if candidate.build is not CPU
    ]
    return tuple(dict.fromkeys(lines)) or ("the module has no images",)


def named(candidate: Candidate) -> str:
    """Return a candidate's name, with its file where it is not a shipped one."""
    shipped = candidate.origin is Origin.SHIPPED or not candidate.build.place
    return candidate.label if shipped else f"{candidate.label} ({candidate.build.place})"


def _failure(name: str, error: DriverError | Refused) -> Reason:
    if isinstance(error, Refused):
        return error.reason
    facts = {"kernel": name, "call": error.call, "code": error.code, "message": str(error)}
    return Reason("not-loaded", facts)


def _warn(candidates: Sequence[Candidate], failures: Mapping[str, Reason], used: Candidate) -> None:
    explicit = [c for c in candidates if c.origin is Origin.EXPLICIT]
    if explicit and used.origin is not Origin.EXPLICIT:
        first = explicit[0]
        reason = failures.get(first.build.place, first.reason)
        warnings.warn(
            f"the environment names kernels that are not used: {named(first)}: {reason}. Used instead: {named(used)}",
            RuntimeWarning,
            stacklevel=5,
        )
