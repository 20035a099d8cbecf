"""Identifies a grafted library by its hash in RECORD, or by the hash in its name."""

from gpuforge.audit.findings import Facts, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.cuda import sonames
from gpuforge.datafile import load


def origin(graph: LinkGraph, file: str) -> tuple[str, Facts]:
    """Return the origin of a library file as a subject's detail and its facts; empty if it is not recognised.

    A grafted file that was changed afterwards is recognised by its name: auditwheel puts the first 8 digits of the
    sha256 of the original there.
    """
    wheel = next((w for w in graph.wheels if file in w.members), None)
    if wheel is None:
        return "", ()
    digest = sha256(wheel, file)
    if digest:
        for other in graph.wheels:
            if other is not wheel:
                for name, its in other.record.sha256.items() if other.record else ():
                    if its == digest:
                        facts = facts_of(original=name, owner=other.name)
                        return "byte for byte {original} of {owner}", facts
    named = sonames.graft_hash(file)
    for row in load(__file__, "nvidia_files.toml")["library"]:
        if digest == row["sha256"] or (named and row["sha256"].startswith(named)):
            facts = facts_of(soname=row["soname"], package=row["package"], version=row["version"])
            return "{soname} of {package} {version}", facts
    return "", ()


def sha256(wheel: WheelFacts, file: str) -> str:
    """Return the sha256 of a wheel's member from RECORD, in hexadecimal; "" if it has none."""
    return wheel.record.sha256.get(file, "") if wheel.record else ""
