"""GF210: a grafted library whose file name is hashed and whose SONAME is not."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.providers.renaming import renaming
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import sonames


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find libraries whose file name is hashed and whose SONAME is the one that other packages request."""
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links and o.soname):
            plain = sonames.plain_name(found.name)
            if plain == found.name or sonames.plain_name(found.soname) != found.soname:
                continue
            users = tuple(dict.fromkeys(edge.loader.name for edge in graph.users(found)))
            yield RULE.finding(
                wheel.name,
                severity="error" if users else "warning",
                files=(found.file,),
                subjects=(
                    Subject(
                        file=found.file,
                        detail="SONAME {soname}"
                        if users
                        else "SONAME {soname}, loaded by nothing in the wheel",
                        facts=facts_of(soname=found.soname),
                        loaded_by=users,
                    ),
                ),
                what="Grafted libraries have a hashed file name and the SONAME of the original.",
                why="Once one is loaded, every other library in the process that needs the original gets this "
                "copy.",
                fix="Set the SONAME to the file name, as auditwheel repair does. Objects that need versions of the "
                "library's symbols have its name a second time, beside NEEDED.",
                commands=_commands(graph, found),
            )


RULE = Rule(
    code="GF210",
    severity="error",
    title="a grafted library has a hashed file name and its old SONAME",
    check=check,
)


def _commands(graph: LinkGraph, library: ElfObject) -> Iterator[str]:
    """Yield the commands that rename a library, also in the objects of its wheel that need it by its old name."""
    yield f"patchelf --set-soname {shlex.quote(library.name)} {shlex.quote(library.file)}"
    users = {e.loader.file: e.loader for e in graph.users(library) if e.loader.wheel == library.wheel}
    for user in users.values():
        if library.soname in {*user.needed, *(need.library for need in user.version_needs)}:
            yield renaming(user, library.soname, library.name)
