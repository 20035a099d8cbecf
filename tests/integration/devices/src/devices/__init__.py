"""Counts GPUs through CUDA's runtime API."""

from .inner._runtime import count

__all__ = ["count"]
