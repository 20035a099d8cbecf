"""Compiles a package's sources with a compiler of the user's machine; only the command `compile` loads it."""
