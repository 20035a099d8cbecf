"""The error that readers of untrusted bytes raise."""

from gpuforge.errors import ActionError


class DamagedError(ActionError):
    """Bytes that contradict their own headers, or that were made to take all memory or time."""
