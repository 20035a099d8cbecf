"""A case of a rule: a wheel that it must speak of, and what must change for it to be silent."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from audit_samples import wheel

from gpuforge.audit import audit
from gpuforge.audit.findings import Finding
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules import RULES

Content = bytes | Callable[[], bytes]  # what is large is made when it is needed


@dataclass(frozen=True)
class Case:
    code: str
    files: Mapping[str, Content]
    but: Mapping[
        str, Content | None
    ]  # what must change for the rule to be silent; None: the file is not there
    requires: Sequence[str] = ()
    name: str = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    tags: Sequence[str] | None = None
    record: Mapping[str, str] = field(default_factory=dict)
    purelib: bool = False


def findings(
    case: Case, files: Mapping[str, Content | None], folder: Path, *, fixed: bool = False
) -> list[Finding]:
    held = {name: data() if callable(data) else data for name, data in files.items() if data is not None}
    whole = fixed and not case.but
    path = wheel(
        folder,
        held,
        name=case.name,
        requires=() if whole else case.requires,
        tags=None if whole else case.tags,
        record={} if whole else case.record,
        purelib=case.purelib and not whole,
    )
    report = audit([path])
    _hold_causes(report.graph)
    return [f for f in report.findings if f.code == case.code]


def _hold_causes(graph: LinkGraph) -> None:
    """Fail unless the findings of one cause have the same sentences, and those with the same sentences one cause."""
    pairs = {
        ((f.wheel, f.code, f.severity, f.across), f.cause, (f.what, f.why, f.fix))
        for rule in RULES
        for f in rule.check(graph)
    }
    assert (
        len({(of, cause) for of, cause, _ in pairs})
        == len(pairs)
        == len({(of, text) for of, _, text in pairs})
    )
