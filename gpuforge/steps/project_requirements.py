"""Requirements from a project's own files or code: names and versions, and nothing else."""

from __future__ import annotations

from gpuforge.errors import ActionError
from gpuforge.requirements import requirement_by_name

_MOST = 1000  # requirements
_HINT = "requirements come from a package index, by name; PIP_INDEX_URL names another index, as for pip"


def checked(requirements: object, who: str) -> list[str]:
    """Return requirements by name and version, sorted; `who` is their author in a message.

    Raises ActionError for options, direct references and anything but a list of text.
    """
    if not isinstance(requirements, list | set) or len(requirements) > _MOST:
        raise _refused(f"{who} has something other than a list of at most {_MOST} requirements")
    try:
        return sorted(str(requirement_by_name(text)) for text in requirements)
    except ValueError as error:
        raise _refused(f"{who} has a requirement that is not a name with versions: {error}") from None


def _refused(why: str) -> ActionError:
    return ActionError.of(f"the project cannot be built: {why}", hint=_HINT)
