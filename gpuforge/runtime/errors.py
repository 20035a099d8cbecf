"""The two ways in which the GPU path can end: it cannot be taken at all, or a driver call failed on it."""

from __future__ import annotations

from collections.abc import Sequence


class KernelUnavailable(RuntimeError):  # noqa: N818  a state of the machine to fall back from, not a mistake
    """No GPU kernel can be had here; `reasons` says why, one sentence each. The caller uses the CPU."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = tuple(reasons)


class DriverError(RuntimeError):
    """A call into the NVIDIA driver failed: which one (`call`), and `code` with its `name` and `text`."""

    def __init__(self, call: str, code: int, name: str, text: str, log: str = "") -> None:
        message = f"{call} failed: {name} ({code}): {text}"
        super().__init__(f"{message}\n{log}" if log else message)
        self.call = call
        self.code = code
        self.name = name
        self.text = text
        self.log = log
