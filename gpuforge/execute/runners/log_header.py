"""The head of an action's log: all that is needed to run the command by hand. It ends with its first empty line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

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
    ]
    # an empty line in a quoted word would end the head: its line feed is written as bash's $'\n'
    return re.sub(r"\n(?=\n)", r"'$'\\n''", "\n".join(lines)) + "\n\n"


def skip(log: IO[bytes]) -> None:
    """Move from the start of a log to the command's output, which is all of a log without a head."""
    if not log.readline().startswith(b"# "):
        log.seek(0)
        return
    while log.readline() not in {b"\n", b""}:
        pass
