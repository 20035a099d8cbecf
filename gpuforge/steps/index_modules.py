"""Lay a fallback's modules out as they go into a wheel, with an index of the images that are really in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuforge.package import kernel_set
from gpuforge.plan.requests.kernels import IndexModules
from gpuforge.steps import entry, lay_kernels
from gpuforge.steps.module_images import images_of, kernels_of


def main(spec: IndexModules) -> None:
    """Write `kernels/<object>` below `output`; raises ActionError for a file without the images that it should have."""
    lay_kernels.lay(spec.output, lambda: _pack(spec))


def _pack(spec: IndexModules) -> Path:
    modules = tuple(
        replace(module, images=images_of(module), kernels=kernels_of(module)) for module in spec.made.modules
    )
    toolchain = lay_kernels.made_by(spec.made.toolchain, spec.package)
    return kernel_set.pack_modules(spec.output, replace(spec.made, toolchain=toolchain, modules=modules))


if __name__ == "__main__":
    entry.run(IndexModules, main)
