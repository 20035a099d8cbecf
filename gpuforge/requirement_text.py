"""Reads a requirement that others wrote, such as `jax[cuda13] >=0.8; python_version > "3.11"`.

https://packaging.python.org/en/latest/specifications/dependency-specifiers/
"""

from __future__ import annotations

import re

from packaging.requirements import InvalidRequirement, Requirement

_DEEPEST = 100  # levels of parentheses; packaging before 26.4 has no limit and ends in a RecursionError


def parse(text: str) -> Requirement:
    """Return a requirement; raises InvalidRequirement, the same with every release of packaging."""
    depth = 0
    for parenthesis in re.findall("[()]", text):
        depth += 1 if parenthesis == "(" else -1
        if depth > _DEEPEST:
            raise InvalidRequirement("it is nested too deeply")
    try:
        return Requirement(text)
    except SyntaxError:  # of packaging 26.1, which reads strings as Python does
        raise InvalidRequirement("a quoted string in it is invalid") from None
