"""`python -m PACKAGE._gpuforge explain`: shows the machine, the kernels that are used on it, and why."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Union

from .explain import SetFacts, as_data, as_text, facts_of, machine_data
from .find import contents
from .process import KernelUnavailable, UnknownKernel
from .values import Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .kernellibrary import LibraryFacts

SCHEMA = 1
SUMMARY = "show which kernels are used on this machine, and why not the others"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "set", nargs="*", help="a kernel set or library of this package (default: all of them)"
    )
    parser.add_argument("--json", action="store_true", help="print data instead of a table")


def run(options: argparse.Namespace) -> int:
    has = contents()
    known = [*has.sets, *has.libraries]
    unknown = [name for name in options.set if name not in known]
    if unknown:
        there = ", ".join(known) or "none"
        sys.stderr.write(
            f"error: no kernel set or library {', '.join(unknown)} in this package; it has: {there}\n"
        )
        return 2
    named = options.set or known
    facts = PackageFacts(
        tuple(_set(name) for name in has.sets if name in named),
        tuple(_library(name) for name in has.libraries if name in named),
        _optional(),
    )
    shown = json.dumps(package_as_data(facts), indent=2) if options.json else package_as_text(facts)
    sys.stdout.write(shown + "\n")
    return 0


def _optional() -> dict[str, str | Reason]:
    """Return the state of the optional libraries that the package has declared, if it was imported with them."""
    optional = sys.modules.get(f"{__package__}.optional")
    return {} if optional is None else {name: each.state() for name, each in optional.DECLARED.items()}


def _set(name: str) -> SetFacts:
    from .kernelset import KernelSet

    return facts_of(KernelSet.shipped(name))


def _library(name: str) -> LibraryFacts:
    from .kernellibrary import KernelLibrary, KernelProgram
    from .libraries import is_program

    library = KernelLibrary.shipped(name)
    if is_program(library.home, name):
        library = KernelProgram.shipped(name)
    with suppress(KernelUnavailable, UnknownKernel), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.path()  # only the loader knows whether what it needs is here
    return library.facts()


class PackageFacts(NamedTuple):
    sets: tuple[SetFacts, ...]
    libraries: tuple[LibraryFacts, ...]
    optional: Mapping[str, Union[str, Reason]]  # libraries


def package_as_text(facts: PackageFacts) -> str:
    lines = [*map(as_text, facts.sets), *(library.as_text() for library in facts.libraries)]
    optional = [
        str(found) if isinstance(found, Reason) else f"{name}: {found}"
        for name, found in facts.optional.items()
    ]
    return "\n".join([*(lines or ["this package has no kernels"]), *optional])


def package_as_data(facts: PackageFacts) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "machine": machine_data(facts.sets[0].machine) if facts.sets else None,
        "libraries": {
            name: found.as_data() if isinstance(found, Reason) else {"text": found}
            for name, found in facts.optional.items()
        },
        "sets": [as_data(one) for one in facts.sets],
        "kernel_libraries": [library.as_data() for library in facts.libraries],
    }
