"""Compiles a package's sources on the user's machine, with a compiler that is there; loaded by that command alone."""
