"""GPU Python wheels from one manifest: built, tagged, and proved not to mix runtimes."""

__version__ = "0.2.0"
