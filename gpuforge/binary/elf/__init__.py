"""ELF files: the reader of the format, one module for each of its parts."""
