"""GF211: symbol versions required from a library that is not NEEDED."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit import policy
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.providers.renaming import renaming
from gpuforge.audit.rules.rule import Rule, Text
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import sonames

_PYTHONS = "libm.so.6"  # every Python interpreter is linked with it


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find required symbol versions of libraries that are not NEEDED, as `patchelf --remove-needed` leaves them.

    The linker looks for the library among all loaded ones, and ends with an assertion if it is not there (glibc,
    elf/dl-version.c, _dl_check_map_versions).
    """
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links):
            for need in found.version_needs:
                if need.library in found.needed or policy.is_loader(need.library):
                    continue
                loaded = _always_loaded(graph, found, need.library)
                opened = not loaded and not found.is_program and _opened(wheel, need.library)
                new = "" if loaded or opened else _new_name(found, need.library)
                text = _LOADED if loaded else _OPENED if opened else _RENAMED if new else _ALONE
                yield RULE.finding(
                    wheel.name,
                    **text._asdict(),
                    files=(found.file,),
                    subjects=(
                        Subject(
                            file=found.file,
                            detail="versions of {library}:",
                            facts=facts_of(library=need.library),
                            names=need.versions,
                        ),
                    ),
                    cause=(text.why, text.fix),
                    commands=(renaming(found, need.library, new),) if new else (),
                )


_WHAT = "Objects require symbol versions of libraries that they do not NEED."
_LINK_AGAIN = (
    "Link again without the library. `patchelf --remove-needed` is not enough: it leaves the symbol versions "
    "(patchelf#214)."
)
_LOADED = Text(_WHAT, "Nothing breaks: other objects load these libraries.", "None needed.", "info")
_OPENED = Text(
    _WHAT,
    "Python code of the wheel has to open these libraries first, or the dynamic linker aborts the process.",
    _LINK_AGAIN,
    "warning",
)
_RENAMED = Text(
    _WHAT,
    "The dynamic linker aborts the process: the objects NEED the libraries by other names.",
    "Give the symbol versions the new names, too. Old releases of patchelf changed only NEEDED.",
    "error",
)
_ALONE = Text(
    _WHAT,
    "The dynamic linker aborts the process unless something else has loaded these libraries.",
    _LINK_AGAIN,
    "error",
)


RULE = Rule(
    code="GF211",
    severity="error",
    title="symbol versions are required from a library that is not NEEDED",
    check=check,
)


def _new_name(binary: ElfObject, library: str) -> str:
    """Return the hashed name by which an object NEEDs a library; "" if it does not NEED it, or two may be meant."""
    plain = {name: sonames.plain_name(name) for name in binary.needed}
    found = [n for n, old in plain.items() if old != n and sonames.stem(old) == sonames.stem(library)]
    return found[0] if len(found) == 1 else ""


def _opened(wheel: WheelFacts, library: str) -> bool:
    """Return whether Python code of the wheel names the library among those that it opens, by a path or by its name."""
    return any(preload.may_open(library) for preload in wheel.preloads)


def _always_loaded(graph: LinkGraph, binary: ElfObject, library: str) -> bool:
    sets = [s for s in graph.load_sets if binary in s.objects]
    if library == _PYTHONS and not any(s.root.is_program for s in sets):
        return True
    return bool(sets) and all(
        any(library in (o.soname, o.name) or library in o.needed for o in s.objects) for s in sets
    )
