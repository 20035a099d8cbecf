"""The promises of platform tags: the policies that auditwheel ships.

The data are auditwheel's `manylinux-policy.json` and `musllinux-policy.json` (PEP 600 and 656, and the profiles kept by
the auditwheel project).
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import auditwheel

from gpuforge.binary.facts import ElfObject
from gpuforge.cuda.version import numbers_of
from gpuforge.datafile import load
from gpuforge.wheel.filename import LinuxTag

_LONGEST = 10  # digits of a number: hostile files have names of any length


class SymbolVersion(NamedTuple):
    """A symbol version. Those of one family are ordered by their numbers."""

    family: str  # "GLIBC", "GLIBCXX"
    numbers: tuple[int, ...]  # (2, 34); empty for a word
    release: str  # "2.34", "PRIVATE"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the name of a version; one without an underscore is a family without a release."""
        family, _, release = text.partition("_")
        parts = release.split(".")
        numeric = all(part.isascii() and part.isdecimal() and len(part) < _LONGEST for part in parts)
        return cls(family, tuple(map(int, parts)) if numeric else (), release)

    def __str__(self) -> str:
        return f"{self.family}_{self.release}" if self.release else self.family


def required_versions(binary: ElfObject) -> Iterator[tuple[str, SymbolVersion]]:
    """Yield each symbol version that an object requires, after the library that must have it."""
    for need in binary.version_needs:
        yield from ((need.library, SymbolVersion.parse(text)) for text in need.versions)


_ANDROIDS = {"libm.so", "libdl.so"}
# names that musl takes for itself, with any ending (ldso/dynlink.c, load_library)
_MUSLS = r"lib(?:c|pthread|rt|m|dl|util|xnet)\..*|ld-musl-.*\.so\.1"
# of objects with DT_RELR: a glibc without it does not apply their relocations
RELR = SymbolVersion.parse("GLIBC_ABI_DT_RELR")
PRIVATE = SymbolVersion.parse("GLIBC_PRIVATE")  # every glibc has it; its symbols change
_FLOORS = {"GLIBC", "GLIBCXX", "CXXABI"}
_LOADER = re.compile(
    r"ld(-linux.*|64|)\.so\.\d+|ld-musl-.*\.so\.1|libc\.musl-.*\.so\.1|libc\.so|linux-vdso\.so\.1"
)


class Policy(NamedTuple):
    """One manylinux policy: the libraries and versions on every machine that accepts its tag."""

    glibc: tuple[int, int]  # the version in its name
    versions: Mapping[str, Mapping[str, frozenset[str]]]  # machine -> "GLIBC" -> {"2.2.5", ...}
    libraries: frozenset[str]
    # library -> the symbols that some system's lacks, or that it keeps for itself
    forbidden: Mapping[str, frozenset[str]]

    @property
    def name(self) -> str:
        """Its name: "manylinux_2_17"."""
        return "manylinux_{}_{}".format(*self.glibc)

    def lacking(self, needed: Iterable[str]) -> frozenset[str]:
        """Return the libraries among these that newer systems have and this policy does not promise."""
        return system_libraries().intersection(needed) - self.libraries

    def refused(self, binary: ElfObject, library: str) -> frozenset[str]:
        """Return the symbols that an object uses of a library although this policy forbids it."""
        return binary.undefined(library) & self.forbidden.get(library, frozenset())

    def missing(self, binary: ElfObject, machine: str) -> set[SymbolVersion]:
        """Return the symbol versions that an object requires and this policy does not promise.

        `GLIBC_PRIVATE` is left out: it is in no policy, so it does not tell policies apart. DT_RELR needs
        `GLIBC_ABI_DT_RELR`, named or not. Raises KeyError for a machine that the policy does not have.
        """
        promised = self.versions[machine]
        required = {version for library, version in required_versions(binary) if is_system(library)}
        if binary.has_relr and c_libraries(binary) != {"musl"}:
            required.add(RELR)
        return {
            version
            for version in required - {PRIVATE}
            if version.family in promised and version.release not in promised[version.family]
        }


@cache
def policies() -> tuple[Policy, ...]:
    """Return all manylinux policies, the most widely accepted (the oldest) first."""
    found = [
        Policy(
            glibc=tag.floor,
            versions={
                machine: {name: frozenset(versions) for name, versions in table.items()}
                for machine, table in p["symbol_versions"].items()
            },
            libraries=frozenset(p["lib_whitelist"]),
            forbidden={library: frozenset(names) for library, names in p["blacklist"].items()},
        )
        for p in _shipped("manylinux")
        if (tag := LinuxTag.parse(p["name"]))
    ]
    return tuple(sorted(found, key=lambda policy: policy.glibc))


def is_known(promised: Policy) -> bool:
    """Return whether all promises of this policy are known; beyond the newest policy only the one of glibc is."""
    return promised.glibc <= policies()[-1].glibc


def _shipped(family: str) -> list[dict[str, Any]]:
    file = Path(auditwheel.__file__).parent / "policy" / f"{family}-policy.json"
    return [p for p in json.loads(file.read_text("utf-8")) if p["name"].startswith(f"{family}_")]


def of_tag(tag: str) -> tuple[Policy | None, str]:
    """Return the policy and the machine of a platform tag; no policy if its promises are not known.

    The promises for a machine that is newer than the policy are not known: manylinux_2_28_riscv64.
    """
    parsed = LinuxTag.parse(tag)
    if parsed is None or parsed.libc != "glibc" or not parsed.machine:
        return None, parsed.machine if parsed else ""
    glibc, machine = parsed.floor, parsed.machine
    found = next((p for p in policies() if p.glibc == glibc), None) or _between(glibc)
    return found if machine in found.versions else None, machine


@cache
def _between(glibc: tuple[int, int]) -> Policy:
    """Return the policy of a tag that has none: for manylinux_2_25 it is the next newer one, with the tag's own glibc.

    PEP 600 allows any version in a tag. Beyond the newest policy, only glibc's version is promised.
    """
    above = next((p for p in policies() if p.glibc > glibc), None)
    like = above or policies()[-1]
    versions = {}
    for machine, table in like.versions.items():
        upto = frozenset(v for v in table.get("GLIBC", ()) if numbers_of(v) <= glibc)
        later = {".".join(map(str, (glibc[0], minor))) for minor in range(like.glibc[1], glibc[1] + 1)}
        versions[machine] = {**table, "GLIBC": upto} if above else {"GLIBC": upto | later}
    return Policy(glibc, versions, like.libraries, like.forbidden)


@cache
def strictest(platforms: tuple[str, ...]) -> Mapping[str, tuple[Policy, str]]:
    """Return the policy for the oldest glibc among platform tags, and its tag, for each machine."""
    found: dict[str, tuple[Policy, str]] = {}
    for tag in platforms:
        promised, machine = of_tag(tag)
        if promised and (machine not in found or promised.glibc < found[machine][0].glibc):
            found[machine] = promised, tag
    return found


def fitting(objects: Iterable[ElfObject], machine: str, needed: Iterable[str]) -> Policy | None:
    """Return the oldest policy that promises everything these objects want; None if none does.

    `needed` are the libraries of the system that they NEED.
    """
    objects, needed = list(objects), list(needed)
    fits = (p for p in policies() if machine in p.versions and not p.lacking(needed))
    return next((p for p in fits if all(_fits(p, o, machine) for o in objects)), None)


def _fits(promised: Policy, binary: ElfObject, machine: str) -> bool:
    refused = any(promised.refused(binary, library) for library in promised.forbidden)
    return not refused and not promised.missing(binary, machine)


@cache
def forbidden() -> Mapping[str, frozenset[str]]:
    """Return the symbols of each library that some policy forbids."""
    libraries = dict.fromkeys(library for policy in policies() for library in policy.forbidden)
    return {
        library: frozenset(name for policy in policies() for name in policy.forbidden.get(library, ()))
        for library in libraries
    }


@cache
def system_libraries() -> frozenset[str]:
    """Return the SONAMEs that some manylinux policy expects on every machine."""
    return frozenset(name for policy in policies() for name in policy.libraries)


@cache
def _musl_libraries() -> frozenset[str]:
    """Return the SONAMEs that some musllinux policy expects on every machine: fewer, libstdc++ is not among them."""
    return frozenset(name for policy in _shipped("musllinux") for name in policy["lib_whitelist"])


@cache
def is_system(soname: str, *, musl: bool = False) -> bool:
    """Return whether the platform itself, a system with glibc or with musl, has this library."""
    if musl:
        return soname in _musl_libraries() or re.fullmatch(_MUSLS, soname) is not None
    return soname in system_libraries() or _LOADER.fullmatch(soname) is not None


def is_on(soname: str, loader: ElfObject, platforms: Collection[str]) -> bool:
    """Return whether all systems that load an object of a wheel for these platforms have a library that it needs.

    An object for musl in a wheel that names no such system is loaded on either.
    """
    systems = systems_of(loader, platforms)
    if "musl" in systems and not is_system(soname, musl=True):
        return False
    if "glibc" not in systems:
        return True
    if soname in system_libraries() or soname == "linux-vdso.so.1" or _is_loader_of(soname, loader):
        return True
    return c_libraries(loader) == {"musl"} and is_system(soname, musl=True)


def _is_loader_of(soname: str, loader: ElfObject) -> bool:
    """Return whether this is the dynamic linker for an object's processor; any one if the ABI's is not known."""
    path = loaders("glibc").get(loader.processor)
    return soname == path.rpartition("/")[2] if path else soname.startswith(("ld-linux", "ld64.so"))


@cache
def loaders(libc: str) -> Mapping[str, str]:
    """Return the path of a C library's dynamic linker for each processor."""
    return load(__file__, "loaders.toml")[libc]  # type: ignore[no-any-return]


def systems_of(binary: ElfObject, platforms: Collection[str]) -> frozenset[str]:
    """Return the C libraries ("glibc", "musl") of the systems that load an object of a wheel for these platforms.

    In a wheel for both, an object that is linked with one of them is for its systems, and any other is for all. An
    object that is linked with glibc in a wheel for musl alone is reported.
    """
    tagged = frozenset("musl" if tag.startswith("musllinux") else "glibc" for tag in platforms)
    if "musl" not in tagged:
        return frozenset({"glibc"})
    linked = c_libraries(binary)
    return linked if len(linked) == 1 else tagged


def floors(objects: Iterable[ElfObject]) -> dict[str, tuple[str, str]]:
    """Return the highest GLIBC, GLIBCXX and CXXABI version wanted, each with the file that wants it."""
    best: dict[str, tuple[SymbolVersion, str]] = {}
    for found in objects:
        for library, version in required_versions(found):
            if version.family in _FLOORS and version.numbers and is_system(library):
                highest = best.setdefault(version.family, (version, found.file))
                if version.numbers > highest[0].numbers:
                    best[version.family] = version, found.file
    return {family: (version.release, file) for family, (version, file) in best.items()}


def c_libraries(binary: ElfObject) -> frozenset[str]:
    """Return the C libraries that can load an object, "glibc" or "musl"; empty for none, and for unknown ones.

    musl is `libc.musl-x86_64.so.1` on Alpine, and `libc.so` to its own compilers. Android's is `libc.so`, too, but it
    has a libm.so and a libdl.so, which in musl are not separate. musl takes glibc's names for its own, and so loads
    objects that want none of glibc's versions, such as ddtrace's libddwaf.so, which is for both.
    """
    names = {*binary.needed, binary.interpreter.rpartition("/")[2]}
    musl = any("musl-" in name for name in names) or ("libc.so" in names and not names & _ANDROIDS)
    loader = any(name.startswith(("ld-linux", "ld64.so")) for name in names)
    glibc = loader or "libc.so.6" in names
    versions = any(version.family == "GLIBC" for _, version in required_versions(binary))
    musl = musl or (glibc and not loader and not versions)
    return frozenset(name for name, linked in (("musl", musl), ("glibc", glibc)) if linked)


def is_loader(soname: str) -> bool:
    """Return whether this is the dynamic linker itself or the C library, which every process has."""
    return _LOADER.fullmatch(soname) is not None or soname == "libc.so.6"
