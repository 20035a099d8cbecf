"""Host compilers of Debian's packages, for toolkits that refuse the machine's own; data/compilers.toml.

Only the compiler is fetched. Headers and start files of the C library, the assembler, the linker and the libstdc++ to
link with are the machine's, as the machine runs and tests the programs.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from gpuforge.datafile import load
from gpuforge.toolchains.detect import family_of
from gpuforge.toolchains.toolchain import Compiler
from gpuforge.toolkits import toolkit_tree
from gpuforge.toolkits.debian_parts import DebianPart, fetched
from gpuforge.toolkits.progress import Say, quiet

# The files that each program of GCC needs beside libc, and that it compiles and links with; MULTIARCH is
# "x86_64-linux-gnu" (https://wiki.debian.org/Multiarch/Tuples). A Debian or Ubuntu with any g++ has them all.
_OF_THE_MACHINE = (
    "usr/include/stdio.h",
    "usr/lib/MULTIARCH/crt1.o",
    "usr/lib/MULTIARCH/libstdc++.so.6",
    *(f"usr/lib/MULTIARCH/lib{name}" for name in ("isl.so.23", "mpc.so.3", "mpfr.so.6", "gmp.so.10")),
    "usr/bin/as",
    "usr/bin/ld",
)


@dataclass(frozen=True, slots=True)
class FetchedCompiler(Compiler):
    """A compiler that has to be fetched; `path` and `c_path` are relative to the folder that it is unpacked to."""

    suite: str = ""  # of Debian: "bookworm"
    glibc: str = ""  # the oldest that it runs on: "2.34"
    parts: tuple[DebianPart, ...] = ()

    @property
    def package(self) -> str:
        """The package with the compiler, and its version: "g++-11 11.3.0-12"."""
        return f"{self.parts[0].package} {self.parts[0].version}"

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(part.size for part in self.parts)


class Offer(NamedTuple):
    """A compiler that can be fetched, and its needs that the machine lacks: paths, or a newer glibc."""

    compiler: FetchedCompiler
    lacking: tuple[str, ...]


def multiarch(machine: str) -> str:
    """Return the name of Debian's folders for a machine type: "x86_64-linux-gnu"."""
    return f"{machine}-linux-gnu"


def offered(family: str, specifier: str, machine: str, root: Path = Path("/")) -> Offer | None:
    """Return the newest known compiler of `family` for a machine type and a version range."""
    listed = (c for c in _listed_compilers(machine) if c.family == family)
    fitting = (c for c in listed if c.version in SpecifierSet(specifier))
    found = max(fitting, key=lambda compiler: compiler.version, default=None)
    return Offer(found, tuple(_lacking(found, machine, root))) if found else None


def _lacking(compiler: FetchedCompiler, machine: str, root: Path) -> Iterator[str]:
    for name in _OF_THE_MACHINE:
        path = root / name.replace("MULTIARCH", multiarch(machine))
        if not path.exists():
            yield str(path)
    if (glibc := _glibc()) is None or Version(glibc) < Version(compiler.glibc):
        yield f"glibc {compiler.glibc} or newer"


def _glibc() -> str | None:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (OSError, ValueError):
        return None
    return version if name == "glibc" else None


@cache
def _listed_compilers(machine: str) -> tuple[FetchedCompiler, ...]:
    return tuple(_compiler(row, machine) for row in load(__file__, "compilers.toml")["compiler"])


def _compiler(row: dict[str, Any], machine: str) -> FetchedCompiler:
    debian: str = row["package-version"]
    version = debian.rpartition("-")[0]
    path = Path("usr/bin", row["package"])
    names = family_of(row["family"]).c_program
    return FetchedCompiler(
        row["family"],
        path,
        Version(version),
        f"{row['family']} (Debian {debian}) {version}",  # as in its own output for --version
        path.with_name(path.name.replace(*names)) if names else None,
        row["suite"],
        row["glibc"],
        DebianPart.of_rows(row["packages"], machine),
    )


_KEPT_STATIC = "libstdc++.a"  # for -static-libstdc++; the machine always has the shared one
_LEFT_OUT = ("lto-dump", "gcov")  # programs that builds do not call, of 25 MB


def provision_compiler(parts: Sequence[DebianPart], destination: Path, *, say: Say = quiet) -> None:
    """Download `parts`, whole packages, from a Debian mirror and unpack them below `destination`, as below "/".

    GCC finds its own programs and headers relative to itself, and the machine's C library. Raises the errors of
    `provision_debian`.
    """
    from gpuforge.toolkits import unpack  # noqa: PLC0415  plans fetch nothing

    with toolkit_tree.staged(destination) as partial:
        made = partial / "tree"
        made.mkdir()
        links: dict[PurePosixPath, str] = {}
        for _, file in fetched(parts, partial, say):
            unpack.unpack_deb(file, made, place, links=links)
        for link, target in links.items():
            if place(link) is not None:
                _link(made, link, target)
        toolkit_tree.settle_times(made)
    say(f"compiler ready in {destination}")


def place(path: PurePosixPath) -> PurePosixPath | None:
    """Return the place of a file of a compiler's packages: its own path, or None if no build needs it."""
    if path.parts[:2] == ("usr", "share"):
        return path if path.name == "copyright" else None
    if "plugin" in path.parts or any(word in path.name for word in _LEFT_OUT):
        return None
    return path


def _link(made: Path, link: PurePosixPath, target: str) -> None:
    """Make one link, to a file of the packages or, for a shared library that programs are linked with, of the machine.

    The archive beside such a link is removed, as the linker would silently use it if the machine lacks the library.
    """
    path = made / link
    path.parent.mkdir(parents=True, exist_ok=True)
    inside = PurePosixPath(os.path.normpath(link.parent / target))
    path.symlink_to(target if (made / inside).exists() else f"/{inside}")
    if path.suffix == ".so" and path.name != _KEPT_STATIC.replace(".a", ".so"):
        path.with_suffix(".a").unlink(missing_ok=True)
