"""What a wheel needs of CUDA's packages, and which of the project's own bounds count for it."""

from __future__ import annotations

import platform
from pathlib import Path

from audit_samples import elf, wheel

from gpuforge.actions import value_file
from gpuforge.actions.provided import WheelLinks
from gpuforge.cuda.provided import CudaNeeds
from gpuforge.plan.action import Workdir

OTHER = "aarch64" if platform.machine() == "x86_64" else "x86_64"


def test_bounds_count_where_they_always_hold(tmp_path: Path) -> None:
    counting = [
        "nvidia-cufft>=12.1",
        'nvidia-cufft<13; sys_platform == "linux"',
        f'nvidia-cufft!=12.2; platform_machine == "{platform.machine()}" or python_version < "3"',
    ]
    others = [
        'nvidia-cufft<12; sys_platform == "win32"',
        f'nvidia-cufft<12; platform_machine == "{OTHER}"',
        'nvidia-cufft<12; extra == "old"',
        'nvidia-cufft<12; python_version < "3.12"',
    ]
    files = {"demo/ext.so": elf(needed=["libcufft.so.12"])}
    step = WheelLinks(wheel=wheel(tmp_path, files, requires=[*others, *counting]), cuda="13.0")
    step.run(Workdir(tmp_path / "scratch", tmp_path))
    needs = value_file.read(CudaNeeds, tmp_path / "links.json")
    assert needs == ({"nvidia-cufft": {"libcufft.so.12": []}}, tuple(counting))
