"""Judge wheels: what may meet in one process, who provides what, which GPUs and machines it really runs on."""

from __future__ import annotations

from gpuforge.audit.audit import Ignore, Report, WheelReport, audit

__all__ = ["Ignore", "Report", "WheelReport", "audit"]
