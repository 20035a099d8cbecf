"""GF709: what two packages would install in the same place."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import elf, wheel

from gpuforge.audit import audit
from gpuforge.audit.findings import Finding
from gpuforge.audit.read.input import Beside, Input, Remote
from gpuforge.audit.report.sentences import lines
from gpuforge.wheel.archive import Archive

TAGS = "cp311-cp311-manylinux_2_17_x86_64"
ONE, OTHER = elf(soname="one.so"), elf(soname="other.so")


def findings_of(
    folder: Path, one: tuple[str, dict[str, bytes]], other: tuple[str, dict[str, bytes]]
) -> list[Finding]:
    paths = [wheel(folder, files, name=f"{name}.whl") for name, files in (one, other)]
    return [f for f in audit(paths).findings if f.code == "GF709"]


@pytest.mark.parametrize(
    ("name", "files", "severity"),
    [
        (f"demo_gpu-1.0-{TAGS}", {"demo/ext.so": OTHER}, "error"),
        (f"demo_gpu-1.0-{TAGS}", {"demo_gpu-1.0.data/platlib/demo/ext.so": OTHER}, "error"),
        (f"demo_gpu-1.0-{TAGS}", {"demo/ext.so": ONE, "demo/__init__.py": b"y\n"}, "warning"),
        (f"demo_gpu-1.0-{TAGS}", {"demo/LICENSE": b"y\n"}, "info"),
    ],
)
def test_the_last_one_wins(tmp_path: Path, name: str, files: dict[str, bytes], severity: str) -> None:
    base = {"demo/ext.so": ONE, "demo/__init__.py": b"x\n", "demo/LICENSE": b"x\n"}
    (finding,) = findings_of(tmp_path, (f"demo-1.0-{TAGS}", base), (name, files))
    path = next(iter(p for p in files if files[p] not in base.values())).removeprefix(
        "demo_gpu-1.0.data/platlib/"
    )
    assert (finding.severity, lines(finding)) == (severity, (f"{name}.whl: {path}",))
    assert finding.files == (path,)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        (f"other-1.0-{TAGS}", {"demo/ext.so": ONE}),  # the same bytes
        (f"demo-1.1-{TAGS}", {"demo/ext.so": OTHER}),  # another release
        ("other-1.0-cp312-cp312-manylinux_2_17_x86_64", {"demo/ext.so": OTHER}),
        ("other-1.0-cp311-cp311-manylinux_2_28_aarch64", {"demo/ext.so": OTHER}),
    ],
)
def test_what_is_the_same_or_never_meets_is_no_finding(
    tmp_path: Path, name: str, files: dict[str, bytes]
) -> None:
    assert findings_of(tmp_path, (f"demo-1.0-{TAGS}", {"demo/ext.so": ONE}), (name, files)) == []


def test_a_wrong_hash_in_record_makes_no_other_file_of_it(tmp_path: Path) -> None:
    paths = [
        wheel(tmp_path, {"demo/ext.so": ONE}, name=f"{name}-1.0-{TAGS}.whl", record=record)
        for name, record in (
            ("demo", {}),
            ("other", {"demo/ext.so": f"demo/ext.so,sha256={'A' * 43},{len(ONE)}"}),
        )
    ]
    assert "GF709" not in {f.code for f in audit(paths).findings}


def test_other_tags_that_meet_do_not_hide_it(tmp_path: Path) -> None:
    name = "other-1.0-cp38-abi3-manylinux_2_28_x86_64.manylinux2014_x86_64"
    (finding,) = findings_of(
        tmp_path, (f"demo-1.0-{TAGS}", {"demo/ext.so": ONE}), (name, {"demo/ext.so": OTHER})
    )
    assert finding.severity == "error"


def test_builds_of_one_release_are_alternatives(tmp_path: Path) -> None:
    one, other = (f"demo_cu{cuda}-1.0-{TAGS}" for cuda in (12, 13))
    (finding,) = findings_of(tmp_path, (one, {"demo/ext.so": ONE}), (other, {"demo/ext.so": OTHER}))
    assert finding.severity == "warning"
    assert "They are builds of one release, and only one belongs in an environment." in finding.message


def test_a_guard_in_each_of_them_is_enough(tmp_path: Path) -> None:
    guard = {"demo/_gpuforge_guard/__init__.py": b"refuse\n"}
    one, other = (f"demo_cu{cuda}-1.0-{TAGS}" for cuda in (12, 13))
    (finding,) = findings_of(
        tmp_path, (one, {"demo/ext.so": ONE, **guard}), (other, {"demo/ext.so": OTHER, **guard})
    )
    assert finding.severity == "info"
    assert finding.message.endswith("If both are installed, the import fails and names them.")
    (tmp_path / "half").mkdir()
    (half,) = findings_of(
        tmp_path / "half", (one, {"demo/ext.so": ONE, **guard}), (other, {"demo/ext.so": OTHER})
    )
    assert half.severity == "warning"


@pytest.mark.parametrize(
    ("file", "severity", "proved"),
    [("nvidia/nccl/lib/libnccl.so.2", "error", False), ("nvidia/nccl/include/nccl.h", "info", True)],
)
@pytest.mark.parametrize("version", ["2.27.5", "2.27.7"])
def test_libraries_that_are_only_listed_overwrite_each_other_too(
    tmp_path: Path, file: str, severity: str, version: str, *, proved: bool
) -> None:
    def listed(cuda: int, version: str, data: bytes) -> Input:
        path = wheel(
            tmp_path, {file: data}, name=f"nvidia_nccl_cu{cuda}-{version}-py3-none-manylinux_2_17_x86_64.whl"
        )
        return Input.of(path)._replace(remote=Remote(lambda: Archive(path), 1000, outline=True))

    own = wheel(tmp_path, {"tiny.py": b""}, name="tiny-1.0-py3-none-any.whl", requires=["nvidia-nccl-cu12"])
    beside = Beside(wheels=(listed(12, "2.27.5", ONE), listed(13, version, OTHER)))
    report = audit([own], beside=beside)
    (found,) = [f for f in report.findings if f.code == "GF709" and f.across]
    assert (found.severity, found.files) == (severity, (file,))
    assert any(proof.topic == "beside" for w in report.wheels for proof in w.proofs) is proved


def test_required_packages_of_two_majors_share_names(tmp_path: Path) -> None:
    files = {"demo/ext.so": elf()}

    def said(*requires: str) -> list[tuple[str, tuple[str, ...]]]:
        path = wheel(tmp_path, files, requires=requires)
        return [(f.severity, lines(f)) for f in audit([path]).findings if f.code == "GF709"]

    line = (
        "nvidia/nccl/lib/libnccl.so.2: nvidia-nccl-cu12, by 'nvidia-nccl-cu12', and nvidia-nccl-cu13, "
        "by 'torch>=2.11'"
    )
    assert said("nvidia-nccl-cu12", "torch>=2.11") == [("warning", (line,))]
    assert said("nvidia-nccl-cu12", "torch<2.11") == []
    assert said("nvidia-nccl-cu12; extra == 'x'", "torch>=2.11") == []
