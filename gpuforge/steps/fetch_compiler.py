"""Download a host compiler and unpack it."""

from __future__ import annotations

from functools import partial

from gpuforge.plan.requests.compiler import FetchCompiler
from gpuforge.steps import entry
from gpuforge.toolkits.compilers import provision_compiler


def main(request: FetchCompiler) -> None:
    """Make the folder `output`, which must not exist or be empty."""
    provision_compiler(request.parts, request.output, say=partial(print, flush=True))


if __name__ == "__main__":
    entry.run(FetchCompiler, main)
