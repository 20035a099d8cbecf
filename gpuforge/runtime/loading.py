"""Walks the candidates of a module until one loads."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .context import Context, Function, given_context, primary_context
from .driver import NoDriver, open_driver
from .errors import DriverError
from .image_kind import kind_of
from .index import Module, Refused
from .kernel import Kernel
from .look import BuildPlace
from .machine import Nvrtc, Probe
from .reason import Reason
from .resolve import CPU, Candidate, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    from .hostkernel import HostKernel
    from .iree.kernel import IreeKernel
    from .opencl.kernel import OpenClKernel

    AnyKernel = Union[Kernel, HostKernel, IreeKernel, OpenClKernel]


_OF_MACHINE = {"no-usable-gpu", "no-devices"}  # said once, by the machine's own problem


def home_of(machine: Probe, driver: tuple[str, ...], device: int, context: Any) -> Context | None:
    """Return the context that kernels are to be loaded for, None when there is no such device.

    Raises ValueError when no context is current, TypeError for anything but a context, DriverError.
    """
    opened = None if machine.problem or is_foreign(context) else open_driver(driver)
    if opened is None or isinstance(opened, NoDriver):
        return None
    if context is not None:
        return given_context(opened, context)
    return primary_context(opened, device) if 0 <= device < len(machine.devices) else None


def is_foreign(context: Any) -> bool:
    """Say whether a context is one of pyopencl's: then nothing but OpenCL is of use."""
    return type(context).__module__.partition(".")[0] == "pyopencl"


class Request(NamedTuple):
    """A kernel as it is wanted: of which module, in which context, and whether the kernel cache is used.

    `home` is the CUDA context that it is loaded into, None where there is none; `context` is what the caller gave.
    """

    name: str
    module: str
    home: Context | None
    device: int
    context: Any
    env: Mapping[str, str]
    use_cache: bool


def load(
    request: Request,
    candidates: Sequence[Candidate],
    places: Sequence[BuildPlace],
    machine: Probe,
    failures: dict[str, Reason],
) -> AnyKernel | None:
    """Return the kernel of the first accepted candidate that loads; `failures` gets why files before it did not.

    A fatbin is loaded once, whatever number of its images fit: the driver chooses among them. What is compiled here is
    looked up in the kernel cache that `env` names. When what the environment names is not used, a warning says so.
    """
    found = {module.file: (module, place) for place in places for module in place.files(request.module)}
    for candidate in candidates:
        file = candidate.build.place
        if not candidate.accepted or candidate.build is CPU or file in failures:
            continue
        try:
            kernel = _load(request, candidate, *found[file], machine)
        except (DriverError, Refused) as error:
            failures[file] = _failure(request.name, error)
            continue
        if kernel is None:
            continue
        _warn(candidates, failures, candidate)
        return kernel
    return None


def _load(
    request: Request, candidate: Candidate, module: Module, place: BuildPlace, machine: Probe
) -> AnyKernel | None:
    """Return the kernel of one candidate; None for one that needs a context where there is none."""
    kind = candidate.image.kind if candidate.image else ""
    loader = kind_of(kind).loader
    name, home, env = request.name, request.home, request.env
    if loader == "system":
        from . import hostkernel

        return hostkernel.load(module.file, name)
    if loader == "OpenCL" and place.sources:
        from .opencl import load as opencl

        compilation = opencl.Compilation.of(module, place.sources, env, use_cache=request.use_cache)
        own = request.context if is_foreign(request.context) else None
        return opencl.load(name, compilation, env, request.device, own)
    if loader == "IREE":
        from .iree import load as iree

        return iree.load(name, module, kind, request.device, request.context)
    if home is None:
        return None
    if loader == "NVRTC" and place.sources and isinstance(machine.nvrtc, Nvrtc):
        from . import compiled
        from .cache import KernelCache

        cache, use = KernelCache.of_user(env), request.use_cache
        function = compiled.function(name, module, place.sources, machine.nvrtc, home, cache, use=use)
        return Kernel(name, home, function)
    return Kernel(name, home, _function(name, candidate, module, home, env, use_cache=request.use_cache))


def _function(
    name: str, candidate: Candidate, module: Module, home: Context, env: Mapping[str, str], *, use_cache: bool
) -> Function:
    if candidate.image and candidate.image.about.has_ptx:
        from . import jit
        from .cache import KernelCache

        compiled = jit.function(name, module, home, KernelCache.of_user(env), use=use_cache)
        if compiled is not None:
            return compiled
    return home.function(name, module.sha256 or module.file, module.read)


def reasons(
    candidates: Sequence[Candidate], failures: Mapping[str, Reason], machine: Probe
) -> tuple[str, ...]:
    """Return one line for each place tried; for all that need a GPU one line, where the machine has none."""
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
    """Return a candidate's name, with its file where it is not one of the wheel."""
    own = candidate.origin in {Origin.EXPLICIT, Origin.USER_BUILD}
    shipped = not own or not candidate.build.place
    return candidate.label if shipped else f"{candidate.label} ({candidate.build.place})"


def _failure(name: str, error: DriverError | Refused) -> Reason:
    if isinstance(error, Refused):
        return error.reason
    facts = {"kernel": name, "call": error.call, "code": error.code, "message": str(error)}
    return Reason("not-loaded", facts)


def _warn(candidates: Sequence[Candidate], failures: Mapping[str, Reason], used: Candidate) -> None:
    """Warn when what the user has asked for is not used: kernels that the environment names, or a build of theirs."""
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
