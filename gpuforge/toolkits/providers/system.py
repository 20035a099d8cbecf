"""CUDA toolkits installed on this machine, in the usual places, with their versions."""

import glob
import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpuforge import digest
from gpuforge.cuda.version import minor_of
from gpuforge.errors import MissingError
from gpuforge.toolchains.detect import detect
from gpuforge.toolchains.nvcc import toolkit_version
from gpuforge.toolkits.providers import pypi
from gpuforge.toolkits.toolkit import Toolkit, ToolkitRequest

ANSWER_S = 20  # seconds that nvcc may take to print its toolkit's folder


class InstalledToolkit(NamedTuple):
    """A toolkit found on this machine."""

    root: Path
    version: str  # as exactly as it is known: "13.0.2", or "13.0"
    nvcc: str  # the compiler's own version: "13.0.88"
    identity: str  # digest of the properties that distinguish installations

    @property
    def minor(self) -> str:
        """The toolkit minor: "13.0"."""
        return minor_of(self.version)


def offer(request: ToolkitRequest) -> Toolkit | None:
    """Return the installation of exactly that minor, None if there is none; raises UsageError for unknown libraries."""
    for found in installed(request.search):
        if found.minor == request.minor:
            pypi.check_libraries(request)
            return Toolkit(
                request.minor, "system", found.identity, found.nvcc, str(found.root), root=found.root
            )
    return None


def absent(request: ToolkitRequest, elsewhere: str) -> MissingError:
    """Return the error for a toolkit that is not installed; `elsewhere` names the providers that have it."""
    pypi.check_libraries(request)
    found = ", ".join(f"{each.version} in {each.root}" for each in installed(request.search)) or "none"
    return MissingError.of(
        f"no CUDA {request.minor} on this machine; found: {found}",
        hint=f"install it in /usr/local/cuda-{request.minor}, or set CUDA_PATH to its folder; or {elsewhere}",
    )


def installed(search: Sequence[Path] | None = None) -> Iterator[InstalledToolkit]:
    """Yield the toolkits below `search` (default: CUDA_PATH, CUDA_HOME, nvcc on PATH, /usr/local/cuda*), each once."""
    seen = set()
    for root in search if search is not None else _usual_roots():
        real = root.resolve()
        if real not in seen and (root / "bin" / "nvcc").is_file():
            seen.add(real)
            found = _read(root)
            if found is not None:
                yield found


def _usual_roots() -> Iterator[Path]:
    yield from (Path(os.environ[name]) for name in ("CUDA_PATH", "CUDA_HOME") if os.environ.get(name))
    on_path = _root_of_nvcc_on_path()
    if on_path is not None:
        yield on_path
    yield Path("/usr/local/cuda")
    yield from (Path(p) for p in sorted(glob.glob("/usr/local/cuda-*")))  # noqa: PTH207 - an absolute pattern
    yield Path("/opt/cuda")


def _root_of_nvcc_on_path() -> Path | None:
    """Return the TOP that nvcc itself reports: the program on PATH may be a wrapper elsewhere."""
    try:
        nvcc = detect("nvcc", search=[Path(p) for p in os.get_exec_path() if p])
        argv = [str(nvcc.path), "--dryrun", "-E", "-x", "cu", os.devnull]
        output = subprocess.run(argv, capture_output=True, text=True, timeout=ANSWER_S, check=False).stderr
    except (MissingError, OSError, subprocess.TimeoutExpired):
        return None
    top = re.search(r"^#\$ TOP=(.+)$", output, re.MULTILINE)
    return Path(os.path.normpath(top[1].strip())) if top else None


def _read(root: Path) -> InstalledToolkit | None:
    try:
        nvcc = detect("nvcc", path=str(root / "bin" / "nvcc"))
    except MissingError:
        return None
    marks = {
        name: digest.of_file(root / name)
        for name in ("version.json", "include/cuda_runtime_api.h")
        if (root / name).is_file()
    }
    version = toolkit_version(_description(root), nvcc.version)
    return InstalledToolkit(root, version, str(nvcc.version), digest.of_data([nvcc.identity, marks]))


def _description(root: Path) -> Any:
    try:
        return json.loads((root / "version.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
