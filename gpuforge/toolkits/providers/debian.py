"""CUDA toolkits with Debian's compiler, from its non-free, and PyPI's headers and libraries; data/debian.toml.

The machine needs neither Debian nor root nor apt.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from functools import partial as bound
from pathlib import Path, PurePosixPath
from typing import Any

from gpuforge.cuda.suffix import with_suffix
from gpuforge.cuda.version import major_of
from gpuforge.datafile import load
from gpuforge.errors import ActionError, UsageError
from gpuforge.toolkits import pip, toolkit_tree
from gpuforge.toolkits.debian_parts import DebianPart, fetched
from gpuforge.toolkits.pins import ListedToolkit, PinnedWheel, choose
from gpuforge.toolkits.progress import Say, quiet
from gpuforge.toolkits.toolkit import Toolkit, ToolkitFiles, ToolkitRequest, Wheels
from gpuforge.wheel.filename import machine_of

_COMPILER = ("nvidia-cuda-runtime", "nvidia-cuda-nvcc", "nvidia-cuda-cccl")  # wheels with its headers
_PROGRAMS = frozenset(
    {"__nvcc_device_query", "bin2c", "cu++filt", "cudafe++", "cuobjdump", "fatbinary", "nvdisasm", "nvlink"}
    | {"nvprune", "ptxas"}
)
_OWN = PurePosixPath("usr/lib/nvidia-cuda-toolkit")  # nvcc's own folder in Debian
# Debian's profile has Debian's folders; this one is NVIDIA's, whose folders are relative to nvcc
# (https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#nvcc-profile).
_PROFILE = """\
TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
LD_LIBRARY_PATH += $(TOP)/lib:
PATH += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib/stubs" "-L$(TOP)/lib"
CUDAFE_FLAGS +=
PTXAS_FLAGS +=
"""


def minors() -> tuple[str, ...]:
    """Return the toolkits that Debian has and gpuforge supports, oldest first."""
    return tuple(_releases())


def nvcc(toolkit: str) -> str:
    """Return the compiler's version: "12.4.131"."""
    return str(_releases()[toolkit]["nvcc"])


def source(toolkit: str, libraries: Sequence[str], machine: str) -> Wheels:
    """Return the files of a toolkit with these libraries.

    Raises UsageError for an unknown library, with the nearest names.
    """
    row = _releases()[toolkit]
    compiler = [with_suffix(name, major_of(toolkit)) for name in _COMPILER]
    parts = DebianPart.of_rows(row["packages"], machine)
    return Wheels(choose(ListedToolkit.of_row(row), compiler, libraries, machine), parts)


def offer(request: ToolkitRequest) -> Toolkit | None:
    """Return the toolkit, None if Debian does not have it; raises UsageError for an unknown library."""
    if request.minor not in _releases():
        return None
    files = source(request.minor, request.libraries, request.machine)
    origin = f"Debian {_releases()[request.minor]['suite']} and PyPI"
    return Toolkit(request.minor, "debian", files.identity, nvcc(request.minor), origin, source=files)


def absent(request: ToolkitRequest, elsewhere: str) -> UsageError:
    """Return the error for a toolkit that Debian does not have; `elsewhere` names the providers that have it."""
    return UsageError.of(
        f'provider = "debian" has no CUDA {request.minor}; it has {", ".join(minors())}',
        hint=f"leave the provider out: {elsewhere}",
    )


def fetch(source: ToolkitFiles, destination: Path, *, say: Say = quiet) -> None:
    """Download the parts and wheels of `source` and make the toolkit tree at `destination`: see `provision_debian`."""
    assert isinstance(source, Wheels)  # noqa: S101  as `offer` returns them
    provision_debian(source.parts, source.pins, destination, say=say)


def provision_debian(
    parts: Sequence[DebianPart], pins: Sequence[PinnedWheel], destination: Path, *, say: Say = quiet
) -> None:
    """Download `parts` from a Debian mirror and `pins` with pip; make the toolkit tree at `destination`.

    The mirror is GPUFORGE_DEBIAN_MIRROR, else deb.debian.org. Everything else is as in `pypi.provision`.
    """
    with toolkit_tree.staged(destination) as partial:
        made = partial / "tree"
        made.mkdir()
        pip.fetch_wheels(pins, partial, say)
        lay_out_wheels(partial / "site", made)
        for part, file in fetched(parts, partial, say):
            unpack_part(part, file, made)
        (made / "bin" / "nvcc.profile").write_text(_PROFILE)
        toolkit_tree.complete(made, machine_of(pin.filename for pin in pins))
    say(f"CUDA toolkit ready in {destination}")


def lay_out_wheels(site: Path, made: Path) -> None:
    """Merge `site/nvidia/<part>/{include,lib,…}`, the layout of the wheels for CUDA 11 and 12, into one tree."""
    for folder in sorted(path for path in (site / "nvidia").iterdir() if path.is_dir()):
        toolkit_tree.merge(folder, made)
    pip.merge_beside(site, made)
    for left in made.rglob("__init__.py"):
        left.unlink()
    pip.keep_dist_info(site, made)


def unpack_part(part: DebianPart, file: Path, made: Path) -> None:
    """Put a downloaded part's files into the tree; raises ActionError if they are not there."""
    from gpuforge.toolkits import unpack  # noqa: PLC0415  plans fetch nothing

    if not part.members:
        if unpack.unpack_deb(file, made, bound(place, package=part.package)) == 0:
            raise ActionError.of(f"{part.package} {part.version} holds nothing of a CUDA toolkit")
        return
    content = unpack.unpack_block(file.read_bytes())
    for member in part.members:
        target = made / "lib" / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content[member.offset : member.offset + member.size])


def place(path: PurePosixPath, *, package: str) -> PurePosixPath | None:
    """Return the place in the tree of a file of Debian's compiler package, or None if it is not needed."""
    if path == _OWN / "bin" / "cicc":
        return PurePosixPath("nvvm/bin/cicc")
    if path == _OWN / "bin" / "nvcc" or path.parent == _OWN / "bin" / "crt":
        return path.relative_to(_OWN)
    if path.parent == _OWN / "libdevice":
        return "nvvm" / path.relative_to(_OWN)
    if path.parent == PurePosixPath("usr/bin") and path.name in _PROGRAMS:
        return path.relative_to("usr")
    if path == PurePosixPath("usr/share/doc") / package / "copyright":
        return PurePosixPath("dist-info") / package / "copyright"
    return None


@cache
def _releases() -> Mapping[str, Any]:
    return {row["toolkit"]: row for row in load(__file__, "debian.toml")["release"]}
