"""The requests for the proof of a finished wheel: what it must live beside, and the audit."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BeforeValidator

from gpuforge.expectation import Expectation
from gpuforge.plan.requests.request import Request
from gpuforge.runtime.arch import Arch

RESOLUTION = "resolution.json"  # in the folder that `FetchBeside` fills


class Resolution(NamedTuple):
    """The packages that were chosen for a requirement, together with a wheel."""

    requirement: str  # "jax[cuda13]"
    packages: tuple[str, ...]  # "jax ==0.7.0"


@dataclass(frozen=True, kw_only=True)
class FetchBeside(Request):
    """Fill the folder `output` with the wheels of `beside` and all that it needs, chosen together with `wheel`."""

    program: ClassVar[str] = "fetch_beside"
    beside: str  # a requirement: "jax[cuda13]"
    wheel: Path  # one of its metadata alone, or its folder
    extras: tuple[str, ...] = ()  # the wheel's extras to install
    own: Path | None = None  # folder of the wheel's own kernels wheel, which no index has
    python: Path
    scratch: Path
    output: Path


def _with_archs(
    expectation: Mapping[str, Any], cubin: Callable[[Any], Any], ptx: Callable[[Any], Any]
) -> Any:
    """Return the fields of an expectation, with its architectures converted."""
    wheels = expectation["kernels_wheels"].items()
    return {
        **expectation,
        "cubins": [cubin(arch) for arch in expectation["cubins"]],
        "ptx": [ptx(arch) for arch in expectation["ptx"]],
        "kernels_wheels": {name: _with_archs(each, cubin, ptx) for name, each in wheels},
    }


def _parsed(expectation: Mapping[str, Any]) -> Any:
    return _with_archs(expectation, Arch.parse, Arch.parse)


@dataclass(frozen=True, kw_only=True)
class AuditWheel(Request):
    """Audit a wheel, or the wheels of a folder; `report` gets the result as JSON."""

    program: ClassVar[str] = "audit_wheel"
    wheel: Path
    expectation: Annotated[Expectation, BeforeValidator(_parsed)]
    provided: Path | None = None  # the result of fetch_provided
    installed: tuple[Path, ...] = ()  # folders of wheels that the test installs
    beside: tuple[Path, ...] = ()  # folders that fetch_beside made
    kernels: Path | None = None  # folder of the wheel's own kernels wheel, audited with it
    kernels_report: Path | None = None
    report: Path

    def plain(self) -> dict[str, Any]:
        """Return the data for its file, in which machine code is "sm_90" and PTX "compute_90"."""
        written = _with_archs(asdict(self.expectation), lambda arch: arch.sm, lambda arch: arch.compute)
        return {**vars(self), "expectation": written}
