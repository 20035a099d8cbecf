"""Finds the compiler of a toolchain in a suitable version, or chooses the first toolchain that has one."""

from __future__ import annotations

import glob
import os
import re
import shutil
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from ..arch import Arch
from ..driver import Probe, switched_off
from ..recipe import Recipe, UserToolchain
from .execute import MISSING, USAGE, Stopped, execute

_RELEASE = (Path("/etc/os-release"), Path("/usr/lib/os-release"))
_LIKE = {"rhel": "fedora", "centos": "fedora", "sles": "suse", "opensuse": "suse", "ubuntu": "debian"}


def how_to_install(toolchain: UserToolchain) -> str:
    """Return the command for this distribution's family, or where to get the compiler."""
    for name in families():
        if name in toolchain.install:
            return toolchain.install[name]
    return toolchain.install.get("", f"install {toolchain.program}")


def families(release: str | None = None) -> list[str]:
    """Return the distribution and those that it resembles, the nearest first, from the text of os-release.

    Format: https://www.freedesktop.org/software/systemd/man/latest/os-release.html
    """
    values = dict(line.partition("=")[::2] for line in (_text() if release is None else release).splitlines())
    words = f"{values.get('ID', '')} {values.get('ID_LIKE', '')}".replace('"', " ").replace("'", " ").split()
    return list(dict.fromkeys(name for word in words for name in (word, _LIKE.get(word, word))))


def _text() -> str:
    for file in _RELEASE:
        try:
            return file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return ""


ANSWER_S = 20  # seconds that a compiler may take to print its version


@dataclass(frozen=True)
class CompileInputs:
    """The inputs for compiling modules: this machine, the user's own sources, environment and time limit."""

    machine: Probe
    arch: Arch | None  # of the first GPU
    extra: Sequence[Path]
    env: Mapping[str, str]
    limit: float

    @property
    def no_gpu(self) -> str:
        why = switched_off(self.env) or self.machine.problem
        return "no GPU to compile for" + (f": {why}" if why else "")


@dataclass(frozen=True)
class Compiler:
    """A compiler on this machine that fits a toolchain; `version` is "" for a command."""

    family: str
    path: Path
    version: str

    def target(self, gpu: Arch) -> Arch:
        """Return the architecture of its code for a GPU."""
        return gpu

    @property
    def label(self) -> str:
        """Its name for people: "g++ 12.2.0"."""
        return f"{self.family} {self.version}" if self.version else str(self.path)


class LibraryCompiler(Compiler, ABC):
    """A compiler that is called as a library, and whose images also stay in the kernel cache."""

    @abstractmethod
    def image(
        self, recipe: Recipe, toolchain: UserToolchain, here: CompileInputs, stem: str, file: Path
    ) -> bytes:
        """Return the machine code of one source; raises Stopped."""


@dataclass(frozen=True)
class Absent:
    """No compiler fits a toolchain; `refused` has the reason for each that was found.

    `lacks_gpu`: no compiler was looked for, because there is no GPU to compile for.
    """

    toolchain: UserToolchain
    refused: tuple[str, ...]
    lacks_gpu: bool = False


def find(toolchain: UserToolchain, env: Mapping[str, str], *, path: str = "") -> Compiler | Absent:
    """Return the first compiler that fits: the plain name, then versioned names, the newest first.

    `path` (a file, or a name on PATH) is the only one to consider. A command is looked for beside this Python first, as
    programs from pip there belong to the installed packages.
    """
    if toolchain.by_command:
        folders = os.pathsep.join([sysconfig.get_path("scripts"), env.get("PATH", os.defpath)])
        program = shutil.which(path or toolchain.argv[0], path=folders)
        return Compiler(toolchain.argv[0], Path(program), "") if program else Absent(toolchain, ())
    refused: list[str] = []
    for candidate in _candidates(toolchain, env, path):
        version = _version(candidate, toolchain, env, refused)
        if version and _offloads(candidate, toolchain, env, refused):
            return Compiler(toolchain.family, candidate, version)
    return Absent(toolchain, tuple(refused))


def _candidates(toolchain: UserToolchain, env: Mapping[str, str], path: str) -> Iterator[Path]:
    if path:
        program = shutil.which(os.path.expanduser(path), path=env.get("PATH"))
        yield Path(program or path).absolute()
        return
    places: list[str] = []
    for pattern in _places(toolchain, env):
        places += sorted(glob.glob(pattern), key=numbers, reverse=True)  # the newest first
    seen: set[Path] = set()
    for folders in ([folder for folder in env.get("PATH", "").split(os.pathsep) if folder], places):
        for found in _programs(re.compile(toolchain.programs), folders):
            place = found.parent.resolve() / found.name
            if place not in seen:
                seen.add(place)
                yield found


def _places(toolchain: UserToolchain, env: Mapping[str, str]) -> list[str]:
    homes = [env[name] for name in ("CUDA_HOME", "CUDA_PATH", "NVHPC_ROOT") if env.get(name)]
    return [
        *(f"{glob.escape(home)}/{sub}" for home in homes for sub in ("bin", "compilers/bin")),
        *toolchain.places,
    ]


def _programs(names: re.Pattern[str], folders: Sequence[str]) -> Iterator[Path]:
    versioned = []
    for folder in folders:
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            match = names.fullmatch(entry)
            if match and match.groupdict().get("version"):
                versioned.append((numbers(match["version"]), Path(folder, entry)))
            elif match:
                yield Path(folder, entry)
    yield from (program for _, program in sorted(versioned, key=lambda pair: pair[0], reverse=True))


def _version(program: Path, toolchain: UserToolchain, env: Mapping[str, str], refused: list[str]) -> str:
    """Return the version of a program of the toolchain's family and range; else add the reason to `refused`."""
    output, reason = _ask(program, ["--version"], env)
    match = re.search(toolchain.answers, output) if not reason else None
    if match is None:
        refused.append(f"{program}: {reason or 'is not ' + toolchain.family}")
        return ""
    version = match["version"]
    if not all(holds(operator, bound, numbers(version)) for operator, bound in toolchain.accepts):
        refused.append(f"{program}: version {version} is not {toolchain.version}")
        return ""
    return version


def _offloads(program: Path, toolchain: UserToolchain, env: Mapping[str, str], refused: list[str]) -> bool:
    """Return whether GCC's offload compiler is there; without it, GPU code is silently left out."""
    if not toolchain.offload:
        return True
    tool = f"accel/{toolchain.offload}/mkoffload"
    output, _ = _ask(program, [f"-print-prog-name={tool}"], env)
    if os.path.isabs(output.strip()):
        return True
    refused.append(f"{program}: has no offload compiler for {toolchain.offload}")
    return False


def _ask(program: Path, arguments: Sequence[str], env: Mapping[str, str]) -> tuple[str, str]:
    """Return a program's output, or why there is none."""
    try:
        ended = execute([str(program), *arguments], env={**env, "LC_ALL": "C"}, limit=ANSWER_S)
    except OSError as error:
        return "", f"cannot be run ({error.strerror})"
    if ended.status is None:
        return "", f"does not answer to {arguments[0]} within {ANSWER_S} s"
    output = ended.output.decode(errors="replace")
    if ended.status:
        first = next(iter(output.strip().splitlines()), "")[:300]
        return "", f"{arguments[0]} ended with exit status {ended.status}" + (f": {first}" if first else "")
    return output, ""


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers in a text: (12, 2, 0) of "12.2.0"."""
    return tuple(int(number) for number in re.findall(r"\d+", text))


def holds(operator: str, bound: tuple[int, ...], version: tuple[int, ...]) -> bool:
    """Return whether a version is within one bound of a range; see `gpuforge.toolchains.user_compilers.bounds`."""
    if operator.endswith("*"):
        same = _padded(version, len(bound))[: len(bound)] == bound
        return same == (operator == "==*")
    size = max(len(bound), len(version))
    have, want = _padded(version, size), _padded(bound, size)
    return {
        ">=": have >= want,
        "<=": have <= want,
        ">": have > want,
        "<": have < want,
        "==": have == want,
        "!=": have != want,
    }[operator]


def _padded(version: tuple[int, ...], size: int) -> tuple[int, ...]:
    return version + (0,) * (size - len(version))


Find = Callable[..., Union[Compiler, Absent]]  # from a toolchain and, as `path`, the file that the user names


def select(
    recipe: Recipe,
    requested: str,
    how_to_install: Callable[[UserToolchain], str],
    find: Find,
) -> tuple[UserToolchain, Compiler]:
    """Return a toolchain and its compiler. `requested` is "", a toolchain's name, or "NAME=PATH"; raises Stopped."""
    name, equals, path = requested.partition("=")
    toolchains = [toolchain for toolchain in recipe.toolchains if not name or toolchain.name == name]
    if not toolchains or (equals and not path):
        known = ", ".join(toolchain.name for toolchain in recipe.toolchains)
        raise Stopped(f"{recipe.name} has no toolchain {requested!r}; it has: {known}", USAGE)
    absent: list[Absent] = []
    for toolchain in toolchains:
        found = find(toolchain, path=path)
        if isinstance(found, Compiler):
            return toolchain, found
        absent.append(found)
    raise Stopped(_nothing(recipe, absent, how_to_install), MISSING)


def _nothing(recipe: Recipe, absent: list[Absent], how_to_install: Callable[[UserToolchain], str]) -> str:
    """Return one line: what was looked for, what was found instead, and what to install."""
    missing = [each for each in absent if not each.lacks_gpu]
    if not missing:
        return f"{recipe.name}: not compiled: this machine has {absent[0].refused[0]}"
    tried = [
        _described(each.toolchain) + (f" ({', '.join(each.refused)})" if each.refused else "")
        for each in absent
    ]
    easiest = missing[-1].toolchain
    install = how_to_install(easiest)
    if len(tried) == 1:
        return f"{recipe.name}: not compiled: no {tried[0]}: {install}"
    return (
        f"{recipe.name}: not compiled: found none of {'; '.join(tried)}. For {_described(easiest)}: {install}"
    )


def _described(toolchain: UserToolchain) -> str:
    offload = f" with offloading to {toolchain.offload}" if toolchain.offload else ""
    return f"{toolchain.program} {toolchain.version}".strip() + offload
