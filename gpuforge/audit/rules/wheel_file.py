"""Commands that change WHEEL and METADATA in an unpacked wheel; `wheel pack` names the wheel by the tags in WHEEL."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from packaging.tags import Tag

from gpuforge.audit.model import WheelFacts


def with_tags(wheel: WheelFacts, tags: Iterable[Tag]) -> tuple[str, ...]:
    """Return the command that replaces the tags; `wheel tags` ends with a traceback where they contradict the name."""
    lines = sorted({f"Tag: {tag}" for tag in tags})
    return _edited(wheel, "WHEEL", (*(f"1a {line}" for line in lines), "/^Tag:/d")) if lines else ()


def as_platlib(wheel: WheelFacts) -> tuple[str, ...]:
    """Return the command that declares a wheel as not pure."""
    return _edited(wheel, "WHEEL", ("s/^Root-Is-Purelib:.*/Root-Is-Purelib: false/",))


def with_requirement(wheel: WheelFacts, package: str) -> tuple[str, ...]:
    """Return the command that requires a package, in any version."""
    return _edited(wheel, "METADATA", (f"1a Requires-Dist: {package}",))


def with_purelib(wheel: WheelFacts, *, pure: bool) -> tuple[str, ...]:
    """Return the command that leaves one Root-Is-Purelib line."""
    return _edited(wheel, "WHEEL", (f"1a Root-Is-Purelib: {str(pure).lower()}", "/^Root-Is-Purelib:/d"))


def _edited(wheel: WheelFacts, file: str, script: Iterable[str]) -> tuple[str, ...]:
    member = next((name for name in wheel.members if re.fullmatch(rf"[^/]+\.dist-info/{file}", name)), "")
    lines = " ".join(f"-e {shlex.quote(line)}" for line in script)
    return (f"sed -i {lines} {shlex.quote(member)}",) if member else ()
