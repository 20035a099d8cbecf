"""Unloads single kernels, and keeps no more of them loaded than a package wants.

from ._gpuforge.unload import Limited

kernels = Limited(KernelSet.shipped("filters"), most=32)    # in place of the set
kernel = kernels.function("blur")
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any


def unload(kernels: Any, kernel: Any) -> None:
    """Unload the module of one kernel of a set, on all devices; the set then loads it again when it is asked for it.

    What is still in use stays until its last reference is gone. Other kernels of the module are loaded again, too, when
    they are looked up. Libraries for the CPU stay loaded.
    """
    for key, found in list(kernels._kernels.items()):
        if found is kernel:
            kernels._kernels.pop(key, None)
    own = getattr(kernel, "unload", None)
    if own is not None:
        own()
    for loaded in list(getattr(kernel, "_loaded", {}).values()):  # of CUDA; a function for the CPU has none
        _drop_module(loaded.context._modules, loaded._loaded.module)


def _drop_module(modules: Any, module: Any) -> None:
    with modules._lock:
        found = [(digest, slot) for digest, slot in modules._slots.items() if slot.module is module]
        for digest, slot in found:
            del modules._slots[digest]
            slot.holders += 1
    for digest, slot in found:
        modules._let_go(digest, slot)


class Limited:
    """A kernel set of which at most `most` kernels stay loaded: beyond it, the one that was asked for longest ago goes.

    Safe for threads. A kernel that a caller still holds works, and is unloaded with its last reference.
    """

    def __init__(self, kernels: Any, *, most: int) -> None:
        if most < 1:
            raise ValueError(f"at least one kernel must stay loaded, not {most}")
        self.kernels = kernels
        self._most = most
        self._lock = threading.Lock()
        self._used: OrderedDict[int, Any] = OrderedDict()

    def function(self, name: str, **options: Any) -> Any:
        """Return a kernel, as `KernelSet.function` does, and unload what is beyond the limit."""
        kernel = self.kernels.function(name, **options)
        with self._lock:
            self._used[id(kernel)] = kernel
            self._used.move_to_end(id(kernel))
            old = [self._used.popitem(last=False)[1] for _ in range(len(self._used) - self._most)]
        for each in old:
            unload(self.kernels, each)
        return kernel
