"""Checks that a kernel set's library for the CPU has a function for each kernel of the set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpuforge.binary.elf.file import opened
from gpuforge.binary.elf.symbols import dynamic_symbols
from gpuforge.errors import ActionError
from gpuforge.runtime.layout import INDEX, KERNELS, RECIPE, SOURCES


def check(packed: Sequence[Path]) -> None:
    """Raise ActionError for a kernel without a function in a set's library for the CPU, of the sets packed here.

    A function is found by the kernel's symbol, or by its name. Kernels in wheels of their own are not compared.
    """
    indexes = dict(_documents(packed, KERNELS, INDEX))
    recipes = [recipe for _, recipe in _documents(packed, SOURCES, RECIPE)]
    for folder, index in indexes.items():
        if index["kind"] != "module":
            continue
        served = {recipe["cpu"] for recipe in recipes if index["name"] in recipe["fallbacks"]}
        libraries = [
            (place, each)
            for place, other in indexes.items()
            if other["name"] in {index.get("cpu"), *served}
            for each in other.get("libraries", ())
        ]
        for place, library in libraries:
            _check(folder.name, index, place / library["file"])


def _documents(packed: Sequence[Path], home: str, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    for folder in packed:
        for file in sorted(folder.glob(f"{home}/*/{name}")):
            yield file.parent, json.loads(file.read_bytes())


def _check(name: str, index: dict[str, Any], library: Path) -> None:
    with opened(library) as file:
        defined = {symbol.name for symbol in dynamic_symbols(file) if symbol.defined} if file else set()
    kernels = {each["symbol"]: each["name"] for module in index["modules"] for each in module["kernels"]}
    missing = sorted({each for symbol, each in kernels.items() if not {symbol, each} & defined})
    if missing:
        raise ActionError.of(
            f"{library.name} does the work of kernel set {name!r} on the CPU, and has no function "
            f"{', '.join(missing)}",
            hint='define one for each kernel, as extern "C" or with the parameters of the kernel',
        )
