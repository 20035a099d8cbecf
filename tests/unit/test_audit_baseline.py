"""Baselines: what was known is accepted in the next build too, and nothing that is new."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import audit_samples
import pytest
from audit_samples import elf, wheel
from golden import KINDS

from gpuforge.audit import audit, baseline
from gpuforge.audit.findings import Finding, Ignored, Subject
from gpuforge.audit.layout import Route
from gpuforge.errors import UsageError
from gpuforge.expectation import Expectation, HostOnly

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


def test_a_file_of_it(tmp_path):
    path = tmp_path / "baseline.json"
    path.write_text(baseline.dumps([FINDING, FINDING]))
    assert json.loads(path.read_text()) == {
        "schema": 1,
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
def test_the_same_finding_of_another_build_is_known(change):
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
def test_a_new_finding_is_not(change):
    assert not known(FINDING).covers(FINDING._replace(**change))  # type: ignore[arg-type]


def test_the_hash_of_a_grafted_library_changes_wherever_auditwheel_puts_it():
    old, new, other = (
        FINDING._replace(subjects=(needed(library, "demo/b.so"),))
        for library in ("libmvec-2-0a1b2c3d.28.so", "libmvec-2-99999999.28.so", "libmvec-2-99999999.29.so")
    )
    assert known(old).covers(new)
    assert not known(old).covers(other)


@pytest.mark.parametrize("code", ["GF212", "GF215", "GF216"])
def test_symbols_that_are_new_in_a_file_are_new(code, tmp_path):
    old, new = (
        FINDING._replace(code=code, subjects=(Subject("demo/a.so", detail="uses", names=tuple(names)),))
        for names in ("ab", "abc")
    )
    (path := tmp_path / "baseline.json").write_text(baseline.dumps([old]))
    assert baseline.read(path).covers(old)
    assert not baseline.read(path).covers(new)


EXT = "demo/ext.so"


def declared(folder: Path, *requires: str) -> list[Finding]:
    return list(audit([wheel(folder, {EXT: elf()}, requires=requires)]).findings)


def beside_torch(folder: Path, requirement: str) -> list[Finding]:
    own = wheel(folder, {EXT: elf()}, requires=[requirement])
    return list(audit([own, audit_samples.torch(folder)]).findings)


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
def test_a_baseline_accepts_no_other_finding_of_its_rule(code, tmp_path):
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    one, other = (ruled(code, make(folder)) for make, folder in zip(NEAREST[code], folders, strict=True))
    (path := tmp_path / "baseline.json").write_text(baseline.dumps([one]))
    held = baseline.read(path)
    assert held.covers(one)
    assert not held.covers(other)


def test_kinds_have_no_names_versions_or_paths():
    assert not [kind for kind in KINDS if any(c.isdigit() or c in "/\"'$_" for c in kind)]


def test_a_search_path_is_in_a_row_as_it_is_in_the_file(tmp_path):
    found = FINDING._replace(code="GF302", subjects=(Subject("demo/a.so", item=Route("RUNPATH", "/x/lib")),))
    (row,) = json.loads(baseline.dumps([found]))["findings"]
    assert row == {
        "code": "GF302",
        "severity": "warning",
        "project": "demo-pkg",
        "file": "demo/a.so",
        "item": "RUNPATH /x/lib",
    }
    (path := tmp_path / "baseline.json").write_text(baseline.dumps([found]))
    assert baseline.read(path).covers(found)
    other = Subject("demo/a.so", item=Route("RPATH", "/x/lib"))
    assert not baseline.read(path).covers(found._replace(subjects=(other,)))


def test_an_unpacked_wheel_has_the_same_rows_and_fingerprints_in_another_folder(tmp_path):
    path = wheel(tmp_path, {"demo/a.so": elf(rpath="libs")})
    for folder in ("aaa", "bbb"):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / folder)
    one, other, packed = (audit([tmp_path / name]).findings for name in ("aaa", "bbb", path.name))
    assert known(*one) == known(*other)
    assert {row.project for row in known(*one).accepted} == {"demo"}
    assert all(known(*one).covers(finding) for finding in packed)


@pytest.mark.parametrize("about", ["x", [7]])
def test_what_a_row_is_about_is_a_list_of_texts(about, tmp_path):
    row = {"code": "GF701", "severity": "error", "project": "demo", "kind": "missing", "about": about}
    (path := tmp_path / "baseline.json").write_text(json.dumps({"schema": 1, "findings": [row]}))
    with pytest.raises(UsageError, match="a finding of it cannot be understood"):
        baseline.read(path)


def test_what_was_mended_is_told():
    held = known(FINDING, FINDING._replace(code="GF302", subjects=(Subject("demo/a.so"),)))
    assert [baseline.line(k) for k in baseline.unused(held, [Ignored(FINDING, held.reason)])] == [
        "GF302 demo-pkg: demo/a.so"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is not a baseline: Expecting property name"),
        ("[]", "it is not a baseline: its schema is not 1"),
        ("{}", "it is not a baseline: it has no 'schema'"),
        ('{"schema": 2, "findings": []}', "it is not a baseline: its schema is not 1"),
        ('{"schema": 1}', "it is not a baseline: it has no 'findings'"),
        ('{"schema": 1, "findings": [{"code": "GF101"}]}', "it is not a baseline: it has no 'severity'"),
        ('{"schema": 1, "findings": [7]}', "it is not a baseline: 'int' object is not subscriptable"),
        (
            '{"schema": 1, "findings": [{"code": "GF101", "severity": "x", "project": ""}]}',
            "it is not a baseline: a finding of it cannot be understood",
        ),
    ],
)
def test_a_file_that_is_none(tmp_path, text, said):
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        baseline.read(path)
    (problem,) = error.value.diagnostics
    assert problem.message.startswith(said)
    assert problem.place is not None
    assert problem.place.file == str(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError) as raised:
        baseline.read(tmp_path / "none.json")
    (said,) = raised.value.diagnostics
    assert said.message == "the baseline cannot be read: No such file or directory"
    assert said.hint == "--write-baseline writes one"
