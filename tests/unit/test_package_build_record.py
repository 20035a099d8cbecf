"""The build record: the file has the same bytes for the same record, and only what the wheel has something of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from golden import hold

from gpuforge.package import build_record
from gpuforge.package.contents import (
    Architectures,
    AxisValues,
    BuildRecord,
    CudaBuild,
    DeviceCompiler,
    HostCompiler,
    UsedToolkit,
)

GXX = HostCompiler("g++", "12.2.0")
OF_HOST = BuildRecord(gpuforge="0.1", machine="x86_64", manifest="5" * 64, host=GXX)
OF_KERNELS = BuildRecord(
    gpuforge="0.1",
    machine="x86_64",
    manifest="5" * 64,
    device=DeviceCompiler("nvcc", "13.0.88", GXX),
    cuda=CudaBuild(
        linkage="pip",
        toolkit=UsedToolkit("13.0", "pypi", {"nvidia-cuda-runtime": "13.0.96"}),
        compiled=Architectures(("80", "90a"), ("120",)),
    ),
)
OF_CELL = replace(
    OF_KERNELS,
    host=GXX,
    cuda=replace(OF_KERNELS.cuda, whole=Architectures(("80", "90a", "120"), ())),
    axes=AxisValues({"torch": "2.11"}, ({"torch": "2.11"}, {"torch": "2.15"})),
    cell="cp311-cu13.0-torch2.11-x86_64",
    naming="suffix",
)


@pytest.mark.parametrize(("name", "record"), [("host", OF_HOST), ("kernels", OF_KERNELS), ("cell", OF_CELL)])
def test_the_file_of_a_record(name: str, record: BuildRecord, tmp_path: Path) -> None:
    (tmp_path / "demo-1.0.dist-info").mkdir()
    build_record.write(tmp_path, record, {"requirements": {}, "floors": {}} if record.cell else {})
    found = (tmp_path / "demo-1.0.dist-info" / "gpuforge.json").read_text()
    hold(f"build_record/{name}.json", found)
