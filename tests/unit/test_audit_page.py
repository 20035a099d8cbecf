"""Lines of a report: words wrap, names do not break, styles change no text."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from gpuforge.audit.report.text import Page, Text

WORDS = st.text(st.sampled_from("aBc./-_,0…é統一"), min_size=1, max_size=60)
TEXTS = st.lists(WORDS, min_size=1, max_size=8)


@given(TEXTS, st.integers(min_value=8, max_value=40))
def test_no_word_is_broken_and_only_a_long_one_is_wider_than_the_page(words: list[str], width: int) -> None:
    lines = list(Page(width, color=False).lines(Text(" ".join(words))))
    assert [word for line in lines for word in line.split(" ")] == words
    assert all(len(line) <= width or " " not in line for line in lines)


def test_a_path_wider_than_the_terminal_is_whole_on_a_line_of_its_own() -> None:
    path = f"nvidia/{'a-long-folder/' * 5}libcublasLt-0a1b2c3d.so.12"
    lines = list(Page(30, color=False).lines(Text(f"found in {path}, twice"), indent=4))
    assert lines == ["    found in", f"    {path},", "    twice"]


@given(TEXTS, TEXTS, st.integers(min_value=8, max_value=40))
def test_a_style_changes_no_text(start: list[str], rest: list[str], width: int) -> None:
    text = Text(" ".join(start), "bold red", f" {' '.join(rest)}")
    head = Text("  error", "bold red")
    plain = list(Page(width, color=False).lines(text, indent=9, head=head))
    styled = list(Page(width, color=True).lines(text, indent=9, head=head))
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in styled] == plain


def test_a_head_stands_before_the_first_line_alone() -> None:
    text, head = Text("one two", "bold", " three"), Text("  error", "bold red")
    assert list(Page(16, color=False).lines(text, indent=9, head=head)) == [
        "  error  one two",
        "         three",
    ]
    assert next(Page(16, color=True).lines(text, indent=9, head=head)) == (
        "  \x1b[1;31merror\x1b[0m  \x1b[1mone two\x1b[0m"
    )
