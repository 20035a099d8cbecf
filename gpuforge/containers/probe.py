"""Ask an image what it holds, once for each content."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any
from uuid import uuid4

from gpuforge import digest
from gpuforge.containers import connect as engine
from gpuforge.containers.leftovers import labels
from gpuforge.errors import ActionError, GpuforgeError, MissingError
from gpuforge.toolchains.inventory import SCRIPT, Inventory, question

# The image's own Python, whichever it is: the script is as old as they come.
_SHELL = (
    "for python in /opt/python/cp3*-cp3*/bin/python3 /usr/local/bin/python3 /usr/bin/python3; do "
    'if [ -x "$python" ]; then exec "$python" -I -c "$@"; fi; done; echo no Python >&2; exit 99'
)


def inventory(client: Any, image_id: str, name: str, cache: Path) -> Inventory:
    """Return what the image holds; the answer is kept in the folder `cache`, by the image's content.

    Raises MissingError for an image without Python and ActionError for one that cannot be run.
    """
    asked = digest.of_data([image_id, platform.machine(), SCRIPT, question()])
    kept = cache / f"{asked[:32]}.json"
    if kept.is_file():
        try:
            return Inventory.parse(name, kept.read_text())
        except (ValueError, KeyError):
            kept.unlink()
    answer = _ask(client, image_id, name)
    try:
        found = Inventory.parse(name, answer)
    except (ValueError, KeyError, TypeError) as error:
        message = f"image {name} gave no answer that gpuforge can read when asked what is in it: {error}"
        raise ActionError.of(message, hint="does its shell or Python print at start?") from error
    cache.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(f".{uuid4().hex}.part")
    try:
        part.write_text(answer)
        part.replace(kept)
    finally:
        part.unlink(missing_ok=True)
    return found


def _ask(client: Any, image_id: str, name: str) -> str:
    try:
        with engine.told(f"to run image {name}"):
            said = engine.run_once(
                client,
                image_id,
                entrypoint=["/bin/sh", "-c", _SHELL, "sh"],
                command=[SCRIPT, question()],
                network_mode="none",
                cap_drop=["ALL"],
                security_opt=["label=disable"],
                labels=labels("images"),
                init=True,
            )
    except GpuforgeError as error:
        if why := engine.not_started(str(error.__cause__)):
            raise MissingError.of(
                f"image {name} cannot run /bin/sh: {why}",
                hint="builds need a shell and the GNU C library: take one of `gpuforge images list`",
            ) from error
        if "no Python" in str(error.__cause__):
            raise MissingError.of(
                f"image {name} has no Python in /opt/python, /usr/local/bin or /usr/bin",
                hint="take a manylinux image, or one of `gpuforge images list`",
            ) from error
        raise
    return said.decode(errors="replace")
