"""GF703, GF704, GF706, GF710, GF712, GF713: metadata, and what installers and indexes refuse."""

import re
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuforge.audit import version_clauses
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.link.requirement import Requirement, can_coexist, evaluated, pythons, required_together
from gpuforge.audit.model import ARCHIVES, AS_BUILT, PACKAGES, WheelFacts
from gpuforge.audit.rules import commands
from gpuforge.audit.rules.recognise import is_nvidia_wheel
from gpuforge.audit.rules.rule import Rule, rule
from gpuforge.grouping import grouped
from gpuforge.requirements import parse_requirement
from gpuforge.wheel.checks import Kind, Refusal, kind
from gpuforge.wheel.dist_info import MetadataProblem

# PyPA, "The signed wheel file": not listed, or without a hash
_UNLISTED = ("/RECORD", "/RECORD.jws", "/RECORD.p7s")

_FIX = "Write RECORD again: unpack the wheel with `unzip`, as `wheel unpack` refuses it, and pack it with `wheel pack`."


@rule("GF703", "error", "RECORD does not match the wheel's files", applies_to=AS_BUILT)
def record_mismatch(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Compare RECORD with the archive: the names, the sizes that it has, and the hashes if requested."""
    problems = tuple(_record_problems(wheel))
    if problems:
        yield record_mismatch.finding(
            wheel.name,
            problems,
            severity="warning",
            what="RECORD does not match the files of the wheel.",
            why="Installers may refuse the wheel, and cannot uninstall all of it.",
            fix=_FIX,
        )
    if wheel.rehashed:
        yield record_mismatch.finding(
            wheel.name,
            [Subject(file=file, item="hash") for file in wheel.rehashed],
            what="The content of files differs from RECORD.",
            why="They were changed after RECORD was written; pip and uv do not notice.",
            fix=_FIX,
        )


def _record_problems(wheel: WheelFacts) -> Iterator[Subject]:
    if wheel.record is None:
        return  # reported as GF704
    if wheel.record.more:
        detail = "{count:,} more lines of RECORD name files that are not in the wheel"
        yield Subject(detail=detail, facts=facts_of(count=wheel.record.more), kind="more")
    for name in wheel.record.unlisted:
        if not name.endswith(_UNLISTED):
            yield Subject(file=name, detail="not in RECORD", kind="not listed")
    for name, (digest, size) in wheel.record.odd.items():
        if name.endswith(_UNLISTED):
            continue
        if name not in wheel.members:
            yield Subject(file=name, detail="in RECORD and not in the wheel", kind="missing")
        elif size is not None and size != wheel.members[name]:
            facts = facts_of(size=wheel.members[name], recorded=size)
            yield Subject(file=name, detail="{size} bytes, {recorded} in RECORD", facts=facts, kind="size")
        elif not digest:
            yield Subject(file=name, detail="without a hash in RECORD", kind="no hash")


_DETAILS = {
    "several .dist-info folders": "it has {count} .dist-info folders",
    "no file": "its .dist-info folder has no {0}",
    "RECORD": "its RECORD is not a list of comma-separated values",
    "file name": "{name} is not the file name of a wheel (name-version-python-abi-platform.whl)",
    "Requires-Dist": "Requires-Dist: {0}: {problem}",
    "no name": "{0} gives no name",
    "name": "the name is {1!r} in {0} and {project!r} in the file name",
    "no version": "{0} gives no version",
    "version": "the version is {found} in {0} and {version} in the file name",
}


@rule(
    "GF704",
    "error",
    "the wheel's metadata cannot be used",
    what="Installers cannot use the metadata of the wheel.",
    why="pip refuses the wheel, or installs it under a wrong name or version.",
    fix="Correct the lines above: see the PyPA specifications of the wheel format and of core metadata.",
    applies_to=PACKAGES,
)
def invalid_metadata(_: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Report files of .dist-info that are missing, do not parse, or contradict the file name.

    pip makes the same comparisons of the file name: with the folder's name, and with name and version in METADATA.
    """
    for problem, about, facts in _metadata_problems(wheel):
        yield Subject(detail=_DETAILS[problem], facts=facts_of(**facts), kind=problem, about=about)


def _metadata_problems(wheel: WheelFacts) -> Iterator[MetadataProblem]:
    yield from wheel.metadata_problems
    if not wheel.file_tags:
        yield MetadataProblem("file name", facts={"name": wheel.name})
    else:
        yield from _contradictions(wheel)
    for line in wheel.requires:
        try:
            parse_requirement(line)
        except InvalidRequirement as error:
            yield MetadataProblem("Requires-Dist", (line,), {"problem": str(error).splitlines()[0]})


def _contradictions(wheel: WheelFacts) -> Iterator[MetadataProblem]:
    for identity in wheel.identities:
        place = identity.place
        if not identity.name:
            yield MetadataProblem("no name", (place,))
        elif canonicalize_name(identity.name) != wheel.project:
            yield MetadataProblem("name", (place, identity.name), {"project": wheel.project})
        if not identity.version:
            yield MetadataProblem("no version", (place,))
        elif not _same(identity.version, wheel.version):
            yield MetadataProblem("version", (place,), {"found": identity.version, "version": wheel.version})


def _same(one: str, other: str) -> bool:
    """Compare two versions as installers do; a folder has "_" where a version has "-"."""
    if one == other:
        return True
    try:
        return Version(one.replace("_", "-")) == Version(other)
    except ValueError:  # packaging's error, and that of a number with thousands of digits
        return False


_ELSEWHERE = r"[^/]+\.data/(?!purelib/)"


@rule(
    "GF706",
    "warning",
    "WHEEL has Root-Is-Purelib: true, and the wheel has shared objects",
    applies_to=PACKAGES,
)
def purelib(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Compare Root-Is-Purelib with the files of the wheel; there should be one such line.

    NVIDIA's own packages are all declared so and installed to one folder, also those that are in no table, so their
    libraries find each other.
    """
    bound = [o.file for o in wheel.linked if not re.match(_ELSEWHERE, o.file)]
    if len(wheel.purelib_lines) > 1:
        yield purelib.finding(
            wheel.name,
            Subject(
                detail="Root-Is-Purelib: {lines}",
                facts=facts_of(lines=wheel.purelib_lines),
                kind="Root-Is-Purelib",
                about=("several",),
            ),
            cause=("several",),
            what="WHEEL has several Root-Is-Purelib lines.",
            why="pip takes the first and other installers may take the last: where lib and lib64 differ, the files "
            "are installed into another folder.",
            fix="Write one line. Of two tools that write WHEEL, let only one change it.",
            commands=commands.with_purelib(wheel, pure=not bound),
        )
        return
    beside = all(file.startswith("nvidia/") for file in bound)
    if wheel.purelib and bound and not is_nvidia_wheel(wheel) and not beside:
        yield purelib.finding(
            wheel.name,
            Subject(
                detail="shared objects: {count}, such as {file}",
                facts=facts_of(count=len(bound), file=bound[0]),
                kind="Root-Is-Purelib",
            ),
            files=tuple(bound),
            what="WHEEL has Root-Is-Purelib: true, and the wheel contains shared objects.",
            why="Where lib and lib64 differ, search paths between these objects and other packages break.",
            fix="Write Root-Is-Purelib: false (setuptools: a distclass with has_ext_modules; "
            "scikit-build-core: wheel.platlib).",
            commands=commands.as_platlib(wheel),
        )


@rule("GF710", "error", "a wheel requires another version of a wheel in the same audit", applies_to=PACKAGES)
def requirements_conflict(graph: LinkGraph) -> Iterator[Finding]:
    """Find requirements that no wheel of that project in the audit meets, so that pip does not install them together.

    An object that was compiled against one release need not work with another: torch promises no ABI across releases.
    """
    wheels = [wheel for wheel in graph.wheels if wheel.form in ARCHIVES or wheel.neighbour]
    for wheel in wheels if len(wheels) > 1 else ():
        for project, known in graph.declared[wheel.name].items():
            others = [w for w in wheels if w.project == project and w is not wheel and can_coexist(wheel, w)]
            needed = known.requirement
            if others and not known.extra and not any(_meets(wheel, other, needed) for other in others):
                joined = f"{project}{needed.versions}"
                line = _unmet(wheel, others) or joined
                yield requirements_conflict.finding(
                    wheel.name,
                    Subject(
                        provider=others[0].project,
                        detail="requires {0!r}; this audit has {provider} {versions}",
                        facts=facts_of(versions=tuple(sorted({other.version for other in others}))),
                        kind="requires",
                        about=(line,),
                    ),
                    across=True,
                    what="These wheels cannot be installed together: one requires a different version of the other.",
                    why="pip refuses them, and objects that were compiled for the required version may not work with "
                    "this one.",
                    fix="Audit the wheels that pip would install together, or widen the requirement.",
                )
        for framework in wheel.compares_cuda:
            others = [
                w for w in wheels if w.project == framework and w is not wheel and can_coexist(wheel, w)
            ]
            yield from _refused(wheel, framework, others)


def _meets(wheel: WheelFacts, other: WheelFacts, requirement: Requirement) -> bool:
    """Return whether a wheel meets a requirement of another, or with some Python all lines for that Python.

    Requirements through other packages have no line.
    """
    if requirement.name != other.project or not other.version or _allows(requirement, other):
        return True
    return any(
        all(
            _allows(each, other) for _, each in required_together(wheel, python) if each.name == other.project
        )
        for python in _pythons_of_both(wheel, other)
    )


def _allows(requirement: Requirement, other: WheelFacts) -> bool:
    return bool(requirement.extra) or version_clauses.allows(requirement.versions, other.version)


def _pythons_of_both(wheel: WheelFacts, other: WheelFacts) -> list[str]:
    both = pythons(wheel.file_tags, wheel.python) & pythons(other.file_tags, other.python)
    return sorted({python.rpartition(".")[0] for python in both}, key=Version)


def _unmet(wheel: WheelFacts, others: list[WheelFacts]) -> str:
    """Return the first Requires-Dist line that none of the wheels meets; "" if they fail to meet all lines together."""
    python = next(reversed(_pythons_of_both(wheel, others[0])), "")
    for line in wheel.requires:
        required = evaluated(line, wheel, python)
        mine = required and required.name == others[0].project and not required.extra
        if required and mine and not any(_allows(required, other) for other in others):
            return line
    return ""


def _refused(wheel: WheelFacts, framework: str, others: list[WheelFacts]) -> Iterator[Finding]:
    """Find a framework of another CUDA release than a wheel whose own code compares the two and raises an error."""
    checking = wheel.compares_cuda[framework]
    releases_of = {e.toolkit for d in wheel.device for c in d.containers for e in c.entries if e.toolkit}
    if len(releases_of) != 1:
        return
    own = releases_of.pop()
    for other in (o for o in others if o.cuda_release not in ("", own)):
        yield requirements_conflict.finding(
            wheel.name,
            Subject(
                provider=other.project,
                detail="built with CUDA {0}; {2} {version} was built with CUDA {1}",
                facts=facts_of(version=other.version),
                kind="CUDA release",
                about=(own, other.cuda_release, other.project),
            ),
            files=checking,
            across=True,
            cause=("CUDA release", framework, checking[0]),
            what=f"The wheel was built with another CUDA release than {framework}, and {checking[0]} checks that.",
            why="The check raises an error, so the import fails.",
            fix=f"Install the build of the package for the CUDA release of {framework}, or build both with one "
            "release.",
        )


_NOT_LINUX = {"case", "path on Windows"}  # surprises only users of other systems


def _kinds(wheel: WheelFacts) -> Iterator[tuple[Kind, list[Refusal]]]:
    """Yield each kind with its refusals."""
    for name, refusals in grouped((refusal.kind, refusal) for refusal in wheel.refusals).items():
        if name not in _NOT_LINUX or not all("linux" in platform for platform in wheel.platforms):
            yield kind(name), refusals


def _refusal(found: Rule, wheel: WheelFacts, row: Kind, refusals: list[Refusal]) -> Finding:
    """Return the finding of a kind."""
    return found.finding(
        wheel.name,
        [
            Subject(file=r.member, item=r.kind, detail=row.sentence(r), facts=facts_of(**r.facts))
            for r in refusals
        ],
        severity=row.severity or ("warning" if row.by == ("PyPI",) else "error"),  # it is not the only index
        cause=(refusals[0].kind,),
        what=row.what,
        why=" ".join(text for text in (_refusers(row), row.why) if text),
        fix=row.fix,
    )


def _refusers(row: Kind) -> str:
    """Return a sentence about the indexes and installers that refuse the wheel."""
    installers = [name for name in row.by if name != "PyPI"]
    installing = (
        f"{' and '.join(installers)} {'refuse' if len(installers) > 1 else 'refuses'} to install the wheel"
    )
    installing += {"": "", "index": " from an index", "file": " from a file"}[row.uv]
    parts = ["PyPI refuses the upload"] if "PyPI" in row.by else []
    return f"{', and '.join([*parts, installing] if installers else parts)}." if row.by else ""


@rule("GF712", "error", "a package index or an installer refuses the wheel", applies_to=ARCHIVES)
def refused(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Report each kind of refusal, and which indexes and installers refuse."""
    yield from (_refusal(refused, wheel, row, refusals) for row, refusals in _kinds(wheel) if row.by)


@rule("GF713", "warning", "a file is not installed as it looks in the wheel", applies_to=ARCHIVES)
def surprising(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Report each kind, and how installers treat such files."""
    yield from (_refusal(surprising, wheel, row, refusals) for row, refusals in _kinds(wheel) if not row.by)
