"""GF106: runtimes of two NVIDIA HPC SDKs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes.hpc_sdk import sdk_version
from gpuforge.audit.rules.runtimes.processes import processes


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the SDKs that compiled the objects, by their debug info and their search paths of the build machine.

    The SDK's own runtimes were built by an older SDK, and are left out.
    """
    reported: set[frozenset[str]] = set()
    for process in processes(graph):
        compiled = [(o, v) for o in process.objects if (v := sdk_version(o))]
        versions = frozenset(v for _, v in compiled)
        if len(versions) < 2 or versions in reported:
            continue
        reported.add(versions)
        wheel = process.blamed([o.wheel for o, _ in compiled])
        yield RULE.finding(
            wheel,
            across=process.across,
            files=tuple(o.file for o, _ in compiled if o.wheel == wheel),
            subjects=tuple(
                Subject(
                    file=o.file, detail="NVIDIA HPC SDK {version}", facts=facts_of(version=v), wheel=o.wheel
                )
                for o, v in compiled
            ),
            what="Objects of two NVIDIA HPC SDK versions come into one process.",
            why="nvc++ promises no link compatibility between its versions, so calls between these objects "
            "can crash.",
            fix="Compile all of them with one HPC SDK, or with g++.",
        )


RULE = Rule(
    code="GF106",
    severity="warning",
    title="objects of two NVIDIA HPC SDKs would be loaded into one process",
    check=check,
    of_process=True,
)
