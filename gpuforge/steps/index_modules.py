"""Lay a fallback's modules out as they go into a wheel, with an index of the images that are really in them."""

from __future__ import annotations

from pathlib import Path

from gpuforge import digest
from gpuforge.package import kernel_set
from gpuforge.plan.requests.kernels import IndexModules
from gpuforge.steps import entry, lay_kernels
from gpuforge.steps.module_images import images_of


def main(spec: IndexModules) -> None:
    """Write `kernels/<object>` below `output`; raises ActionError for a file without the images that it should have."""
    lay_kernels.lay(spec.output, lambda: _pack(spec))


def _pack(spec: IndexModules) -> Path:
    modules = [
        kernel_set.KernelModule(
            name=module.name,
            source=module.source,
            digest=digest.of_file(module.path),
            compiled=module.compiled,
            images=images_of(module),
            target=module.target,
            suffix=module.suffix,
        )
        for module in spec.modules
    ]
    return kernel_set.pack_modules(
        spec.output,
        name=spec.name,
        toolchain=lay_kernels.made_by(spec.toolchain),
        toolkit=spec.toolkit,
        modules=modules,
        stands_in_for=spec.stands_in_for,
        cpu=spec.cpu,
        install=spec.install,
    )


if __name__ == "__main__":
    entry.run(IndexModules, main)
