"""The nouns of CUDA that all of gpuforge shares: an architecture, and what runs where.

`arch.py` and `runs_on.py` travel in users' wheels too: `scripts/copy_to_runtime.py` copies them into
`gpuforge/runtime`. They import nothing but each other and the standard library, and are Python 3.9.
"""
