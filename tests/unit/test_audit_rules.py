"""Each rule: a wheel that it must speak of, and the nearest one that it must not."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from audit_samples import (
    elf,
    wheel,
)

from gpuforge.audit import audit
from gpuforge.audit.evidence import matches
from gpuforge.audit.judge import Ignore
from gpuforge.audit.report.sentences import lines
from gpuforge.audit.rules import RULES

DOCS = Path(__file__).parents[2] / "docs" / "findings"


def test_every_rule_is_listed_once_with_its_page() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes)), "list each rule once in RULES, in the order of the codes"
    pages = {page.stem for page in DOCS.glob("GF*.md")}
    missing = [f"docs/findings/{code}.md" for code in codes if code not in pages]
    assert not missing, f"write {', '.join(missing)}"
    unlisted = sorted(pages - set(codes))
    assert not unlisted, f"no rule in RULES has the code of these pages: {', '.join(unlisted)}"
    for rule in RULES:
        text = (DOCS / f"{rule.code}.md").read_text()
        assert text.startswith(f"# {rule.code}: {rule.title}\n"), rule.code
        assert rule.code in (DOCS / "README.md").read_text()


def test_no_module_of_rules_imports_another() -> None:
    """What rules of several modules need is in a module without rules."""
    modules = {rule.check.__module__ for rule in RULES}
    for module in modules:
        text = Path(str(sys.modules[module].__file__)).read_text()
        assert modules.isdisjoint(re.findall(r"^from (\S+) import", text, re.MULTILINE)), module


def test_one_cause_in_many_files_is_one_finding(tmp_path: Path) -> None:
    path = wheel(tmp_path, {f"demo/{n}.so": elf(rpath="libs") for n in range(9)})
    (found,) = audit([path]).findings
    assert (len(found.files), len(lines(found)), found.file) == (9, 9, "demo/0.so")


def test_findings_can_be_accepted_by_file_with_a_reason(tmp_path: Path) -> None:
    path = wheel(tmp_path, {f"demo/{n}.so": elf(rpath="libs") for n in range(3)})
    report = audit([path], ignore=[Ignore("GF301", "known", "demo/1*"), Ignore("GF302", "other rule")])
    assert [f.files for f in report.findings] == [("demo/0.so", "demo/2.so")]
    assert [(i.finding.file, i.reason) for i in report.wheels[0].ignored] == [("demo/1.so", "known")]


def test_variants_that_are_chosen_from_do_not_meet(tmp_path: Path) -> None:
    files = {f"demo/libx_cuda{v}0.so": elf(needed=[f"libcudart.so.{v}"]) for v in (12, 13)}
    requires = ["nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"]
    assert "GF102" not in {f.code for f in audit([wheel(tmp_path, files, requires=requires)]).findings}


@pytest.mark.parametrize(
    ("pattern", "file", "fits"),
    [
        ("**/*.so", "a/b/c.so", True),
        ("**/*.so", "c.so", True),
        ("*.so", "a/c.so", False),
        ("demo/lib?.so", "demo/lib1.so", True),
        ("demo/[!x]*.so", "demo/y.so", True),
        ("demo/[!x]*.so", "demo/x.so", False),
        ("demo/**", "demo/a/b", True),
        ("a+b.so", "a+b.so", True),
    ],
)
def test_patterns_of_files(pattern: str, file: str, fits: bool) -> None:
    assert matches(pattern, file) is fits
