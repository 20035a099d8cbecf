"""GF504: Python modules that some Python cannot load although it accepts the wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from gpuforge.audit.findings import Finding, Severity, Subject
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cpython import CPython

_GROUP = "python"  # of symbols that the audit looks for
_MODULE = r"(?P<name>.+)\.cpython-(?P<version>\d+t?)-[\w-]+\.so"
_HELPER = r"\.abi3\.so(\.|$)"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare modules with the tags: by the version in their file name, and by the symbols that they use."""
    for wheel in graph.wheels:
        tags = [(CPython.of_tag(tag.interpreter), tag) for tag in wheel.file_tags]
        abi3 = [python for python, tag in tags if tag.abi == "abi3" and python]
        anything = any(tag.abi == "none" and tag.interpreter in {"py2", "py3"} for _, tag in tags)
        # cp312-none is for CPython 3.12 only, like cp312-cp312: later ones accept older tags only with abi3
        alone = (python if tag.abi == "none" else CPython.of_tag(tag.abi) for python, tag in tags)
        yield from _by_name(wheel, {each for each in alone if each}, promises_many=bool(abi3) or anything)
        if abi3 or anything:
            for found in (o for o in wheel.objects if o.links):
                helped = any(re.search(_HELPER, e.needed) for e in graph.from_object(found))
                yield from _by_symbols(wheel, found, min(abi3, default=None), helped=helped)


RULE = Rule(
    code="GF504",
    severity="error",
    title="a Python module does not fit all Pythons that the tags promise",
    check=check,
    applies_to=PACKAGES,
)


def _by_name(wheel: WheelFacts, versions: set[CPython], *, promises_many: bool) -> Iterator[Finding]:
    """Judge modules by the CPython version in their names; Python chooses among several versions of one module.

    A library without PyInit_ is no module, however it is named: code opens it by its path, with every Python.
    """
    named: dict[str, set[CPython]] = {}
    files_of: dict[str, str] = {}
    for member in wheel.members:
        if (
            ".cpython-" in member
            and (match := re.fullmatch(_MODULE, member))
            and (python := CPython.of_tag(f"cp{match['version']}"))
        ):
            named.setdefault(match["name"], set()).add(python)
            files_of[match["name"]] = member
    objects = {o.file: o for o in wheel.objects}
    for name, found in named.items():
        module = objects.get(files_of[name])
        if (
            module is None
            or not module.is_python_module
            or len(found) > 1
            or (not promises_many and (not versions or found & versions))
        ):
            continue
        (version,) = found
        bad = sorted(module.undefined(_GROUP) - _stable().keys())
        alone = f"for CPython {version} alone"
        yield _finding(
            wheel,
            Subject(file=module.file, item=alone, detail="uses" if bad else "", names=tuple(bad)),
            "error" if bad or not promises_many else "warning",
            (),
            "Modules are named for one Python version, and the tags promise more versions.",
            "On the other versions the import fails with ModuleNotFoundError.",
        )


def _by_symbols(
    wheel: WheelFacts, binary: ElfObject, floor: CPython | None, *, helped: bool
) -> Iterator[Finding]:
    """Check the symbols that modules for the stable ABI use (PEP 384).

    A library that is for the stable ABI itself may define them: libshiboken6.abi3.so does for PySide6.
    """
    if not binary.name.endswith(".abi3.so") and (
        re.fullmatch(_MODULE, binary.name) or not binary.is_python_module
    ):
        return
    unknown = sorted(binary.undefined(_GROUP) - _stable().keys())
    later = sorted(s for s in binary.undefined(_GROUP) & _stable().keys() if floor and _stable()[s] > floor)
    if unknown:
        yield _finding(
            wheel,
            Subject(file=binary.file, detail="uses", kind="not stable", names=tuple(unknown)),
            "warning" if helped else "error",
            ("not stable",),
            "Modules for the stable ABI use Python symbols that are not in it.",
            "The import works only if a NEEDED library for the stable ABI (libNAME.abi3.so) defines them."
            if helped
            else "The import fails on Python versions that do not have these symbols.",
        )
    if later and floor:
        version = max(_stable()[s] for s in later)
        kept = _oldest(wheel, floor) >= version
        yield _finding(
            wheel,
            Subject(file=binary.file, detail="uses", kind="newer", names=tuple(later)),
            "warning" if kept else "error",
            (floor, version),
            f"The tags promise CPython {floor}, and modules use symbols that joined the stable ABI in {version}.",
            f"Nothing breaks: Requires-Python {wheel.python} excludes older versions."
            if kept
            else f"The import fails on CPython older than {version}.",
        )


def _oldest(wheel: WheelFacts, floor: CPython) -> CPython:
    """Return the oldest CPython, not older than the tag's, that Requires-Python allows."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415  rarely needed, slow to load

    try:
        allowed = SpecifierSet(wheel.python)
    except InvalidSpecifier:
        return floor
    newest = max(_stable().values())
    later = (floor._replace(minor=minor) for minor in range(floor.minor, newest.minor + 1))
    return next((p for p in later if allowed.contains(f"{p}.99") or allowed.contains(f"{p}.0")), floor)


def _finding(
    wheel: WheelFacts, subject: Subject, severity: Severity, cause: tuple[object, ...], what: str, why: str
) -> Finding:
    return RULE.finding(
        wheel.name,
        severity=severity,
        files=(subject.file,),
        subjects=(subject,),
        cause=cause,
        what=what,
        why=why,
        fix="Build every module with Py_LIMITED_API of the version in the tag (abi3audit checks it), or "
        "tag the wheel for the one version.",
    )


@cache
def _stable() -> Mapping[str, CPython]:
    """Return the functions and data of CPython's stable ABI, each with the version that added it."""
    from abi3info import DATAS, FUNCTIONS  # noqa: PLC0415  a tenth of a second to load, and few wheels need it

    added = {symbol.name: entry.added for symbol, entry in (*FUNCTIONS.items(), *DATAS.items())}
    return {name: CPython(version.major, version.minor) for name, version in added.items()}
