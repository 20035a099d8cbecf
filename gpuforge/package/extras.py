"""Changes the extras of a finished wheel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.utils import canonicalize_name

from gpuforge.cuda.suffix import major_of_extra
from gpuforge.wheel import metadata


def without_other_majors(text: bytes, major: int) -> tuple[bytes, list[str]]:
    """Remove the project's extras for other CUDA majors from METADATA: [cuda12] is useless in a wheel for CUDA 13.

    Returns the new METADATA and the extras that were removed.
    """
    extras = [canonicalize_name(name) for name in metadata.fields(text, "Provides-Extra")]
    others: list[str] = [name for name in extras if major_of_extra(name) not in {None, major}]
    return metadata.without_extras(text, others), others


def declare(text: bytes, extras: Mapping[str, Sequence[str]]) -> tuple[bytes, list[str]]:
    """Declare extras and their requirements in METADATA; the project's own requirements in these extras stay.

    Returns the new METADATA and the added lines.
    """
    lines = [f'{line}; extra == "{name}"' for name, lines in extras.items() for line in lines]
    return metadata.add_requirements(metadata.provide_extras(text, [*extras]), lines), lines
