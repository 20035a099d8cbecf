"""Image filters written in Halide: on the GPU where there is one, else on the CPU."""

from softlens.filters import FilterError, blur, unsharp, where

__all__ = ["FilterError", "blur", "unsharp", "where"]
