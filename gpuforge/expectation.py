"""The expectation of a wheel: made from a manifest or from `--expect`, and compared with the wheel by the audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuforge.cuda.kernels import KernelImage
from gpuforge.cuda.targets import Target
from gpuforge.errors import UsageError
from gpuforge.runtime.arch import Arch


@dataclass(frozen=True, slots=True)
class HostOnly:
    """A host-only object: its name and the patterns of its files in the wheel."""

    name: str
    patterns: tuple[str, ...]
    needs: tuple[str, ...] = ()  # libraries of a GPU stack that it may NEED: "cufft"


@dataclass(frozen=True, slots=True)
class GpuFiles:
    """An object of the project's own GPU code: its name and the patterns of its files in the wheel."""

    name: str
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """Findings that the manifest accepts: a rule's code, the reason, and a pattern of files (`*` crosses folders)."""

    rule: str
    reason: str
    file: str = "*"


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected properties of a wheel. `cubins` are empty if its toolkit is unknown, or with `no_code`."""

    cubins: tuple[Arch, ...] = ()
    ptx: tuple[Arch, ...] = ()
    host_only: tuple[HostOnly, ...] = ()
    gpu: tuple[GpuFiles, ...] = ()
    kernel_sets: tuple[str, ...] = ()  # the fallback objects of kind "module", by name
    source_sets: tuple[str, ...] = ()  # the user-compiled objects, by name
    library_sets: tuple[str, ...] = ()  # the fallback objects of kind "library", by name
    targets: Mapping[str, tuple[KernelImage, ...]] = field(default_factory=dict)
    """Of fallback objects whose compiler has targets of its own, by name: the images in their kernel sets."""
    linkage: str = "pip"  # "" without a manifest
    no_code: bool = False  # the package has no GPU code of its own
    exact: bool = False  # GPU code beyond `cubins` and `ptx` is a finding: a manifest lists all of it
    python: tuple[str, ...] = ()  # the Pythons that each get a wheel; empty where one wheel serves many
    spans: tuple[str, ...] = ()  # packages of which one wheel serves several releases: "torch"
    indexes: tuple[str, ...] = ()  # packages from an index of their own, whose CUDA the tables do not know
    accepted: tuple[Accepted, ...] = ()
    kernels_wheels: Mapping[str, Expectation] = field(
        default_factory=dict
    )  # by project; the rest is the host's


def expecting(text: str) -> Expectation:
    """Read the expected architectures of a wheel without a manifest: "80,90a,120+ptx".

    An architecture with "+ptx" is expected as PTX too; "ptx:90" as PTX alone. Raises UsageError for anything else.
    """
    cubins: list[Arch] = []
    ptx: list[Arch] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        try:
            target = Target.parse(word)
        except ValueError:
            raise UsageError.of(
                f"no architecture: {word!r}",
                hint="write them as in '80,90a,120+ptx', and PTX alone as 'ptx:90'",
            ) from None
        cubins += [target.arch] if target.real else []
        ptx += [target.arch] if target.ptx else []
    if not cubins and not ptx:
        raise UsageError.of("no architecture is expected", hint="write them as in '80,90a,120+ptx'")
    return Expectation(cubins=tuple(cubins), ptx=tuple(ptx), linkage="")
