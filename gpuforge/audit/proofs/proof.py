"""The proofs of an audit as values: a topic and the facts. `audit.report.proofs` makes the sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpuforge.audit.findings import Topic
from gpuforge.audit.route import Route
from gpuforge.cuda.provided import Floor
from gpuforge.requirements import Release
from gpuforge.runtime.arch import Arch

if TYPE_CHECKING:
    from gpuforge.audit.against import Against

Code = Literal["fatbin", "cubin", "ptx"]  # a container in a library, a cubin file, a PTX text
FoundIn = Literal["wheel", "sibling", "package", "machine", "system", "driver"]
Highest = Mapping[str, tuple[str, str]]  # "GLIBC" -> the highest version wanted, and the file that wants it


class LibrariesFound(NamedTuple):
    """Every NEEDED library is found: the number for each place.

    Some may be found only after packages were imported; the audit does not check that they are imported first.
    """

    counts: Mapping[FoundIn, int]
    imports: tuple[str, ...] = ()  # the packages that have to be imported first


class OfPackage(NamedTuple):
    """The NEEDED libraries of one package to which one route leads."""

    libraries: tuple[str, ...]
    package: str
    extra: str  # of the wheel, which brings the package; "" if it is always required
    route: Route


class Forgotten(NamedTuple):
    """A package that the wheel declares for another one, which needs it but does not declare it."""

    package: str
    by: Release


class Complete(NamedTuple):
    """The releases of required packages whose libraries need no CUDA library that is not declared."""

    releases: tuple[Release, ...]


class ContainerCode(NamedTuple):
    """The GPU code of one container."""

    native: tuple[Arch, ...]
    ptx: tuple[tuple[str, str], ...]  # "compute_90", its ISA "8.7"
    lto: tuple[Arch, ...]
    unknown: tuple[str, ...] = ()  # kinds of images that are not known: "kind-16"


class GpuCode(NamedTuple):
    """The containers of one kind, with the number of those that have the same images."""

    kind: Code
    as_declared: bool  # all of the wheel's code is as the manifest promises
    images: Mapping[ContainerCode, int]


class TagsHold(NamedTuple):
    """The platform tags that promise no more than the objects keep."""

    tags: tuple[str, ...]
    highest: Highest


class NoPromise(NamedTuple):
    """A tag that promises nothing (linux_x86_64), and the oldest policy that promises everything the objects want."""

    tag: str
    policy: str  # "manylinux_2_28"; "" if none has it all
    highest: Highest


class NoGpuCode(NamedTuple):
    """The files of an object that has no GPU code in a known format, all read completely."""

    object: str
    files: tuple[str, ...]
    objects: int  # the files that are not archives
    members: int  # of the archives
    needs: tuple[str, ...]  # libraries of a GPU stack that the manifest allows it to need
    opens: tuple[str, ...]  # libraries of a GPU stack that are named in its strings
    others: tuple[
        str, ...
    ] = ()  # libraries outside of the wheel and the system that it loads; they were not read


class KernelSetsMatch(NamedTuple):
    """The kernel sets that match their index."""

    names: tuple[str, ...]
    unread: tuple[str, ...] = ()  # the kinds of images that were not looked for in the files: "iree-vulkan"


class SourceSetsMatch(NamedTuple):
    """The source sets that match their recipe."""

    names: tuple[str, ...]


class NoUnstableFunctions(NamedTuple):
    """A package of which the wheel uses no function that changes with each release."""

    package: str


class NoSecondCopies(NamedTuple):
    """The libraries of a user's own build of which the wheel loads no second copy.

    `unsearched` are files whose constants were not all searched for names of libraries that they open.
    """

    against: Against
    unsearched: tuple[str, ...] = ()


class FitsBeside(NamedTuple):
    """The packages that share a process with the wheel without a finding."""

    packages: int  # those whose wheels were read
    requirement: str = ""  # the requirement that brings them: "jax[cuda13]"; "" for those of an environment


Proved = (
    LibrariesFound
    | OfPackage
    | Floor
    | Forgotten
    | Complete
    | GpuCode
    | TagsHold
    | NoPromise
    | NoGpuCode
    | KernelSetsMatch
    | SourceSetsMatch
    | NoUnstableFunctions
    | NoSecondCopies
    | FitsBeside
)


class Proof(NamedTuple):
    """Something that was checked and is true."""

    topic: Topic
    facts: Proved
