"""The other rules of GF7xx: the files of a wheel."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from gpuforge.audit import layout
from gpuforge.audit.findings import Finding, Severity, Subject, facts_of
from gpuforge.audit.grafted_origin import sha256
from gpuforge.audit.layout import left_over_folder
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.link.requirement import can_coexist
from gpuforge.audit.model import ARCHIVES, PACKAGES, WheelFacts
from gpuforge.audit.rules.rule import Text, rule
from gpuforge.cuda.suffix import without_suffix
from gpuforge.grouping import grouped
from gpuforge.runtime.layout import GUARD

_EXPLAINED = {"no local header", "local name", "encrypted", "method"}  # reported as GF712


@rule("GF705", "error", "a file in the wheel is damaged", of_process=True)
def damaged_files(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Report files that cannot be unpacked, damaged ELF files, and damaged fatbin containers.

    The audit reads all binaries, metadata, and the Python code of wheels with libraries.
    """
    explained = {r.member for r in wheel.refusals if r.kind in _EXPLAINED}
    problems = {file: problem for file, problem in wheel.unread.items() if file not in explained}
    for file, problem in problems.items():
        detail = "{problem}" if isinstance(problem, str) else "damaged fatbin containers: {problem}"
        subject = Subject(file=file, detail=detail, facts=facts_of(problem=problem))
        text = _CORRUPT if file in wheel.corrupt else _UNREADABLE
        yield damaged_files.finding(wheel.name, subject, text=text)


_CORRUPT = Text(
    "Files of the wheel cannot be unpacked.",
    "pip refuses to install it.",
    "Download or build the wheel again. `python -m zipfile -t FILE` tests all of its files.",
)
_UNREADABLE = Text(
    "Files of the wheel cannot be read.",
    "They may not load, and the audit cannot check them.",
    "Check what wrote or changed them last: strip, patchelf, an interrupted copy.",
    "warning",
)


_LEAST = 1 << 20  # bytes that removing one copy would save


@rule("GF707", "warning", "the same file is in the wheel several times")
def stored_twice(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find members with the same size and checksum; wheels have no links, so each copy is stored and installed.

    Programs with several names only take space: these findings are for information.
    """
    programs = {o.file for o in wheel.objects if o.is_program}
    with_soname = {o.file for o in wheel.objects if o.soname}
    binary = {o.file for o in wheel.objects} | {code.file for code in wheel.device}
    alike: dict[tuple[int, int], list[str]] = {}
    for name, size in wheel.members.items():
        checksum = wheel.checksums.get(name, 0)  # files of a folder have none
        if checksum and name in binary:
            alike.setdefault((size, checksum), []).append(name)
    for (size, _), members in alike.items():
        if len(members) > 1 and size * (len(members) - 1) >= _LEAST:
            started = programs.issuperset(members)
            text = _STARTED if started else _NAMED if with_soname.intersection(members) else _OPENED
            yield stored_twice.finding(
                wheel.name,
                Subject(
                    file=members[0],
                    detail="{size:KiB} KiB, the same as",
                    facts=facts_of(size=size),
                    names=tuple(members[1:]),
                ),
                files=tuple(members),
                text=text,
                cause=(text.fix,),
            )


_COPIES = "The same binary is in the wheel under several names, often former symbolic links."
_TWICE = "Users download and install each copy, and two copies that are loaded do not share their data."
_STARTED = Text(
    "The same program is in the wheel under several names, often former symbolic links.",
    "Users download and install each copy.",
    "Keep one of them, and start it by this name.",
    "info",
)
_NAMED = Text(
    _COPIES, _TWICE, "Keep one file, which is named like its SONAME, and remove the others.", "warning"
)
_OPENED = Text(
    _COPIES,
    _TWICE,
    "Keep one of them, and let the code that opens the others open it by this name.",
    "warning",
)


# bytes: MAX_FILESIZE in https://github.com/pypi/warehouse/blob/main/warehouse/constants.py
_LIMIT = 100 << 20
_WORTH = 1 << 19  # bytes; less is written as 0 MiB
_MOST = 5


@rule(
    "GF708",
    "info",
    "the wheel is larger than what PyPI accepts by default",
    why="PyPI refuses the upload until it raises the limit for the project.",
    fix="Replace machine code of some architectures with PTX, compress the machine code (nvcc "
    "--compress-mode=size; with CUDA 12 it then needs driver 550), require CUDA's libraries instead of "
    "shipping them, or ask PyPI for a higher limit.",
    applies_to=ARCHIVES,
)
def large_wheel(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find wheels over 100 MiB, and the files, sections and architectures that take most of their bytes."""
    if wheel.size > _LIMIT:
        yield large_wheel.finding(
            wheel.name,
            tuple(
                Subject(item=topic, detail="{sizes:sizes}", facts=facts_of(sizes=large))
                for topic, table in sizes(wheel).items()
                if (large := tuple((name, size) for name, size in table if size >= _WORTH))
            ),
            what=f"The wheel is {-(-wheel.size // 2**20):,} MiB. PyPI accepts 100 MiB by default.",
        )


def sizes(wheel: WheelFacts) -> dict[str, list[tuple[str, int]]]:
    """Return the largest files, ELF sections and GPU architectures, each as (name, bytes in the installed wheel)."""
    sections: Counter[str] = Counter()
    for found in wheel.objects:
        for section in found.sections:
            sections[section.name] += section.size
    archs: Counter[str] = Counter()
    for code in wheel.device:
        for entry in (e for c in code.containers for e in c.entries):
            archs[f"{entry.target} PTX" if entry.kind == "ptx" else entry.target] += entry.stored
    return {
        "files": Counter(dict(wheel.members)).most_common(_MOST),
        "sections": [(name, size) for name, size in sections.most_common(_MOST) if name],
        "device code": archs.most_common(_MOST),
    }


_LIBRARY = r"\.so(?:\.[\d.]+)?$"
_MOST_IN_ONE_PLACE = 8  # wheels that the others are compared with: a thousand would be a million pairs


@rule("GF709", "error", "two packages install different files in the same place", applies_to=PACKAGES)
def overwritten(graph: LinkGraph) -> Iterator[Finding]:
    """Find paths that two wheels of the audit have with different bytes, and required packages that share a file.

    pip does not check this: the package that is installed last wins, and uninstalling either one removes the other's
    files. Equal files (the `__init__.py` of a namespace) may be in both.
    """
    packages = [wheel for wheel in graph.wheels if wheel.project]
    for (first, second), names in _shared(packages).items():
        one, other = packages[first], packages[second]
        if one.project != other.project and can_coexist(one, other):
            differing = [its for its, others in names if _differ(one, its, other, others)]
            if differing:
                yield _overwritten_finding(one, other, differing)
    for wheel in graph.wheels:
        yield from _required(graph, wheel)


def _shared(packages: Sequence[WheelFacts]) -> dict[tuple[int, int], list[tuple[str, str]]]:
    """Return the files that pairs of wheels install to the same path, by their names in each."""
    places: dict[str, list[tuple[int, str]]] = {}
    found: dict[tuple[int, int], list[tuple[str, str]]] = {}
    for index, wheel in enumerate(packages if len(packages) > 1 else ()):
        for name in wheel.members:
            have = places.setdefault(layout.install_path(name), [])
            for other, its in have:
                found.setdefault((other, index), []).append((its, name))
            if len(have) < _MOST_IN_ONE_PLACE:
                have.append((index, name))
    return found


def _differ(one: WheelFacts, name: str, other: WheelFacts, others: str) -> bool:
    """Return whether two files differ, by their checksums in the archives or, for files of a folder, by RECORD."""
    if one.members[name] != other.members[others]:
        return True
    checksums = one.checksums.get(name), other.checksums.get(others)
    digests = sha256(one, name), sha256(other, others)
    pair_of_hashes = next((pair for pair in (checksums, digests) if all(pair)), ())
    return len(set(pair_of_hashes)) > 1


def _overwritten_finding(one: WheelFacts, other: WheelFacts, names: list[str]) -> Finding:
    binary = {o.file for o in one.linked} | {code.file for code in one.device}
    # perhaps by their lists only
    listed = [wheel for wheel in (one, other) if not (wheel.objects or wheel.device)]
    code = [name for name in names if name.endswith(".py")]
    objects = [name for name in names if name in binary or (listed and re.search(_LIBRARY, name))]
    # builds of one release are audited side by side, but those beside another wheel are meant to be in its process
    beside = one.neighbour or other.neighbour
    builds = (
        not beside
        and one.version == other.version
        and without_suffix(one.project) == without_suffix(other.project)
    )
    guarded = builds and _guarded(one) and _guarded(other)
    least: Severity = "warning" if (objects or code) and not guarded else "info"
    shown = [*objects, *code, *names]
    return overwritten.finding(
        one.name,
        Subject(
            item=other.name,
            detail="{files:3}, also in {wheel}",
            facts=facts_of(wheel=one.name, files=tuple(dict.fromkeys(shown))),
        ),
        files=tuple(names),
        across=True,
        severity="error" if objects and not builds else least,
        cause=(builds, guarded),
        what="Two of these wheels install different files in the same place."
        + (" They are builds of one release, and only one belongs in an environment." if builds else ""),
        why="The wheel that pip installs last wins, and uninstalling either removes files of the other."
        + (" If both are installed, the import fails and names them." if guarded else ""),
        fix="Require only one of the two and document that they exclude each other, or give each an "
        "import package of its own.",
    )


def _guarded(wheel: WheelFacts) -> bool:
    """Return whether `gpuforge build` put its guard into a wheel (package/import_package.py)."""
    return any(f"/{GUARD}/" in name for name in wheel.members)


def _required(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find required packages for two CUDA majors that have the same file, as those of cuDNN and NCCL have."""
    always = {d.package: d for d in graph.required_always(wheel.name) if package_tables.files(d.package)}
    for one, other in combinations(sorted(always.values(), key=lambda d: d.package), 2):
        if one.via and one.lines[0] == other.lines[0]:
            continue  # reported for the wheel that requires both
        if shared := sorted(package_tables.files(one.package) & package_tables.files(other.package)):
            yield overwritten.finding(
                wheel.name,
                Subject(
                    detail="{files:3}: {0}, by {lines:lines}, and {1}, by {other_lines:lines}",
                    facts=facts_of(files=tuple(shared), lines=one.lines, other_lines=other.lines),
                    kind="shared files",
                    about=(one.package, other.package),
                ),
                severity="warning",
                what="Required packages install libraries for different CUDA versions under the same names.",
                why="The package that pip installs last wins, and the other one breaks.",
                fix="Limit the version of the package that brings the other CUDA version (torch), or require "
                "packages for that version.",
            )


@rule(
    "GF714",
    "error",
    "the wheel is too large to judge",
    what="The wheel needs more time or memory than the audit spends on a file of its size.",
    why="The audit stopped, and nothing is proved about the wheel. Files that are made to do this may be "
    "harmful.",
    fix="Do not install it unless you know who made it. If it is sound, report it as a bug of gpuforge.",
    of_process=True,
    of_too_large=True,
)
def too_large(_: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Report wheels whose budget ran out; it is the only finding of such a wheel."""
    if wheel.too_large:
        yield Subject(detail="too large to judge: {reason}", facts=facts_of(reason=wheel.too_large))


@rule(
    "GF715",
    "warning",
    "a left-over folder of a build is in the wheel",
    what="Left-over folders of builds are in the wheel.",
    why="Users download them, and nothing in them is imported or linked. Their files were not judged.",
    fix="Remove the folders before the build, and exclude them from the package.",
    applies_to=PACKAGES,
)
def left_over(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find folders of intermediate files; what lies in them was not read."""
    folders = grouped((folder, m) for m in wheel.members if (folder := left_over_folder(m)))
    for folder, members in folders.items():
        noun, size = "files" if len(members) > 1 else "file", sum(wheel.members[m] for m in members)
        facts = facts_of(count=len(members), files=noun, size=size)
        subject = Subject(file=folder, detail="{count} {files}, {size:KiB} KiB", facts=facts)
        command = f"rm -r {shlex.quote(folder)}"
        yield left_over.finding(wheel.name, subject, files=tuple(members), commands=(command,))


_COMMON = frozenset(
    [f"{name}{plural}" for name in ("test", "sample", "example", "doc", "benchmark") for plural in ("", "s")]
)


@rule(
    "GF716",
    "warning",
    "a top-level package has a name that many projects use",
    what="Top-level packages have names that many projects use.",
    why="Other packages install files into the same folders, so one overwrites the other, and users import the "
    "wrong one.",
    fix="Leave them out of the wheel ([tool.setuptools.packages.find] include), or move them into the project's "
    "own package.",
    applies_to=ARCHIVES,
)
def common_names(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find Python files in top-level folders with such names, unless the project itself is called so."""
    folders: dict[str, list[str]] = {}
    for member in wheel.members:
        place = layout.Folder.of(layout.install_path(member))
        if member.endswith(".py") and place.top in _COMMON - {wheel.project, place.path}:
            folders.setdefault(place.top, []).append(member)
    for folder, files in folders.items():
        subject = Subject(file=f"{folder}/", detail="Python files: {count}", facts=facts_of(count=len(files)))
        yield common_names.finding(wheel.name, subject, files=files)


_ACCEPT = "If it is left out on purpose, accept this with `--ignore`."
_LACKS_MODULES = Text(
    "Modules of {like} are missing here.",
    "Code that imports them fails with this wheel.",
    "Give the build what these parts need: what it did not find is in its log. " + _ACCEPT,
)
_LACKS_EXTRAS = Text(
    "Extras of {like} are missing here.",
    "pip only warns of such an extra, and installs the wheel without it.",
    "Add them to the project's metadata. " + _ACCEPT,
    "warning",
)
_LACKS_GPU_CODE = Text(
    "GPU code of {like} is missing here.",
    "Its GPUs run other code of this wheel, compile PTX at the first use, or run nothing.",
    "Build for these architectures, too. " + _ACCEPT,
    "warning",
)


@rule("GF717", "error", "the wheel lacks parts of the one that it is compared with")
def lacking(graph: LinkGraph) -> Iterator[Finding]:
    """Compare what users import, install and run; `report/comparison.py` has all other differences."""
    for name, like in graph.like.items():
        wheel = graph.wheel(name)
        theirs, ours = like.modules, wheel.modules
        missing = [each for each in theirs if each not in ours]
        inner = {each for each in missing if each.rpartition(".")[0] in missing}
        found = [(_LACKS_MODULES, Subject(file=theirs[e], item=e)) for e in missing if e not in inner]
        found += [(_LACKS_EXTRAS, Subject(item=each)) for each in sorted(like.extras - wheel.extras)]
        code = sorted(like.architectures - wheel.architectures)
        found += [(_LACKS_GPU_CODE, Subject(item=each)) for each in code]
        for text, subject in found:
            filled = text.filled(like=like.name)
            yield lacking.finding(name, subject, text=filled, cause=(text.what,))
