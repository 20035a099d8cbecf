"""Run pip so that it can only fetch: it cannot start a program, and thus no build backend.

`--only-binary` keeps pip from the source distributions of an index. It does not apply to URLs in the metadata of a
wheel: pip would build a source distribution there, with this machine's settings and network.

A wheel that the store has is neither downloaded again nor copied: it is found by the sha256 that the index states, and
pip checks it as it checks what it downloads. pip's own cache does the same only where the index allows caching.

It is a separate program, which is run by the Python that wheels are fetched for, as `PYTHON -I pip_alone.py
__pip-runner__.py …`.
"""

import os
import re
import runpy
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

REFUSED = "pip is here to fetch and may not start"
_STARTS = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"}
)
_ALLOWED = "keyring"  # asks for the password of an index; pip runs it only if its settings say so


def refuse(event, arguments):  # type: ignore[no-untyped-def]
    """Raise PermissionError for an event of the interpreter that starts a program."""
    if event not in _STARTS:
        return
    program = Path(os.fsdecode(arguments[0])).name if arguments else event
    if program != _ALLOWED:
        raise PermissionError(f"{REFUSED} {program}")


def take_from_store(runner, files):  # type: ignore[no-untyped-def]
    """Let the pip of `runner` find wheels in `files`, by sha256, where it looks for what it has downloaded already."""
    root = str(Path(runner).parents[1])
    sys.path.insert(0, root)
    from pip._internal.operations import prepare

    sys.path.remove(root)
    if not hasattr(prepare, "_check_download_dir"):
        return  # of another pip, which downloads everything
    look = prepare._check_download_dir
    apart = tempfile.mkdtemp()  # in the download's own folder, wheels that pip then does not take would stay

    def look_in_store_first(link, folder, hashes, *rest, **more):  # type: ignore[no-untyped-def]
        digest, name = link.hash or "", link.filename
        if hashes and link.hash_name == "sha256" and re.fullmatch("[0-9a-f]{64}", digest) and "/" not in name:
            kept, own = Path(files, digest[:2], digest), Path(apart, name)
            if kept.is_file() and not Path(folder, name).exists():
                folder = apart
                own.unlink(missing_ok=True)
                own.symlink_to(kept)
        return look(link, folder, hashes, *rest, **more)

    def link(source, target):  # type: ignore[no-untyped-def]
        with suppress(OSError):  # no hard links here, or another disk
            if Path(source).parent == Path(apart):
                os.link(Path(source).resolve(), target)
                return
        shutil.copy(source, target)

    prepare._check_download_dir = look_in_store_first  # type: ignore[assignment]
    prepare.shutil = SimpleNamespace(**{**vars(shutil), "copy": link})  # type: ignore[assignment,attr-defined]


if __name__ == "__main__":
    os.environ["_PIP_RUNNING_IN_SUBPROCESS"] = "1"  # as pip itself sets it for `pip --python`
    sys.argv = sys.argv[1:]
    sys.addaudithook(refuse)
    if os.environ.get("GPUFORGE_FILES"):
        take_from_store(sys.argv[0], os.environ["GPUFORGE_FILES"])  # type: ignore[no-untyped-call]
    runpy.run_path(sys.argv[0], run_name="__main__")
