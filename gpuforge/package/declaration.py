"""A wheel with the METADATA of another one and no code, for any Python and platform, to resolve its requirements."""

from __future__ import annotations

import shutil
from pathlib import Path

from gpuforge.wheel import metadata, unpacked
from gpuforge.wheel.filename import WheelName, of_info


def write(tree: Path, scratch: Path, output: Path, *, epoch: int | None) -> None:
    """Write a wheel with only the METADATA of the unpacked wheel in `tree` into the new folder `output`."""
    info = unpacked.dist_info(tree)
    (scratch / info.name).mkdir(parents=True)
    shutil.copy(info / "METADATA", scratch / info.name)
    name = WheelName(*of_info(info.name), "", "py3", "none", "any")
    (scratch / info.name / "WHEEL").write_bytes(metadata.new_wheel_file(purelib=True, tags=name.tags))
    output.mkdir()
    unpacked.write(scratch, output / str(name), epoch=epoch)
