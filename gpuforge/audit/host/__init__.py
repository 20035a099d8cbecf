"""Reads all bytes of the files that a manifest calls host-only: their compilers, and the GPU code in them."""
