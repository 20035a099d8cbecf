"""The reader of ELF files, one module for each part of the format."""
