"""Finds a compiler on this machine: by explicit path, on PATH, or in the usual places."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from gpuforge.errors import MissingError, UsageError
from gpuforge.toolchain_names import OWN
from gpuforge.toolchains import registry
from gpuforge.toolchains.toolchain import Compiler, Family

ANSWER_S = 20  # seconds that a compiler may take to print its version


def detect(
    family: str,
    *,
    path: str | None = None,
    specifier: str | None = None,
    search: Sequence[Path] | None = None,
) -> Compiler:
    """Return the compiler of `family` to use, the plain name first, else the newest version that `specifier` allows.

    With `path` (a file, or a name to look up on PATH) only that one is considered; with `search`, only these folders
    instead of PATH and the usual places. Raises UsageError for an unknown family or an invalid specifier. Raises
    MissingError, with the places and the compilers found there, if nothing fits.
    """
    kind = family_of(family)
    looked = Looked(kind, _specifier(specifier))
    for candidate in _explicit(path, looked) if path else _candidates(kind, search):
        found = looked.compiler_at(candidate, _ask)
        if found is not None:
            return found
    places = ["PATH", *kind.places] if search is None else list(map(str, search))
    raise looked.failure(path or ", ".join(places) or "no folder")


def pick(
    family: str, answers: Mapping[Path, str], *, path: str | None, specifier: str | None, where: str
) -> Compiler:
    """Return the result of `detect` on a machine whose programs at `answers` print these texts for `--version`.

    `where` names the machine in the MissingError; `path` is a file of it, or a name to look up in its folders.
    """
    kind = family_of(family)
    looked = Looked(kind, _specifier(specifier))
    folders = list(dict.fromkeys(file.parent for file in answers))
    candidates = _candidates_in(
        kind, [(folder, [f.name for f in answers if f.parent == folder]) for folder in folders]
    )
    if path:
        candidates = iter([file for file in answers if path in {str(file), file.name}][:1])
    for candidate in candidates:
        found = looked.compiler_at(candidate, lambda file: Answer(answers[file]), answers.__contains__)
        if found is not None:
            return found
    raise looked.failure(f"{path} in {where}" if path else where)


def identities(path: Path) -> frozenset[str]:
    """Return a program's identities in the families that recognise it; empty if it does not print a version."""
    answer = _ask(path)
    parsed = (each.parse(answer.text) for each in families())
    return frozenset(found[1] for found in parsed if found)


def families() -> list[Family]:
    """Return the families of gpuforge's own toolchains whose programs are looked for on a machine."""
    found = (registry.toolchain(name).program for name in OWN)
    return [program for program in found if program]


def family_of(name: str) -> Family:
    """Return the family of a toolchain's program; raises UsageError for an unknown one, or one without a program."""
    program = registry.toolchain(name).program
    if program is None:
        known = ", ".join(each.name for each in families())
        raise UsageError.of(
            f"{name!r} is not a compiler that is looked for on a machine", hint=f"known: {known}"
        )
    return program


def _specifier(text: str | None) -> SpecifierSet:
    try:
        return SpecifierSet(text or "")
    except InvalidSpecifier:
        raise UsageError.of(f"not a version range: {text!r}", hint='write it as in ">=11,<15"') from None


@dataclass
class Looked:
    """The programs that were tried, for the message if none fits."""

    family: Family
    allowed: SpecifierSet
    refused: list[str] = field(default_factory=list)
    seen: set[Path] = field(default_factory=set)

    def compiler_at(
        self,
        path: Path,
        ask: Callable[[Path], Answer],
        is_file: Callable[[Path], bool] = Path.is_file,
    ) -> Compiler | None:
        """Return the compiler at `path` if its output for `ask` is of the family and its version fits."""
        # /bin is often a link to /usr/bin; the program itself may be a wrapper
        place = path.parent.resolve() / path.name
        if place in self.seen:
            return None
        self.seen.add(place)
        answer = ask(path)
        if answer.reason:
            self.refused.append(f"{path}: {answer.reason}")
            return None
        parsed = self.family.parse(answer.text)
        if parsed is None:
            first = answer.text.strip().partition("\n")[0]
            self.refused.append(f"{path}: is not {self.family.name} (it says {first!r})")
            return None
        version, identity = parsed
        if not self.allowed.contains(version, prereleases=True):
            self.refused.append(f"{path}: version {version} is not {self.allowed}")
            return None
        return Compiler(
            self.family.name, path, version, identity, self.family.c_compiler(path, is_file=is_file)
        )

    def failure(self, where: str) -> MissingError:
        """Return the error with the request, the places that were searched, and the compilers found there."""
        what = f"{self.family.name} {self.allowed}".strip()
        found = "; ".join(self.refused) or "nothing by that name there"
        hint = self.family.install
        if str(self.allowed) and ": version " in found:
            hint = f"install a version that is {self.allowed} (Debian and others have several), or widen the range"
        return MissingError.of(f"no usable {what}: looked at {where}; found: {found}", hint=hint)


def _explicit(path: str, looked: Looked) -> list[Path]:
    name = os.path.expanduser(path)  # noqa: PTH111 - Path would drop the "./" that tells a file from a name on PATH
    if os.sep not in name:
        found = shutil.which(name)
        if found is None:
            looked.refused.append(f"no program named {name} on PATH")
            return []
        name = found
    return [Path(name).absolute()]


def _candidates(family: Family, search: Sequence[Path] | None) -> Iterator[Path]:
    """Yield the plain names, then the versioned ones newest first, then the usual places newest first."""
    folders = list(search) if search is not None else [Path(p) for p in os.get_exec_path() if p]
    yield from _candidates_in(family, ((folder, _names(folder)) for folder in folders))
    if search is None:
        for pattern in family.places:
            for place in sorted(glob.glob(pattern), key=_numbers, reverse=True):  # noqa: PTH207 - absolute patterns
                yield from _candidates(family, [Path(place)])


def _candidates_in(family: Family, folders: Iterable[tuple[Path, Sequence[str]]]) -> Iterator[Path]:
    versioned: list[tuple[tuple[int, ...], Path]] = []
    for folder, names in folders:
        for name in names:
            match = family.programs.fullmatch(name)
            suffix = match.groupdict().get("version") if match else None
            if suffix:
                versioned.append((_numbers(suffix), folder / name))
            elif match:
                yield folder / name
    yield from (path for _, path in sorted(versioned, key=lambda v: v[0], reverse=True))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is needed
    except OSError:
        return []


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text))


class Answer(NamedTuple):
    """A program's output for `--version`, or why there is none."""

    text: str = ""
    reason: str = ""


def _ask(path: Path) -> Answer:
    """Run `path --version` and return its output, or why there is none."""
    if not path.exists():
        return Answer(reason="there is no such file")
    if path.is_dir() or not os.access(path, os.X_OK):
        return Answer(reason="is not an executable file")
    env = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [str(path), "--version"],
            capture_output=True,
            env=env,
            stdin=subprocess.DEVNULL,
            timeout=ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(reason=f"did not answer to --version within {ANSWER_S} s")
    except OSError as problem:
        return Answer(reason=f"cannot be run ({problem.strerror})")
    text = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        first = (done.stderr or done.stdout).decode(errors="replace").strip().partition("\n")[0]
        return Answer(
            reason=f"--version failed with exit status {done.returncode}" + (f": {first}" if first else "")
        )
    return Answer(text=text)
