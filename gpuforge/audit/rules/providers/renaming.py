"""The command that gives a library another name where an object needs it."""

import shlex

from gpuforge.binary.facts import ElfObject


def renaming(user: ElfObject, old: str, new: str) -> str:
    """Return the command that changes a name in NEEDED and in the symbol versions, also if only one of them has it."""
    return f"patchelf --replace-needed {shlex.quote(old)} {shlex.quote(new)} {shlex.quote(user.file)}"
