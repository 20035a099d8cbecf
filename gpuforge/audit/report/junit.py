"""The audit's report as JUnit XML for GitLab and Jenkins: a suite for each wheel, a case for each rule.

A case fails with findings at which the command fails (`--fail-on`); lesser findings are its output. Format: the schema
of Jenkins' JUnit plugin, of which GitLab reads a part
(https://github.com/jenkinsci/xunit-plugin/blob/master/src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd).
"""

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from gpuforge.audit.findings import Finding, Severity, at_least
from gpuforge.audit.judge import Report, WheelReport
from gpuforge.audit.report.sentences import bullets
from gpuforge.audit.rules import RULES
from gpuforge.audit.rules.rule import Rule
from gpuforge.diagnostics import Diagnostic, shown, shown_lines

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, section 2.2, Char


def dumps(report: Report, *, fail_on: Severity = "error") -> str:
    """Return the report as the text of a JUnit file; findings at or above `fail_on` are failures."""
    failing = at_least(fail_on)
    suites = [_suite_of(w.facts.name, [_case(rule, w, failing) for rule in RULES]) for w in report.wheels]
    suites += [_unread(problem) for problem in report.problems]
    kinds = ("tests", "failures", "errors")
    totals = {kind: str(sum(int(suite.attrib[kind]) for suite in suites)) for kind in kinds}
    root = ET.Element("testsuites", {"name": "gpuforge audit", **totals})
    root.extend(suites)
    ET.indent(root)
    text = ET.tostring(root, encoding="us-ascii", xml_declaration=False).decode()
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _suite_of(name: str, cases: Sequence[ET.Element]) -> ET.Element:
    tags = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counts = {kind: str(sum(case.find(tag) is not None for case in cases)) for kind, tag in tags.items()}
    named = {"name": _clean(name), "tests": str(len(cases))}
    suite = ET.Element("testsuite", {**named, **counts, "time": "0"})
    suite.extend(cases)
    return suite


def _case(rule: Rule, wheel: WheelReport, failing: Sequence[Severity]) -> ET.Element:
    case = _named(f"{rule.code} {rule.title}", wheel.facts.name)
    findings = [f for f in wheel.findings if f.code == rule.code]
    ignored = [i for i in wheel.ignored if i.finding.code == rule.code]
    bad = [f for f in findings if f.severity in failing]
    rest = [_text(f) for f in findings if f.severity not in failing]
    rest += [f"accepted ({i.reason}): {_text(i.finding)}" for i in ignored]
    if bad:
        failure = ET.SubElement(case, "failure", message=_clean(bad[0].message), type=bad[0].severity)
        failure.text = _clean("\n\n".join(map(_text, bad)))
    elif ignored and not findings:
        ET.SubElement(case, "skipped", message=_clean("; ".join(dict.fromkeys(i.reason for i in ignored))))
    if rest:
        ET.SubElement(case, "system-out").text = _clean("\n\n".join(rest))
    return case


def _unread(problem: Diagnostic) -> ET.Element:
    name = problem.place.file if problem.place else "input"
    case = _named("it can be read", name)
    error = ET.SubElement(case, "error", message=_clean(problem.message), type="unreadable")
    error.text = _clean(problem.hint)
    return _suite_of(name, [case])


def _named(name: str, wheel: str) -> ET.Element:
    return ET.Element("testcase", classname=_clean(wheel), name=_clean(name), time="0")


def _text(finding: Finding) -> str:
    subjects = [f"- {shown(subject)}" for subject in bullets(finding)]
    head = f"{finding.severity}: {finding.message}"
    return "\n".join([head, *subjects, f"fix: {finding.fix}", *finding.commands])


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", shown_lines(text))
