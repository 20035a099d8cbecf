"""Lines are broken as rich breaks them, which draws the tables beside them."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from gpuforge.audit.report.page import Span, drawn, hanging, wrapped

WORDS = st.text(st.sampled_from("aBc./-_, 0…é統一"), max_size=60)


def by_rich(text: str, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(Text(text, overflow="fold"), highlight=False)
    return [line.rstrip() for line in captured.get().split("\n")[:-1]]


@given(st.lists(WORDS, max_size=8).map(" ".join), st.integers(min_value=8, max_value=40))
def test_lines_break_as_with_rich(text: str, width: int) -> None:
    assert [drawn(line, color=False) for line in wrapped([(text, "bold")], width)] == by_rich(text, width)


@given(st.lists(st.tuples(WORDS, st.sampled_from(["", "bold", "bold red"])), max_size=5))
def test_styles_neither_add_nor_take_text(spans: list[Span]) -> None:
    lines = wrapped(spans, 20)
    assert [span for line in lines for span in "".join(text for text, _ in line)] == [
        character for text, _ in spans for character in text
    ]


def test_a_head_stands_before_the_first_line_alone() -> None:
    body = wrapped([("one two", "bold"), (" three", "")], 9)
    lines = list(hanging(("error", "bold red"), body, 2, 7))
    assert [drawn(line, color=False) for line in lines] == ["  error  one two", "         three"]
    assert drawn(lines[0], color=True) == "  \x1b[1;31merror  \x1b[0m\x1b[1mone two\x1b[0m"
