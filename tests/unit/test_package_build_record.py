"""The build record: the file has the same bytes for the same record, and its keys are sorted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from golden import hold

from gpuforge.package import records

GXX = {"family": "g++", "version": "12.2.0"}
OF_HOST = {
    "gpuforge": "0.1",
    "machine": "x86_64",
    "manifest": {"sha256": "5" * 64},
    "toolchains": {"host": GXX},
}
OF_KERNELS = {
    **OF_HOST,
    "toolchains": {"device": {"family": "nvcc", "version": "13.0.88", "host": GXX}},
    "linkage": "pip",
    "toolkit": {"version": "13.0", "provider": "pypi", "packages": {"nvidia-cuda-runtime": "13.0.96"}},
    "archs": ["80", "90a"],
    "ptx": ["120"],
    "narrowed": None,
}
OF_CELL = {
    **OF_KERNELS,
    "toolchains": {"host": GXX, **OF_KERNELS["toolchains"]},  # type: ignore[dict-item]
    "narrowed": {"archs": ["80", "90a", "120"], "ptx": []},
    "axes": {"built": {"torch": "2.11"}, "serves": [{"torch": "2.11"}, {"torch": "2.15"}]},
    "cell": "cp311-cu13.0-torch2.11-x86_64",
    "naming": "suffix",
}


@pytest.mark.parametrize(("name", "record"), [("host", OF_HOST), ("kernels", OF_KERNELS), ("cell", OF_CELL)])
def test_the_file_of_a_record(name: str, record: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "demo-1.0.dist-info").mkdir()
    records.write_record(tmp_path, record, {"requirements": {}, "floors": {}} if name == "cell" else {})
    found = (tmp_path / "demo-1.0.dist-info" / "gpuforge.json").read_text()
    hold(f"build_record/{name}.json", found)
