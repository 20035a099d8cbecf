"""The programs that actions run, as `python -m gpuforge.steps.NAME`."""
