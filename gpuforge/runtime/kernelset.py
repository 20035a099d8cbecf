"""A wheel's kernel set: explains which of its kernels can run here, loads them, and remembers what it loaded.

Importing this takes a few milliseconds: what needs ctypes or reads files is imported when it is first used.
"""

from __future__ import annotations

import os

from .errors import DriverError, KernelUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .kernel import Kernel
    from .look import Place
    from .machine import Probe
    from .reason import Reason
    from .resolve import Candidate

_HERE = os.path.dirname(os.path.abspath(__file__))
_DISABLE = "GPUFORGE_DISABLE_GPU"
_DRIVER = ("libcuda.so.1", "libcuda.so")
_process = [0]  # counts the forks that led here: kernels of the parent are of no use in a child


def _forked() -> None:
    _process[0] += 1


os.register_at_fork(after_in_child=_forked)


class KernelSet:
    """The kernels of one object of the manifest. Safe to use from several threads.

    `function` loads into a context once for the process; a failure is not remembered, so the next call tries
    again. A failed launch or copy is a DriverError for the caller to see: nothing falls back to the CPU after work
    was begun on the GPU.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        package: str = "",
        env: Mapping[str, str] | None = None,
        driver: Sequence[str] | str = _DRIVER,
    ) -> None:
        self._folder = os.fspath(folder)
        self.name = os.path.basename(self._folder)
        self.package = package
        self.env: Mapping[str, str] = os.environ if env is None else env
        self._driver = (driver,) if isinstance(driver, str) else tuple(driver)
        self._places: tuple[Place, ...] | None = None
        self._failures: dict[tuple[str, str], Reason] = {}  # (module, file): why its last load failed
        self._kernels: dict[tuple[str, str | None, int], Kernel] = {}
        self._forks = _process[0]

    @classmethod
    def shipped(cls, name: str) -> KernelSet:
        """Return the kernel set of that name beside this runtime. It reads nothing yet and never raises."""
        package = (__package__ or "").rpartition(".")[0]
        return cls(os.path.join(_HERE, "kernels", name), package=package)

    def explain(self) -> str:
        """Say what this machine has, and for each build whether it is used, fits or is refused, and why."""
        from .explain import as_text, facts_of

        return as_text(facts_of(self))

    def function(
        self,
        name: str,
        *,
        module: str | None = None,
        device: int = 0,
        context: Any = None,
        cache: bool = True,
    ) -> Kernel:
        """Load a module and return its kernel `name`, ready to launch; later calls return the same one.

        `module` may be left out where the set has one. `context` is None for the primary context of `device`, which
        CUDA's runtime API, CuPy and torch use, "current" for the one that is current in this thread, or a CUcontext.
        With `cache` False code that is compiled for this device is not looked up in the kernel cache, nor kept there.

        Raises KernelUnavailable, with the reason of each place tried, when none fits or the driver refuses it;
        ValueError when no context is current.
        """
        if cache and context is None and self._forks == _process[0]:
            kernel = self._kernels.get((name, module, device))
            if kernel is not None and self.env.get(_DISABLE, "") in ("", "0"):
                return kernel
        return self._load(name, module, device, context, cache)

    def release(self, *, device: int = 0, context: Any = None) -> None:
        """Unload what was loaded for the primary context of `device`, or for another `context`, by all kernel sets.

        A kernel that is still in use stays loaded until nobody has it. Does nothing where nothing was loaded: it
        never opens a driver, so it can be called twice, and at the end of a program. Call it before a context is
        destroyed. Raises TypeError for what is no context.
        """
        from .context import release
        from .driver import opened_driver

        if context is None:
            self._kernels = {key: kernel for key, kernel in self._kernels.items() if key[2] != device}
        driver = opened_driver(self._driver)
        if driver is not None:
            release(driver, device, context)

    def candidates(self, module: str | None = None, device: int = 0) -> tuple[Candidate, ...]:
        """Return every way to run a module's kernels on a device, the one that is used first, then why not the others.

        Raises KernelUnavailable when the set cannot be read or has no such module.
        """
        from .resolve import resolve

        named = self.module_named(module)
        builds = [place.build(named) for place in self.places()]
        return resolve(builds, self.probe(), self.env, device=device)

    def module_named(self, module: str | None) -> str:
        """Return the module's name, of None that of the only one; raises KernelUnavailable."""
        from .reason import Reason

        indexed = [place for place in self.places() if place.contents]
        names = sorted(
            {name for place in indexed for name in (place.contents.modules if place.contents else ())}
        )
        if not indexed:
            raise KernelUnavailable([str(place.problem) for place in self.places() if place.problem])
        if module is None and len(names) == 1:
            return names[0]
        if module not in names:
            kind = "several-modules" if module is None else "no-module"
            facts = {"set": self.name, "name": module or "", "known": ", ".join(names) or "none"}
            raise KernelUnavailable([str(Reason(kind, facts))])
        return module

    def places(self) -> tuple[Place, ...]:
        """Return where builds of this set were found; looked up once."""
        if self._places is None:
            from .look import look

            self._places = look(self.package, self.name, self._folder, self.env)
        return self._places

    def failure(self, module: str, file: str) -> Reason | None:
        """Return why the last attempt to load a module's file failed, None when there was none."""
        return self._failures.get((module, file))

    def probe(self) -> Probe:
        """Return what this machine has; without opening the driver where the environment switches the GPU off."""
        from .machine import Probe, probe
        from .resolve import gpu_disabled, switched_off

        if gpu_disabled(self.env):
            return Probe(None, problem=switched_off(self.env))
        return probe(self._driver)

    def _load(self, name: str, module: str | None, device: int, context: Any, cache: bool) -> Kernel:
        if self.env.get(_DISABLE, "") in ("", "0"):
            from .driver import begin_driver

            begin_driver(self._driver)  # meanwhile the modules are imported and the set is read
        from .loading import home_of, load, reasons

        if self._forks != _process[0]:
            self._kernels, self._forks = {}, _process[0]
        named = self.module_named(module)
        try:
            home = home_of(self.probe(), self._driver, device, context)
        except DriverError as error:  # the device is taken, or has no room left for a context
            raise KernelUnavailable([f"GPU {device}: {error}"]) from error
        candidates = self.candidates(named, home.ordinal if home else device)
        kernel, failures = load(name, named, home, candidates, self.places(), self.env, use_cache=cache)
        for candidate in candidates:
            self._failures.pop((named, candidate.build.place), None)
        self._failures.update({(named, file): reason for file, reason in failures.items()})
        if kernel is None:
            raise KernelUnavailable(reasons(candidates, failures, self.probe()))
        if context is None:
            self._kernels[name, module, device] = kernel
        return kernel


def shipped_names(home: str = _HERE) -> list[str]:
    """Return the names of the kernel sets beside this runtime and in its kernels wheels, sorted."""
    from .wheels import listing

    folder = os.path.join(home, "kernels")
    try:
        names = os.listdir(folder)
    except OSError:
        names = []
    folders = (os.path.join(folder, name) for name in names)
    own = {os.path.basename(found) for found in folders if os.path.isdir(found) and not _is_library(found)}
    known = listing(home)
    apart = {name for name, each in known.sets.items() if each.kind == "module"} if known else set()
    return sorted(own | apart)


def _is_library(folder: str) -> bool:
    from .candidates import read

    try:
        index = read(os.path.join(folder, "index.json"))
    except KernelUnavailable:
        return False
    return index is not None and index.get("kind") == "library"
