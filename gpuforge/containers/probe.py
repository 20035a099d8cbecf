"""Reads the content of an image, once for each image ID."""

from __future__ import annotations

import platform
from pathlib import Path

from gpuforge import digest, disk
from gpuforge.containers.engine_errors import not_started
from gpuforge.containers.port import EngineImage, Images
from gpuforge.errors import ActionError, MissingError
from gpuforge.toolchains.inventory import SCRIPT, Inventory, question

PYTHONS = ("/opt/python", "/usr/local/bin", "/usr/bin")
# Any Python of the image runs the script. Without one, the shell reports the machine type and the C library.
_SHELL = r"""
for python in /opt/python/cp3*-cp3*/bin/python3 /usr/local/bin/python3 /usr/bin/python3; do
  if [ -x "$python" ]; then exec "$python" -I -c "$@"; fi
done
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
printf '{"machine": "%s", "glibc": "%s", "compilers": [], "pythons": [], "toolkits": {}, "path": "%s"}\n' \
  "$(uname -m)" "${libc#glibc }" "$PATH"
"""


def contents(images: Images, image: EngineImage, name: str, cache: Path) -> Inventory:
    """Return the content of an image; it is cached in the folder `cache`, by the image's ID.

    Raises MissingError for an image without a shell and ActionError for one that cannot be run. Without any Python in
    the image, only the machine type and the C library are known.
    """
    key = digest.of_data([image.id, platform.machine(), _SHELL, SCRIPT, question()])
    kept = cache / f"{key[:32]}.json"
    if kept.is_file():
        try:
            return Inventory.parse(name, kept.read_text())
        except (ValueError, KeyError):
            kept.unlink()
    answer = _ask(images, image, name)
    try:
        found = Inventory.parse(name, answer)
    except (ValueError, KeyError, TypeError) as error:
        message = f"the answer of image {name} on what it holds cannot be read: {error}"
        raise ActionError.of(message, hint="remove what its shell or Python prints at start") from error
    disk.sweep(cache)
    disk.write_text(kept, answer)
    return found


def _ask(images: Images, image: EngineImage, name: str) -> str:
    ran = images.run(image.id, ["/bin/sh", "-c", _SHELL, "sh", SCRIPT, question()])
    if why := not_started(ran.errors):
        raise MissingError.of(
            f"image {name} cannot run /bin/sh: {why}",
            hint="builds need a shell and the GNU C library: take one of `gpuforge images list`",
        )
    if ran.status:
        raise ActionError.of(f"what image {name} holds is unknown: {ran.reason}")
    return ran.output
