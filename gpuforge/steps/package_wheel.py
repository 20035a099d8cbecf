"""Make a host wheel the finished one: kernels in, repaired, named, with its requirements, in fixed bytes."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from gpuforge.errors import ActionError, UsageError
from gpuforge.package import archive, kernels, metadata, naming, repair
from gpuforge.package.naming import WheelName
from gpuforge.steps import entry
from gpuforge.steps.specification import Specification

_RUNTIME = Path(__file__).resolve().parent.parent / "runtime"  # it travels as the files it is made of


class PackageSpec(Specification):
    """What the finished wheel is made of."""

    wheel: Path  # the host wheel, or the folder that holds it and no other
    name: str | None = None  # the distribution that it should be
    kernels: tuple[Path, ...] = ()  # folders, as kernel_index makes them
    package: str = Field(alias="import")  # the import package that the kernels go into
    cuda: str  # the toolkit's version: "13.0"
    linkage: str
    naming: str
    pins: Mapping[str, str] = Field(default={})  # the pip packages of the toolkit that it was linked with
    pins_file: Path | None = None  # a file of the toolkit with more of them, as JSON
    python: str | None = None  # the Python and ABI tags that the cell wants: "cp311"
    abi: str | None = None  # "abi3", "none"
    size_limit: int | None = None  # bytes
    search_path: tuple[str, ...] = ()  # where libraries to graft are looked for, besides the system's places
    work: Path | None = None  # where scratch files go; default: beside the output


def main(arguments: list[str]) -> None:
    """Leave exactly one wheel in the folder `--output`, as the PackageSpec in `--spec` says."""
    parser = argparse.ArgumentParser(prog="package_wheel")
    parser.add_argument("--spec", required=True, help="a PackageSpec as JSON")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    spec = PackageSpec.parse(options.spec)
    repair.check_linkage(spec.linkage)
    work = spec.work or options.output.parent
    with archive.disk_errors(work):
        work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="package-", dir=work) as scratch:
            made = package(spec, Path(scratch), options.output)
    print(f"{made.name}: {made.stat().st_size} bytes")


def package(spec: PackageSpec, scratch: Path, output: Path) -> Path:
    """Make the wheel in `output` and return its path; raises ActionError and leaves nothing there on failure."""
    source = _one_wheel(spec.wheel)
    pins = {**spec.pins, **(json.loads(spec.pins_file.read_text()) if spec.pins_file else {})}
    name = WheelName.parse(source.name)
    naming.check_name(name, spec.name)
    naming.check_tags(name, python=spec.python, abi=spec.abi)
    tree = scratch / "tree"
    archive.unpack(source, tree)
    name = naming.rename(tree, name, spec.naming, spec.cuda)
    if spec.kernels:
        for file in kernels.embed(tree, spec.package, spec.kernels, _RUNTIME):
            print(f"added {file}")
    repaired = repair.repair(
        tree, name, scratch, cuda=spec.cuda, pins=pins, search_path=spec.search_path, log=print
    )
    _require(tree, repaired.packages, pins)
    naming.write_tags(tree, repaired.name)
    target = output / str(repaired.name)
    archive.write(tree, target, epoch=_epoch())
    try:
        _check_size(target, spec.size_limit)
    except ActionError:
        target.unlink()
        raise
    return target


def _one_wheel(path: Path) -> Path:
    found = sorted(path.glob("*.whl")) if path.is_dir() else [path] if path.is_file() else []
    if len(found) != 1:
        raise ActionError.of(
            f"{path} should be or hold one wheel, and there are {len(found)}",
            hint="check the project's build",
        )
    return found[0]


def _require(tree: Path, packages: tuple[str, ...], pins: Mapping[str, str]) -> None:
    file = archive.dist_info(tree) / "METADATA"
    text, added = metadata.require(metadata.read(file), {package: pins.get(package) for package in packages})
    file.write_bytes(text)
    for line in added:
        print(f"requires {line}")


def _epoch() -> int | None:
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if not text:
        return None
    if not text.isdigit():
        raise UsageError.of(f"SOURCE_DATE_EPOCH is {text!r}, not a number of seconds", hint="unset it")
    return int(text)


def _check_size(wheel: Path, limit: int | None) -> None:
    size = wheel.stat().st_size
    if limit is None or size <= limit:
        return
    with zipfile.ZipFile(wheel) as bundle:
        largest = sorted(bundle.infolist(), key=lambda info: -info.compress_size)[:5]
    parts = ", ".join(f"{info.filename} {_megabytes(info.compress_size)}" for info in largest)
    raise ActionError.of(
        f"{wheel.name} is {_megabytes(size)}, more than [wheel] size-limit of {_megabytes(limit)}; "
        f"its largest files, compressed: {parts}",
        hint="build for fewer archs, strip debug information, or raise the limit",
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


if __name__ == "__main__":
    entry.run(main)
