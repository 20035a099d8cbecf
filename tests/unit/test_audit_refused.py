"""What indexes and installers refuse: each kind, the nearest archive that they accept, and who is named."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from archive_samples import wheel_file, zip_file
from golden import hold_findings
from refused_samples import EVIL, SAMPLES, SOUND, TWINS, Sample

from gpuforge.audit import audit
from gpuforge.audit.findings import Finding
from gpuforge.audit.report.sentences import lines
from gpuforge.datafile import load
from gpuforge.wheel import checks

RULES = {"GF712", "GF713"}
TABLE = load(checks.__file__, "refusals.toml")


def findings_of(folder: Path, sample: Sample) -> list[Finding]:
    report = audit([wheel_file(folder, sample.data, sample.name)])
    assert not report.problems
    return [f for f in report.findings if f.code in RULES]


def each(samples: Mapping[str, Sample]) -> list[object]:
    """The samples as parameters; those of many MiB are thorough."""
    large = [pytest.mark.thorough]
    return [pytest.param(s, id=name, marks=large if "MiB" in name else []) for name, s in samples.items()]


@pytest.mark.parametrize("sample", each(SAMPLES))
def test_each_kind_is_one_finding(tmp_path: Path, sample: Sample) -> None:
    (finding,) = findings_of(tmp_path, sample)
    assert {subject.item for subject in finding.subjects} == {sample.kind}
    assert finding.code == ("GF712" if TABLE[sample.kind]["by"] else "GF713")


@pytest.mark.parametrize("sample", each(TWINS))
def test_the_nearest_archive_that_nobody_refuses_is_clean(tmp_path: Path, sample: Sample) -> None:
    assert findings_of(tmp_path, sample) == []


def test_every_kind_has_a_sample() -> None:
    assert {sample.kind for sample in SAMPLES.values()} == TABLE.keys()


@pytest.mark.thorough
def test_what_is_said(tmp_path: Path) -> None:
    findings = [(name, findings_of(tmp_path, sample)[0]) for name, sample in SAMPLES.items()]
    for code in sorted(RULES):
        hold_findings(code, [(name, finding) for name, finding in findings if finding.code == code])


def test_a_build_for_linux_alone_may_have_names_that_differ_in_case(tmp_path: Path) -> None:
    sample = SAMPLES["names that differ in case"]._replace(name="demo-1.0-py3-none-manylinux_2_17_x86_64.whl")
    assert findings_of(tmp_path, sample) == []


def test_the_first_members_of_many_are_named(tmp_path: Path) -> None:
    many = [EVIL._replace(name=f"demo/{n}\n.py".encode()) for n in range(300)]
    (finding,) = findings_of(tmp_path, Sample("", zip_file([*SOUND, *many])))
    assert len(finding.subjects) == 201
    assert lines(finding)[-1] == "control characters: and 100 more"


@pytest.mark.thorough
def test_hostile_records_cost_little(tmp_path: Path) -> None:
    """Deep names, many small extra fields, and many entries that lead to one header with long ones."""
    deep = [EVIL._replace(name=b"/".join([b"a"] * 32_000) + b"%d" % n) for n in range(7)]
    fields = struct.pack("<HH", 0x9999, 0) * 16_000
    long = [EVIL._replace(name=b"demo/%d" % n, local={"extra": fields}) for n in range(15)]
    one = EVIL._replace(local={"extra": fields})
    many = [one, *(EVIL._replace(listed_at=0) for _ in range(10_000))]
    start = time.process_time()
    for number, entries in enumerate(([*SOUND, *deep], [*SOUND, *long], [*many, *SOUND])):
        audit([wheel_file(tmp_path, zip_file(entries), f"demo-1.{number}-py3-none-any.whl")])
    assert time.process_time() - start < 5
