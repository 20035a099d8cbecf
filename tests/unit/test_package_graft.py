"""What a wheel that auditwheel cannot repair lacks is said in the words of its maker."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import elf

from gpuforge.package import graft

OUTPUT = 'ValueError: Cannot repair wheel, because required library "libgpu.so" could not be located'


@pytest.mark.parametrize(
    ("files", "message", "hint"),
    [
        (
            {"demo/_core.so": ["libgpu.so"], "demo/lib/libgpu.so": []},
            "demo/_core.so needs libgpu.so, which the wheel has as demo/lib/libgpu.so, "
            "but has no RUNPATH that leads there",
            'give it one where it is linked: "$ORIGIN/lib", in CMake as the property INSTALL_RPATH',
        ),
        (
            {"demo/_core.so": ["libgpu.so"], "demo/libgpu.so": []},
            "demo/_core.so needs libgpu.so, which the wheel has as demo/libgpu.so, but has no RUNPATH that leads there",
            'give it one where it is linked: "$ORIGIN", in CMake as the property INSTALL_RPATH',
        ),
        (
            {"demo/_core.so": ["libgpu.so"]},
            "libgpu.so, which demo/_core.so needs, was not found on the build machine",
            "install it; if another package has it, name that package in [wheel] provided-by",
        ),
    ],
)
def test_a_library_that_was_not_located(
    tmp_path: Path, files: dict[str, list[str]], message: str, hint: str
) -> None:
    for name, needed in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(elf(needed=needed))
    error = graft._explained(OUTPUT, tmp_path, {})
    assert error is not None
    assert (error.diagnostics[0].message, error.diagnostics[0].hint) == (message, hint)
