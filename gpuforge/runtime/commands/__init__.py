"""The commands of `python -m PACKAGE._gpuforge`, one file each: `SUMMARY`, `configure(parser)`, `run(options)`.

A new one is a file here and its name in `NAMES`.
"""

NAMES = ("explain", "compile", "cache", "include")
