"""The result of a wheel's test. The project's tests can write to its file, too, so it is checked when it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpuforge import tree
from gpuforge.errors import ActionError
from gpuforge.requirements import Release

_LARGEST = 4 << 20  # bytes of the file
Place = Literal["environment", "toolkit"]
State = Literal["none", "hidden", "visible"]
_Seconds = Annotated[float, Field(ge=0, le=1e9)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class LoadedCuda(_Part):
    """A CUDA library that was in memory: from the `environment` or the `toolkit`, and its path there."""

    library: str
    place: Place = Field(serialization_alias="from")
    path: str


class Cuda(_Part):
    """Where the CUDA libraries came from, and whether the test saw those of the machine."""

    machine: State
    loaded: tuple[LoadedCuda, ...]


class Install(_Part):
    """One way of installing the wheel: with these extras, into this Python. `lacks` is a library that was not there."""

    extras: tuple[str, ...]
    wheel: str
    python: str
    packages: tuple[Release, ...]  # the wheel's own among them
    imported: str = Field(serialization_alias="import")
    import_seconds: _Seconds | None = None  # None where the import did not work
    lacks: str = ""
    cuda: Cuda | None = None


class CommandResult(_Part):
    """A test command that passed: its words, and these as a shell reads them."""

    command: tuple[str, ...]
    command_line: str
    seconds: _Seconds
    summary: str  # pytest's last line: "12 passed in 0.21s"; "" for other programs
    outcome: str  # the summary without the time
    counts: dict[str, int]


class TrialResult(_Part):
    """The test of a wheel: each way of installing it, and with the last one the further imports and the command."""

    installs: Annotated[tuple[Install, ...], Field(min_length=1)]
    imports: tuple[str, ...] = ()
    tested_with: tuple[Release, ...] = ()  # the packages that the command ran with, if it required more
    ran: CommandResult | None = None

    def write(self, file: Path) -> None:
        """Write it as JSON, in ASCII: names of files need not be UTF-8."""
        file.write_text(json.dumps(self.model_dump(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> TrialResult:
        """Read what `write` wrote; raises ActionError for a file that has another form."""
        try:
            return cls.model_validate_json(tree.read(file.parent, file.name, _LARGEST))
        except (OSError, ValidationError) as error:
            raise ActionError.of(
                f"the result of a wheel's test cannot be used: {_reason(error)}",
                hint="one of its tests wrote over it, perhaps a process that still runs: correct the test, remove "
                f"{file.parent.parent} and build again",
            ) from error


def _reason(error: OSError | ValidationError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'JSON'}: {first['msg']}"
