"""Run pip so that it can only fetch: it cannot start a program, and thus no build backend.

`--only-binary` keeps pip from the source distributions of an index. It does not apply to URLs in the metadata of a
wheel: pip would build a source distribution there, with this machine's settings and network.

It is a separate program, which is run by the Python that wheels are fetched for, as `PYTHON -I pip_alone.py
__pip-runner__.py …`.
"""

import os
import runpy
import sys
from pathlib import Path

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


if __name__ == "__main__":
    os.environ["_PIP_RUNNING_IN_SUBPROCESS"] = "1"  # as pip itself sets it for `pip --python`
    sys.argv = sys.argv[1:]
    sys.addaudithook(refuse)
    runpy.run_path(sys.argv[0], run_name="__main__")
