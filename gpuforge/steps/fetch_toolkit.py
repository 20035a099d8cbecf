"""Download a CUDA toolkit and assemble it."""

from __future__ import annotations

from functools import partial

from gpuforge.plan.requests.toolkit import FetchToolkit
from gpuforge.steps import entry
from gpuforge.toolkits.provision import provision
from gpuforge.toolkits.provision_debian import provision_debian
from gpuforge.toolkits.provision_redist import provision_redist


def main(request: FetchToolkit) -> None:
    """Make the folder `output`, which must not exist or be empty."""
    say = partial(print, flush=True)
    if request.archives:
        provision_redist(request.archives, request.output, say=say)
    elif request.parts:
        provision_debian(request.parts, request.pins, request.output, say=say)
    else:
        provision(request.pins, request.output, say=say)


if __name__ == "__main__":
    entry.run(FetchToolkit, main)
