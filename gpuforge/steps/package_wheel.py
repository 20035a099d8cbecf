"""Make the finished wheel from a host wheel: embed the kernels, repair it, name it, declare its requirements."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from gpuforge import disk
from gpuforge.audit.report import proofs
from gpuforge.cuda.carried import Carried
from gpuforge.cuda.provided import Provided, as_record, outside, requirement
from gpuforge.cuda.suffix import major_of_extra
from gpuforge.cuda.version import major_of
from gpuforge.errors import ActionError, UsageError
from gpuforge.package import (
    build_record,
    embed,
    guard,
    imported_first,
    kernel_set,
    kernels_wheel,
    naming,
    repair,
    requirements,
    sbom,
)
from gpuforge.package.repair import Linking
from gpuforge.plan.requests.wheel import PackageWheel
from gpuforge.steps import entry, wheel_sizes
from gpuforge.steps.wheelhouse import one_wheel
from gpuforge.wheel import metadata, metadata_edit, unpacked, wheel_file, writer
from gpuforge.wheel.filename import WheelName

_RUNTIME = Path(__file__).resolve().parent.parent / "runtime"  # its source files go into the wheel


def main(spec: PackageWheel) -> None:
    """Leave exactly one wheel in the folder `output`.

    The folder `declared` gets a wheel with the same METADATA and no code: requirements are resolved with it, and it
    changes only when METADATA does.
    """
    work = spec.work or spec.output.parent
    with disk.errors_at(work):
        work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="package-", dir=work) as scratch:
            made = package(spec, Path(scratch), spec.output)
            if spec.declared:
                declare(Path(scratch) / "tree", Path(scratch) / "declared", spec.declared)
    print(f"{made.name}: {made.stat().st_size} bytes")


def package(spec: PackageWheel, scratch: Path, output: Path) -> Path:
    """Make the wheel in `output` and return its path; raises ActionError and leaves nothing there on failure."""
    if spec.pins_file:
        more = json.loads(spec.pins_file.read_text())
        spec = replace(spec, pins={**spec.pins, **more})
    tree = scratch / "tree"
    name = _host_wheel(spec, tree)
    _embed(spec, tree, name)
    carried = (
        [Carried.from_data(each) for each in json.loads(spec.carried.read_text())] if spec.carried else []
    )
    linking = Linking(spec.cuda, spec.linkage, spec.pins, spec.search_path, spec.exclude, carried)
    repaired = repair.repair(tree, name, scratch, linking, print)
    kernel_set.measure_again(tree, spec.package)
    provided = _provided(spec.provided)
    distributions = (*repaired.distributions, *_forgotten(provided, repaired.distributions))
    if spec.kernels_wheels:
        kernels_wheel.refuse_libraries(distributions)
        wheels = [kernels_wheel.KernelsWheel(**vars(wheel)) for wheel in spec.kernels_wheels]
        for line in kernels_wheel.list_wheels(tree, spec.package, wheels, spec.sets):
            print(f"requires {line}")
    else:
        _require(tree, distributions, spec, provided)
    if spec.naming in {"suffix", "local"}:
        _drop_extras(tree, major_of(spec.cuda))
    _use_carried(tree, repaired.carried, spec)
    _declare_extras(tree, spec.extras)
    naming.write_tags(tree, repaired.name)
    _document(tree, distributions, spec, provided, repaired.carried)
    return write(tree, output / str(repaired.name), spec.size_limit)


def write(tree: Path, target: Path, size_limit: int | None) -> Path:
    """Write the wheel `target` and return it; raises ActionError, and leaves none, when it exceeds the limit."""
    writer.write(tree, target, epoch=epoch())
    try:
        wheel_sizes.check(target, size_limit)
    except ActionError:
        target.unlink()
        raise
    return target


def declare(tree: Path, scratch: Path, output: Path) -> None:
    """Write a wheel with the METADATA of the unpacked one in `tree`, for any Python and platform, without code."""
    info = unpacked.dist_info(tree)
    (scratch / info.name).mkdir(parents=True)
    shutil.copy(info / "METADATA", scratch / info.name)
    (scratch / info.name / "WHEEL").write_bytes(wheel_file.new(purelib=True, tags=["py3-none-any"]))
    output.mkdir()
    name = f"{info.name.removesuffix('.dist-info')}-py3-none-any.whl"
    writer.write(scratch, output / name, epoch=epoch())


def _host_wheel(spec: PackageWheel, tree: Path) -> WheelName:
    """Unpack the host wheel under its new name, and return that."""
    source = one_wheel(spec.wheel)
    name = WheelName.parse(source.name)
    naming.check_name(name, spec.name)
    naming.check_tags(name, python=spec.python, abi=spec.abi)
    unpacked.unpack(source, tree)
    return naming.rename(tree, name, spec.naming, spec.cuda, axes=spec.axes, narrowed=spec.narrowed)


def _embed(spec: PackageWheel, tree: Path, name: WheelName) -> None:
    """Put the kernel sets with the runtime, and the guard, into the import package."""
    if spec.kernels or spec.kernels_wheels:
        for file in embed.kernel_sets(tree, spec.package, spec.kernels, _RUNTIME):
            print(f"added {file}")
    if spec.naming == "suffix":
        refused = guard.embed(tree, spec.package, name.distribution, _RUNTIME / embed.GUARD)
        if refused:
            print(f"no guard against a second build installed over this one: {refused}")


def _provided(file: Path | None) -> Provided:
    return Provided.from_data(json.loads(file.read_text())) if file else Provided()


def _forgotten(provided: Provided, distributions: tuple[str, ...]) -> list[str]:
    """Return the distributions that others need without requiring them: the wheel must require them itself."""
    found = [floor.package for floor in provided.floors if floor.forgotten_by]
    return [distribution for distribution in found if distribution not in distributions]


def _require(tree: Path, distributions: tuple[str, ...], spec: PackageWheel, provided: Provided) -> None:
    """Require the distributions. With extras, `cuda13` brings them and `cuda13-local` does not."""
    file = unpacked.dist_info(tree) / "METADATA"
    major = major_of(spec.cuda)
    extra = f"cuda{major}" if spec.requires == "extra" else None
    linked = {distribution: spec.pins.get(distribution) for distribution in distributions}
    floors = {floor.package: floor for floor in provided.floors}
    proved = {
        distribution: requirements.Bounds(requirement(floor, major), outside(floor, major))
        for distribution, floor in floors.items()
    }
    text, added = requirements.require(metadata.of_file(file), linked, extra=extra, proved=proved)
    if extra and spec.linkage == "pip":
        text = metadata_edit.provide_extras(text, [extra, f"{extra}-local"])
    file.write_bytes(text)
    for line in added:
        print(f"requires {line}")
    for distribution in distributions:
        if distribution in floors:
            print(proofs.floor(floors[distribution]))
            for other in floors[distribution].forgotten_by:
                print(f"requires {distribution} for {other}, which needs it and does not declare it")


def _drop_extras(tree: Path, major: int) -> None:
    """Remove the project's extras for other CUDA majors: jax[cuda12] has no use for code of CUDA 13."""
    file = unpacked.dist_info(tree) / "METADATA"
    text = metadata.of_file(file)
    extras = [canonicalize_name(name) for name in metadata.fields(text, "Provides-Extra")]
    others = [name for name in extras if major_of_extra(name) not in {None, major}]
    file.write_bytes(metadata_edit.without_extras(text, others))
    for name in others:
        print(f"removed the extra {name}, which is for another CUDA major")


def _use_carried(tree: Path, carried: Sequence[Carried], spec: PackageWheel) -> None:
    """Require the packages whose libraries the wheel uses, and the manifest's; import them first."""
    file = unpacked.dist_info(tree) / "METADATA"
    text = metadata_edit.add_requirements(metadata.of_file(file), spec.more_requires)
    file.write_bytes(text)
    chosen = {canonicalize_name(Requirement(line).name) for line in spec.more_requires}
    for package in carried:
        linked = {package.package: package.version}
        bounds = requirements.Bounds.after(Requirement(package.series))
        text, added = requirements.require(metadata.of_file(file), linked, proved={package.package: bounds})
        if package.package not in chosen:
            file.write_bytes(text)
            for line in added:
                print(f"requires {line}")
        if package.module:
            reason = imported_first.embed(tree, spec.package, package.module)
            print(f"{spec.package} imports {package.module} first{f': {reason}' if reason else ''}")
    for line in spec.more_requires:
        print(f"requires {line}")


def _declare_extras(tree: Path, extras: Mapping[str, Sequence[str]]) -> None:
    """Declare extras and their requirements; the project's own requirements of these extras stay."""
    file = unpacked.dist_info(tree) / "METADATA"
    text = metadata.of_file(file)
    lines = [f'{line}; extra == "{name}"' for name, lines in extras.items() for line in lines]
    file.write_bytes(metadata_edit.add_requirements(metadata_edit.provide_extras(text, [*extras]), lines))
    for line in lines:
        print(f"requires {line}")


def _document(
    tree: Path,
    distributions: tuple[str, ...],
    spec: PackageWheel,
    provided: Provided,
    carried: Sequence[Carried],
) -> None:
    """Write the bill of materials and the build record."""
    declared = [sbom.Material(distribution, spec.pins.get(distribution)) for distribution in distributions]
    declared += [sbom.Material(package.package, package.version) for package in carried]
    declared += [sbom.Material(wheel.distribution, None) for wheel in spec.kernels_wheels]
    sbom.write(tree, declared=declared, pins=spec.pins, cuda=spec.cuda, epoch=epoch())
    if spec.record:
        floors = {f.package: as_record(f) for f in provided.floors if f.package in distributions}
        build_record.write(
            tree, {**spec.record, "requirements": _locked(spec.requirements), "floors": floors}
        )


def _locked(file: Path | None) -> dict[str, dict[str, str]]:
    """Return the version and the sha256 of each build requirement by its name."""
    wheels = json.loads(file.read_text())["wheels"] if file else {}
    found = ((*parse_wheel_filename(name)[:2], sha256) for name, sha256 in wheels.items())
    return {name: {"version": str(version), "sha256": sha256} for name, version, sha256 in sorted(found)}


def epoch() -> int | None:
    """Return SOURCE_DATE_EPOCH (seconds since 1970), None when it is not set; raises UsageError for other text."""
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if not text:
        return None
    if not text.isdigit():
        raise UsageError.of(f"SOURCE_DATE_EPOCH is {text!r}, not a number of seconds", hint="unset it")
    return int(text)


if __name__ == "__main__":
    entry.run(PackageWheel, main)
