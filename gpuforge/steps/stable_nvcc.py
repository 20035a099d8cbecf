"""The nvcc that a host build calls: the toolkit's own, with options that keep random names out of its objects.

Separate compilation (`-rdc=true`) names symbols after nvcc's process id, and temporary files end up in symbol
tables. nvcc's manual has an option against each; a seed must differ between objects of one link, so it is the
object's own name, which only a wrapper around each call knows.

The programs that nvcc calls ask the compiler cache first. sccache can stand before nvcc as a whole too, but then it
runs those programs itself, under other names of temporary files: the objects would differ with and without it.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Set
from pathlib import Path

from gpuforge.errors import MissingError
from gpuforge.steps.cached_compilers import ASK, PROGRAM, put

_WRAPPER = """\
#!/bin/sh
object= before=
for word; do
    case "$before" in -o|--output-file) object=$word ;; esac
    before=$word
done
exec {nvcc} {options} "$@"
"""
_OPTIONS = {
    "--objdir-as-tempdir": "--objdir-as-tempdir",
    "--frandom-seed": '${object:+"-frandom-seed=$object"}',
}
_TOOLS = {
    "cudafe++": "bin",
    "cicc": "nvvm/bin",
    "ptxas": "bin",
}  # what takes the time; the rest is not cacheable
# sccache does not compare the names of some outputs, which are in the written file.
_TOOL = """\
#!/bin/sh
if [ -x "${program}" ]; then
    export SCCACHE_C_CUSTOM_CACHE_BUSTER="$PWD $*"
{ask}fi
exec {tool} "$@"
"""


def write(nvcc: Path, toolkit: Path, behind: Path) -> Path:
    """Make the folder `toolkit` look like nvcc's own toolkit, with a wrapper as `bin/nvcc`; return that wrapper.

    The wrapper calls `nvcc` with the options among these that this version has. Builds find headers and libraries
    relative to the nvcc on their PATH or in CUDA_HOME, which is the wrapper. `behind` becomes a folder of links to the
    toolkit, with the programs that the cache calls. Raises MissingError if nvcc does not run.
    """
    try:
        answer = subprocess.run([nvcc, "--help"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise MissingError.of(f"{nvcc} does not run: {error}", hint="check the CUDA toolkit") from error
    options = " ".join(text for name, text in _OPTIONS.items() if name in answer.stdout)
    called = shlex.quote(str(_cached(nvcc, behind)))
    _link(nvcc.parent.parent, toolkit, replaced={nvcc.name})
    return put(toolkit / "bin" / nvcc.name, _WRAPPER.format(nvcc=called, options=options))


def _link(root: Path, place: Path, replaced: Set[str]) -> None:
    """Make a folder with the content of `root` by links; its `bin` is a folder of its own, without some files."""
    (place / "bin").mkdir(parents=True)
    for path in sorted(root.iterdir()):
        if path.name != "bin":
            (place / path.name).symlink_to(path)
    for path in sorted((root / "bin").iterdir()):
        if path.name not in replaced:
            (place / "bin" / path.name).symlink_to(path)


def _cached(nvcc: Path, behind: Path) -> Path:
    """Return an nvcc that finds wrappers of its programs; `nvcc` itself if they are not in NVIDIA's layout.

    nvcc searches the folders in its profile, which lies beside the path that it was called by
    (https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#nvcc-profile). Headers and libraries keep their paths.
    """
    root = nvcc.parent.parent
    profile = nvcc.parent / "nvcc.profile"
    tools = {name: root / folder / name for name, folder in _TOOLS.items()}
    if not all(path.is_file() for path in (profile, *tools.values())):
        return nvcc
    own = behind / "bin"
    _link(root, behind, replaced={profile.name, *tools})
    for name, path in tools.items():
        tool = shlex.quote(str(path))
        put(own / name, _TOOL.format(program=PROGRAM, tool=tool, ask=ASK.format(call=f'"${PROGRAM}" {tool}')))
    text = profile.read_text().replace("$(_HERE_)", str(nvcc.parent)).rstrip("\n")
    (own / profile.name).write_text(f"{text}\nCICC_PATH = {own}\nPATH += {own}:\n")
    return own / nvcc.name
