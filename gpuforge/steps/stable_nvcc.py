"""The nvcc that a host build calls: the toolkit's own, told to put nothing random into its objects.

Separate compilation (`-rdc=true`) names symbols after nvcc's process id, and temporary files end up in symbol
tables. nvcc's manual has an option against each; a seed must differ between objects of one link, so it is the
object's own name, which only a wrapper around each call knows.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from gpuforge.errors import MissingError

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


def write(nvcc: Path, folder: Path) -> Path:
    """Write `folder/nvcc`, which calls `nvcc` with those of the options that this version has; return its path.

    Raises MissingError when nvcc does not run.
    """
    try:
        answer = subprocess.run([nvcc, "--help"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise MissingError.of(f"{nvcc} does not run: {error}", hint="check the CUDA toolkit") from error
    options = " ".join(text for name, text in _OPTIONS.items() if name in answer.stdout)
    folder.mkdir()
    wrapper = folder / "nvcc"
    wrapper.write_text(_WRAPPER.format(nvcc=shlex.quote(str(nvcc)), options=options))
    wrapper.chmod(0o755)
    return wrapper
