"""The audit's report for people: a verdict for each wheel, its findings by cause, and its proofs.

Findings about several wheels together follow. Findings for information about one wheel are named, and shown on request.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuforge.audit.findings import SEVERITIES, Finding, Ignored, Severity, Subject
from gpuforge.audit.judge import Report, WheelReport
from gpuforge.audit.model import AS_BUILT, WheelFacts
from gpuforge.audit.report import process
from gpuforge.audit.report.comparison import SAME, Comparison, comparisons
from gpuforge.audit.report.sentences import bullets, lines, not_looked_at
from gpuforge.audit.together import Together
from gpuforge.diagnostics import shortened
from gpuforge.diagnostics import shown as visible
from gpuforge.grouping import grouped

_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_MOST_BULLETS = 6
_MOST_COMMANDS = 3
_HEAD = 12  # columns before the text of a finding: an indent and the severity


def render(
    report: Report,
    *,
    width: int = 80,
    color: bool = False,
    verbose: bool = False,
    show_tree: bool = False,
    show_gpus: bool = False,
) -> str:
    """Return a report as text, `width` characters wide except for longer names, without spaces at the ends of lines.

    Every subject of a finding, the link graph and the GPU tables are shown on request. The caller shows the inputs that
    could not be read.
    """
    page = Page(width, color)
    found = _report(report, page, verbose=verbose, show_tree=show_tree, show_gpus=show_gpus)
    return "".join(f"{line}\n" for line in found)


def _report(report: Report, page: Page, *, verbose: bool, show_tree: bool, show_gpus: bool) -> Iterator[str]:
    if show_tree or show_gpus:
        from gpuforge.audit.report.tables import Drawing  # noqa: PLC0415  it loads rich

        drawing = Drawing(page.width, color=page.color)
    beside = (
        w.facts.neighbour and not w.ignored and all(f.across for f in w.findings) for w in report.wheels
    )
    # of an input beside them, only the libraries that it brings into the process are reported
    shown = [w for w, other in zip(report.wheels, beside, strict=True) if not (other or _is_empty(w))]
    for index, wheel in enumerate(shown):
        if index:
            yield ""
        yield from _wheel(wheel, page, verbose=verbose)
        if show_tree:
            yield from drawing.tree(report, wheel.facts)
        if show_gpus:
            yield from drawing.code(wheel.facts)
    if across := [f for f in report.findings if f.across]:
        yield ""
        yield from page.lines(Text("Several of these wheels together", "bold"))
        yield from page.lines(_counts(across), indent=2)
        # who gives several wheels asks about them together, so findings for information are shown, too
        yield from _findings(across, page, verbose=verbose, every=True)
    for found in comparisons(report):
        yield ""
        yield from _comparison(found, page, verbose=verbose)
    if report.together:
        yield ""
        yield from _together(report, report.together, page, verbose=verbose)
    if show_gpus:
        yield from drawing.generations(report)
    yield from _end(report, sum(map(_is_empty, report.wheels)), page)


def _end(report: Report, empty: int, page: Page) -> Iterator[str]:
    if empty:
        are = "s have no binaries and no findings" if empty > 1 else " has no binaries and no findings"
        yield ""
        yield from page.lines(Text(f"{empty} more installed distribution{are}"))
    if report.findings:
        worst = min(report.findings, key=lambda each: SEVERITIES.index(each.severity))
        yield ""
        yield from page.lines(Text("", rest=f"`{_whole(f'gpuforge rule {worst.code}')}` explains a finding."))
    if len(report.wheels) > 1:
        yield ""
        yield from page.lines(Text(_summary(report), "bold"))


def _is_empty(wheel: WheelReport) -> bool:
    """Return whether a distribution of an environment has neither binaries nor findings."""
    facts = wheel.facts
    return (
        facts.form == "installed"
        and not facts.neighbour
        and not (facts.objects or facts.device or wheel.findings or wheel.ignored)
    )


def _together(report: Report, shared: Together, page: Page, *, verbose: bool) -> Iterator[str]:
    yield from page.lines(Text(f"One process that imports all {len(report.wheels)} packages", "bold"))
    for part in process.parts(report, shared, every=verbose):
        yield ""
        yield from page.lines(Text(part.title, "bold", f": {part.summary}"), indent=2)
        for line in part.lines:
            yield from page.lines(Text(visible(line)), indent=6, head=Text("    -"))


def _comparison(found: Comparison, page: Page, *, verbose: bool) -> Iterator[str]:
    yield from page.lines(Text(visible(f"{found.wheel.name} compared with {found.like.name}"), "bold"))
    yield from page.lines(Text(f"here {_size(found.wheel)}; there {_size(found.like)}"), indent=2)
    there = [("only there", "red", each.topic, each.there) for each in found.differences if each.there]
    here = [("only here", "dim", each.topic, each.here) for each in found.differences if each.here]
    for head, style, topic, names in (*there, *here):
        whole = [_whole(visible(name)) for name in names]
        text = Text(topic, "bold", f": {', '.join(whole if verbose else _at_most(whole))}")
        yield from page.lines(text, indent=_HEAD + 2, head=Text(f"  {head}", style))
    if not found.differences:
        yield from page.lines(Text(SAME), indent=2)


def _wheel(wheel: WheelReport, page: Page, *, verbose: bool) -> Iterator[str]:
    yield from page.lines(Text(visible(wheel.facts.name), "bold"))
    yield from page.lines(_verdict(wheel), indent=2)
    own = [f for f in wheel.findings if not f.across]
    if not own and (unread := list(not_looked_at(wheel.facts))):
        yield from page.lines(Text(visible("; ".join(unread))), indent=_HEAD, head=Text("  not read", "dim"))
    yield from _findings(own, page, verbose=verbose)
    if wheel.ignored:
        yield ""
        for text in _accepted(wheel.ignored):
            yield from page.lines(text, indent=_HEAD, head=Text("  accepted", "dim"))
    if wheel.proofs:
        yield ""
    for proofs, head in (
        (wheel.proofs, Text("  proved", "green")),
        (wheel.withheld, Text("  unproved", "yellow")),
    ):
        for proof in proofs:
            text = Text(proof.topic, "bold", f": {visible(proof.text)}")
            yield from page.lines(text, indent=_HEAD, head=head)


def _size(facts: WheelFacts) -> str:
    parts = [f"{facts.size / 1e6:.1f} MB" if facts.size >= 1e6 else f"{facts.size / 1e3:.1f} kB"]
    parts += [f"{len(facts.objects)} ELF file{'s' * (len(facts.objects) != 1)}"] if facts.objects else []
    parts += [f"{len(facts.pe)} PE file{'s' * (len(facts.pe) != 1)}"] if facts.pe else []
    parts += [f"GPU code in {len(facts.device)}"] if facts.device else []
    return ", ".join(parts)


def _verdict(wheel: WheelReport) -> Text:
    own = [f for f in wheel.findings if not f.across]
    size = f"; {_size(wheel.facts)}"
    if not own:
        findings = "only accepted findings" if wheel.ignored else "no findings"
        alone = " in it alone" if wheel.findings else ""
        return Text(f"clean: {findings}{alone}", "bold green", size)
    return _counts(own)._replace(rest=size)


def _counts(findings: Sequence[Finding]) -> Text:
    counts = Counter(f.severity for f in findings)
    worst = next(s for s in SEVERITIES if counts[s])
    words = {"info": "for information"}
    parts = (f"{n} {words.get(s, s + 's' * (n > 1))}" for s in SEVERITIES if (n := counts[s]))
    return Text(", ".join(parts), _STYLES[worst])


def _findings(
    findings: Sequence[Finding], page: Page, *, verbose: bool, every: bool = False
) -> Iterator[str]:
    """Yield errors and warnings, and findings for information or, without `every`, their codes."""
    every = every or verbose
    for finding in findings:
        if every or finding.severity != "info":
            yield ""
            yield from _finding(finding, page, verbose=verbose)
    codes = dict.fromkeys(f.code for f in findings if f.severity == "info")
    if codes and not every:
        yield ""
        text = Text(", ".join(codes), "bold", " (--verbose shows the findings for information)")
        yield from page.lines(text, indent=_HEAD, head=Text("  info", _STYLES["info"]))


def _finding(finding: Finding, page: Page, *, verbose: bool) -> Iterator[str]:
    text = Text(finding.code, "bold", f" {visible(finding.message)}")
    yield from page.lines(text, indent=_HEAD, head=Text(f"  {finding.severity}", _STYLES[finding.severity]))
    whole = finding._replace(subjects=tuple(map(_with_whole_names, finding.subjects)))
    for line in lines(whole) if verbose else _at_most(bullets(whole)):
        yield from page.lines(Text(visible(line)), indent=_HEAD + 2, head=Text(f"{' ' * _HEAD}-"))
    yield from page.lines(Text(visible(finding.fix)), indent=_HEAD, head=Text("  fix", "dim"))
    shown = finding.commands if verbose else finding.commands[:_MOST_COMMANDS]
    for command in shown:
        yield from page.lines(Text(_whole(visible(command))), indent=_HEAD)
    if rest := len(finding.commands) - len(shown):
        yield from page.lines(Text(f"and {rest:,} more commands (--verbose lists all)"), indent=_HEAD)


def _with_whole_names(subject: Subject) -> Subject:
    """Return a subject whose names and paths are not broken at spaces."""
    names, needed_by, loaded_by = (
        tuple(map(_whole, each)) for each in (subject.names, subject.needed_by, subject.loaded_by)
    )
    file, library = _whole(subject.file), _whole(subject.library)
    return subject._replace(file=file, library=library, names=names, needed_by=needed_by, loaded_by=loaded_by)


def _whole(name: str) -> str:
    return name.replace(" ", UNBROKEN)


def _at_most(bullets: Sequence[str]) -> list[str]:
    rest = len(bullets) - _MOST_BULLETS
    more = [f"and {rest:,} more (--verbose lists all)"] if rest > 0 else []
    return [*bullets[:_MOST_BULLETS], *more]


def _accepted(ignored: Sequence[Ignored]) -> Iterator[Text]:
    """Yield a text for each rule and reason, with a few of the files."""
    alike = grouped(((one.finding.code, one.reason), one.finding.file or "the wheel") for one in ignored)
    for (code, reason), places in alike.items():
        yield Text(code, "bold", visible(f" {shortened(list(dict.fromkeys(places)))}: {reason}"))


def _summary(report: Report) -> str:
    counts = Counter(w.verdict for w in report.wheels)
    words = {"error": "with errors", "warning": "with warnings", "info": "with information only"}
    parts = [f"{counts[k]} {words.get(k, k)}" for k in ("error", "warning", "info", "clean") if counts[k]]
    forms = {wheel.facts.form for wheel in report.wheels}
    kind = "distributions" if forms == {"installed"} else "wheels" if forms <= AS_BUILT else "inputs"
    return f"{len(report.wheels)} {kind}: {', '.join(parts)}"


_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}  # ECMA-48, SGR
# A space inside of a name, at which a line is not broken: a private character of Unicode, as texts have none.
UNBROKEN = "\uf8ff"
_NARROWEST = 8  # the least columns of a text


class Text(NamedTuple):
    """A text whose beginning has a style: "bold red"."""

    start: str
    style: str = ""
    rest: str = ""


class Page(NamedTuple):
    """The width of lines in columns, and whether they are coloured."""

    width: int
    color: bool

    def lines(self, text: Text, *, indent: int = 0, head: Text | None = None) -> Iterator[str]:
        """Yield a text as lines behind an indent, in which `head` stands on the first line."""
        head = head or Text("")
        room = max(self.width - indent, _NARROWEST)
        whole = text.start + text.rest
        styled = len(text.start)  # characters that are not styled yet
        for line in textwrap.wrap(whole, room, break_long_words=False, break_on_hyphens=False):
            shown = line.replace(UNBROKEN, " ")
            beginning, rest = shown[: max(styled, 0)], shown[max(styled, 0) :]
            yield f"{self._lead(head, indent)}{self._painted(beginning, text.style)}{rest}"
            styled -= len(line) + 1  # with the space at which the line ends
            head = Text("")

    def _lead(self, head: Text, indent: int) -> str:
        before = len(head.start) - len(head.start.lstrip())
        gap = " " * (indent - len(head.start))
        return f"{' ' * before}{self._painted(head.start.lstrip(), head.style)}{gap}"

    def _painted(self, text: str, style: str) -> str:
        if not (self.color and style and text):
            return text
        return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"
