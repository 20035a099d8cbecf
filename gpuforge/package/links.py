"""The CUDA libraries that the files of an unpacked wheel need: their distributions, and the symbols in use."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from gpuforge.binary.elf import linked_file
from gpuforge.binary.elf.linked_file import LinkedFile
from gpuforge.cuda import libraries
from gpuforge.cuda.libraries import CudaLibrary
from gpuforge.cuda.version import major_of
from gpuforge.errors import ActionError, MalformedError
from gpuforge.wheel import unpacked


def needed_of(tree: Path, cuda: str, pins: Mapping[str, str]) -> dict[str, dict[str, list[str]]]:
    """Return the symbols that a wheel needs, by distribution and SONAME; raises ActionError for a damaged file.

    They are all undefined symbols of the files with such a library; the exports of the libraries assign them.
    """
    found: dict[str, dict[str, set[str]]] = {}
    defined: set[str] = set()
    present = {path.name for path in unpacked.files(tree)}
    for member, elf in read_tree(tree).items():
        defined |= elf.defined
        for soname in elf.needed:
            if soname not in present and (known := of_toolkit(soname)):
                distribution = provider(member, soname, known, cuda, pins).package
                found.setdefault(distribution, {}).setdefault(soname, set()).update(elf.undefined)
    return {
        distribution: {soname: sorted(names - defined) for soname, names in symbols.items()}
        for distribution, symbols in found.items()
    }


def read_tree(tree: Path) -> dict[PurePosixPath, LinkedFile]:
    """Return the ELF files for the host in an unpacked wheel, by their names in it. Raises ActionError."""
    found = {}
    for path in unpacked.files(tree):
        member = PurePosixPath(path.relative_to(tree).as_posix())
        try:
            elf = linked_file.read(path)
        except MalformedError as error:
            raise ActionError.of(
                f"{member} is a damaged ELF file: {error.diagnostics[0].message}",
                hint="check the build's linker and `strip` steps",
            ) from error
        if elf is not None:
            found[member] = elf
    return found


def of_toolkit(soname: str) -> list[CudaLibrary]:
    """Return the toolkit libraries of a SONAME, of every CUDA major."""
    return [library for library in libraries.by_soname(soname) if library.kind == "toolkit"]


def provider(
    member: PurePosixPath, soname: str, candidates: list[CudaLibrary], cuda: str, pins: Mapping[str, str]
) -> CudaLibrary:
    """Return the library of this CUDA major, from the distribution of the build; raises ActionError without one."""
    major = major_of(cuda)
    fitting = [library for library in candidates if library.cuda == major]
    if not fitting:
        others = " or ".join(sorted({str(library.cuda) for library in candidates}))
        raise ActionError.of(
            f"{member} needs {soname}, which is of CUDA {others}, and the wheel is for "
            + (f"CUDA {cuda}" if cuda else "no CUDA"),
            hint="the manifest has no [cuda]: add a table for the toolkit, or link without CUDA"
            if not cuda
            else "the build used another toolkit than the one it was given: look for its path in the build's log",
        )
    chosen = next((library for library in fitting if library.package in pins), fitting[0])
    return chosen._replace(soname=soname)


def by_soname(libraries: Path, folder: Path) -> Path:
    """Fill `folder` with the libraries below another folder, named by their SONAMEs; return it."""
    folder.mkdir()
    for path in sorted(libraries.rglob("*")):
        try:
            elf = linked_file.read(path) if path.is_file() else None
        except MalformedError:
            continue
        name = folder / (elf.soname or path.name) if elf else None
        if name and not name.exists():
            shutil.copyfile(path, name)
    return folder


def all_pins(pins: Mapping[str, str], toolkit: Path | None, file: str) -> dict[str, str]:
    """Return the versions of a toolkit's pip packages, those in a file of it too."""
    return {**pins, **(json.loads((toolkit / file).read_bytes()) if toolkit and file else {})}
