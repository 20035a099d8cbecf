"""Make a kernels wheel, reproducibly: the kernels of one CUDA major, with the requirements of their libraries."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gpuforge import disk
from gpuforge.package import (
    build_record,
    declaration,
    kernel_set,
    kernels_wheel,
    naming,
    repair,
    requirements,
    sbom,
)
from gpuforge.package.repair import Linking
from gpuforge.plan.requests.wheel import PackageKernelsWheel
from gpuforge.steps import entry
from gpuforge.steps.wheelhouse import one_wheel
from gpuforge.steps.write_wheel import epoch, write
from gpuforge.wheel import metadata, unpacked


def main(spec: PackageKernelsWheel) -> None:
    """Write the wheel into the folder `output`, and a wheel of its metadata alone into `declared`."""
    with disk.errors_at(spec.work):
        spec.work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="kernels-", dir=spec.work) as folder:
            scratch = Path(folder)
            made = package(spec, scratch, spec.output)
            declaration.write(scratch / "tree", scratch / "declared", spec.declared, epoch=epoch())
    print(f"{made.name}: {made.stat().st_size} bytes")


def package(spec: PackageKernelsWheel, scratch: Path, output: Path) -> Path:
    """Make the wheel in `output` and return its path; raises ActionError and leaves nothing there on failure."""
    pins = spec.all_pins()
    tree = scratch / "tree"
    name = kernels_wheel.lay_out(
        tree,
        spec.kernels_wheel,
        metadata.of_wheel(one_wheel(spec.of)),
        spec.kernels,
        spec.sets,
        toolkit=spec.cuda,
        machine=spec.machine,
    )
    naming.write_tags(tree, name)
    linking = Linking(spec.cuda, spec.linkage, pins, spec.search_path)
    repaired = repair.repair(tree, name, scratch, linking, print)
    kernel_set.measure_again(tree, spec.kernels_wheel.folder)
    info = unpacked.dist_info(tree)
    text, added = requirements.require(
        metadata.of_file(info / "METADATA"), {p: pins.get(p) for p in repaired.distributions}
    )
    (info / "METADATA").write_bytes(text)
    for line in added:
        print(f"requires {line}")
    naming.write_tags(tree, repaired.name)
    declared = [sbom.Material(p, pins.get(p)) for p in repaired.distributions]
    sbom.write(tree, declared=declared, pins=pins, cuda=spec.cuda, epoch=epoch())
    build_record.write(tree, spec.record)
    return write(tree, output / str(repaired.name), spec.size_limit)


if __name__ == "__main__":
    entry.run(PackageKernelsWheel, main)
