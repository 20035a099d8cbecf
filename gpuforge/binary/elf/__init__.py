"""ELF files: the one reader of the format, for the audit, for packaging and for what is fetched."""
