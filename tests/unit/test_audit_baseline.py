"""Baselines: what was known is accepted in the next build too, and nothing that is new."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import test_audit_rules
import test_audit_rules_device
import test_audit_rules_platform
import test_audit_rules_processes
import test_audit_rules_providers
import together_samples
from audit_cases import findings
from audit_samples import elf, fatbin, wheel
from golden import KINDS

from gpuforge.audit import audit, baseline
from gpuforge.audit.findings import Finding, Ignored, Subject
from gpuforge.audit.route import Route
from gpuforge.errors import UsageError
from gpuforge.expectation import Expectation, GpuFiles, HostOnly

WHEEL = "demo_pkg-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
FINDING = Finding(
    "GF201",
    "warning",
    WHEEL,
    ("demo/ext.cpython-311-x86_64-linux-gnu.so",),
    (
        Subject(
            library="libx-0123abcd.so.1",
            detail="who knows",
            needed_by=("demo/ext.cpython-311-x86_64-linux-gnu.so", "demo/b.so"),
        ),
    ),
    "nobody has it",
    "",
    "bring it",
)


def needed(library: str, file: str) -> Subject:
    return Subject(library=library, needed_by=(file,))


def known(*findings: Finding) -> baseline.Baseline:
    return baseline.Baseline.of(findings)


def test_a_file_of_it(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(baseline.dumps([FINDING, FINDING]))
    assert json.loads(path.read_text()) == {
        "schema": 7,
        "findings": [
            {
                "code": "GF201",
                "severity": "warning",
                "project": "demo-pkg",
                "file": file,
                "library": "libx-*.so.1",
            }
            for file in ("demo/b.so", "demo/ext.cpython-*-x86_64-linux-gnu.so")
        ],
    }
    assert baseline.read(path) == known(FINDING)


@pytest.mark.parametrize(
    "change",
    [
        {"wheel": "demo_pkg-1.1-cp313-cp313-manylinux_2_28_x86_64.whl"},
        {"wheel": "dist/" + WHEEL},
        {"severity": "info"},
        {"what": "worded otherwise"},
        {"subjects": (needed("libx-99999999.so.1", "demo/ext.cpython-313-x86_64-linux-gnu.so"),)},
        {"subjects": (FINDING.subjects[0]._replace(detail="worded otherwise"),)},
    ],
)
def test_the_same_finding_of_another_build_is_known(change: dict[str, object]) -> None:
    assert known(FINDING).covers(FINDING._replace(**change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"code": "GF202"},
        {"severity": "error"},
        {"wheel": "other-1.0-py3-none-any.whl"},
        {"subjects": (*FINDING.subjects, needed("liby.so", "demo/b.so"))},
        {"subjects": (needed("libx-0123abcd.so.1", "demo/c.so"),)},
        {"subjects": (needed("libx-0123abcd.so.2", "demo/b.so"),)},
        {"subjects": (FINDING.subjects[0]._replace(item="RUNPATH $ORIGIN"),)},
    ],
)
def test_a_new_finding_is_not(change: dict[str, object]) -> None:
    assert not known(FINDING).covers(FINDING._replace(**change))  # type: ignore[arg-type]


def test_the_hash_of_a_grafted_library_changes_wherever_auditwheel_puts_it() -> None:
    old, new, other = (
        FINDING._replace(subjects=(needed(library, "demo/b.so"),))
        for library in ("libmvec-2-0a1b2c3d.28.so", "libmvec-2-99999999.28.so", "libmvec-2-99999999.29.so")
    )
    assert known(old).covers(new)
    assert not known(old).covers(other)


@pytest.mark.parametrize("code", ["GF212", "GF215", "GF216"])
def test_symbols_that_are_new_in_a_file_are_new(code: str, tmp_path: Path) -> None:
    old, new = (
        FINDING._replace(code=code, subjects=(Subject("demo/a.so", detail="uses", names=tuple(names)),))
        for names in ("ab", "abc")
    )
    (path := tmp_path / "baseline.json").write_text(baseline.dumps([old]))
    assert baseline.read(path).covers(old)
    assert not baseline.read(path).covers(new)
    row = {"code": code, "severity": "warning", "project": "demo-pkg", "file": "demo/a.so"}
    path.write_text(json.dumps({"schema": 5, "findings": [row]}))  # which named none
    assert baseline.read(path).covers(new)


EXT = "demo/ext.so"


def declared(folder: Path, *requires: str) -> list[Finding]:
    return list(audit([wheel(folder, {EXT: elf()}, requires=requires)]).findings)


def beside_torch(folder: Path, requirement: str) -> list[Finding]:
    own = wheel(folder, {EXT: elf()}, requires=[requirement])
    return list(audit([own, together_samples.torch(folder)]).findings)


def promised(folder: Path, content: bytes, pattern: str = "demo/*.so") -> list[Finding]:
    expectation = Expectation(host_only=(HostOnly("core", (pattern,)),))
    return list(audit([wheel(folder, {EXT: content})], expectation=expectation).findings)


def ruled(code: str, found: list[Finding]) -> Finding:
    (one,) = (f for f in found if f.code == code)
    return one


# a finding, and the nearest one of the same rule and wheel that is another
NEAREST: dict[str, tuple[Callable[[Path], list[Finding]], Callable[[Path], list[Finding]]]] = {
    "GF504": (
        lambda folder: audit_abi3(folder, "_PyObject_MakeTpCall"),
        lambda folder: audit_abi3(folder, "_PyLong_Sign"),
    ),
    "GF601": (
        lambda folder: promised(folder, elf(needed=["libcudart.so.12"])),
        lambda folder: promised(folder, elf(needed=["libcublas.so.12"])),
    ),
    "GF602": (
        lambda folder: promised(folder, elf(), "demo/a*.so"),
        lambda folder: promised(folder, elf(), "demo/b*.so"),
    ),
    "GF704": (
        lambda folder: declared(folder, "numpy >>= 1"),
        lambda folder: declared(folder, "scipy >>= 1"),
    ),
    "GF710": (
        lambda folder: beside_torch(folder, "torch==2.9.1"),
        lambda folder: beside_torch(folder, "torch==2.8.0"),
    ),
}  # fmt: skip


def audit_abi3(folder: Path, symbol: str) -> list[Finding]:
    files = {"demo/ext.abi3.so": elf(undefined=[symbol])}
    name = "demo-1.0-cp39-abi3-manylinux_2_17_x86_64.whl"
    return list(audit([wheel(folder, files, name=name)]).findings)


@pytest.mark.parametrize("code", NEAREST)
def test_a_baseline_accepts_no_other_finding_of_its_rule(code: str, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    one, other = (ruled(code, make(folder)) for make, folder in zip(NEAREST[code], folders, strict=True))
    (path := tmp_path / "baseline.json").write_text(baseline.dumps([one]))
    held = baseline.read(path)
    assert held.covers(one)
    assert not held.covers(other)


def of_schema_2(folder: Path, **row: str) -> baseline.Baseline:
    rows = [{"code": "GF201", "severity": "warning", "project": "demo-pkg", **row}]
    (path := folder / "baseline.json").write_text(json.dumps({"schema": 2, "findings": rows}))
    return baseline.read(path)


def test_a_baseline_of_schema_2_accepts_each_kind_and_name_of_a_file_that_it_names(tmp_path: Path) -> None:
    held = of_schema_2(tmp_path, file="demo/a.so")
    for subject in (
        Subject("demo/a.so"),
        Subject("demo/a.so", kind="needs"),
        Subject("demo/a.so", names=("x",)),
    ):
        assert held.covers(FINDING._replace(subjects=(subject,)))
    for subject in (
        Subject("demo/b.so", kind="needs"),
        Subject("demo/a.so", item="sm_80"),
        Subject(kind="needs"),
    ):
        assert not held.covers(FINDING._replace(subjects=(subject,)))


def test_a_row_of_schema_2_that_names_nothing_accepts_only_the_wheel_as_a_whole(tmp_path: Path) -> None:
    held = of_schema_2(tmp_path)
    assert held.covers(FINDING._replace(subjects=(Subject(detail="too large"),)))
    assert not held.covers(FINDING._replace(subjects=(Subject(kind="requires torch==2.9.1"),)))


def of_fields_since_schema_5(folder: Path) -> list[Finding]:
    """Return findings about GPU code, patterns of the manifest, and toolchains that a makefile names."""
    sdk = "/opt/nvidia/hpc_sdk/Linux_x86_64/22.1/compilers/bin"
    compilers = f"{sdk}/nvc++ {sdk}/nvfortran -gpu=cuda11.5,cc80 /usr/local/cuda-12.4/bin/nvcc"
    files = {
        "demo/x.so": elf(
            needed=["liba.so"], runpath="$ORIGIN/../lib", sections={".nv_fatbin": fatbin("sm_80", "compute_90:8.7")}
        ),
        "lib/liba.so": elf(
            soname="liba.so",
            needed=["libnvc-0a1b2c3d.so"],
            sections={".rodata": b"\x7fTileIR\0", ".data": fatbin("sm_90")},
        ),
        "lib/libnvc-0a1b2c3d.so": elf(soname="libnvc-0a1b2c3d.so"),
        "demo/demo_makefile": f"CXX = {compilers}\n".encode(),
    }  # fmt: skip
    expectation = Expectation(
        host_only=(HostOnly("core", ("demo/x.so", "demo/a-0123abcd.so")),),
        gpu=(GpuFiles("fast", ("y/*.so",)),),
    )
    found = audit([wheel(folder, files)], expectation=expectation).findings
    return [f for f in found if f.code in {"GF101", "GF601", "GF602", "GF605"}]


def test_a_baseline_of_schema_4_accepts_the_findings_that_it_was_written_for_and_no_others(
    tmp_path: Path,
) -> None:
    """It is as --write-baseline wrote it when such fields were phrases."""
    held = baseline.read(Path(__file__).parents[1] / "data/baseline_of_schema_4.json")
    found = of_fields_since_schema_5(tmp_path)
    assert len(found) == 4
    for each in (held, known(*found)):
        assert all(map(each.covers, found))
        assert baseline.unused(each, [Ignored(finding, each.reason) for finding in found]) == []
        for one in found:
            for subject in (s for s in one.subjects if s.about):
                other = subject._replace(about=(*subject.about[:-1], f"{subject.about[-1]}a"))
                assert not each.covers(one._replace(subjects=(other,)))


def test_kinds_have_no_names_versions_or_paths() -> None:
    assert not [kind for kind in KINDS if any(c.isdigit() or c in "/\"'$_" for c in kind)]


def test_a_search_path_is_in_a_row_as_it_is_in_the_file(tmp_path: Path) -> None:
    found = FINDING._replace(code="GF302", subjects=(Subject("demo/a.so", item=Route("RUNPATH", "/x/lib")),))
    (row,) = json.loads(baseline.dumps([found]))["findings"]
    assert row == {
        "code": "GF302",
        "severity": "warning",
        "project": "demo-pkg",
        "file": "demo/a.so",
        "item": "RUNPATH /x/lib",
    }
    for schema in (2, 3, 4, 5, 6, 7):
        (path := tmp_path / "baseline.json").write_text(json.dumps({"schema": schema, "findings": [row]}))
        assert baseline.read(path).covers(found)
        other = Subject("demo/a.so", item=Route("RPATH", "/x/lib"))
        assert not baseline.read(path).covers(found._replace(subjects=(other,)))


def test_an_unpacked_wheel_has_the_same_rows_and_fingerprints_in_another_folder(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"demo/a.so": elf(rpath="libs")})
    for folder in ("aaa", "bbb"):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / folder)
    one, other, packed = (audit([tmp_path / name]).findings for name in ("aaa", "bbb", path.name))
    assert known(*one) == known(*other)
    assert {row.project for row in known(*one).accepted} == {"demo"}
    assert all(known(*one).covers(finding) for finding in packed)
    rows = [{**row, "project": "aaa"} for row in json.loads(baseline.dumps(one))["findings"]]
    for schema, covered in ((6, True), (7, False)):
        (old := tmp_path / "baseline.json").write_text(json.dumps({"schema": schema, "findings": rows}))
        assert all(baseline.read(old).covers(finding) for finding in one) == covered
        assert not any(baseline.read(old).covers(finding) for finding in other)


@pytest.mark.parametrize(
    ("kind", "phrase"),
    [("static", "libcudart, linked statically"), ("opened", "libcudart, opened at run time")],
)
def test_a_baseline_of_schema_6_has_a_phrase_for_a_runtime_that_is_not_needed(
    kind: str, phrase: str, tmp_path: Path
) -> None:
    subject = Subject(library="libcudart.so.13", item="CUDA 13", detail="in any words", kind=kind)
    found = FINDING._replace(code="GF104", subjects=(subject,))
    (row,) = json.loads(baseline.dumps([found]))["findings"]
    assert (row["library"], row["kind"]) == ("libcudart.so.13", kind)
    assert phrase in baseline.line(*baseline.of_finding(found))
    (path := tmp_path / "baseline.json").write_text(
        json.dumps({"schema": 6, "findings": [{**row, "library": phrase, "kind": ""}]})
    )
    assert baseline.read(path).covers(found)
    needed = subject._replace(kind="", detail="")
    assert not baseline.read(path).covers(found._replace(subjects=(needed,)))


@pytest.mark.parametrize("about", ["x", [7]])
def test_what_a_row_is_about_is_a_list_of_texts(about: object, tmp_path: Path) -> None:
    row = {"code": "GF701", "severity": "error", "project": "demo", "kind": "missing", "about": about}
    (path := tmp_path / "baseline.json").write_text(json.dumps({"schema": 4, "findings": [row]}))
    with pytest.raises(UsageError, match="a finding of it cannot be understood"):
        baseline.read(path)


def test_what_was_mended_is_told() -> None:
    held = known(FINDING, FINDING._replace(code="GF302", subjects=(Subject("demo/a.so"),)))
    assert [baseline.line(k) for k in baseline.unused(held, [Ignored(FINDING, held.reason)])] == [
        "GF302 demo-pkg: demo/a.so"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is not a baseline: Expecting property name"),
        ("[]", "it is not a baseline: its schema is not 7"),
        ("{}", "it is not a baseline: it has no 'schema'"),
        ('{"schema": 8, "findings": []}', "it is not a baseline: its schema is not 7"),
        ('{"schema": 1}', "it is not a baseline: it has no 'findings'"),
        ('{"schema": 1, "findings": [{"code": "GF101"}]}', "it is not a baseline: it has no 'severity'"),
        ('{"schema": 1, "findings": [7]}', "it is not a baseline: 'int' object is not subscriptable"),
        (
            '{"schema": 1, "findings": [{"code": "GF101", "severity": "x", "project": "", "subject": ""}]}',
            "it is not a baseline: a finding of it cannot be understood",
        ),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        baseline.read(path)
    (problem,) = error.value.diagnostics
    assert problem.message.startswith(said)
    assert problem.place is not None
    assert problem.place.file == str(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        baseline.read(tmp_path / "none.json")
    (said,) = raised.value.diagnostics
    assert said.message == "the baseline cannot be read: No such file or directory"
    assert said.hint == "--write-baseline writes one"


OLD = json.loads((Path(__file__).parents[1] / "data/baselines_of_schema_1.json").read_text())
CASES = {
    name: case
    for module in (
        test_audit_rules,
        test_audit_rules_device,
        test_audit_rules_platform,
        test_audit_rules_processes,
        test_audit_rules_providers,
    )
    for name, case in module.CASES.items()
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", OLD)
def test_a_baseline_of_schema_1_still_accepts_its_findings(name: str, tmp_path: Path) -> None:
    """The rows are as --write-baseline wrote them for these wheels when a row had a sentence."""
    keys = ("code", "severity", "project", "subject")
    rows = [dict(zip(keys, row, strict=True)) for row in OLD[name]]
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps({"schema": 1, "findings": rows}))
    held = baseline.read(path)
    found = findings(CASES[name], CASES[name].files, tmp_path)
    assert found
    assert all(held.covers(finding) for finding in found)
    assert baseline.unused(held, [Ignored(finding, held.reason) for finding in found]) == []


def test_a_baseline_of_schema_1_accepts_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    row = {"code": "GF201", "severity": "warning", "project": "demo-pkg"}
    subjects = [
        "libx-*.so.1, NEEDED by demo/b.so",
        "libx-*.so.1, NEEDED by demo/ext.cpython-*-x86_64-linux-gnu.so",
    ]
    path.write_text(json.dumps({"schema": 1, "findings": [{**row, "subject": s} for s in subjects]}))
    held = baseline.read(path)
    assert held.covers(FINDING)
    for subject in (
        needed("libx-0123abcd.so.1", "demo/c.so"),
        needed("libx-0123abcd.so.1", "other/demo/b.so"),
        needed("libx-0123abcd.so.12", "demo/b.so"),
        needed("liby.so.1", "demo/b.so"),
    ):
        assert not held.covers(FINDING._replace(subjects=(subject,)))
