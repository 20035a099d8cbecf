"""role = "gpu": the files that the project's own build compiles for GPUs are there, and have GPU code."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import elf, fatbin, wheel
from plan_samples import WITH_CUDA

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines
from gpuforge.manifest.load import load
from gpuforge.plan.expectation import expectation

MANIFEST = (
    WITH_CUDA
    + """\
[[objects]]
name = "fast"
role = "gpu"
files = ["demo/_*cuda*.so", "demo/fast.so"]
"""
)
CODE = elf(sections={".nv_fatbin": fatbin("sm_80")})
FAST = "demo/fast.so"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"demo/_a_cuda.so": CODE, FAST: CODE, "demo/_a_cpu.so": elf()}, []),
        (
            {"demo/_a_cuda.so": CODE},
            [("GF605", ("'demo/fast.so' of the object 'fast': no file",))],
        ),
        (
            {"demo/_a_cuda.so": CODE, "demo/_b_cuda.so": elf(), FAST: CODE},
            [("GF605", ("'demo/_*cuda*.so' of the object 'fast': without GPU code: demo/_b_cuda.so",))],
        ),
        (  # the architectures of code that is there
            {"demo/_a_cuda.so": CODE, FAST: elf(sections={".nv_fatbin": fatbin("sm_90")})},
            [("GF401", ("demo/fast.so: sm_80: in no container",))],
        ),
    ],
)
def test_files_and_their_code(
    tmp_path: Path, files: dict[str, bytes], expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    (tmp_path / "gpuforge.toml").write_text(MANIFEST)
    report = audit([wheel(tmp_path, files)], expectation=expectation(load(tmp_path / "gpuforge.toml")))
    assert [(f.code, lines(f)) for f in report.findings if f.severity == "error"] == expected
