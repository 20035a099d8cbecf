"""JUnit XML: what GitLab and Jenkins read of it."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from audit_reports import BAD, GOOD, hold, sample

from gpuforge.audit.findings import Severity
from gpuforge.audit.report import junit
from gpuforge.audit.rules import RULES


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - it is our own


@pytest.mark.parametrize(("fail_on", "failures"), [("error", ["GF301"]), ("warning", ["GF301", "GF502"])])
def test_what_fails_the_command_fails_a_case(fail_on: Severity, failures: list[str]) -> None:
    root = parsed(junit.dumps(sample(), fail_on=fail_on))
    assert [suite.get("name") for suite in root] == [BAD, GOOD, "dist/text.whl"]
    found = [case.get("name", "")[:5] for case in root.iter("testcase") if case.find("failure") is not None]
    assert found == failures
    assert root.get("failures") == str(len(failures))


def test_the_counts_are_those_of_the_cases() -> None:
    root = parsed(junit.dumps(sample()))
    assert (root.tag, root.get("errors"), root.get("tests")) == ("testsuites", "1", str(2 * len(RULES) + 1))
    for suite in root:
        cases = suite.findall("testcase")
        assert suite.get("tests") == str(len(cases))
        for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert suite.get(attribute) == str(len(suite.findall(f"testcase/{kind}")))
        assert all(case.get("classname") and case.get("name") and case.get("time") for case in cases)


def test_a_whole_suite() -> None:
    """The cases that say something; those of other rules are empty."""
    root = parsed(junit.dumps(sample(), fail_on="warning"))
    for suite in root:
        for case in suite.findall("testcase"):
            if len(case) == 0:
                suite.remove(case)
        for count in ("tests",):
            suite.attrib.pop(count)
    root.attrib.pop("tests")
    ET.indent(root)
    hold("report.junit.xml", ET.tostring(root, encoding="unicode") + "\n")
