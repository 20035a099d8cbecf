"""GF217: a framework that importing the package imports, and no requirement brings."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules import wheel_file
from gpuforge.audit.rules.rule import Rule
from gpuforge.cuda.frameworks import frameworks


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find imports of frameworks that the wheel neither requires nor requires something of, such as torchvision."""
    for wheel in graph.wheels:
        known = graph.declared[wheel.name]
        always = [package for package, declared in known.items() if not declared.extra]
        for each in frameworks():
            file = wheel.imports.get(each.package, "")
            if not file or wheel.project == each.package or any(map(each.is_in, always)):
                continue
            extra = known[each.package].extra if each.package in known else ""
            yield RULE.finding(
                wheel.name,
                files=(file,),
                subjects=(Subject(file=file, item=each.package),),
                cause=(each.package, extra),
                what=f"Importing the package imports {each.package}, and "
                + (f"only the extra [{extra}] requires it." if extra else "no Requires-Dist line has it."),
                why=f"Without {each.package} the import fails, unless another requirement brings it.",
                fix=f"Add {each.package} to Requires-Dist, or import it where it is used.",
                commands=wheel_file.with_requirement(wheel, each.package),
            )


RULE = Rule(
    code="GF217",
    severity="warning",
    title="a framework is imported with the package, and no requirement brings it",
    check=check,
    applies_to=PACKAGES,
)
