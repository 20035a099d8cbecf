"""The C and C++ compilers that a host build calls: wrappers that ask a compiler cache first, if there is one.

Every build calls the compiler by a wrapper, with a cache and without, so that neither paths nor results depend on the
cache. Calls that the cache would answer wrongly go to the compiler.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from gpuforge import digest

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
