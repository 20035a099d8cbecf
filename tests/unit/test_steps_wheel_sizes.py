"""A wheel beyond its limit: sizes in words that differ, however small or close they are."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from audit_samples import wheel

from gpuforge.actions import write_wheel
from gpuforge.errors import ActionError
from gpuforge.manifest.sizes import size_in_words


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 B"), (999, "999 B"), (8_300, "8.3 kB"), (12_700_000, "12.7 MB"), (4_294_967_301, "4.3 GB")],
)
def test_sizes_have_digits_before_the_point(size: int, words: str) -> None:
    assert size_in_words(size) == words


def test_a_small_wheel_beyond_a_small_limit(tmp_path: Path) -> None:
    made = wheel(tmp_path, {"demo/table.bin": os.urandom(3000), "demo/tiny.txt": b"x"})
    with pytest.raises(ActionError) as caught:
        write_wheel.check(made, 1000)
    message = caught.value.diagnostics[0].message
    assert re.search(r"is \d\.\d kB, more than \[wheel\] size-limit of 1\.0 kB; ", message)
    assert "demo/table.bin 3.0 kB" in message
    assert "0.0 MB" not in message


def test_a_wheel_hardly_beyond_its_limit(tmp_path: Path) -> None:
    made = wheel(tmp_path, {"demo/table.bin": os.urandom(3000)})
    size = made.stat().st_size
    with pytest.raises(ActionError, match=rf"is {size:,} bytes, more than .* of {size - 1:,} bytes"):
        write_wheel.check(made, size - 1)
