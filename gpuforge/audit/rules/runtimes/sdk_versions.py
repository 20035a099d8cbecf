"""GF106: runtimes of two NVIDIA HPC SDKs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes.hpc_sdk import sdk_version
from gpuforge.audit.rules.runtimes.processes import processes


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the SDK that each object was compiled by, as its debug info and its dead search paths tell.

    The SDK's own runtimes were built by an older one: they are left out.
    """
    said: set[frozenset[str]] = set()
    for process in processes(graph):
        held = [(o, v) for o in process.objects if (v := sdk_version(o))]
        versions = frozenset(v for _, v in held)
        if len(versions) < 2 or versions in said:
            continue
        said.add(versions)
        wheel = process.blamed([o.wheel for o, _ in held])
        yield RULE.finding(
            wheel,
            files=tuple(o.file for o, _ in held if o.wheel == wheel),
            subjects=tuple(Subject(file=o.file, detail=f"NVIDIA HPC SDK {v}") for o, v in held),
            message="objects of two NVIDIA HPC SDKs come into one process: nvc++ promises no link compatibility "
            "between its versions",
            remedy="compile all of them by one SDK, or by g++ alone",
        )


RULE = Rule(
    code="GF106",
    severity="warning",
    title="objects of two NVIDIA HPC SDKs would be loaded into one process",
    check=check,
)
