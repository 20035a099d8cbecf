"""Lay out the sources that users compile, with the headers that they include and the recipe."""

from __future__ import annotations

from pathlib import Path

from gpuforge.package import source_set
from gpuforge.plan.requests.kernels import GatherSources
from gpuforge.steps import entry, lay_kernels


def main(spec: GatherSources) -> None:
    """Write `sources/<object>` below `output`."""
    lay_kernels.lay(spec.output, lambda: _pack(spec))


def _pack(spec: GatherSources) -> Path:
    return source_set.pack_sources(
        spec.output,
        name=spec.name,
        sources={source.source: source.path for source in spec.sources},
        includes={source.source: source.path for source in spec.includes},
        toolchains=spec.toolchains,
        abi=spec.abi,
        kind=spec.kind,
        packages=spec.packages,
        fallbacks=spec.fallbacks,
        cpu=spec.cpu,
        toolkit=spec.toolkit,
        archs=spec.archs,
    )


if __name__ == "__main__":
    entry.run(GatherSources, main)
