"""Launches of kernels that report errors by `gpuforge_errors.h`: bounds and conditions become exceptions.

from ._gpuforge.kernel_errors import Checked, KernelError

solve = Checked(kernels.function("solve"), {1: "the eccentricity must be below 1"})
solve.launch(grid, block, count, x, y)      # the kernel has one parameter more, the last: GPUFORGE_ERRORS errors
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from .copies import DeviceCopies

_OUT_OF_BOUNDS = 0x40000000  # as in gpuforge_errors.h


class KernelError(ValueError):
    """An error that a kernel has reported: its `kind`, the `element`, and the `line` of `source` that found it."""

    def __init__(self, text: str, kind: int, element: int, line: int, kernel: Any) -> None:
        self.kind, self.element, self.line = kind, element, line
        self.kernel: str = kernel.name
        self.device: str = kernel.device
        self.source: str = getattr(kernel, "source", "")
        where = f"{self.source} line {line}" if self.source else f"line {line} of its source"
        super().__init__(f"element {element}: {text} (kernel {self.kernel}, {where}, on {self.device})")


class Checked:
    """A kernel whose last parameter is for the errors that it reports; `texts` are the meanings of their kinds."""

    def __init__(self, kernel: Any, texts: Mapping[int, str]) -> None:
        self.kernel = kernel
        self._texts = {_OUT_OF_BOUNDS: "the index is out of bounds", **texts}

    def launch(self, grid: Any, block: Any, *arguments: Any, **options: Any) -> None:
        """Launch the kernel with all arguments but the last, and wait for it.

        Arrays of the host are copied to the device and, unless the parameter is const or there was an error, back.
        Memory on the device may have been written in part. Raises KernelError, and as the kernel's `launch`.
        """
        record = array("i", bytes(16))
        with DeviceCopies() as copies, self.kernel.memory(16) as memory:
            memory.write(record)
            copies.launch(self.kernel, grid, block, *arguments, memory, **options)
            memory.read(record)
            kind, line, low, high = record
            if kind:
                text = self._texts.get(kind, f"error {kind}")
                raise KernelError(text, kind, low + (high << 31), line, self.kernel)
            copies.bring_back()
