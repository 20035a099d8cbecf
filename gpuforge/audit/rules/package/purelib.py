"""GF706: shared objects in a wheel that is declared pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules import wheel_file
from gpuforge.audit.rules.nvidia import is_nvidia_wheel
from gpuforge.audit.rules.rule import Rule

_ELSEWHERE = r"[^/]+\.data/(?!purelib/)"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare Root-Is-Purelib with the files of the wheel; there should be one such line.

    NVIDIA's own packages are all declared so and installed to one folder, also those that are in no table, so their
    libraries find each other.
    """
    for wheel in graph.wheels:
        bound = [o.file for o in wheel.objects if o.links and not re.match(_ELSEWHERE, o.file)]
        if len(wheel.purelib_lines) > 1:
            yield _several(wheel, bound)
            continue
        beside = all(file.startswith("nvidia/") for file in bound)
        if wheel.purelib and bound and not is_nvidia_wheel(wheel) and not beside:
            yield RULE.finding(
                wheel.name,
                files=tuple(bound),
                subjects=(
                    Subject(
                        detail="shared objects: {count}, such as {file}",
                        facts=facts_of(count=len(bound), file=bound[0]),
                        kind="Root-Is-Purelib",
                    ),
                ),
                what="WHEEL has Root-Is-Purelib: true, and the wheel contains shared objects.",
                why="Where lib and lib64 differ, search paths between these objects and other packages break.",
                fix="Write Root-Is-Purelib: false (setuptools: a distclass with has_ext_modules; "
                "scikit-build-core: wheel.platlib).",
                commands=wheel_file.as_platlib(wheel),
            )


def _several(wheel: WheelFacts, bound: list[str]) -> Finding:
    return RULE.finding(
        wheel.name,
        subjects=(
            Subject(
                detail="Root-Is-Purelib: {lines}",
                facts=facts_of(lines=wheel.purelib_lines),
                kind="Root-Is-Purelib",
                about=("several",),
            ),
        ),
        cause=("several",),
        what="WHEEL has several Root-Is-Purelib lines.",
        why="pip takes the first and other installers may take the last: where lib and lib64 differ, the files are "
        "installed into another folder.",
        fix="Write one line. Of two tools that write WHEEL, let only one change it.",
        commands=wheel_file.with_purelib(wheel, pure=not bound),
    )


RULE = Rule(
    code="GF706",
    severity="warning",
    title="WHEEL has Root-Is-Purelib: true, and the wheel has shared objects",
    check=check,
    applies_to=PACKAGES,
)
