"""Write what the packages themselves say into `gpuforge/cuda/data/carriers.toml`.

Run by a maintainer, never by a build: `python scripts/refresh_carriers.py [--check] [PACKAGE…]`. Which packages and
ranges of releases have a row, and what their import loads, is decided in the file; `brings` is read from the
releases of the row's `known`, and a library row's `sonames` from its folder in the wheel. A row whose packages do not
say it (their files are not on PyPI, or they name more than counts) has `by-hand`, the reason, and is left alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from pypi_wheels import Wheel, metadata_of, wheels_of
from refresh_toolkits import quoted

from gpuforge.wheel import metadata

CARRIERS = Path(__file__).parents[1] / "gpuforge" / "cuda" / "data" / "carriers.toml"
LIBRARIES = Path(__file__).parents[1] / "gpuforge" / "cuda" / "data" / "libraries.toml"
PINNED_TO_A_MAJOR = "cuda-toolkit"
NVIDIA = re.compile(
    r"nvidia-(?!ml-py$)"
)  # its packages, but for the bindings of NVML, which are Python alone


@dataclass(frozen=True)
class Difference:
    """A row that says something else than its package does."""

    title: str  # "carrier torch >=2.15"
    key: str  # "brings"
    recorded: tuple[str, ...]
    found: tuple[str, ...]

    def __str__(self) -> str:
        """Write it on one line."""
        return f"{self.title}: {self.key} is {quoted(set(self.recorded))}, the package has {quoted(set(self.found))}"


def rows(table: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every row that is read from a package, with its kind."""
    for kind in ("carrier", "library"):
        yield from ((kind, row) for row in table[kind] if "by-hand" not in row)


def compare(table: Mapping[str, Any], packages: Sequence[str] = ()) -> Iterator[Difference]:
    """Yield what the rows say differently than the packages, of all packages or those named."""
    counted = _counted(table)
    for kind, row in rows(table):
        if packages and row["package"] not in packages:
            continue
        key = "brings" if kind == "carrier" else "sonames"
        found = brings(row, counted) if kind == "carrier" else sonames(row)
        if set(found) != set(row[key]):
            title = " ".join(
                [kind, row["package"], row.get("extra", ""), row.get("versions", row.get("folder", ""))]
            )
            yield Difference(title, key, tuple(row[key]), found)


def _counted(table: Mapping[str, Any]) -> frozenset[str]:
    """Return the packages whose libraries matter: those with CUDA libraries, and those with a row here."""
    toolkit = tomli.loads(LIBRARIES.read_text())["package"]
    mine = [*table["carrier"], *table["library"]]
    return frozenset(row["package"] for row in [*toolkit, *mine]) | {PINNED_TO_A_MAJOR}


def brings(row: Mapping[str, Any], counted: frozenset[str]) -> tuple[str, ...]:
    """Return what all of a row's known releases require of the packages that count, on Linux; as the newest says it."""
    of_each = [_required(row, release, counted) for release in row["known"]]
    names = [{Requirement(line).name for line in lines} for lines in of_each]
    return tuple(line for line in of_each[-1] if all(Requirement(line).name in each for each in names))


def _required(row: Mapping[str, Any], release: str, counted: frozenset[str]) -> tuple[str, ...]:
    machine = row.get("machines", ["x86_64"])[0]
    extra, environment = row.get("extra", ""), metadata.marker_environment(machine, "3.12")
    wheel = _wheel(row["package"], release, machine)
    found = []
    for line in metadata_of(wheel).get_all("Requires-Dist", ()):
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        # what is required without the row's extra, too, belongs to the row without one
        of_row = metadata.holds(requirement.marker, environment, extra) and not (
            extra and metadata.holds(requirement.marker, environment)
        )
        if of_row and (name in counted or NVIDIA.match(name)):
            found.append(_written(requirement, name))
    return tuple(dict.fromkeys(found))


def _written(requirement: Requirement, name: str) -> str:
    """Write a requirement as a row does: the toolkit by its major, NVIDIA's packages by their name."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    if name == PINNED_TO_A_MAJOR:
        (major,) = {
            Version(s.version.removesuffix(".*")).major for s in requirement.specifier if s.operator != "<"
        }
        return f"{name}{extras}=={major}.*"
    return f"{name}{extras}{_range(requirement) if name == 'torch' else ''}"


def _range(requirement: Requirement) -> str:
    return ",".join(sorted(str(specifier) for specifier in requirement.specifier))


def sonames(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the shared libraries in a library row's folder, in the release that its source names."""
    release = row["source"].removesuffix("#files").rstrip("/").rpartition("/")[2]
    if release == row["package"]:
        release = list(wheels_of(release))[-1]
    with _wheel(row["package"], release, "x86_64").archive() as archive:
        pattern = re.compile(rf"^{re.escape(row['folder'])}/(lib[^/]+\.so(?:\.[0-9]+)*)$")
        return tuple(sorted(match[1] for name in archive.namelist() if (match := pattern.match(name))))


def _wheel(package: str, release: str, machine: str) -> Wheel:
    wheels = [wheel for wheel in wheels_of(package).get(release, ()) if wheel.serves(machine)]
    if not wheels:
        raise LookupError(f"{package} {release} has no wheel for {machine} on PyPI")
    return wheels[-1]


def main(arguments: Sequence[str]) -> int:
    """Compare all rows, or those of the packages named; without `--check`, write what differs."""
    text = CARRIERS.read_text()
    packages = [name for name in arguments if not name.startswith("-")]
    found = list(compare(tomli.loads(text), packages))
    for difference in found:
        print(difference)
    if "--check" in arguments:
        return int(bool(found))
    CARRIERS.write_text(rewritten(text, found))
    return 0


def rewritten(text: str, found: Sequence[Difference]) -> str:
    """Return the file's text with the values of these rows replaced; comments and order stay."""
    for difference in found:
        kind, package, *_ = difference.title.split(" ")
        for block in re.findall(rf"\[\[{kind}\]\]\npackage = \"{package}\"\n(?:[^\[\n].*\n|\]\n)*", text):
            row = tomli.loads(block)[kind][0]
            if tuple(row[difference.key]) == difference.recorded:
                lines = "".join(f'  "{name}",\n' for name in difference.found)
                value = f"{difference.key} = [\n{lines}]\n" if lines else f"{difference.key} = []\n"
                changed = re.sub(
                    rf"^{difference.key} = \[(?:[^\]\"]|\"[^\"]*\")*\]\n", value, block, flags=re.MULTILINE
                )
                text = text.replace(block, changed, 1)
                break
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
