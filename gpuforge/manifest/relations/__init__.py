"""Conditions between keys of the manifest, checked on the raw data so that every error comes at once.

Each module has the conditions of one table; a new one is added to `_CHECKS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuforge.manifest.problem import Problem, Raw
from gpuforge.manifest.relations import (
    build,
    commands,
    cuda,
    files,
    front,
    kernels_wheels,
    libraries,
    objects,
    package,
)

_CHECKS = (
    *(
        package.python,
        package.import_name,
        package.c_header,
        build.without_cuda,
        build.native,
        build.unknown_placeholders,
    ),
    *(cuda.without, cuda.toolkits, cuda.architectures, cuda.linkage, objects.objects, objects.names),
    *(commands.commands, commands.without_id, libraries.libraries, kernels_wheels.kernels_wheels),
    front.front,
)


def problems(data: Raw, folder: Path | None) -> Iterator[Problem]:
    """Yield every condition that the parsed TOML breaks; values of a wrong type are left to the model.

    The files that the manifest names are looked for in `folder`, and not at all if it is None.
    """
    for check in _CHECKS:
        yield from check(data)
    if folder is not None:
        yield from files.files(data, folder)
    yield from files.nul_characters(data)
