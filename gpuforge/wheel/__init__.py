"""The wheel format, read and written once: archives, file names, METADATA, RECORD."""
