"""Hides the CUDA of the machine that a wheel is tested on, which users may not have, and sees which CUDA it loaded."""

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from gpuforge import tree
from gpuforge.actions.trial_result import LoadedCuda, Place, State
from gpuforge.cuda import libraries
from gpuforge.diagnostics import shortened
from gpuforge.errors import ActionError
from gpuforge.private_mounts import cover_file, cover_folder, enter_if_allowed

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
    if not cuda or not enter_if_allowed():
        return replace(cuda, hidden=not cuda)
    stub, nothing = scratch / "hidden.so", scratch / "hidden"
    stub.write_bytes(_STUB)
    nothing.touch(mode=0o644)
    for folder in cuda.toolkits:
        cover_folder(folder)
    for library in cuda.libraries:
        cover_file(library, stub)
    for program in cuda.programs:
        cover_file(program, nothing)
    if (cuda.toolkits or cuda.libraries) and _CACHE.exists() and Path(_LDCONFIG).exists():
        fresh = scratch / "ld.so.cache"
        subprocess.run([_LDCONFIG, "-i", "-X", "-C", fresh], check=False, capture_output=True)
        if fresh.exists():  # with the old cache the loader would find the covered files, and ignore them
            cover_file(_CACHE, fresh)
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


# Run by every Python of the environment as it starts: https://docs.python.org/3/library/site.html
_HOOK = """\
import atexit, os


def _record(folder={folder!r}, os=os, open=open):
    try:
        with open("/proc/self/maps", errors="surrogateescape") as maps:
            files = sorted({{line.split(None, 5)[5] for line in maps if ".so" in line}})
        with open(os.path.join(folder, str(os.getpid())), "a", errors="surrogateescape") as record:
            record.writelines(files)
    except OSError:
        pass


atexit.register(_record)
"""


# Limits of the files with loaded libraries; the project's tests can write there, too.
_MOST_RECORDS, _LONGEST_RECORD = 10_000, 1 << 20  # bytes


class LoadWatch(NamedTuple):
    """The libraries that the Pythons of one environment loaded, each in a file in `folder`."""

    environment: Path
    toolkit: Path | None
    folder: Path

    def judged(self, what: str) -> tuple[LoadedCuda, ...]:
        """Return the CUDA libraries that were loaded so far.

        Raises ActionError for a library from elsewhere; `what` names the program that loaded them.
        """
        if strange := self.elsewhere():
            names = shortened([f"{path.name} from {path.parent}" for path in strange])
            raise ActionError.of(
                f"{what} loaded {names}: CUDA of this machine, which users may not have",
                hint=library_advice(strange[0].name),
            )
        return tuple(found for path in self._loaded() for found in self._place(path))

    def elsewhere(self) -> list[Path]:
        """Return the libraries that lie neither in the environment nor in the toolkit."""
        return [path for path in self._loaded() if not list(self._place(path))]

    def _place(self, path: Path) -> Iterator[LoadedCuda]:
        places: tuple[tuple[Place, Path | None], ...] = (
            ("environment", self.environment),
            ("toolkit", self.toolkit),
        )
        for name, place in places:
            if place and path.is_relative_to(place.resolve()):
                yield LoadedCuda(library=path.name, place=name, path=str(path.relative_to(place.resolve())))
                return

    def _loaded(self) -> tuple[Path, ...]:
        names = sorted(path.name for path in self.folder.iterdir())[:_MOST_RECORDS]
        texts = [os.fsdecode(tree.read(self.folder, name, _LONGEST_RECORD)) for name in names]
        lines = {line.removesuffix(" (deleted)") for text in texts for line in text.splitlines()}
        paths = [Path(line.strip()) for line in lines]
        return tuple(sorted(path for path in paths if libraries.is_toolkit_file(path.name)))


def watch_loading(python: Path, folder: Path, toolkit: Path | None = None) -> LoadWatch:
    """Make every Python of an environment write its loaded libraries into `folder` as it ends.

    Libraries may come from the environment and, if the wheel uses the machine's CUDA, from the `toolkit`.
    """
    folder.mkdir()
    environment = python.parent.parent
    (packages,) = environment.glob("lib/python3*/site-packages")
    (packages / "_gpuforge_loaded.py").write_text(_HOOK.format(folder=str(folder)))
    (packages / "_gpuforge_loaded.pth").write_text("import _gpuforge_loaded\n")
    return LoadWatch(environment, toolkit, folder)


def library_advice(name: str) -> str:
    """Return how a wheel can get a CUDA library, by its SONAME or file name."""
    packages = " or ".join(dict.fromkeys(library.package for library in libraries.by_soname(name)))
    return (
        f"no declared package has {name} on the wheel's search paths: link it, or declare "
        f"{packages or 'the package that has it'} and load it through cuda-pathfinder"
    )
