"""What the test of a wheel left in its file, checked when it is read: the project's own tests ran beside that file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpuforge import tree
from gpuforge.errors import ActionError

_LARGEST = 4 << 20  # bytes of the file
_Seconds = Annotated[float, Field(ge=0, le=1e9)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Loaded(_Part):
    """A CUDA library that was in memory: from the `environment` or the `toolkit`, and its path there."""

    library: str
    place: str = Field(alias="from")
    path: str


class Cuda(_Part):
    """Where the CUDA libraries came from, and whether the test saw those of the machine."""

    machine: Literal["none", "hidden", "visible"]
    loaded: tuple[Loaded, ...]


class Install(_Part):
    """One way of installing the wheel: with these extras, into this Python. `lacks` is a library that was not there."""

    extras: tuple[str, ...] = ()
    wheel: str
    python: str
    packages: tuple[str, ...]  # "numpy 2.4.0", the wheel's own among them
    imported: str = Field(alias="import")
    import_seconds: _Seconds = 0
    lacks: str = ""
    cuda: Cuda | None = None


class TrialResult(Install):
    """The test of a wheel: the last way of installing it, all of them, and what the command did."""

    version: Literal[1] = Field(alias="schema")
    cell: str
    installs: tuple[Install, ...] = ()
    imports: tuple[str, ...] = ()
    tested_with: tuple[str, ...] = ()  # the packages that the command ran with, if it required more
    command: tuple[str, ...] = ()
    command_line: str = ""
    seconds: _Seconds = 0
    summary: str = ""
    counts: dict[str, int] = {}

    def as_data(self) -> dict[str, Any]:
        """Return what the test wrote about the wheel."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"version", "cell"})


def read(file: Path) -> TrialResult:
    """Read the result of a test; raises ActionError for a file that has another form."""
    try:
        return TrialResult.model_validate_json(tree.read(file.parent, file.name, _LARGEST))
    except (OSError, ValidationError) as error:
        raise ActionError.of(
            f"the result of a wheel's test cannot be used: {_reason(error)}",
            hint=f"the test itself wrote over it: see what its tests leave running; then remove {file.parent.parent} "
            "and build again",
        ) from error


def _reason(error: OSError | ValidationError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'JSON'}: {first['msg']}"
