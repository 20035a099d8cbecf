"""The providers of CUDA toolkits, one module each, with `offer` and `absent`, and `minors` and `fetch` for downloads.

The names of the modules are those of `[cuda.<version>] provider` in the manifest.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast, get_args, runtime_checkable

from gpuforge.cuda import choices
from gpuforge.errors import MissingError, UsageError
from gpuforge.toolkits.progress import Say
from gpuforge.toolkits.toolkit import Toolkit, ToolkitFiles, ToolkitRequest


class Provider(Protocol):
    """A source of toolkits."""

    def offer(self, request: ToolkitRequest) -> Toolkit | None:
        """Return the toolkit, None if this provider does not have it."""

    def absent(self, request: ToolkitRequest, elsewhere: str) -> UsageError | MissingError:
        """Return the error for a toolkit that it does not have; `elsewhere` names the providers that have it."""


@runtime_checkable
class Fetcher(Provider, Protocol):
    """A provider that downloads."""

    def minors(self) -> tuple[str, ...]:
        """Return the toolkits that it has, oldest first."""

    def fetch(self, source: ToolkitFiles, destination: Path, *, say: Say) -> None:
        """Download the files of a toolkit that it offered and make the toolkit tree at `destination`."""


PROVIDERS: Mapping[str, Provider] = {  # in the order in which they are tried
    name: cast("Provider", import_module(f"{__package__}.{name}")) for name in get_args(choices.Provider)
}


def fetchers() -> Mapping[str, Fetcher]:
    """Return the providers that download."""
    return {name: each for name, each in PROVIDERS.items() if isinstance(each, Fetcher)}
