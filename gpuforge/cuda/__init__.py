"""The terms of CUDA that all of gpuforge shares: releases, libraries, packages, and names.

Those that travel in users' wheels, such as `Arch`, are in `gpuforge/runtime`.
"""
