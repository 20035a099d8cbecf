"""`gpuforge index`: a static package index of wheels, refused where it would mislead its users."""

import difflib
import json
import os
import pickle
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from gpuforge import digest, disk
from gpuforge.audit import audit
from gpuforge.audit.judge import Ignore, WheelReport
from gpuforge.audit.link.installed import cuda_major
from gpuforge.cli import bounded
from gpuforge.cli.audit import ignored
from gpuforge.cli.folders import unwritable
from gpuforge.cli.options import FOLDER, PATH, Call, pass_call
from gpuforge.cli.terminal import count, result, say
from gpuforge.cpython import CPython
from gpuforge.cuda.suffix import major_of_local, major_of_suffix
from gpuforge.diagnostics import Diagnostic, shortened
from gpuforge.errors import ActionError, MissingError, UsageError
from gpuforge.package import variants
from gpuforge.wheel import filename, metadata, simple_index
from gpuforge.wheel.archive import Archive
from gpuforge.wheel.simple_index import IndexedFile

LISTING = "files.json"  # what the index has, for the next call
SCHEMA = 1
_TORCH = re.compile(r"torch\.?(\d+\.\d+)")


@click.command("index")
@click.argument("dist", nargs=-1, type=PATH, metavar="DIST...")
@click.option(
    "--output", "-o", "site", type=FOLDER, required=True, metavar="SITE", help="Folder of the index."
)
@click.option(
    "--base-url",
    metavar="URL",
    help="Where the files of this call lie, such as a release's downloads; without it they are copied into SITE.",
)
@click.option(
    "--yank", multiple=True, metavar="FILE=REASON", help="Mark a file of the index as not to be chosen."
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="RULE[:GLOB]=REASON",
    help="Accept findings of the audit, as `gpuforge audit --ignore` does.",
)
@click.option("--title", default="Wheels", help="Title of the page for people.")
@pass_call
def command(
    call: Call,
    /,
    dist: tuple[Path, ...],
    site: Path,
    base_url: str | None,
    yank: tuple[str, ...],
    ignore: tuple[str, ...],
    title: str,
) -> int:
    """Make a package index of the wheels in DIST (files or folders), or add them to the one in SITE.

    DIST may also be a list of release assets, as `gh release view TAG --json assets` prints it; these are not audited.
    pip and uv install from SITE/all, and from a folder for each CUDA and torch. Any web server can serve it.

    Refused, all of them at once and before anything is written: a wheel with errors of the audit, one whose name is for
    another CUDA than its content, and a file that differs from the one of the same name in the index.
    """
    if reason := unwritable(site):
        raise MissingError.of(
            f"{site} cannot be written: {reason}", hint="choose another folder with --output"
        )
    before = _read(site)
    paths = [*_files(dist)]
    assets = [path for path in paths if path.suffix == ".json"]
    wheels = [path for path in paths if path.suffix == ".whl"]
    own = [path for path in paths if path not in assets]
    if twice := [name for name, count in Counter(path.name for path in own).items() if count > 1]:
        raise UsageError.of(
            f"{twice[0]} is given twice", hint="an index has one file of a name: leave one out"
        )
    if not dist and not before:
        raise UsageError.of(f"{site} is not an index yet", hint="name wheels, or folders with wheels")
    new, problems = _bounded(wheels, tuple(map(ignored, ignore)), call)
    new += [_sdist(path) for path in own if path.suffix != ".whl"]
    new += [each for path in assets for each in _assets(path)]
    if base_url:
        here = {path.name for path in own}
        new = [
            replace(e, url=f"{base_url.rstrip('/')}/{quote(e.name)}", metadata="") if e.name in here else e
            for e in new
        ]
    indexed = _merged(before, new, yank, problems)
    for path in own if not base_url else ():
        _copy(path, site / "files")
    indexed += list(_variants(site / "files", indexed))
    _write(site, indexed, title)
    for choice, some in simple_index.choices(indexed).items():
        result([f"{site / choice}: {count(len(some), 'file')}\n"])
    say(
        f"any web server can serve {site}: people open index.html; "
        "pip takes --extra-index-url ADDRESS/all, uv --index ADDRESS/all"
    )
    return 0


def _files(dist: Iterable[Path]) -> Iterator[Path]:
    for path in dist:
        if not path.exists():
            raise UsageError.of(f"{path} does not exist", hint="name wheels, or folders with wheels")
        found = sorted(path.iterdir()) if path.is_dir() else [path]
        some = [each for each in found if each.name.endswith((".whl", ".tar.gz")) or not path.is_dir()]
        if not some:
            raise UsageError.of(f"{path} has no wheel", hint="name wheels, or folders with wheels")
        yield from some


_Judged = tuple[list[IndexedFile], list[Diagnostic]]


def _bounded(wheels: Sequence[Path], accepted: Sequence[Ignore], call: Call) -> _Judged:
    """Audit the wheels in a process with the limits of `gpuforge audit`."""
    if not wheels or not call.limited:
        return _judged(wheels, accepted)
    with tempfile.TemporaryFile() as answer:

        def work(watched: bounded.Watched) -> int:
            answer.seek(0)
            pickle.dump(_judged(wheels, accepted, watched), answer)
            answer.flush()
            return 0

        if bounded.run(work):
            raise UsageError.of("the wheels were not judged", hint="name fewer wheels at once")
        answer.seek(0)
        judged: _Judged = pickle.load(answer)  # noqa: S301  of this program's own child
        return judged


def _judged(
    wheels: Sequence[Path], accepted: Sequence[Ignore], watched: bounded.Watched | None = None
) -> _Judged:
    """Audit the wheels; return them as files of the index, and what is wrong with them."""
    jobs = (watched and watched.jobs) or len(os.sched_getaffinity(0))
    report = audit(wheels, ignore=accepted, jobs=jobs, watch=watched)
    problems = list(report.problems)
    found = []
    by_name = {path.name: path for path in wheels}
    for each in report.wheels:
        path = by_name[each.facts.name]
        # an index offers wheels as alternatives: what only two of them together do wrong does not count
        errors = [one for one in each.findings if one.severity == "error" and not one.across]
        problems += [
            Diagnostic(
                f"{path.name}: {finding.code}: {finding.message}",
                hint=f"gpuforge audit {path} says how to mend it; --ignore {finding.code}=REASON accepts it",
            )
            for finding in errors
        ]
        if each.facts.too_large:
            continue
        with Archive(path) as archive:
            text = metadata.of_archive(archive)
        problems += _labels(path.name, each, text)
        try:
            found.append(_wheel(path, each, text))
        except ActionError as error:
            problems += (
                Diagnostic(f"{path.name}: {one.message}", hint=one.hint) for one in error.diagnostics
            )
    return found, problems


def _cuda_of(each: WheelReport) -> tuple[int | None, int | None]:
    """Return the CUDA major in a wheel's name, and the one that its libraries need."""
    label = major_of_suffix(each.facts.project) or major_of_local(each.facts.version)
    return label, cuda_major(name for binary in each.facts.objects for name in binary.needed)


def _labels(name: str, each: WheelReport, text: bytes) -> Iterator[Diagnostic]:
    label, content = _cuda_of(each)
    if label and content and label != content:
        yield Diagnostic(
            f"{name}: its name is for CUDA {label}, and its libraries need CUDA {content}",
            hint="build it again with that toolkit, or give it the right name",
        )
    torch = _TORCH.search(each.facts.version.partition("+")[2])
    for required in _of_torch(text) if torch else ():
        if torch and not any(required.specifier.contains(f"{torch[1]}.{patch}") for patch in range(20)):
            yield Diagnostic(
                f"{name}: its name is for torch {torch[1]}, and it requires {required}",
                hint="build it again beside that torch, or give it the right name",
            )


def _of_torch(text: bytes) -> list[Requirement]:
    return [each for each in metadata.requirements(text) if canonicalize_name(each.name) == "torch"]


def _wheel(path: Path, each: WheelReport, text: bytes) -> IndexedFile:
    claims = filename.claims(path.name)
    label, content = _cuda_of(each)
    return IndexedFile(
        path.name,
        claims.project,
        claims.version,
        digest.of_file(path),
        path.stat().st_size,
        metadata.field(text, "Requires-Python"),
        digest.of_bytes(text),
        python=_python(path.name),
        cuda=str(label or content or ""),
        torch=_torch(claims.version, text),
        signed=path.with_name(f"{path.name}.asc").is_file(),
    )


def _python(name: str) -> str:
    """Return the Python in a wheel's name: "cp311" or "cp314t"; "" if it serves several."""
    tags = filename.claims(name).tags
    pythons = {tag.abi for tag in tags if CPython.of_tag(tag.abi)}
    return pythons.pop() if len(pythons) == 1 else ""


def _torch(version: str, text: bytes) -> tuple[str, ...]:
    """Return the series of torch that a wheel's version names, else those of a requirement that pins one."""
    if found := _TORCH.search(version.partition("+")[2]):
        return (found[1],)
    clauses = [each.specifier for each in _of_torch(text)]
    named = {
        ".".join(c.version.split(".")[:2]) for each in clauses for c in each if c.operator in {"==", ">="}
    }
    return tuple(
        sorted(
            one
            for one in named
            if any(each.contains(f"{one}.0") and not each.contains(_after(one)) for each in clauses)
        )
    )


def _after(series: str) -> str:
    major, minor = series.split(".")
    return f"{major}.{int(minor) + 1}.0"


def _sdist(path: Path) -> IndexedFile:
    project, version = _named(path.name)
    return IndexedFile(path.name, project, version, digest.of_file(path), path.stat().st_size)


def _named(name: str) -> tuple[str, str]:
    """Return project and version in the name of a wheel or an sdist; raises UsageError."""
    try:
        project, version, *_ = (
            parse_wheel_filename(name) if name.endswith(".whl") else parse_sdist_filename(name)
        )
    except (InvalidWheelFilename, InvalidSdistFilename) as error:
        raise UsageError.of(f"{name}: {error}", hint="an index has wheels and sdists") from error
    return project, str(version)


def _assets(path: Path) -> list[IndexedFile]:
    """Return the wheels and sdists in a list of release assets; raises UsageError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        listed = data["assets"] if isinstance(data, dict) else data
        return [_asset(each) for each in listed if each["name"].endswith((".whl", ".tar.gz"))]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "expected what `gh release view TAG --json assets` prints: name, size, url and digest of each"
        raise UsageError.of(f"{path} is no list of release assets: {error}", hint=hint) from error


def _asset(given: dict[str, Any]) -> IndexedFile:
    name, kind_and_sum = given["name"], str(given.get("digest") or "")
    if not kind_and_sum.startswith("sha256:"):
        raise UsageError.of(f"{name}: the list has no sha256 of it", hint='it needs "digest": "sha256:…"')
    project, version = _named(name)
    return IndexedFile(
        name,
        project,
        version,
        kind_and_sum.removeprefix("sha256:"),
        int(given["size"]),
        url=given.get("browser_download_url") or given["url"],
        python=_python(name) if name.endswith(".whl") else "",
        cuda=str(major_of_suffix(project) or major_of_local(version) or ""),
        torch=_torch(version, b"Metadata-Version: 2.1\n\n"),
    )


def _merged(
    before: Sequence[IndexedFile], new: Sequence[IndexedFile], yank: Sequence[str], problems: list[Diagnostic]
) -> list[IndexedFile]:
    """Return the files of the index with the new ones; raises UsageError for all that is wrong."""
    found = {each.name: each for each in before}
    changed = [each.name for each in new if each.name in found and found[each.name].sha256 != each.sha256]
    if changed:
        hint = "a released file never changes: give the new one another version"
        problems.append(
            Diagnostic(f"{shortened(changed)}: in the index with another content already", hint=hint)
        )
    for each in new:
        found[each.name] = replace(each, yanked=found[each.name].yanked) if each.name in found else each
    for text in yank:
        name, _, reason = text.partition("=")
        if name in found:
            found[name] = replace(found[name], yanked=reason)
        else:
            near = difflib.get_close_matches(name, found, n=1)
            hint = (
                f"did you mean {near[0]}?"
                if near
                else f"write FILE=REASON; {LISTING} lists the index's files"
            )
            problems.append(Diagnostic(f"--yank {name}: the index has no such file", hint=hint))
    if problems:
        raise UsageError.all_of(problems)
    return [found[name] for name in sorted(found)]


def _read(site: Path) -> list[IndexedFile]:
    file = site / LISTING
    if not file.exists():
        return []
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return [IndexedFile(**{**each, "torch": tuple(each["torch"])}) for each in data["files"]]
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError.of(
            f"{file} is not the list of an index: {error}", hint="choose another folder"
        ) from error


def _copy(path: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for each in (path, path.with_name(f"{path.name}.asc")):
        if each.is_file():
            with disk.appearing(folder / each.name) as target, each.open("rb") as source:
                shutil.copyfileobj(source, target)
    if path.suffix == ".whl":
        with Archive(path) as archive, disk.appearing(folder / f"{path.name}.metadata") as target:
            target.write(metadata.of_archive(archive))


def _variants(folder: Path, indexed: list[IndexedFile]) -> Iterator[IndexedFile]:
    """Write the file that lists a release's variants, for each release that has some here."""
    releases = {
        release: each for each in indexed if not each.url and (release := variants.release_of(each.name))
    }
    for name, text in variants.index(folder, releases).items():
        disk.write_text(folder / name, text)
        of = releases[name.removesuffix("-variants.json")]
        indexed[:] = [each for each in indexed if each.name != name]
        yield IndexedFile(name, of.project, of.version, digest.of_bytes(text.encode()), len(text.encode()))


def _write(site: Path, indexed: Sequence[IndexedFile], title: str) -> None:
    for path, text in simple_index.pages(indexed, title=title):
        file = site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        disk.write_text(file, text)
    listing = {"schema": SCHEMA, "files": [asdict(each) for each in indexed]}
    disk.write_text(site / LISTING, json.dumps(listing, indent=1) + "\n")
