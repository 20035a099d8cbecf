"""Which files of a wheel the objects of a manifest name."""

import re
from collections.abc import Sequence

from gpuforge.audit.model import WheelFacts
from gpuforge.embedded.layout import HOME


def matches(pattern: str, file: str) -> bool:
    """Match a file of a wheel against a pattern, in which `**` crosses folders, and `*` and `?` do not."""
    regex = ""
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", pattern):
        match part:
            case "**/":
                regex += "(?:.*/)?"
            case "**":
                regex += ".*"
            case "*":
                regex += "[^/]*"
            case "?":
                regex += "[^/]"
            case _ if part.startswith("[") and len(part) > 1:
                regex += "[" + part[1:-1].replace("!", "^", 1) + "]" if part[1] == "!" else part
            case _:
                regex += re.escape(part)
    return re.fullmatch(regex, file) is not None


def files_of(patterns: Sequence[str], wheel: WheelFacts) -> set[str]:
    """Return the files of a wheel that patterns name, but for kernel sets."""
    return {
        member
        for member in wheel.members
        if f"/{HOME}/" not in f"/{member}" and any(matches(p, member) for p in patterns)
    }
