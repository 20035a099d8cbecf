"""Finds the CUDA of the machine that a wheel is tested on, and hides it from the test: users may not have it."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuforge.actions import private_mounts
from gpuforge.cuda import libraries
from gpuforge.plan.trial_result import State

# The variables by which builds and programs find a toolkit. CMake: FindCUDAToolkit; torch: CUDA_HOME, PYTORCH_NVCC.
_VARIABLES = re.compile(
    r"CUDA_(PATH|PATH_V\w+|HOME|ROOT|DIR|BIN_PATH|TOOLKIT_ROOT_DIR|INC_PATH|LIB_PATH)|CUDATOOLKIT_(HOME|ROOT)"
    r"|CUDAToolkit_ROOT|CUDACXX|PYTORCH_NVCC|NVHPC\w*|LD_PRELOAD"
)
# https://docs.nvidia.com/cuda/cuda-installation-guide-linux/ and https://docs.nvidia.com/hpc-sdk/hpc-sdk-install-guide/
_TOOLKITS = ("usr/local/cuda", "usr/local/cuda-*", "opt/cuda", "opt/cuda-*", "opt/nvidia/hpc_sdk")
_FOLDERS = tuple(
    f"{top}{name}" for top in ("", "usr/", "usr/local/") for name in ("lib", "lib64", "lib/*-linux-gnu")
)
_CACHE = Path("/etc/ld.so.cache")
_LDCONFIG = "/sbin/ldconfig"
# The loader ignores a library for an unknown machine (e_machine 0): `elf(5)`.
_STUB = struct.pack("<4s5B7x2HI3QI6H", b"\x7fELF", 2, 1, 1, 0, 0, 3, 0, 1, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class MachineCuda:
    """The CUDA that a test would find on this machine: toolkits by their folders, libraries, and `nvcc` programs."""

    toolkits: tuple[Path, ...]
    libraries: tuple[Path, ...]
    programs: tuple[Path, ...]
    hidden: bool = False  # whether the test cannot see them

    @property
    def state(self) -> State:
        """Its state: "none" (the machine has none), "hidden", or "visible"; the test must not use a visible one."""
        return ("hidden" if self.hidden else "visible") if self else "none"

    def has(self, name: str) -> Path | None:
        """Return the library of this SONAME or file name; None if there is none outside of toolkits."""
        return next((path for path in self.libraries if path.name.startswith(name)), None)

    def __bool__(self) -> bool:
        return bool(self.toolkits or self.libraries or self.programs)

    @property
    def places(self) -> tuple[str, ...]:
        """The folders that hold it, for people."""
        files = {str(path.parent) for path in (*self.libraries, *self.programs)}
        return tuple(sorted({*map(str, self.toolkits), *files}))


NONE = MachineCuda((), (), ())


def forget(environ: MutableMapping[str, str]) -> None:
    """Remove the variables that name a toolkit, and the folders on PATH that have an `nvcc` beside their own tools."""
    for name in [name for name in environ if _VARIABLES.fullmatch(name)]:
        del environ[name]
    system = {"/usr/bin", "/bin", "/usr/local/bin"}  # they have other programs, too
    folders = [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if folder]
    environ["PATH"] = os.pathsep.join(
        folder for folder in folders if folder in system or not Path(folder, "nvcc").exists()
    )


def find(
    environ: Mapping[str, str],
    toolkit: Path | None = None,
    needed: Sequence[Path] = (),
    root: Path = Path("/"),
) -> MachineCuda:
    """Find the CUDA of this machine below `root` and in the loader's cache.

    Left out are the `toolkit` that a wheel is meant for, and folders that hold what is `needed`.
    """
    own = toolkit.resolve() if toolkit else None
    kept = [path.resolve() for path in (*needed, *([toolkit] if toolkit else []))]

    def to_hide(paths: Iterable[Path]) -> tuple[Path, ...]:
        real = sorted({path.resolve() for path in paths if path.exists()})
        return tuple(
            path
            for path in real
            if not (own and path.is_relative_to(own)) and not any(each.is_relative_to(path) for each in kept)
        )

    toolkits = to_hide(path for pattern in _TOOLKITS for path in root.glob(pattern) if path.is_dir())
    found = to_hide((*_cached(), *_in_usual_folders(root)))
    programs = (Path(folder, "nvcc") for folder in environ.get("PATH", os.defpath).split(os.pathsep))
    return MachineCuda(
        toolkits,
        tuple(path for path in found if not any(path.is_relative_to(each) for each in toolkits)),
        to_hide(programs),
    )


def hide(cuda: MachineCuda, scratch: Path) -> MachineCuda:
    """Hide it from this process and its children by private mounts, if the system allows them.

    Raises OSError if the system allows private mounts, but refuses one of them.
    """
    if not cuda or not private_mounts.enter():
        return replace(cuda, hidden=not cuda)
    stub, nothing = scratch / "hidden.so", scratch / "hidden"
    stub.write_bytes(_STUB)
    nothing.touch(mode=0o644)
    for folder in cuda.toolkits:
        private_mounts.cover_folder(folder)
    for library in cuda.libraries:
        private_mounts.cover_file(library, stub)
    for program in cuda.programs:
        private_mounts.cover_file(program, nothing)
    if (cuda.toolkits or cuda.libraries) and _CACHE.exists() and Path(_LDCONFIG).exists():
        fresh = scratch / "ld.so.cache"
        subprocess.run([_LDCONFIG, "-i", "-X", "-C", fresh], check=False, capture_output=True)
        if fresh.exists():  # with the old cache the loader would find the covered files, and ignore them
            private_mounts.cover_file(_CACHE, fresh)
    return replace(cuda, hidden=True)


def _cached() -> Iterator[Path]:
    """Yield the CUDA libraries in the loader's cache."""
    ldconfig = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
    if ldconfig is None:
        return
    listed = subprocess.run(
        [ldconfig, "-p"], check=False, capture_output=True, text=True, errors="replace"
    ).stdout
    for name, path in re.findall(r"^\s+(\S+) \(.*\) => (/.+)$", listed, re.MULTILINE):
        if libraries.is_toolkit_file(name):
            yield Path(path)


def _in_usual_folders(root: Path) -> Iterator[Path]:
    """Yield the libraries in folders that the loader searches without a cache, or that programs search themselves."""
    for pattern in _FOLDERS:
        for folder in root.glob(pattern):
            if folder.is_dir():
                yield from (path for path in folder.glob("lib*.so*") if libraries.is_toolkit_file(path.name))
