"""`python -m gpuforge` is the command `gpuforge`."""

from gpuforge.cli.main import main

main()
