"""Judge wheels: what may meet in one process, who provides what, which GPUs and machines it really runs on."""

from gpuforge.audit.judge import Ignore, Report, WheelReport, audit

__all__ = ["Ignore", "Report", "WheelReport", "audit"]
