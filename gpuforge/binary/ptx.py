"""The first directives of a PTX text: ISA and target (PTX ISA manual, section 11.1)."""

from __future__ import annotations

import re

from gpuforge.binary.facts import Container, Entry
from gpuforge.cuda.arch import Arch

_VERSION = rb"(?m)^[ \t]*\.version[ \t]+(\d{1,4}\.\d{1,4})\b"
_TARGET = rb"(?m)^[ \t]*\.target[ \t]+sm_(\d{2,4}[af]?)\b"


def standalone(head: bytes, size: int) -> Container | None:
    """Describe a `.ptx` file of `size` bytes by its first bytes; None if it is not PTX."""
    version, target = re.search(_VERSION, head), re.search(_TARGET, head)
    if not version or not target:
        return None
    entry = Entry("ptx", Arch.parse(target[1].decode()), version[1].decode(), size, size)
    return Container(0, size, (entry,))
