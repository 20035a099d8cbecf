"""The libraries that a compiler, a toolkit or a folder of a user's machine brings into the process of a wheel."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpuforge.cuda import libraries, sonames
from gpuforge.errors import UsageError

_LARGEST = 20_000  # files of a folder that are looked at
_SYSTEM = {Path("/lib"), Path("/usr/lib"), Path("/lib64"), Path("/usr/lib64"), Path("/usr/local/lib")}
# https://docs.nvidia.com/hpc-sdk/hpc-sdk-install-guide/ : /opt/nvidia/hpc_sdk/Linux_x86_64/24.9/compilers/bin
_GCC = re.compile(r"(?:.+-)?(?:g\+\+|c\+\+|gcc|cc|gfortran)(?:-[\d.]+)?")
_HPC_SDK = re.compile(r"/Linux_\w+/(\d+\.\d+)/compilers(?:/|$)")


class Against(NamedTuple):
    """The libraries that come with a user's own build: `label` is the text of `--against`.

    `libraries` are file names or SONAMEs; a name that ends in ".so" means every version of it. `release` is the
    compiler's version, "" if it is not known.
    """

    label: str
    libraries: frozenset[str]
    release: str = ""
    compiler: str = ""  # of these libraries in any release, if no files of this one were looked at

    def brings(self, plain: str) -> tuple[str, ...]:
        """Return the libraries with the same name as `plain`, in any version: they are one library."""
        stem = sonames.stem(plain)
        return tuple(sorted(name for name in self.libraries if sonames.stem(name) == stem))

    def second_copies(self, name: str) -> tuple[str, ...]:
        """Return the libraries that the dynamic linker would load beside one that has the SONAME `name`.

        Two files of one SONAME are one image in a process; a hashed name and a plain one, and two majors, are two. A
        brought name without a version is another image than a hashed name; beside a plain name this is not known.
        """
        plain = sonames.plain_name(name)
        brought = self.brings(plain)
        if plain != name:
            return brought
        return tuple(other for other in brought if not _same_soname(plain, other))

    def other_versions(self, name: str) -> tuple[str, ...]:
        """Return the libraries that are loaded beside one of this name, unless this very name is brought."""
        return () if name in self.libraries else self.second_copies(name)


def _same_soname(plain: str, other: str) -> bool:
    """Return whether two plain names may be one SONAME: the same up to their major versions."""
    ours, theirs = (sonames.major(name) for name in (plain, other))
    return ours == theirs or not ours or not theirs


def parse(text: str) -> Against:
    """Read what `--against` names: "nvhpc@24.9", "toolkit:/usr/local/cuda", a folder, a compiler's path.

    Nothing is executed. Raises UsageError for an unknown name, and for a place without libraries.
    """
    if text.startswith("toolkit:"):
        return _toolkit(Path(text.removeprefix("toolkit:")))
    if "/" in text or Path(text).exists():
        path = Path(text)
        if path.is_dir():
            return _checked(f"the folder {path}", set(_below(path)), str(path), "no shared library in it")
        if path.is_file():
            return _compiler(path)
        raise _unusable(text, "there is no such file or folder")
    return _named(text)


def _named(text: str) -> Against:
    name, _, release = text.partition("@")
    names = libraries.runtimes_of(name)
    if not names:
        known = ", ".join(libraries.compiler_names())
        raise _unusable(text, f"{name!r} is not a compiler that gpuforge knows ({known})")
    if release and not re.fullmatch(r"\d+(\.\d+)*", release):
        raise _unusable(text, f"{release!r} is not a version such as 24.9")
    return Against(f"{name} {release}".rstrip(), names, release, name)


def _toolkit(root: Path) -> Against:
    folders = [root / name for name in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")]
    found = {name for folder in folders for name in _shared(folder) if libraries.is_toolkit_file(name)}
    return _checked(f"the toolkit {root}", found, f"toolkit:{root}", "no CUDA library in its lib64 or lib")


def _compiler(program: Path) -> Against:
    real = program.resolve()
    prefix = real.parent.parent
    release = match[1] if (match := _HPC_SDK.search(str(real))) else ""
    folders = [folder for folder in (prefix / "lib", prefix / "lib64") if folder.resolve() not in _SYSTEM]
    folders += sorted(prefix.glob("lib/gcc/*/*")) if _GCC.fullmatch(real.name) else []
    found = {name for folder in folders for name in _shared(folder)}
    return _checked(f"the compiler {program}", found, str(program), "no library beside it", release)


def _checked(label: str, names: set[str], text: str, problem: str, release: str = "") -> Against:
    if not names:
        raise _unusable(text, problem)
    return Against(label, frozenset(names), release)


def _shared(folder: Path) -> Iterator[str]:
    if folder.is_dir():
        yield from (path.name for path in sorted(folder.iterdir()) if _is_shared(path.name))


def _below(folder: Path) -> Iterator[str]:
    count = 0
    for _, _, files in os.walk(folder):
        count += len(files)
        if count > _LARGEST:
            raise _unusable(str(folder), f"there are more than {_LARGEST:,} files in it")
        yield from filter(_is_shared, files)


def _is_shared(name: str) -> bool:
    return re.fullmatch(r"lib.+\.so(\.\d+)*", name) is not None


def _unusable(text: str, problem: str) -> UsageError:
    return UsageError.of(
        f"--against {text}: {problem}",
        hint="write a compiler with its version (nvhpc@24.9), toolkit:/usr/local/cuda, a folder of libraries, "
        "or the path of a compiler",
    )
