"""Prints a finished wheel for people, with its proofs and tests."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuforge.cli.build_result import BuiltWheel
from gpuforge.cli.tested import gaps_of_test, words_of_test
from gpuforge.diagnostics import shown
from gpuforge.manifest.sizes import size_in_words
from gpuforge.wheel.filename import claims
from gpuforge.wheel.tags import LinuxTag


def show_wheel(console: Console, wheels: Sequence[BuiltWheel], images: Sequence[str]) -> None:
    """Print one wheel with the tests of all its cells."""
    wheel = wheels[0]
    console.print(Text(shown(str(wheel.path)), style="bold"))
    console.print(Text(f"  {size_in_words(wheel.size)}"))
    console.print(Text(f"  sha256 {wheel.sha256}"))
    lines = Table.grid(padding=(0, 1))
    lines.add_column(no_wrap=True)
    lines.add_column()
    for line in wheel.report.get("proved", []):
        lines.add_row(Text("  ✓", style="green"), Text(shown(line)))
    for test in (test for each in wheels for test in each.tests):
        for line in words_of_test(test):
            lines.add_row(Text("  ✓", style="green"), Text(shown(line)))
        for line in gaps_of_test(test):
            lines.add_row(Text("  !", style="yellow"), Text(shown(line)))
    for finding in wheel.report["findings"]:
        text = f"{finding['severity']} {finding['code']}: {finding['message']}"
        lines.add_row(Text("  !", style="yellow"), Text(shown(text)))
    newer = newer_platform(wheel.path.name, images)
    if newer:
        lines.add_row(Text("  !", style="yellow"), Text(shown(newer)))
    if console.is_terminal:
        console.print(lines)  # wraps with a hanging indent
    else:
        for mark, text in zip(*(column.cells for column in lines.columns), strict=True):
            console.print(mark, text)


def newer_platform(wheel: str, images: Sequence[str]) -> str:
    """Return a warning for a wheel that needs a newer glibc than the manylinux policy among `images`; else ""."""
    promised = ((found.floor, image) for image in images if (found := LinuxTag.parse(image)) and found.libc)
    floor, image = next(promised, (None, ""))
    tags = map(LinuxTag.parse, (tag.platform for tag in claims(wheel).tags))
    needs = min((tag.floor for tag in tags if tag and tag.libc), default=None)
    if not floor or not needs or needs <= floor:
        return ""
    glibc = ".".join(map(str, needs))
    return f"needs glibc {glibc}, newer than {image} of [wheel] image: it was built against this machine's libraries"
