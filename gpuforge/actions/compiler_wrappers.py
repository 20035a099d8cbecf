"""The compilers that a host build calls: wrappers that ask a compiler cache first, if there is one.

Every build calls the compiler by a wrapper, with a cache and without, so that neither paths nor results depend on the
cache. Calls that the cache would answer wrongly go to the compiler.

The nvcc that it calls is the toolkit's own, with options that keep random names out of its objects. Separate
compilation (`-rdc=true`) names symbols after nvcc's process id, and temporary files end up in symbol tables. nvcc's
manual has an option against each; a seed must differ between objects of one link, so it is the object's own name, which
only a wrapper around each call knows. The programs that nvcc calls ask the compiler cache first. sccache can stand
before nvcc as a whole too, but then it runs those programs itself, under other names of temporary files: the objects
would differ with and without it.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Set
from pathlib import Path

from gpuforge import digest
from gpuforge.errors import MissingError

PROGRAM = "GPUFORGE_SCCACHE"  # path of the cache's program while its server runs
_BEHIND = "GPUFORGE_BEHIND_SCCACHE"  # set: this call comes from the cache
# A compiler's own failures end with 1 or a signal; sccache's with 2, or 254 when its server failed. Then the compiler
# is called without it, and the output so far is not repeated.
ASK = """\
    errors=$(mktemp) || exit
    {call} "$@" 2>"$errors"
    status=$?
    case $status in 2 | 254) rm -f "$errors" ;; *) cat "$errors" >&2; rm -f "$errors"; exit $status ;; esac
"""
# -P would remove the line numbers from the text that the cache compares: they are in debug information and in
# std::source_location. Assembly that reads a file cannot be compared.
_WRAPPER = """\
#!/bin/sh
# {identity}
if [ "${behind}" ]; then
    case " $* " in *" -E "*) ;; *) exec {compiler} "$@" ;; esac
    for word; do shift; [ "$word" = -P ] || set -- "$@" "$word"; done
    text=$(mktemp) || exit
    {compiler} "$@" >"$text"
    status=$?
    cat "$text"
    if grep -qF .incbin "$text"; then date "+// %s %N $$"; fi
    rm -f "$text"
    exit $status
fi
compiles=
for word; do
    case "$word" in
        -c) compiles=yes ;;
        {never}) compiles=; break ;;
    esac
done
if [ "$compiles" ] && [ -x "${program}" ]; then
{ask}fi
exec {compiler} "$@"
"""
# Inputs that sccache ignores: this machine's processor, modules, plugins, and files that assembly includes.
_NEVER = (
    "-m*=native | -fmodule* | -fplugin* | -specs* | --specs* | -fdump* | -fstack-usage | *.s | *.S | *.sx"
)


def write(compiler: Path, name: str, folder: Path) -> Path:
    """Write `folder/name`, which calls `compiler`; return its path."""
    folder.mkdir(exist_ok=True)
    call = f'{_BEHIND}=1 "${PROGRAM}" "$0"'
    text = _WRAPPER.format(
        identity=identity(compiler),
        compiler=shlex.quote(str(compiler)),
        behind=_BEHIND,
        program=PROGRAM,
        never=_NEVER,
        ask=ASK.format(call=call),
    )
    return put(folder / name, text)


def put(wrapper: Path, text: str) -> Path:
    """Write a program; return its path."""
    wrapper.write_text(text)
    wrapper.chmod(0o755)
    return wrapper


def identity(compiler: Path) -> str:
    """Return a digest of the programs that compile, for the wrapper, by which the cache identifies the compiler.

    By itself, sccache would look at the driver only, which is not the program that compiles.
    """
    parts = [compiler]
    for part in ("cc1", "cc1plus", "as"):
        answer = subprocess.run(
            [compiler, f"-print-prog-name={part}"], capture_output=True, text=True, check=False
        )
        found = shutil.which(answer.stdout.strip() or part)
        parts += [Path(found)] if found else []
    return digest.of_data([digest.of_file(part) for part in parts])


_NVCC = """\
#!/bin/sh
object= before=
for word; do
    case "$before" in -o|--output-file) object=$word ;; esac
    before=$word
done
exec {nvcc} {options} "$@"
"""
_NVCC_OPTIONS = {
    "--objdir-as-tempdir": "--objdir-as-tempdir",
    "--frandom-seed": '${object:+"-frandom-seed=$object"}',
}
_NVCC_TOOLS = {
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


def write_nvcc(nvcc: Path, toolkit: Path, behind: Path) -> Path:
    """Make the folder `toolkit` look like nvcc's own toolkit, with a wrapper as `bin/nvcc`; return that wrapper.

    The wrapper calls `nvcc` with the options among these that this version has. Builds find headers and libraries
    relative to the nvcc on their PATH or in CUDA_HOME, which is the wrapper. `behind` becomes a folder of links to the
    toolkit, with the programs that the cache calls. Raises MissingError if nvcc does not run.
    """
    try:
        answer = subprocess.run([nvcc, "--help"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise MissingError.of(f"{nvcc} does not run: {error}", hint="check the CUDA toolkit") from error
    options = " ".join(text for name, text in _NVCC_OPTIONS.items() if name in answer.stdout)
    called = shlex.quote(str(_cached(nvcc, behind)))
    _link(nvcc.parent.parent, toolkit, replaced={nvcc.name})
    return put(toolkit / "bin" / nvcc.name, _NVCC.format(nvcc=called, options=options))


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
    tools = {name: root / folder / name for name, folder in _NVCC_TOOLS.items()}
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
