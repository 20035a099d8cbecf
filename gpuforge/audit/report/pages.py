"""The pages about findings (docs/findings), which are part of the installed package."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path

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


def plain(code: str) -> str:
    """Return the page of a finding's code as text without markup."""
    text = _HEADING.sub("", _LINK.sub(r"\1", markdown(code)))
    return text.replace("**", "").replace("`", "")
