"""Read the head of a PTX text: its ISA and its target (PTX ISA manual, section 11.1, module directives)."""

from __future__ import annotations

import re

from gpuforge.audit.model import Container, Entry

_VERSION = re.compile(rb"^\s*\.version\s+(\d+\.\d+)", re.MULTILINE)
_TARGET = re.compile(rb"^\s*\.target\s+sm_(\d+[af]?)", re.MULTILINE)


def standalone(head: bytes, size: int) -> Container | None:
    """Describe a `.ptx` file of `size` bytes by its first bytes; None for a text that is not PTX."""
    version, target = _VERSION.search(head), _TARGET.search(head)
    if not version or not target:
        return None
    entry = Entry("ptx", f"compute_{target[1].decode()}", version[1].decode(), size, size)
    return Container(0, size, (entry,))
