"""A wheel's kernel set: says which of its kernels can run here and why, loads and launches them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .context import Context, Dim, Memory, primary_context
from .driver import LIBRARY, NoDriver, open_driver
from .errors import DriverError, KernelUnavailable
from .explain import describe_machine, describe_module
from .index import Index, Module, read_index
from .probe import Probe, probe
from .resolve import DISABLE_GPU, Candidate, gpu_disabled, resolve

_SHIPPED = Path(__file__).parent / "kernels"


class KernelSet:
    """The kernels of one object of the manifest. Safe to use from several threads.

    `function` loads into the primary context of a device, once for the process; a failure is not
    remembered, so the next call tries again. A failed launch or copy is a DriverError for the caller to see:
    nothing falls back to the CPU after work was begun on the GPU.
    """

    def __init__(self, folder: Path, *, env: Mapping[str, str] | None = None, driver: str = LIBRARY) -> None:
        self._folder = folder
        self._env = os.environ if env is None else env
        self._driver = driver
        self._index: Index | None = None
        self._failures: dict[str, str] = {}  # module: why its last load failed; for `explain` alone

    @classmethod
    def shipped(cls, name: str) -> KernelSet:
        """Return the kernel set of that name beside this runtime. It reads nothing yet and never raises."""
        return cls(_SHIPPED / name)

    def explain(self) -> str:
        """Say what this machine has, and for each image whether it is used, fits or is refused, and why."""
        try:
            index = self._read()
        except KernelUnavailable as error:
            return f"kernel set {self._folder.name}: cannot be used\n  {error}"
        machine = self._probe()
        lines = [f"kernel set {index.name}: made by {index.compiler} with CUDA {index.toolkit}"]
        lines += [f"  {line}" for line in describe_machine(machine)]
        for module in index.modules.values():
            lines.append(f"  module {module.name}, from {module.source}")
            lines += [f"    {line}" for line in describe_module(module.images, machine, self._env)]
            lines += [f"    {line}" for line in self._troubles(module)]
        return "\n".join(lines)

    def function(self, name: str, *, module: str, device: int = 0) -> Kernel:
        """Load a module on a device and return its kernel `name`, ready to launch.

        Raises KernelUnavailable, with each image's reason, when none fits or the driver will not take it.
        """
        found = self._module(module)
        machine = self._probe()
        candidates = resolve(found.images, machine, self._env, device=device)
        chosen = candidates[0]
        if chosen.image is None:
            raise KernelUnavailable([machine.problem] if machine.problem else _reasons(candidates[1:]))
        driver = open_driver(self._driver)
        if isinstance(driver, NoDriver):
            raise KernelUnavailable([driver.reason])
        try:
            context = primary_context(driver, device)
            handle = context.function(name, found.sha256, found.read)
        except DriverError as error:
            self._failures[module] = f"kernel {name}: {error}"
            raise KernelUnavailable([f"{module} ({chosen.label}), kernel {name}: {error}"]) from error
        self._failures.pop(module, None)
        return Kernel(name, context, handle)

    def _troubles(self, module: Module) -> list[str]:
        """Return what keeps a module from being used although an image may fit."""
        troubles = []
        try:
            module.read()
        except KernelUnavailable as error:
            troubles += [f"cannot be loaded: {reason}" for reason in error.reasons]
        if module.name in self._failures:
            troubles.append(f"the last attempt to load it failed: {self._failures[module.name]}")
        return troubles

    def _module(self, name: str) -> Module:
        index = self._read()
        if name not in index.modules:
            known = ", ".join(sorted(index.modules)) or "none"
            raise KernelUnavailable([f"kernel set {index.name} has no module {name!r}; it has: {known}"])
        return index.modules[name]

    def _read(self) -> Index:
        if self._index is None:
            if not self._folder.is_dir():
                raise KernelUnavailable([f"this wheel has no kernel set {self._folder.name!r}"])
            self._index = read_index(self._folder / "index.json")
        return self._index

    def _probe(self) -> Probe:
        if gpu_disabled(self._env):
            return Probe(None, problem=f"switched off ({DISABLE_GPU}={self._env[DISABLE_GPU]})")
        return probe(self._driver)


class Kernel:
    """A kernel loaded on a device."""

    def __init__(self, name: str, context: Context, handle: int) -> None:
        self.name = name
        self._context = context
        self._handle = handle

    def memory(self, size: int) -> Memory:
        """Allocate `size` bytes on the kernel's device, freed by a `with` statement; raises DriverError."""
        return self._context.allocate(size)

    def launch(self, grid: int | Dim, block: int | Dim, *arguments: Any, shared: int = 0) -> None:
        """Queue the kernel on the default stream over `grid` blocks of `block` threads.

        An argument is a `Memory` (its address is passed) or a ctypes value of the C type that the kernel
        declares. `shared` is dynamic shared memory in bytes. Raises TypeError, DriverError. A fault inside
        the kernel shows in the next `Memory.read`.
        """
        self._context.launch(self._handle, _dim(grid), _dim(block), arguments, shared)


def _dim(value: int | Dim) -> Dim:
    return (value, 1, 1) if isinstance(value, int) else value


def _reasons(refused: Sequence[Candidate]) -> list[str]:
    """Return "image: reason" lines, or the reason alone when all images share it."""
    if len({candidate.reason for candidate in refused}) == 1:
        return [refused[0].reason]
    return [f"{candidate.label}: {candidate.reason}" for candidate in refused] or ["the module has no images"]
