"""Make the finished wheel from a host wheel: embed the kernels, repair it, name it, declare its requirements."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuforge import disk
from gpuforge.cuda.carried import BuildLibraries, Carried
from gpuforge.cuda.provided import Provided, reason
from gpuforge.cuda.version import major_of
from gpuforge.package import (
    build_record,
    declaration,
    embed,
    extras,
    guard,
    imported_first,
    kernel_set,
    kernels_wheel,
    naming,
    overlay_libraries,
    repair,
    requirements,
    sbom,
)
from gpuforge.package.repair import Linking
from gpuforge.plan.requests.wheel import PackageWheel
from gpuforge.steps import entry, value_file
from gpuforge.steps.wheelhouse import one_wheel
from gpuforge.steps.write_wheel import epoch, write
from gpuforge.wheel import metadata, unpacked
from gpuforge.wheel.filename import WheelName
from gpuforge.wheel.locked_wheels import LockedWheels


def main(spec: PackageWheel) -> None:
    """Write exactly one wheel into the folder `output`.

    The folder `declared` gets a wheel with the same METADATA and no code: requirements are resolved with it, and it
    changes only when METADATA does.
    """
    work = spec.work or spec.output.parent
    with disk.errors_at(work):
        work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="package-", dir=work) as folder:
            scratch = Path(folder)
            made = package(spec, scratch, spec.output)
            if spec.declared:
                declaration.write(scratch / "tree", scratch / "declared", spec.declared, epoch=epoch())
    print(f"{made.name}: {made.stat().st_size} bytes")


def package(spec: PackageWheel, scratch: Path, output: Path) -> Path:
    """Make the wheel in `output` and return its path; raises ActionError and leaves nothing there on failure."""
    pins = spec.all_pins()
    build = value_file.read(BuildLibraries, spec.carried) if spec.carried else BuildLibraries()
    provided = value_file.read(Provided, spec.provided) if spec.provided else Provided()
    tree = scratch / "tree"
    name = _host_wheel(spec, tree)
    _embed(spec, tree, name)
    search_path = spec.search_path
    if spec.libraries:
        search_path = (overlay_libraries.by_soname(spec.libraries, scratch / "libraries"), *search_path)
    linking = Linking(spec.cuda, spec.linkage, pins, search_path, spec.exclude, build)
    repaired = repair.repair(tree, name, scratch, linking, print)
    kernel_set.measure_again(tree, spec.package)
    distributions = tuple(dict.fromkeys((*repaired.distributions, *provided.forgotten)))
    if spec.kernels_wheels:
        kernels_wheel.refuse_libraries(distributions)
        _print_required(kernels_wheel.list_wheels(tree, spec.package, spec.kernels_wheels, spec.sets))
    file = unpacked.dist_info(tree) / "METADATA"
    text = metadata.of_file(file)
    if not spec.kernels_wheels:
        text = _require(text, {each: pins.get(each) for each in distributions}, spec, provided)
    file.write_bytes(_declare(text, repaired.carried, spec))
    _import_first(tree, repaired.carried, spec.package)
    naming.write_tags(tree, repaired.name)
    declared = [sbom.Material(each, pins.get(each)) for each in distributions]
    declared += [sbom.Material(each.package, each.version) for each in repaired.carried]
    declared += [sbom.Material(wheel.distribution, None) for wheel in spec.kernels_wheels]
    sbom.write(tree, declared=declared, pins=pins, cuda=spec.cuda, epoch=epoch())
    if spec.record:
        locked = value_file.read(LockedWheels, spec.requirements).releases() if spec.requirements else ()
        floors = [floor for floor in provided.floors if floor.package in distributions]
        build_record.write(tree, spec.record, build_record.packages(locked, floors))
    return write(tree, output / str(repaired.name), spec.size_limit)


def _host_wheel(spec: PackageWheel, tree: Path) -> WheelName:
    """Unpack the host wheel under its new name; return the name."""
    source = one_wheel(spec.wheel)
    name = WheelName.parse(source.name)
    naming.check_name(name, spec.name)
    naming.check_tags(name, python=spec.python, abi=spec.abi)
    unpacked.unpack(source, tree)
    return naming.rename(tree, name, spec.naming, spec.cuda, axes=spec.axes, narrowed=spec.narrowed)


def _embed(spec: PackageWheel, tree: Path, name: WheelName) -> None:
    """Put the kernel sets with the runtime, and the guard, into the import package."""
    if spec.kernels or spec.kernels_wheels:
        for file in embed.kernel_sets(
            tree, spec.package, spec.kernels, apart=spec.sets, c_header=spec.c_header
        ):
            print(f"added {file}")
    if spec.naming == "suffix":
        refused = guard.embed(tree, spec.package, name.distribution, embed.GUARD)
        if refused:
            print(f"no guard against a second build installed over this one: {refused}")


def _require(text: bytes, linked: Mapping[str, str | None], spec: PackageWheel, provided: Provided) -> bytes:
    """Require the distributions. With extras, `cuda13` brings them and `cuda13-local` does not."""
    major = major_of(spec.cuda)
    extra = f"cuda{major}" if spec.requires == "extra" else None
    proved = requirements.bounds_of(provided.floors, major)
    text, added = requirements.require(text, linked, extra=extra, proved=proved)
    if extra and spec.linkage == "pip":
        text = metadata.provide_extras(text, [extra, f"{extra}-local"])
    _print_required(added)
    for floor in (each for each in provided.floors if each.package in linked):
        print(reason(floor))
        for other in floor.forgotten_by:
            print(f"requires {floor.package} for {other}, which needs it and does not declare it")
    return text


def _declare(text: bytes, carried: Sequence[Carried], spec: PackageWheel) -> bytes:
    """Declare in METADATA the packages whose libraries the wheel uses, and the manifest's requirements and extras."""
    if spec.naming in {"suffix", "local"}:
        text, dropped = extras.without_other_majors(text, major_of(spec.cuda))
        for name in dropped:
            print(f"removed the extra {name}, which is for another CUDA major")
    text, added = requirements.require_carried(text, carried, spec.more_requires)
    _print_required(added)
    text, added = extras.declare(text, spec.extras)
    _print_required(added)
    return text


def _import_first(tree: Path, carried: Sequence[Carried], package: str) -> None:
    """Have the wheel's package import the packages whose libraries it uses."""
    for module in (each.module for each in carried if each.module):
        reason = imported_first.embed(tree, package, module)
        print(f"{package} imports {module} first{f': {reason}' if reason else ''}")


def _print_required(lines: Sequence[str]) -> None:
    for line in lines:
        print(f"requires {line}")


if __name__ == "__main__":
    entry.run(PackageWheel, main)
