"""The entry point of installations made before it moved."""

from gpuforge.cli.main import main

__all__ = ["main"]
