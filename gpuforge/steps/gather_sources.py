"""Lay out the sources that users compile, with the headers that they include and the recipe."""

from __future__ import annotations

from gpuforge.package import kernel_set
from gpuforge.plan.requests.kernels import GatherSources
from gpuforge.steps import entry, lay_kernels


def main(spec: GatherSources) -> None:
    """Write `sources/<object>` below `output`."""
    lay_kernels.lay(spec.output, lambda: kernel_set.pack_sources(spec.output, spec.gathered))


if __name__ == "__main__":
    entry.run(GatherSources, main)
