"""Placeholders of an action's command line and environment, and the paths that fill them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gpuforge.errors import ActionError
from gpuforge.plan.action import PLACEHOLDER, RESULT, Action, Handle, Laid, Staged, located

_REQUEST = "request.json"  # in the working directory


class RunPaths(NamedTuple):
    """The paths of one run, as the command will see them."""

    work: Path
    out: Path
    inputs: Mapping[str, Path]

    @property
    def request(self) -> Path:
        """The file with the action's request."""
        return self.work / _REQUEST

    @property
    def result(self) -> Path:
        """The file that a step program writes for the engine."""
        return self.out / RESULT


def fill(action: Action, places: RunPaths) -> tuple[list[str], dict[str, str]]:
    """Return argv and environment with every placeholder replaced and each `$$` by `$`; a single `$` stays.

    Raises ActionError when a placeholder names an input or output that the action does not have.
    """
    argv = [_fill(text, action, places) for text in action.argv]
    return argv, {name: _fill(text, action, places) for name, text in action.env.items()}


def write_request(action: Action, places: RunPaths, work: Path) -> str:
    """Write the fields of an action's step with their paths into its working directory; return the text, "" for none.

    `work` is the working directory as this process sees it.
    """
    if action.step is None:
        return ""

    def path(name: str, handle: Handle) -> Path:
        return places.work / name if isinstance(handle, (Staged, Laid)) else places.inputs[name]

    text = located(action.step, path).text()
    (work / _REQUEST).write_text(f"{text}\n", encoding="utf-8")
    return text


def _fill(text: str, action: Action, places: RunPaths) -> str:
    def replace(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        if match[0] == "$$":
            return "$"
        if kind is None:
            return str({"work": places.work, "request": places.request, "result": places.result}[match[3]])
        if kind == "out" and name in action.outputs:
            return str(places.out / name)
        if kind == "in" and name in places.inputs:
            return str(places.inputs[name])
        if (kind == "stage" and name in action.staged) or (kind == "lay" and name in action.laid):
            return str(places.work / name)
        what = "output" if kind == "out" else "input"
        msg = f"the command of {action.id} uses {match[0]}, but the action has no {what} of that name"
        raise ActionError.of(msg, hint="this is a mistake in the plan: please report it")

    return PLACEHOLDER.sub(replace, text)
