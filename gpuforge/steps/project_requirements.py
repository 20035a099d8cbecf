"""Requirements from a project's own files or code: names and versions, and nothing else."""

from __future__ import annotations

from gpuforge.errors import ActionError
from gpuforge.manifest import constraints

_MOST = 1000  # requirements
_HINT = "requirements come from the package index, by name; set one of your own as for pip (PIP_INDEX_URL)"


def checked(requirements: object, who: str) -> list[str]:
    """Return requirements by name and version, sorted; `who` is their author in a message.

    Raises ActionError for options, direct references and anything but a list of text.
    """
    if not isinstance(requirements, list | set) or len(requirements) > _MOST:
        raise _refused(who, f"a list of at most {_MOST} is expected")
    try:
        return sorted(str(constraints.plain(text)) for text in requirements)
    except ValueError as error:
        raise _refused(who, str(error)) from None


def _refused(who: str, why: str) -> ActionError:
    return ActionError.of(
        f"the project cannot be built: {who} for what is not a requirement by name: {why}", hint=_HINT
    )
