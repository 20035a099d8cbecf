"""The commands of `python -m PACKAGE._gpuforge`, one file each: `SUMMARY`, `configure(parser)`, `run(options)`.

A new one is a file here and a row in `COMMANDS`.
"""

# Why a wheel may not have a command.
COMMANDS = {
    "explain": "",
    "compile": "there is nothing to compile: it has no sources for compilers of its users",
    "cache": "there is no kernel cache: nothing of it is compiled on its users' machines",
    "include": "it does not have gpuforge_kernels.h: `c-header = true` in [package] of its manifest adds the header",
}
