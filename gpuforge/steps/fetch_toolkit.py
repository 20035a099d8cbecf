"""Download a CUDA toolkit and assemble it."""

from __future__ import annotations

from functools import partial

from gpuforge.plan.requests.toolkit import FetchToolkit
from gpuforge.steps import entry
from gpuforge.toolkits.providers import fetchers


def main(request: FetchToolkit) -> None:
    """Make the folder `output`, which must not exist or be empty."""
    fetchers()[request.provider].fetch(request.source, request.output, say=partial(print, flush=True))


if __name__ == "__main__":
    entry.run(FetchToolkit, main)
