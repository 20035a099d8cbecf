"""Give every input a label of its own, and drop duplicates."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from gpuforge.audit.read.input import Input


def unique(inputs: Sequence[Input]) -> list[Input]:
    """Drop duplicates, and label single files by their paths below their common folder.

    The RPATH of one then leads to another: `$ORIGIN/../lib`.
    """
    unique = list({(i.form, i.info, i.place if _is_apart(i) else _real(i.path)): i for i in inputs}.values())
    files = [i.path.absolute() for i in unique if i.form == "file"]
    if len({file.parent for file in files}) < 2:
        return unique
    base = os.path.commonpath([file.parent for file in files])
    return [
        i._replace(member=i.path.absolute().relative_to(base).as_posix()) if i.form == "file" else i
        for i in unique
    ]


def _is_apart(one: Input) -> bool:
    return one.form == "nested" or one.remote is not None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def labelled(inputs: Sequence[Input]) -> list[Input]:
    """Label inputs of the same name with as much of their paths as distinguishes them."""
    counts = Counter(i.label for i in inputs)
    return [i if counts[i.label] == 1 else i._replace(label=_label(i, inputs)) for i in inputs]


def _label(one: Input, inputs: Sequence[Input]) -> str:
    alike = [i for i in inputs if i.label == one.label and i is not one]
    own = _parts(one)
    others = [_parts(i) for i in alike]
    for count in range(len(PurePosixPath(one.label).parts) + 1, len(own)):
        if all(parts[-count:] != own[-count:] for parts in others):
            return "/".join(own[-count:])
    return str(one.place)


def _parts(one: Input) -> tuple[str, ...]:
    return PurePosixPath(os.path.abspath(one.place)).parts  # noqa: PTH100 - links stay as they were given
