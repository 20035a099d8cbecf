"""METADATA of a wheel: its requirements and its name, changed line by line so that all else stays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gpuforge.errors import ActionError


def read(file: Path) -> bytes:
    """Return a metadata file's bytes; raises ActionError when the wheel has none."""
    try:
        return file.read_bytes()
    except FileNotFoundError as error:
        raise ActionError.of(
            f"{file.parent.name} has no {file.name} file", hint="check the project's build"
        ) from error


def value(text: bytes, header: str) -> str:
    """Return the value of a header that must be there; raises ActionError."""
    found = BytesHeaderParser().parsebytes(text)[header]
    if not found:
        raise ActionError.of(f"METADATA has no {header}", hint="check the project's build")
    return str(found).strip()


def requirements(text: bytes) -> list[Requirement]:
    """Return what Requires-Dist lines say; raises ActionError for one that cannot be understood."""
    found = []
    for line in BytesHeaderParser().parsebytes(text).get_all("Requires-Dist", []):
        try:
            found.append(Requirement(" ".join(str(line).split())))
        except InvalidRequirement as error:
            raise ActionError.of(
                f"METADATA has a Requires-Dist that is not valid: {line}",
                hint="correct the project's dependencies",
            ) from error
    return found


def requirement_for(package: str, linked: str) -> Requirement:
    """Return the requirement for a library that a wheel was linked with at version `linked`.

    From its major.minor on, as what was there at link time must be there at run time, and below the next
    major version, which has another SONAME: "nvidia-cufft" at "12.0.0.61" gives "nvidia-cufft<13,>=12.0".
    """
    try:
        version = Version(linked)
    except InvalidVersion as error:
        raise ActionError.of(
            f"the toolkit says {package} is at {linked!r}, which is no version",
            hint="provision the toolkit again",
        ) from error
    return Requirement(f"{package}>={version.major}.{version.minor},<{version.major + 1}")


def require(
    text: bytes,
    linked: Mapping[str, str | None],
    *,
    extra: str | None = None,
    proved: Mapping[str, Bounds] | None = None,
) -> tuple[bytes, list[str]]:
    """Add a Requires-Dist for each package of `linked` (name → version it was linked with, None if unknown).

    With `extra` the lines hold only where that extra is asked for. `proved` are bounds that were found out in the
    packages themselves; the others follow from the linked version. Returns the new METADATA and the lines
    added. Nothing is added where the project's own requirement says as much already. Raises ActionError when
    its own requirement shuts the linked version out, or when the version is unknown and the project requires
    nothing itself.
    """
    condition = f'; extra == "{extra}"' if extra else ""
    present = requirements(text)
    added: list[str] = []
    for package, version in sorted(linked.items()):
        own = [r for r in present if canonicalize_name(r.name) == canonicalize_name(package)]
        bounds = (proved or {}).get(package)
        if version is None and bounds is None:
            if not any(_holds(r, extra) for r in own):
                raise ActionError.of(
                    f"the wheel needs {package}, and the toolkit does not say at which version it was linked",
                    hint=f"require {package} in the project's own dependencies, with the versions that fit, "
                    "or use a toolkit that gpuforge fetches",
                )
            continue
        for requirement in own if version else ():
            _check(requirement, package, version or "")
        bounds = bounds or Bounds.after(requirement_for(package, version or ""))
        if not any(_holds(r, extra) and bounds.hold_in(r) for r in [*own, *_of_name(present, bounds.line)]):
            added.append(f"{bounds.line}{condition}")
    added = list(dict.fromkeys(added))
    return _insert(text, [f"Requires-Dist: {line}" for line in added]), added


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a package is required with: the line, and versions of the package that it must not let in."""

    line: str  # "nvidia-cufft>=12.0,<13"
    outside: tuple[str, ...]

    @classmethod
    def after(cls, wanted: Requirement) -> Bounds:
        """Make it of a requirement's own two bounds, probed at both ends."""
        bounds = {s.operator: Version(s.version) for s in wanted.specifier}
        low, high = bounds[">="], bounds["<"]
        below = f"{low.major}.{low.minor - 1}.99999" if low.minor else f"{low.major - 1}.99999"
        line = wanted.name + ",".join(sorted((str(s) for s in wanted.specifier), reverse=True))
        return cls(line, (below, str(high), f"{high}.99999"))

    def hold_in(self, own: Requirement) -> bool:
        """Tell if a requirement of the same project lets in nothing beyond the bounds."""
        line = Requirement(self.line)
        if canonicalize_name(own.name) == canonicalize_name(line.name) and line.extras:
            probes = [s.version for s in line.specifier if s.operator == "<"]
            floors = [Version(s.version) for s in line.specifier if s.operator == ">="]
            probes += [f"{floor.major - 1}.99999" for floor in floors if not floor.minor]
            probes += [f"{floor.major}.{floor.minor - 1}.99999" for floor in floors if floor.minor]
            return line.extras <= own.extras and not _lets_in(own, probes)
        return not _lets_in(own, self.outside)


def _lets_in(own: Requirement, versions: Sequence[str]) -> bool:
    return any(own.specifier.contains(version, prereleases=True) for version in versions)


def _of_name(present: Sequence[Requirement], line: str) -> list[Requirement]:
    """Return the requirements of the project that a line with extras is of: of the toolkits' metapackage."""
    wanted = Requirement(line)
    return [
        r for r in present if wanted.extras and canonicalize_name(r.name) == canonicalize_name(wanted.name)
    ]


def provide_extras(text: bytes, names: Sequence[str]) -> bytes:
    """Declare extras (`Provides-Extra`) that are not declared yet."""
    present = {
        canonicalize_name(str(name))
        for name in BytesHeaderParser().parsebytes(text).get_all("Provides-Extra", [])
    }
    return _insert(
        text, [f"Provides-Extra: {name}" for name in names if canonicalize_name(name) not in present]
    )


def add_requirements(text: bytes, lines: Sequence[str]) -> bytes:
    """Add Requires-Dist lines that are not there yet."""
    present = {str(requirement) for requirement in requirements(text)}
    new = [line for line in lines if str(Requirement(line)) not in present]
    return _insert(text, [f"Requires-Dist: {line}" for line in new])


def with_name(text: bytes, name: str) -> bytes:
    """Rename the distribution, also where it requires its own extras (`Requires-Dist: name[extra]`)."""
    old = canonicalize_name(value(text, "Name"))
    headers, rest = _split(text)
    lines = _replaced(headers, b"Name", name).splitlines(keepends=True)
    for index, line in enumerate(lines):
        found = re.match(rb"(Requires-Dist:\s*)([A-Za-z0-9._-]+)", line, re.IGNORECASE)
        if found and canonicalize_name(found[2].decode()) == old:
            lines[index] = found[1] + name.encode() + line[found.end() :]
    return b"".join(lines) + rest


def with_version(text: bytes, version: str) -> bytes:
    """Give the distribution another version."""
    headers, rest = _split(text)
    return _replaced(headers, b"Version", version) + rest


def _check(own: Requirement, package: str, linked: str) -> None:
    if not own.specifier.contains(linked, prereleases=True):
        raise ActionError.of(
            f"the project requires {own}, but the wheel was linked with {package} {linked}",
            hint="correct the project's dependencies, or build with a toolkit that they allow",
        )


def _holds(own: Requirement, extra: str | None) -> bool:
    """Tell if a requirement holds always, or wherever `extra` is asked for."""
    if own.marker is None:
        return True
    said = re.fullmatch(r"extra == [\"']([^\"']+)[\"']", str(own.marker))
    return bool(said and extra and canonicalize_name(said[1]) == canonicalize_name(extra))


def _split(text: bytes) -> tuple[bytes, bytes]:
    """Split METADATA into its headers (the last newline included) and the rest, from the blank line on."""
    end = re.search(rb"\n(?=\r?\n)", text)
    if end:
        return text[: end.end()], text[end.end() :]
    return (text, b"") if text.endswith(b"\n") else (text + b"\n", b"")


def _newline(headers: bytes) -> bytes:
    return b"\r\n" if headers.split(b"\n", 1)[0].endswith(b"\r") else b"\n"


def _replaced(headers: bytes, header: bytes, new: str) -> bytes:
    line = header + b": " + new.encode()
    return re.sub(rb"(?im)^" + header + rb":[^\r\n]*", lambda _: line, headers, count=1)


def _insert(text: bytes, lines: list[str]) -> bytes:
    """Put header lines behind the last Requires-Dist, or at the end of the headers."""
    if not lines:
        return text
    headers, rest = _split(text)
    newline = _newline(headers)
    ends = [found.end() for found in re.finditer(rb"(?im)^Requires-Dist:[^\n]*\n(?:[ \t][^\n]*\n)*", headers)]
    at = ends[-1] if ends else len(headers)
    return headers[:at] + b"".join(line.encode() + newline for line in lines) + headers[at:] + rest
