"""The errors of the GPU path: it is not available, a driver call failed on it, or a name is wrong."""

from __future__ import annotations

from .process import one_per_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


@one_per_process
class KernelUnavailable(RuntimeError):  # noqa: N818  a state of the machine to fall back from, not a mistake
    """No GPU kernel is available here; `reasons` has one line for each place tried. The caller uses the CPU."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = tuple(reasons)


@one_per_process
class UnknownKernel(LookupError):  # noqa: N818  as KernelUnavailable
    """The wheel has no kernel, module or kernel set of a name, or several; the message lists those that it has.

    It is a mistake in a program, on every machine: there is nothing to fall back to.
    """


@one_per_process
class DriverError(RuntimeError):
    """A call into a driver failed: its name (`call`), its `code` with `name` and `text`, and advice.

    `advice` is "" if there is none; `log` is the output of the driver's compiler. For OpenCL, `kernel` is the kernel
    that failed, `source` the file that it was compiled from, and `device` its device.
    """

    def __init__(
        self,
        call: str,
        code: int,
        name: str,
        text: str,
        log: str = "",
        advice: str = "",
        *,
        kernel: str = "",
        source: str = "",
        device: str = "",
    ) -> None:
        place = f"kernel {kernel} of {source}" if source else f"kernel {kernel}"
        where = ", ".join([*([place] if kernel else []), *([f"on {device}"] if device else [])])
        lines = [f"{call} failed: {name} ({code}): {text}", where, log, advice and f"What to do: {advice}"]
        super().__init__("\n".join(line for line in lines if line))
        self.call = call
        self.code = code
        self.name = name
        self.text = text
        self.log = log
        self.advice = advice
        self.kernel = kernel
        self.source = source
        self.device = device
