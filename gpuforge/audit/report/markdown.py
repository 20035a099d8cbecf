"""The audit's report as GitHub's Markdown, for `$GITHUB_STEP_SUMMARY` and comments on pull requests.

A table of verdicts, then each wheel with its findings folded away; errors are open from the start.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gpuforge.audit.findings import SEVERITIES, Finding, Severity
from gpuforge.audit.judge import Report, WheelReport
from gpuforge.audit.report import devices, process
from gpuforge.audit.report.comparison import SAME, Comparison, comparisons
from gpuforge.audit.report.sentences import bullets, not_looked_at
from gpuforge.audit.together import Together
from gpuforge.diagnostics import shown

_SIGNS: dict[str, str] = {"error": "❌", "warning": "⚠️", "info": "ℹ️", "clean": "✅"}  # noqa: RUF001 - it is the sign
_MOST_SUBJECTS = 30
_WIDEST = 10_000  # columns: lines of the link graph are not broken
# also of links, which GitHub makes of names
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$@]|:(?=//)|(?<=www)\.)")
# Parts of a text that are shown as code: quoted with backticks by a rule, a path with $ORIGIN (two $ make a formula on
# GitHub), the name of a binary.
_CODE = re.compile(
    r"(?<!`)`(?P<quoted>[^`\s][^`]*)`(?!`)"
    r"|(?P<path>\$\{?ORIGIN\}?[^\s,;:)']*)"
    r"|(?P<file>(?<![\w/.@+-])(?:[\w.@+-]+/)*[\w.@+-]*\.(?:so|a|o|fatbin|cubin|ptx)(?:\.\d+)*(?![\w/*]))"
)


def render(report: Report, *, show_tree: bool = False, show_gpus: bool = False) -> str:
    """Return the report as Markdown, with the link graph and the GPU tables on request."""
    lines = ["## GPU wheel audit", "", *_overview(report)]
    for wheel in report.wheels:
        if wheel.facts.neighbour and not wheel.findings:
            continue
        lines += _wheel(wheel)
        if show_tree:
            lines += _folded("Link graph", _fenced(_link_graph(report, wheel)))
        if show_gpus:
            lines += _folded("GPU code by file", _gpu_code(wheel))
    for found in comparisons(report):
        lines += _comparison(found)
    if report.together:
        lines += _together(report, report.together)
    if show_gpus and report.wheels:
        lines += ["### GPU generations", "", *_generations(report)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _together(report: Report, shared: Together) -> Iterator[str]:
    yield f"### One process that imports all {len(report.wheels)} packages"
    yield ""
    for part in process.parts(report, shared, every=True):
        yield from _folded(f"{part.title}: {part.summary}", [f"- {_subject(line)}" for line in part.lines])


def _comparison(found: Comparison) -> Iterator[str]:
    yield f"### {_code(found.wheel.name)} compared with {_code(found.like.name)}"
    yield ""
    if not found.differences:
        yield SAME
        yield ""
        return
    yield "| | only there | only here |"
    yield "|---|---|---|"
    for each in found.differences:
        cells = (
            "<br>".join(_code(name, cell=True) for name in _few(names)) for names in (each.there, each.here)
        )
        yield f"| {each.topic} | {' | '.join(cells)} |"
    yield ""


def _few(names: Sequence[str]) -> list[str]:
    rest = len(names) - _MOST_SUBJECTS
    return [*names[:_MOST_SUBJECTS], *([f"and {rest:,} more"] if rest > 0 else [])]


def _overview(report: Report) -> Iterator[str]:
    yield "| | wheel | errors | warnings | information |"
    yield "|---|---|--:|--:|--:|"
    for wheel in (w for w in report.wheels if w.findings or not w.facts.neighbour):
        counts = Counter(f.severity for f in wheel.findings)
        numbers = " | ".join(str(counts[s]) if counts[s] else "" for s in SEVERITIES)
        yield f"| {_SIGNS[wheel.verdict]} | {_code(wheel.facts.name, cell=True)} | {numbers} |"
    for problem in report.problems:
        name = problem.place.file if problem.place else ""
        yield f"| 🚫 | {_code(name, cell=True)} | cannot be read: {_text(problem.message)} | | |"
    yield ""


def _wheel(wheel: WheelReport) -> Iterator[str]:
    yield f"### {_SIGNS[wheel.verdict]} {_code(wheel.facts.name)}"
    yield ""
    if not wheel.findings:
        yield f"Clean: {'only accepted findings' if wheel.ignored else 'no findings'}."
        if unread := "; ".join(not_looked_at(wheel.facts)):
            yield f"Not read: {_subject(unread)}."
        yield ""
    for finding in wheel.findings:
        yield from _finding(finding)
    if wheel.ignored:
        rows = [
            f"- {i.finding.code} {_subject(i.finding.file or 'the wheel')}: {_text(i.reason)}"
            for i in wheel.ignored
        ]
        yield from _folded(f"Accepted: {len(wheel.ignored)}", rows)
    for head, proofs in (("Proved", wheel.proofs), ("Not proved", wheel.withheld)):
        if proofs:
            yield from _folded(head, [f"- **{_text(p.topic)}**: {_subject(p.text)}" for p in proofs])


def _finding(finding: Finding) -> Iterator[str]:
    message = html.escape(_line(finding.message), quote=False)  # GitHub reads no Markdown in an HTML block
    head = f"{_SIGNS[finding.severity]} <b>{finding.code}</b> {message}"
    rows = [f"- {_subject(subject)}" for subject in bullets(finding)[:_MOST_SUBJECTS]]
    if len(bullets(finding)) > _MOST_SUBJECTS:
        rows.append(f"- and {len(bullets(finding)) - _MOST_SUBJECTS} more (`--format json` lists all)")
    fix = [f"**Fix:** {_subject(finding.fix)}"]
    if finding.commands:
        fix += ["", *_fenced([shown(command) for command in finding.commands])]
    yield from _folded(head, [*rows, "", *fix], finding.severity)


def _folded(head: str, body: Iterable[str], severity: Severity | None = None) -> Iterator[str]:
    yield "<details open>" if severity == "error" else "<details>"
    yield f"<summary>{head}</summary>"
    yield ""  # without it, GitHub takes the next lines for HTML, not Markdown
    yield from body
    yield ""
    yield "</details>"
    yield ""


def _gpu_code(wheel: WheelReport) -> Iterator[str]:
    rows = devices.code(wheel.facts)
    if not rows:
        yield "There is none."
        return
    yield "| files | containers | machine code | PTX | toolkit | packed | driver | runs on |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        names = "<br>".join(_code(name, cell=True) for name in row.files)
        where = f"{row.count} {_code(row.section, cell=True)}" if row.section else str(row.count)
        runs = devices.runs_on(wheel.facts, row.files[0])
        native, ptx = " ".join(arch.sm for arch in row.cubins), ", ".join(each.text for each in row.ptx)
        cells = (native, ptx, row.toolkit, row.packing, row.driver, runs)
        yield f"| {names} | {where} | {' | '.join(map(_text, cells))} |"


def _generations(report: Report) -> Iterator[str]:
    wheels, rows = devices.generations(report)
    yield f"| {' | '.join(('capability', 'GPUs', *(_code(name, cell=True) for name in wheels)))} |"
    yield "|---" * (len(wheels) + 2) + "|"
    yield from (f"| {' | '.join(map(_text, row))} |" for row in rows)


def _link_graph(report: Report, wheel: WheelReport) -> list[str]:
    from gpuforge.audit.report.tables import Drawing  # noqa: PLC0415  it loads rich

    drawn = Drawing(_WIDEST, color=False).tree(report, wheel.facts)
    return [line[2:] for line in drawn if line] or ["nothing in it is loaded by the dynamic linker"]


def _fenced(lines: Sequence[str]) -> Iterator[str]:
    fence = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0))
    yield f"{fence}text"
    yield from lines
    yield fence


def _text(text: str) -> str:
    """Escape the characters that Markdown takes for markup, on one line."""
    return _plain(_line(text))


def _line(text: str) -> str:
    return shown(" ".join(text.split()))


def _plain(text: str) -> str:
    """Escape the characters that Markdown takes for markup; backticks as numbers, as a backslash lengthens a run."""
    return _SPECIAL.sub(lambda found: "&#96;" if found[0] == "`" else f"\\{found[0]}", text)


def _code(text: str, *, cell: bool = False) -> str:
    """Return a code span; in a table, a `|` ends a cell even in code."""
    text = _line(text)
    fence = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text.replace('|', chr(92) + '|') if cell else text}{pad}{fence}"


def _subject(text: str) -> str:
    """Escape a text on one line, with names of binaries and paths in it as code."""
    text = _line(text)
    parts: list[str] = []
    position = 0
    for match in _CODE.finditer(text):
        between = _plain(text[position : match.start()])
        # two runs of ` would be one
        parts += [between or " " * bool(parts), _code(match["quoted"] or match[0])]
        position = match.end()
    return "".join([*parts, _plain(text[position:])])
