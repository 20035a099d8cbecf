"""Tries the candidates of a module until one loads."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from .backends import BACKENDS, Request, implementation
from .build_place import BuildPlace
from .errors import DriverError
from .image import CPU, Candidate, Origin
from .index import Module, Refused
from .machine import Probe
from .names import absent
from .reason import Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .backends import AnyKernel

_ABSENT = {  # a function that looks a kernel up, and its result for an image without it
    ("cuLibraryGetKernel", 500),  # CUDA_ERROR_NOT_FOUND
    ("cuModuleGetFunction", 500),
    ("clCreateKernel", -46),  # CL_INVALID_KERNEL_NAME
    ("dlsym", 0),
}
_OF_MACHINE = {"no-usable-gpu", "no-devices"}  # reported once, by the machine's own problem


def load(
    request: Request,
    candidates: Sequence[Candidate],
    places: Sequence[BuildPlace],
    failures: dict[str, Reason],
) -> AnyKernel | None:
    """Return the kernel of the first accepted candidate that loads; `failures` gets the reasons of earlier files.

    A fatbin is loaded once, for any number of its images that fit: the driver chooses among them. Code that is compiled
    here is looked up in the kernel cache that `env` names. A warning has the reason if a file that the environment
    names is not used.
    """
    module_name = request.wanted.module
    found = {module.file: (module, place) for place in places for module in place.files(module_name)}
    for candidate in candidates:
        file = candidate.build.place
        if not candidate.accepted or candidate.build is CPU or file in failures:
            continue
        try:
            kernel = _load(request, candidate, *found[file])
        except (DriverError, Refused) as error:
            failures[file] = _failure(request.wanted.name, error)
            continue
        if kernel is None:
            continue
        _warn(candidates, failures, candidate)
        return kernel
    return None


def _load(request: Request, candidate: Candidate, module: Module, place: BuildPlace) -> AnyKernel | None:
    """Return the kernel of one candidate; None if it needs a context and there is none."""
    image = candidate.image
    assert image is not None  # noqa: S101  an image was accepted
    make = implementation(BACKENDS[image.about.loader]).make
    *others, last = request.wanted.entries(module, candidate.origin) or (None,)
    if last is None:
        raise Refused(absent(request.wanted.name, f"{module.file} lists others"))
    for entry in others:
        try:
            return make(request._replace(entry=entry), image, module, place)
        except DriverError as error:
            if not _is_absent(error):
                raise
    return make(request._replace(entry=last), image, module, place)


def reasons(
    candidates: Sequence[Candidate], failures: Mapping[str, Reason], machine: Probe
) -> tuple[str, ...]:
    """Return one line for each place tried; only one line for all that need a GPU, if the machine has none."""
    lines = [str(machine.problem)] if machine.problem else []
    lines += [
        f"{named(candidate)}: "
        f"{failures.get(candidate.build.place, candidate.reason) if candidate.accepted else candidate.reason}"
        for candidate in candidates
        if candidate.build is not CPU
        and not (machine.problem and _of_machine(candidate.reason, machine.problem))
    ]
    return tuple(dict.fromkeys(lines)) or ("the module has no images",)


def _of_machine(reason: Reason, problem: Reason) -> bool:
    return reason.kind in _OF_MACHINE or reason == problem


def named(candidate: Candidate) -> str:
    """Return a candidate's name, with its file if it is not in the wheel."""
    own = candidate.origin in {Origin.EXPLICIT, Origin.USER_BUILD}
    shipped = not own or not candidate.build.place
    return candidate.label if shipped else f"{candidate.label} ({candidate.build.place})"


def _failure(name: str, error: DriverError | Refused) -> Reason:
    if isinstance(error, Refused):
        return error.reason
    if _is_absent(error):
        return absent(name, str(error))
    facts = {"kernel": name, "call": error.call, "code": error.code, "message": str(error)}
    return Reason("not-loaded", facts)


def _is_absent(error: DriverError) -> bool:
    """Return whether a back end has not found the kernel in an image."""
    return (error.call, error.code) in _ABSENT


def _warn(candidates: Sequence[Candidate], failures: Mapping[str, Reason], used: Candidate) -> None:
    """Warn if kernels that the user chose are not used: those that the environment names, or a user build."""
    before = [c for c in candidates if c.origin < used.origin]
    explicit = [c for c in before if c.origin is Origin.EXPLICIT]
    own = [c for c in before if c.origin is Origin.USER_BUILD and c.reason.kind != "not-compiled"]
    own = [c for c in own if c.build.problem or c.build.place in failures]  # not those for another GPU
    if not explicit and not own:
        return
    first = (explicit or own)[0]
    text = f"{named(first)}: {failures.get(first.build.place, first.reason)}"
    if explicit:
        text = f"the environment names kernels that are not used: {text}"
    warnings.warn(f"{text}. Used instead: {named(used)}", RuntimeWarning, stacklevel=5)
