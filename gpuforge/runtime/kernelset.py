"""A wheel's kernel set: explains which of its kernels can run here, loads them, and caches them.

Importing this takes a few milliseconds: modules that need ctypes or read files are imported at their first use.
"""

from __future__ import annotations

import os
from weakref import WeakSet

from .process import DriverError, KernelUnavailable, UnknownKernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Union

    from .backends.cuda.kernel import Context, Kernel, LoadedKernel, Place
    from .backends.iree.kernel import IreeKernel
    from .backends.opencl.kernel import OpenClKernel
    from .backends.system import HostKernel
    from .driver import Probe
    from .values import BuildPlace, Candidate, Origin, Reason

    AnyKernel = Union[Kernel, HostKernel, IreeKernel, OpenClKernel]

_HERE = os.path.dirname(os.path.abspath(__file__))
_DISABLE = "GPUFORGE_DISABLE_GPU"  # as in `driver`
_sets: WeakSet[KernelSet] = WeakSet()  # all of this copy of the runtime
_process = [0]  # the number of forks of this process: the parent's kernels do not work in a child


def _forked() -> None:
    _process[0] += 1


os.register_at_fork(after_in_child=_forked)


class KernelSet:
    """The kernels of one object of the manifest. Safe to use from several threads.

    `function` loads into a context once for the process; a failure is not remembered, so the next call tries again. A
    failed launch or copy is a DriverError for the caller: there is no fallback to the CPU after work on the GPU has
    begun.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        package: str = "",
        env: Mapping[str, str] | None = None,
        driver: Sequence[str] | str = (),
    ) -> None:
        self._folder = os.fspath(folder)
        self.name = os.path.basename(self._folder)
        self.package = package
        self.env: Mapping[str, str] = os.environ if env is None else env
        self._driver = (driver,) if isinstance(driver, str) else tuple(driver)
        self._places: tuple[BuildPlace, ...] | None = None
        self._failures: dict[tuple[str, str], Reason] = {}  # (module, file): why no kernel of it loads
        self._used: set[tuple[str, str]] = set()  # those that a kernel was loaded from
        self._kernels: dict[tuple[str, str | None, int | None], AnyKernel] = {}
        self._forks = _process[0]
        _sets.add(self)

    @classmethod
    def shipped(cls, name: str) -> KernelSet:
        """Return the kernel set of that name beside this runtime. It reads nothing yet and never raises."""
        # as `layout.kernels`, whose module takes longer to import than this one
        return cls(os.path.join(_HERE, "kernels", name), package=(__package__ or "").rpartition(".")[0])

    def explain(self) -> str:
        """Return what this machine has, and for each build whether it is used, fits or is refused, and why."""
        from .explain import as_text, facts_of

        return as_text(facts_of(self))

    def function(
        self,
        name: str,
        *,
        module: str | None = None,
        device: int | None = None,
        context: Any = None,
        cache: bool = True,
    ) -> AnyKernel:
        """Load a module and return its kernel `name`, ready to launch; later calls return the same one.

        `name` is "scale", for a kernel in a namespace also "ns::scale", and for one of several overloads or template
        instances "scale(float *, unsigned long)" or "scale<float>". Without `module` all modules of the set are looked
        in. The kernel runs on the device of each launch's arrays. To have it run in one place alone, name a `device`,
        whose primary context CUDA's runtime API, CuPy and torch use, or a `context`: "current" for the one that is
        current in this thread, or a CUcontext. Without a GPU, the CPU is device 0. With `cache` False, code that is
        compiled for this device is not looked up in the kernel cache, or kept there.

        Raises UnknownKernel if the wheel has no such kernel, or several; KernelUnavailable, with the reason of each
        place tried, if none fits or the driver refuses it; ValueError if no context is current.
        """
        place = (
            device if context is None else getattr(context, "int_ptr", None)
        )  # of pyopencl: kept until `release`
        if cache and (context is None or place) and self._forks == _process[0]:
            kernel = self._kernels.get((name, module, place))
            if kernel is not None and self.env.get(_DISABLE, "") in ("", "0"):
                return kernel
        return self._load(name, module, device, context, cache)

    def release(self, *, device: int | None = None, context: Any = None) -> None:
        """Unload the modules of all kernel sets: on every device, on one `device`, or in a `context`.

        A kernel that is still in use stays loaded until its last reference is gone. It never opens a driver, so it can
        be called without loaded modules, twice, and at the end of a program. Call it before a context is destroyed.
        Libraries for the CPU stay: code that still runs may be in them. Raises TypeError for anything but a context.
        """
        import sys

        from .backends import owner_of
        from .driver import opened_driver
        from .signature import context_handle, device_number

        owner, device = owner_of(context), device_number(device)
        if context is not None and not owner:
            context_handle(context)
        for each in list(_sets):
            each._kernels, each._used = {}, set()
        for name in ("opencl", "iree") if context is None or owner else ():
            used = sys.modules.get(f"{__package__}.backends.{name}.kernel")
            if used is not None:
                used.release(device, context)
        driver = None if owner else opened_driver(self._driver)
        if driver is not None:
            try:
                from .backends.cuda.kernel import release
            except ModuleNotFoundError:  # as in `_context`
                return
            release(driver, device, context)

    def candidates(self, module: str | None = None, device: int = 0) -> tuple[Candidate, ...]:
        """Return every way to run a module's kernels on a device: the one in use first, then the others with reasons.

        Raises KernelUnavailable if the set cannot be read, UnknownKernel if it has no such module.
        """
        from .decide import module_named

        return self._judged(module_named(self.name, self.places(), module), self.probe(), device)

    def places(self) -> tuple[BuildPlace, ...]:
        if self._places is None:
            from .find import places_of

            self._places = places_of(self.package, self.name, self._folder, self.env)
        return self._places

    def failure(self, module: str, file: str) -> Reason | None:
        return None if (module, file) in self._used else self._failures.get((module, file))

    def probe(self, *, until: Origin | None = None) -> Probe:
        """Return the facts about this machine, without opening the driver if the environment switches the GPU off.

        Devices and compilers are looked for up to `until`.
        """
        from .backends import BACKENDS, implementation
        from .driver import Probe, probe, switched_off

        off = switched_off(self.env)
        machine = Probe(None, problem=off) if off else probe(self._driver)
        loaders = [(place, {image.about.loader for image in place.images}) for place in self.places()]
        found = {}
        for loader, backend in BACKENDS.items():
            own = [place for place, used in loaders if loader in used]
            if own and (until is None or backend.origin <= until):
                found[loader] = implementation(backend).look(machine, own, self.env)
        return machine._replace(found=found)

    def _judged(self, module: str, machine: Probe, device: int) -> tuple[Candidate, ...]:
        from .decide import resolve

        builds = [build for place in self.places() for build in place.builds(module)]
        return resolve(builds, machine, self.env, device=device)

    def _load(self, name: str, module: str | None, device: Any, context: Any, cache: bool) -> AnyKernel:
        if self.env.get(_DISABLE, "") in ("", "0"):
            from .driver import begin_driver

            begin_driver(self._driver)  # meanwhile the modules are imported and the set is read
        from functools import partial

        from . import layout
        from .backends import BACKENDS, Request, owner_of
        from .decide import find, is_absent, load, only_there, reasons
        from .signature import context_handle, device_number
        from .values import Origin

        owner, device = owner_of(context), device_number(device)
        if not owner and context is not None:
            context_handle(context)
        if self._forks != _process[0]:
            self._kernels, self._forks = {}, _process[0]
        named = find(self.name, self.places(), name, module)
        own_module = named.module
        failures: dict[str, Reason] = {}
        unable = ""
        kernel: AnyKernel | None = None
        # up to these origins one after the other: finding compilers and OpenCL takes time
        sources = sorted({place.origin for place in self.places() if place.sources})
        for last in (*(Origin(origin - 1) for origin in sources), Origin.CPU):
            machine, cuda_context = self.probe(until=last), None
            try:
                cuda_context = self._context(machine, device, context)
            except DriverError as error:  # the device is in use, or has no memory left for a context
                unable = f"GPU {device or 0}: {error}"
            ordinal = cuda_context.ordinal if cuda_context else device or 0
            judged, given = self._judged(own_module, machine, ordinal), None
            if device is not None or context is not None:
                contexts = "" if context is None else BACKENDS[owner or "CUDA"].contexts
                judged, given = only_there(judged, machine, device, contexts), cuda_context
            allowed = [c for c in judged if c.origin <= last]
            request = Request(
                *(named, machine, cuda_context, ordinal, context, self.env, cache),
                *(given and given.place, partial(self._elsewhere, name, own_module, cache)),
                sources=layout.sources(layout.home_of(self._folder), self.name),
            )
            kernel, used = load(request, allowed, self.places(), failures)
            if kernel is not None:
                break
        self._note(own_module, judged, failures, used)
        if kernel is None and is_absent(named, judged, failures, self.places()):
            raise UnknownKernel("\n".join([named.message, *reasons(judged, failures, machine)]))
        if kernel is None:
            raise KernelUnavailable([unable] if unable else reasons(judged, failures, machine))
        if context is None or owner:
            self._kernels[name, module, context.int_ptr if owner else device] = kernel
        return kernel

    def _note(
        self, module: str, judged: Iterable[Candidate], failures: Mapping[str, Reason], used: str
    ) -> None:
        """Keep for `explain` why files could not be loaded; `used` could."""
        self._used.add((module, used))
        for candidate in judged:
            self._failures.pop((module, candidate.build.place), None)
        for file, reason in failures.items():
            if reason.kind not in {"no-such-kernel", "not-a-kernel"}:  # other kernels of the file may load
                self._failures[module, file] = reason

    def _context(self, machine: Probe, device: int | None, context: Any) -> Context | None:
        try:
            from .backends.cuda import context_for
        except ModuleNotFoundError:  # nothing of this wheel is loaded by the driver
            return None
        return context_for(machine, self._driver, device, context)

    def _elsewhere(self, name: str, module: str, cache: bool, place: Place) -> LoadedKernel:
        from .backends.cuda.kernel import Kernel

        device, context = (place, None) if isinstance(place, int) else (None, place)
        kernel = self._load(name, module, device, context, cache)
        if isinstance(kernel, Kernel):
            return kernel.loaded
        raise KernelUnavailable([f"kernel {name} cannot run on device {place}, where its arrays are"])
