"""The compilers, one module each, with its program names, its version output and its argv."""
