"""The package's version; what was measured on a machine holds for one."""

__version__ = "1.0"
