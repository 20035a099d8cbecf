"""Make a kernels wheel: the kernels of one CUDA major, with what their libraries need, in fixed bytes."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from gpuforge import disk
from gpuforge.errors import ActionError
from gpuforge.package import build_record, kernel_set, kernels_wheel, naming, repair, requirements, sbom
from gpuforge.package.repair import Linkage
from gpuforge.steps import entry, package_wheel, wheel_sizes
from gpuforge.steps.specification import Specification
from gpuforge.steps.wheelhouse import one_wheel
from gpuforge.wheel import metadata, unpacked, writer


class KernelsWheelSpec(Specification):
    """What the kernels wheel is made of."""

    of: Path  # a wheel of the package's metadata, or its folder
    distribution: str
    folder: str
    extra: str
    kernels: tuple[Path, ...]  # folders, as kernel_index makes them
    sets: tuple[Mapping[str, str], ...]
    cuda: str  # the toolkit's version: "13.0"
    machine: str
    linkage: Linkage
    pins: Mapping[str, str] = Field(default={})  # the pip packages of the toolkit
    pins_file: Path | None = None  # a file of the toolkit with more of them, as JSON
    size_limit: int | None = None  # bytes
    search_path: tuple[str, ...] = ()
    record: Mapping[str, Any] = Field(default={})
    work: Path


def main(arguments: list[str]) -> None:
    """Leave the wheel in the folder `--output`, and one of its metadata alone in `--declared`."""
    parser = argparse.ArgumentParser(prog="package_kernels")
    parser.add_argument("--spec", required=True, help="a KernelsWheelSpec as JSON")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--declared", type=Path, required=True)
    options = parser.parse_args(arguments)
    spec = KernelsWheelSpec.parse(options.spec)
    with disk.errors_at(spec.work):
        spec.work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="kernels-", dir=spec.work) as scratch:
            made = package(spec, Path(scratch), options.output)
            package_wheel.declare(Path(scratch) / "tree", Path(scratch) / "declared", options.declared)
    print(f"{made.name}: {made.stat().st_size} bytes")


def package(spec: KernelsWheelSpec, scratch: Path, output: Path) -> Path:
    """Make the wheel in `output` and return its path; raises ActionError and leaves nothing there on failure."""
    more = json.loads(spec.pins_file.read_text()) if spec.pins_file else {}
    pins = {**spec.pins, **more}
    tree = scratch / "tree"
    wheel = kernels_wheel.KernelsWheel(spec.distribution, spec.folder, spec.extra)
    name = kernels_wheel.lay_out(
        tree,
        wheel,
        metadata.of_wheel(one_wheel(spec.of)),
        spec.kernels,
        spec.sets,
        toolkit=spec.cuda,
        machine=spec.machine,
    )
    naming.write_tags(tree, name)
    repaired = repair.repair(
        tree,
        name,
        scratch,
        cuda=spec.cuda,
        linkage=spec.linkage,
        pins=pins,
        search_path=spec.search_path,
        log=print,
    )
    kernel_set.measure_again(tree, spec.folder)
    info = unpacked.dist_info(tree)
    text, added = requirements.require(
        metadata.of_file(info / "METADATA"), {p: pins.get(p) for p in repaired.packages}
    )
    (info / "METADATA").write_bytes(text)
    for line in added:
        print(f"requires {line}")
    naming.write_tags(tree, repaired.name)
    declared = [sbom.Material(p, pins.get(p)) for p in repaired.packages]
    epoch = package_wheel.epoch()
    sbom.write(tree, declared=declared, pins=pins, cuda=spec.cuda, epoch=epoch)
    build_record.write(tree, spec.record)
    target = output / str(repaired.name)
    writer.write(tree, target, epoch=epoch)
    try:
        wheel_sizes.check(target, spec.size_limit)
    except ActionError:
        target.unlink()
        raise
    return target


if __name__ == "__main__":
    entry.run(main)
