"""The requests for the proof of a finished wheel: what it must live beside, and the audit."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpuforge.expectation import Expectation
from gpuforge.plan.requests.request import Request


@dataclass(frozen=True, kw_only=True)
class FetchBeside(Request):
    """Fill the folder `output` with the wheels of `beside` and all that it needs, chosen together with `wheel`."""

    program: ClassVar[str] = "fetch_beside"
    beside: str  # a requirement: "jax[cuda13]"
    wheel: Path  # one of its metadata alone, or its folder
    extras: tuple[str, ...] = ()  # that are installed with it
    own: Path | None = None  # folder of the wheel's own kernels wheel, which no index has
    python: Path
    scratch: Path
    output: Path


@dataclass(frozen=True, kw_only=True)
class AuditWheel(Request):
    """Audit a wheel, or the wheels of a folder; `report` gets the result as JSON."""

    program: ClassVar[str] = "audit_wheel"
    wheel: Path
    expectation: Expectation
    provided: Path | None = None  # what fetch_provided found out
    installed: tuple[Path, ...] = ()  # folders of what the test installs
    beside: tuple[Path, ...] = ()  # what fetch_beside made
    kernels: Path | None = None  # folder of the wheel's own kernels wheel, audited with it
    kernels_report: Path | None = None
    report: Path
