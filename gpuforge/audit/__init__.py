"""Judge wheels: what may meet in one process, who provides what, which GPUs and machines it really runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuforge.audit.judge import Ignore, Report, WheelReport, audit

__all__ = ["Ignore", "Report", "WheelReport", "audit"]


def __getattr__(name: str) -> object:
    """Load the rest when it is asked for: a large wheel is being read by then (`ahead`)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gpuforge.audit import judge  # noqa: PLC0415  as said

    return getattr(judge, name)
