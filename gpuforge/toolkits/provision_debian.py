"""Make a CUDA toolkit of Debian's compiler and PyPI's headers and libraries; needs neither root nor apt nor Debian."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from functools import partial as bound
from pathlib import Path, PurePosixPath

from gpuforge.errors import ActionError, MissingError
from gpuforge.toolkits import provision, tree, unpack
from gpuforge.toolkits.debian import MIRROR, Part
from gpuforge.toolkits.download import GoneError, download
from gpuforge.toolkits.provision import Say, quiet
from gpuforge.toolkits.pypi import Pin

_PROGRAMS = frozenset(
    {"__nvcc_device_query", "bin2c", "cu++filt", "cudafe++", "cuobjdump", "fatbinary", "nvdisasm", "nvlink"}
    | {"nvprune", "ptxas"}
)
_OWN = PurePosixPath("usr/lib/nvidia-cuda-toolkit")  # where Debian puts nvcc itself
# Debian's profile names Debian's folders; this is NVIDIA's, whose folders are found from where nvcc lies
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


def provision_debian(
    parts: Sequence[Part],
    pins: Sequence[Pin],
    destination: Path,
    *,
    say: Say = quiet,
    machine: str | None = None,
) -> None:
    """Download `parts` from a Debian mirror and `pins` with pip; make the toolkit tree at `destination`.

    The mirror is GPUFORGE_DEBIAN_MIRROR's, else deb.debian.org. Everything else as in `provision.provision`.
    """
    with tree.staged(destination) as partial:
        made = partial / "tree"
        made.mkdir()
        provision.fetch_wheels(pins, partial, say)
        lay_out_wheels(partial / "site", made)
        for part in parts:
            say(f"fetching {part.package} {part.version} ({part.size / 1e6:.0f} MB) from {mirror()}")
            file = partial / "part"
            fetch_part(part, file)
            unpack_part(part, file, made)
            file.unlink()
        (made / "bin" / "nvcc.profile").write_text(_PROFILE)
        tree.complete(made, machine or platform.machine())
    say(f"CUDA toolkit ready in {destination}")


def lay_out_wheels(site: Path, made: Path) -> None:
    """Merge `site/nvidia/<part>/{include,lib,…}`, the layout of the wheels for CUDA 11 and 12, into one tree."""
    for folder in sorted(path for path in (site / "nvidia").iterdir() if path.is_dir()):
        tree.merge(folder, made)
    for left in made.rglob("__init__.py"):
        left.unlink()
    provision.keep_dist_info(site, made)


def unpack_part(part: Part, file: Path, made: Path) -> None:
    """Put a downloaded part's files into the tree; raises ActionError when they are not there."""
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
    """Return where a file of Debian's compiler package goes in the tree, or None if it is not needed."""
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


def mirror() -> str:
    """Return the address of the Debian mirror to download from."""
    return os.environ.get("GPUFORGE_DEBIAN_MIRROR") or MIRROR


def fetch_part(part: Part, file: Path) -> None:
    """Download a part of Debian's packages, checked; raises what `download` does, and MissingError when it is gone."""
    try:
        download(f"{mirror().rstrip('/')}/{part.path}", file, sha256=part.sha256, start=part.start,
                 size=part.size if part.members else None)  # fmt: skip
    except GoneError:
        raise MissingError.of(
            f"{mirror()} has no {part.package} {part.version} (any more)",
            hint="set GPUFORGE_DEBIAN_MIRROR to one that has it: a day of https://snapshot.debian.org/archive/debian/ "
            "on which it was there; or upgrade gpuforge",
        ) from None
