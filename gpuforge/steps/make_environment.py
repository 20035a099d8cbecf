"""Install build requirements into an environment for builds, by uv, from wheels only."""

from __future__ import annotations

from gpuforge.plan.requests.build import MakeEnvironment
from gpuforge.steps import entry
from gpuforge.steps.venv import create, install


def main(request: MakeEnvironment) -> None:
    """Make the environment `output` with every wheel of the folder `wheels`."""
    install(create(request.python, request.output), request.wheels)


if __name__ == "__main__":
    entry.run(MakeEnvironment, main)
