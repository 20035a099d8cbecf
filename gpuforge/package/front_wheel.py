"""The front package: a wheel without files, whose extras install the wheels of the CUDA majors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from gpuforge.embedded.major_wheels import FrontExtra
from gpuforge.errors import ActionError
from gpuforge.wheel import metadata
from gpuforge.wheel.filename import WheelName

_SHARED = ("License-Expression", "License", "Requires-Python", "Author", "Author-email")


def check(wheels: Sequence[bytes], brought: Sequence[FrontExtra]) -> None:
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


def lay_out(tree: Path, distribution: str, of: bytes, brought: Sequence[FrontExtra]) -> WheelName:
    """Lay out the front package in the folder `tree`; return its name. `of` is the METADATA of one of the wheels."""
    version = metadata.required(of, "Version")
    stem = canonicalize_name(distribution).replace("-", "_")
    info = tree / f"{stem}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(_metadata(distribution, of, version, brought), encoding="utf-8")
    name = WheelName(stem, version, "", "py3", "none", "any")
    (info / "WHEEL").write_bytes(metadata.new_wheel_file(purelib=True, tags=name.tags))
    return name


def _metadata(distribution: str, of: bytes, version: str, brought: Sequence[FrontExtra]) -> str:
    headers = metadata.parse(of)
    targets = ", ".join(dict.fromkeys(item.distribution for item in brought))
    lines = [
        f"Metadata-Version: {headers.get('Metadata-Version', '2.1')}",
        f"Name: {distribution}",
        f"Version: {version}",
        f"Summary: Has no files; its extras install {targets}.",
    ]
    lines += [f"{key}: {headers[key]}" for key in _SHARED if headers[key] and "\n" not in str(headers[key])]
    for item in brought:
        inside = f"[{item.with_extra}]" if item.with_extra else ""
        lines += [f"Provides-Extra: {item.extra}"]
        lines += [f'Requires-Dist: {item.distribution}{inside}=={version}; extra == "{item.extra}"']
    return "\n".join([*lines, "", ""])
