"""Counts GPUs through CUDA's runtime API."""

from __future__ import annotations

from .inner._runtime import count

__all__ = ["count"]
