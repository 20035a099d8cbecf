"""Markdown for a step summary: whole, and as GitHub's kind of parser reads it."""

from __future__ import annotations

from audit_reports import hold, sample
from markdown_it import MarkdownIt

from gpuforge.audit.report import markdown


def test_the_whole_report() -> None:
    hold("report.md", markdown.render(sample(), show_tree=True, show_gpus=True))


def test_nothing_in_it_becomes_markup() -> None:
    found = MarkdownIt("gfm-like", {"linkify": False}).render(markdown.render(sample(), show_gpus=True))
    assert "<em>" not in found
    assert "<b>'" not in found
    assert "&lt;b&gt;'<code>$ORIGIN</code>' &amp; " in found
    assert "*stars* <code>$ORIGIN/x</code>" in found
    assert "&amp; &lt;more&gt;</summary>" in found
    rows = [row.count("<td") for row in found.split("<tr>")[2:] if "<td" in row]
    assert set(rows) == {5, 8, 3}  # each row has the columns of its table, also with | in a name


def test_errors_are_open_and_the_rest_is_folded() -> None:
    found = markdown.render(sample())
    assert found.count("<details open>") == 1
    assert found.count("<details>") == 4
    assert found.count("</details>") == 5
