"""Find the libraries that files of a wheel name for a loader to open: OpenCL's `.icd`, JSON of Vulkan and EGL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.audit.leftover import left_over_folder
from gpuforge.wheel.archive import Archive

# OpenCL's loader reads NAME.icd; Vulkan's NAME_icd.x86_64.json and layers, EGL's 50_NAME.json in a folder of its own
_FILE = re.compile(
    r"(?:.*/)?[^/]*\.icd|(?:.*/)?[^/]*(?:icd|layer)[^/]*\.json|.*/egl_vendor\.d/[^/]*\.json", re.IGNORECASE
)
_LIBRARY = re.compile(rb"[\w.+-]+\.so(?:\.[\w.]+)?")
_LARGEST = 1 << 16  # bytes


def opened(archive: Archive) -> frozenset[str]:
    """Return the file names of the libraries. Raises MalformedError for a broken archive."""
    return frozenset(_names(archive))


def _names(archive: Archive) -> Iterator[str]:
    for member in archive.members:
        if not member.name.lower().endswith((".icd", ".json")) or member.size > _LARGEST:
            continue
        if _FILE.fullmatch(member.name) and not left_over_folder(member.name):
            yield from (name.decode() for name in _LIBRARY.findall(archive.data(member)))
