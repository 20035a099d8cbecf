"""The head of an action's log: all that is needed to run the command by hand."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuforge.plan.action import Action


def header(
    action: Action,
    argv: list[str],
    env: Mapping[str, str],
    work: Path,
    *,
    where: Sequence[str] = (),
    request: str = "",
) -> str:
    """Return the head of a log, with the request, and without the values of variables that are passed through."""
    variables = [
        f"#   {name}={shlex.quote(value) if name not in action.passes else '(from the caller)'}"
        for name, value in sorted(env.items())
    ]
    lines = [
        f"# {action.title}",
        *(f"# {line}" for line in where),
        f"# in {work} with",
        *variables,
        *(f"# {line}" for line in request.splitlines()),
        f"$ {shlex.join(argv)}",
        "",
    ]
    return "\n".join(lines) + "\n"
