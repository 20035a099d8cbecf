"""Programs that an action reads at their own paths: whether this machine has the same as the plan's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpuforge.errors import MissingError
from gpuforge.execute.runners.runner import InputPath
from gpuforge.plan.action import Action, FileInput
from gpuforge.plan.program_identities import identities

HINT = "install the same programs on every worker, or build in containers: --image"


class UnfitError(MissingError):
    """This machine cannot do an action; another one may be able to."""


def find(action: Action) -> dict[str, InputPath]:
    """Return where the programs among an action's inputs lie on this machine.

    Raises UnfitError for programs that are not here, or are not the same.
    """
    found, problems = {}, []
    for name, value in action.inputs.items():
        if not isinstance(value, FileInput) or value.program is None:
            continue
        if value.program == "gpuforge":  # it is the same, else the worker would not have got the job
            found[name] = InputPath(Path(sys.executable))
            continue
        if value.digest in identities(value.program, value.path):
            found[name] = InputPath(value.path)
        elif not os.path.lexists(value.path):
            problems.append(f"has no {value.path}")
        else:
            problems.append(f"has another {value.path} than the client")
    if problems:
        raise UnfitError.of(" and ".join(problems), hint=HINT)
    return found
