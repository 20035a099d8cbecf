"""The terms of CUDA that all of gpuforge shares: architectures, releases, libraries, and what runs where.

`arch.py`, `cpu_level.py`, `image_kind.py` and `runs_on.py` travel in users' wheels, too: `scripts/copy_to_runtime.py`
copies them into `gpuforge/runtime`. They import nothing but each other and the standard library, and are Python 3.9.
"""
