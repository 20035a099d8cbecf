"""The wheels beside the main one: kernels wheels, the front package, and the declaration of a wheel.

A kernels wheel has the kernels of one CUDA major, listed in the main wheel. The front package has no files; its extras
install the wheels of the CUDA majors. A declaration has only a wheel's METADATA, to resolve its requirements.
"""

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from packaging.utils import canonicalize_name

from gpuforge.cuda.version import major_of
from gpuforge.errors import ActionError
from gpuforge.package import import_package
from gpuforge.package.contents import FrontExtra, KernelsWheel, KernelsWheelSet
from gpuforge.package.kernel_set import write_json
from gpuforge.runtime.layout import HOME, LISTING, WHEEL
from gpuforge.wheel import metadata, unpacked
from gpuforge.wheel.filename import LinuxTag, WheelName, of_info

SCHEMA = 1
# A wheel without code for the host needs no C library: its tag is that of the oldest Linux that pip supports.
# https://peps.python.org/pep-0599/, https://peps.python.org/pep-0600/
_OLDEST = (2, 17)  # glibc
_SHARED = (
    "License-Expression",
    "License",
    "Requires-Python",
)  # fields that the wheels take from the main one


def list_wheels(
    tree: Path, name: str, wheels: Sequence[KernelsWheel], sets: Sequence[KernelsWheelSet]
) -> list[str]:
    """Declare the kernels wheels in an unpacked main wheel: an extra for each, and a list for the runtime.

    `sets` are the kernel sets in them. Returns the requirements that were added.
    """
    file = unpacked.dist_info(tree) / "METADATA"
    text = metadata.of_file(file)
    version = metadata.required(text, "Version")
    lines = [f'{wheel.distribution}=={version}; extra == "{wheel.extra}"' for wheel in wheels]
    text = metadata.provide_extras(text, [wheel.extra for wheel in wheels])
    file.write_bytes(metadata.add_requirements(text, lines))
    home = import_package.find(tree, name)
    assert home is not None  # noqa: S101  the runtime was put there
    listing = {
        "schema": SCHEMA,
        "distribution": metadata.required(text, "Name"),
        "version": version,
        "wheels": [asdict(wheel) for wheel in wheels],
        "sets": [_as_json(each) for each in sets],
    }
    write_json(home / HOME / LISTING, listing)
    return lines


def lay_out(
    tree: Path,
    wheel: KernelsWheel,
    of: bytes,
    packed: Sequence[Path],
    sets: Sequence[KernelsWheelSet],
    *,
    toolkit: str,
    machine: str,
) -> WheelName:
    """Lay out a kernels wheel of packed kernel sets; return its name. `of` is the METADATA of the main wheel.

    It has its own folder, so that no file is in two wheels, and requires exactly this version of the main wheel.
    """
    version = metadata.required(of, "Version")
    home = tree / wheel.folder / HOME
    for source in packed:
        shutil.copytree(source, home, dirs_exist_ok=True)
    about = {
        "schema": SCHEMA,
        "distribution": wheel.distribution,
        "version": version,
        "toolkit": toolkit,
        "sets": [_as_json(each) for each in sets],
    }
    write_json(home / WHEEL, about)
    linked = any(path.suffix == ".so" for path in unpacked.files(tree))
    oldest = LinuxTag("glibc", _OLDEST, machine)
    platform = f"linux_{machine}" if linked else ".".join(sorted(oldest.names))
    distribution = wheel.folder
    name = WheelName(distribution, version, "", "py3", "none", platform)
    info = tree / f"{distribution}-{version}.dist-info"
    info.mkdir()
    main = metadata.required(of, "Name")
    summary = f"The kernels of {main} for CUDA {major_of(toolkit)}."
    text = _metadata(of, wheel.distribution, summary, _SHARED, [f"Requires-Dist: {main}=={version}"])
    (info / "METADATA").write_text(text, encoding="utf-8")
    (info / "WHEEL").write_bytes(metadata.new_wheel_file(purelib=False))
    return name


def _as_json(kernels: KernelsWheelSet) -> dict[str, str]:
    """Return a set as the files have it: only the fields that are not empty, in the order of the keys."""
    return {name.replace("_", "-"): value for name, value in sorted(asdict(kernels).items()) if value}


def refuse_libraries(distributions: Sequence[str]) -> None:
    """Raise ActionError if a wheel for all CUDA versions needs libraries of one."""
    if distributions:
        raise ActionError.of(
            f"the main wheel needs CUDA libraries of {', '.join(distributions)}, "
            'and with [wheel] kernels = "own" it is for all CUDA versions',
            hint="load these libraries at run time, move the code into a fallback object, "
            "or leave [wheel] kernels out",
        )


def _metadata(of: bytes, name: str, summary: str, shared: Sequence[str], lines: Sequence[str]) -> str:
    """Return the METADATA of a wheel beside the one with the METADATA `of`, of which it takes the `shared` fields."""
    headers = metadata.parse(of)
    head = [
        f"Metadata-Version: {headers.get('Metadata-Version', '2.1')}",
        f"Name: {name}",
        f"Version: {metadata.required(of, 'Version')}",
        f"Summary: {summary}",
    ]
    head += [f"{key}: {headers[key]}" for key in shared if headers[key] and "\n" not in str(headers[key])]
    return "\n".join([*head, *lines, "", ""])


def check_front(wheels: Sequence[bytes], brought: Sequence[FrontExtra]) -> None:
    """Raise ActionError unless the wheels, by their METADATA, are of one version and have the extras that are used."""
    versions = {metadata.required(text, "Version"): metadata.required(text, "Name") for text in wheels}
    if len(versions) > 1:
        found = ", ".join(f"{name} {version}" for version, name in sorted(versions.items()))
        raise ActionError.of(
            f"the front package requires one version of all wheels, and they have several: {found}",
            hint="let the project take its version from one place, whatever the CUDA version",
        )
    for text in wheels:
        name = canonicalize_name(metadata.required(text, "Name"))
        extras = {canonicalize_name(each) for each in metadata.fields(text, "Provides-Extra")}
        for item in brought:
            if item.distribution == name and item.with_extra and item.with_extra not in extras:
                raise ActionError.of(
                    f"the front package installs {name}[{item.with_extra}], and that wheel has no such extra",
                    hint="check the project's own extras for the same name in another spelling",
                )


def lay_out_front(tree: Path, distribution: str, of: bytes, brought: Sequence[FrontExtra]) -> WheelName:
    """Lay out the front package in the folder `tree`; return its name. `of` is the METADATA of one of the wheels."""
    version = metadata.required(of, "Version")
    stem = canonicalize_name(distribution).replace("-", "_")
    info = tree / f"{stem}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = []
    for item in brought:
        inside = f"[{item.with_extra}]" if item.with_extra else ""
        lines += [f"Provides-Extra: {item.extra}"]
        lines += [f'Requires-Dist: {item.distribution}{inside}=={version}; extra == "{item.extra}"']
    targets = ", ".join(dict.fromkeys(item.distribution for item in brought))
    summary = f"Has no files; its extras install {targets}."
    (info / "METADATA").write_text(
        _metadata(of, distribution, summary, (*_SHARED, "Author", "Author-email"), lines), encoding="utf-8"
    )
    name = WheelName(stem, version, "", "py3", "none", "any")
    (info / "WHEEL").write_bytes(metadata.new_wheel_file(purelib=True, tags=name.tags))
    return name


def write_declaration(tree: Path, scratch: Path, output: Path, *, epoch: int | None) -> None:
    """Write a wheel with only the METADATA of the unpacked wheel in `tree` into the new folder `output`."""
    info = unpacked.dist_info(tree)
    (scratch / info.name).mkdir(parents=True)
    shutil.copy(info / "METADATA", scratch / info.name)
    name = WheelName(*of_info(info.name), "", "py3", "none", "any")
    (scratch / info.name / "WHEEL").write_bytes(metadata.new_wheel_file(purelib=True, tags=name.tags))
    output.mkdir()
    unpacked.write(scratch, output / str(name), epoch=epoch)
