"""CUDA toolkits that are completely on PyPI, from CUDA 13 on: NVIDIA's wheels, pinned in data/pypi.toml."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from gpuforge.datafile import load
from gpuforge.errors import ActionError, UsageError
from gpuforge.toolkits import pins, pip, toolkit_tree
from gpuforge.toolkits.pins import ListedToolkit
from gpuforge.toolkits.progress import Say, quiet
from gpuforge.toolkits.toolkit import Toolkit, ToolkitFiles, ToolkitRequest, Wheels
from gpuforge.wheel.filename import machine_of

COMPILER = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-cccl")


def minors() -> tuple[str, ...]:
    """Return the toolkits that PyPI has, oldest first."""
    return tuple(_releases())


def libraries(toolkit: str) -> tuple[str, ...]:
    """Return the libraries that can be added to this toolkit's compiler: cufft, cublas, nvjpeg …"""
    return tuple(_releases()[toolkit].extras)


def check_libraries(request: ToolkitRequest) -> None:
    """Raise UsageError for a library that no toolkit has: those of an installation are not known before a build."""
    known = (*libraries(minors()[-1]), *pins.beside_toolkits())
    pins.check_libraries(request.libraries, known, request.minor)


def offer(request: ToolkitRequest) -> Toolkit | None:
    """Return the toolkit, None if PyPI does not have it; raises UsageError for an unknown library."""
    if request.minor not in _releases():
        return None
    source = Wheels(pins.choose(_releases()[request.minor], COMPILER, request.libraries, request.machine))
    return Toolkit(
        request.minor, "pypi", source.identity, source.packages["nvidia-cuda-nvcc"], "PyPI", source=source
    )


def absent(request: ToolkitRequest, elsewhere: str) -> UsageError:
    """Return the error for a toolkit that PyPI does not have; `elsewhere` names the providers that have it."""
    return UsageError.of(
        f"PyPI has no compiler of CUDA {request.minor}: nvcc is there from CUDA 13 on",
        hint=f"leave the provider out: {elsewhere}",
    )


def fetch(source: ToolkitFiles, destination: Path, *, say: Say = quiet) -> None:
    """Download the wheels of `source` with pip; make the toolkit tree at `destination`, which must be empty or absent.

    pip's own configuration (indexes, CA bundle, proxies, cache) is the host's. `say` gets a line for each stage.
    Nothing is left at or beside `destination` if it fails or is interrupted. Raises MissingError if the wheels cannot
    be reached, ActionError if one is damaged or the disk is full, UsageError for a `destination` in use.
    """
    assert isinstance(source, Wheels)  # noqa: S101  as `offer` returns them
    with toolkit_tree.staged(destination) as partial:
        pip.fetch_wheels(source.pins, partial, say)
        say("assembling the toolkit")
        assemble(partial / "site", partial / "tree", machine_of(pin.filename for pin in source.pins))
    say(f"CUDA toolkit ready in {destination}")


def assemble(site: Path, made: Path, machine: str) -> Path:
    """Move pip's output in `site` to a toolkit tree: bin include lib nvvm lib64 targets/…; returns `made`.

    The wheels' dist-info folders (licences, RECORD) go to `made/dist-info`.
    """
    layouts = sorted((site / "nvidia").glob("cu[0-9]*"))
    if len(layouts) != 1:
        raise ActionError.of(
            f"the packages hold {len(layouts)} toolkits where one was expected: {[p.name for p in layouts]}"
        )
    layouts[0].rename(made)
    pip.merge_beside(site, made)
    pip.keep_dist_info(site, made)
    toolkit_tree.complete(made, machine)
    return made


@cache
def _releases() -> Mapping[str, ListedToolkit]:
    return {row["toolkit"]: ListedToolkit.of_row(row) for row in load(__file__, "pypi.toml")["release"]}
