"""The audit's report as SARIF 2.1.0, for code scanning: one result for each cause, with all of its files.

Format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; GitHub's additional requirements:
https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpuforge import __version__, digest
from gpuforge.audit import baseline
from gpuforge.audit.findings import Finding, Severity
from gpuforge.audit.judge import Report
from gpuforge.audit.report.sentences import bullets
from gpuforge.audit.rules import RULES
from gpuforge.audit.rules.rule import Rule
from gpuforge.diagnostics import shown, shown_lines

_MOST_SUBJECTS = 30  # subjects in a message
_MOST_LOCATIONS = 1000  # GitHub refuses a file with more in one result; the JSON report has all
_AT_ONCE = 1 << 14  # tokens of JSON that are written at once
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
_CODES = [rule.code for rule in RULES]


def dumps(report: Report) -> str:
    """Return the report as the text of a SARIF file."""
    return "".join(pieces(report))


def pieces(report: Report) -> Iterator[str]:
    """Yield that text piece by piece: for thousands of files it is too long for one string."""
    tokens = json.JSONEncoder(indent=2).iterencode(as_log(report))
    while some := list(islice(tokens, _AT_ONCE)):
        yield "".join(some)
    yield "\n"


def as_log(report: Report) -> dict[str, Any]:
    """Return the report as a SARIF log of one run; accepted findings are in it as suppressed results."""
    results = [_result(finding) for finding in report.findings]
    accepted = [(i.finding, i.reason) for wheel in report.wheels for i in wheel.ignored]
    if accepted:  # either all results have suppressions, or none has (section 3.27.23)
        results = [{**result, "suppressions": []} for result in results]
        suppression = {"kind": "external", "status": "accepted"}
        results += [
            {**_result(finding), "suppressions": [{**suppression, "justification": reason}]}
            for finding, reason in accepted
        ]
    run = {
        "tool": {"driver": {"name": "gpuforge", "version": __version__, "rules": [*map(_rule, RULES)]}},
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    code, title = rule.code, rule.title
    page = markdown(code)
    module = rule.check.__name__
    return {
        "id": code,
        "name": module.replace("_", " ").title().replace(" ", ""),
        "shortDescription": {"text": title},
        "fullDescription": {"text": f"{title[0].upper()}{title[1:]}."},
        "help": {"text": plain(code) or title, "markdown": page or title},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        **({"helpUri": f"{site}findings/{code}.html"} if (site := _site()) else {}),
    }


@cache
def _site() -> str:
    """Return the address of the documents, from `[project.urls]` of pyproject.toml; "" as long as they have none."""
    try:
        urls = metadata("gpuforge").get_all("Project-URL", [])
    except PackageNotFoundError:  # gpuforge is run from its sources
        return ""
    found = dict(url.split(", ", 1) for url in urls).get("Documentation", "")
    return found and f"{found.removesuffix('/')}/"


def _result(finding: Finding) -> dict[str, Any]:
    subjects = "".join(f"\n- {shown(subject)}" for subject in bullets(finding)[:_MOST_SUBJECTS])
    if (rest := len(bullets(finding)) - _MOST_SUBJECTS) > 0:
        subjects += f"\n- and {rest:,} more (--format json lists all)"
    commands = "".join(f"\n{command}" for command in finding.commands[:_MOST_SUBJECTS])
    return {
        "ruleId": finding.code,
        "ruleIndex": _CODES.index(finding.code),
        "level": _LEVELS[finding.severity],
        "message": {"text": _plain(f"{finding.message}{subjects}\nFix: {finding.fix}{commands}")},
        "locations": [_location(finding.wheel, file) for file in finding.files[:_MOST_LOCATIONS] or ("",)],
        "partialFingerprints": {"causeAndSubjects/v1": _fingerprint(finding)},
    }


def _plain(text: str) -> str:
    """Escape the characters that a viewer takes for a link (section 3.11.6), and control characters.

    It does not use a backslash, which an existing one would escape.
    """
    return shown_lines(text).replace("](", "\\x5d(")


def _location(wheel: str, file: str) -> dict[str, Any]:
    name = f"{wheel}/{file}" if file else wheel
    place = {"uri": quote(name, errors="backslashreplace")}
    # GitHub requires a region, also for a binary
    return {"physicalLocation": {"artifactLocation": place, "region": {"startLine": 1}}}


def _fingerprint(finding: Finding) -> str:
    rows = sorted({row.identity for row in baseline.of_finding(finding)})
    return digest.of_bytes(json.dumps(rows).encode())


def _invocation(report: Report) -> dict[str, Any]:
    texts = (f"{d.place}: {d.message}" if d.place else d.message for d in report.problems)
    errors = [{"level": "error", "message": {"text": _plain(text)}} for text in texts]
    return {"executionSuccessful": not errors} | ({"toolExecutionNotifications": errors} if errors else {})


_HEADING = re.compile(r"^#+ ", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


@cache
def markdown(code: str) -> str:
    """Return the page of a finding's code without its heading; "" if it has none."""
    packaged = files("gpuforge.audit.report") / "findings" / f"{code}.md"
    in_tree = Path(__file__).parents[3] / "docs" / "findings" / f"{code}.md"
    for page in (packaged, in_tree):
        if page.is_file():
            _, _, body = page.read_text(encoding="utf-8").partition("\n")
            return body.strip()
    return ""


def linkless(code: str) -> str:
    """Return the page of a finding's code with its links as their texts: they lead to other pages of the documents."""
    return _LINK.sub(r"\1", markdown(code))


def plain(code: str) -> str:
    """Return the page of a finding's code as text without markup."""
    text = _HEADING.sub("", linkless(code))
    return text.replace("**", "").replace("`", "")
