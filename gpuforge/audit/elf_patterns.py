"""The names that the audit looks for in ELF files, from data/elf_patterns.toml and gpuforge.cuda."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from gpuforge.audit import policy
from gpuforge.binary.elf.symbols import Patterns, SymbolGroup, TextMarker
from gpuforge.cpython import STABLE_ABIS, STABLE_MODULE
from gpuforge.cuda import stack
from gpuforge.datafile import load
from gpuforge.wheel.filename import Claims

_STABLE_ABI = "python"  # Python's C API, of which modules outside of the stable ABI use hundreds of functions


class WheelPatterns(NamedTuple):
    """The names to look for in the ELF files of wheels.

    `only` selects the files that are searched for a group of symbols, by what the name of the wheel claims and by
    the file's own name.
    """

    every: Patterns
    only: Mapping[str, Callable[[Claims, str], bool]]

    def of(self, claims: Claims, file: str) -> Patterns:
        """Return the names to look for in one file."""
        left_out = {group for group, selects in self.only.items() if not selects(claims, file)}
        return self.every._replace(symbols=tuple(s for s in self.every.symbols if s.name not in left_out))


@cache
def patterns(at_hand: frozenset[str] = frozenset()) -> WheelPatterns:
    """Return the names to look for.

    Of packages `at_hand`, whose own wheels are given together with others, it is also read what each file defines.
    """
    data = _data()
    static = data["static_cudart"]
    every = Patterns(
        markers=tuple((row["name"], text.encode()) for row in data["marker"] for text in row["begins"]),
        text=TextMarker(static["marker"], static["text"].encode(), static["own"]),
        symbols=(
            *(_group(row, defined=row.get("package") in at_hand) for row in data["symbols"]),
            SymbolGroup("cuda", stack.BEGINNINGS, stack.cuda_pattern()),
            *_of_platforms(),
        ),
        libraries=data["libraries"]["names"].encode(),
        release=(data["tool"]["part"].encode(), data["tool"]["release"].encode()),
        numpy=(data["numpy"]["text"].encode(), data["numpy"]["two"].encode()),
        paths=tuple((row["part"].encode(), row["path"].encode()) for row in data["compiler"]),
        producers=tuple((row["name"], row["producer"].encode()) for row in data["compiler"]),
    )
    apart = {package: group for package, group in unstable().items() if package not in at_hand}
    of_others = {group: _of_another(package) for package, group in apart.items()}
    return WheelPatterns(every, {_STABLE_ABI: _is_stable_abi, **of_others})


@cache
def unstable() -> dict[str, str]:
    """Return the groups of symbols that change with each release of a package, by the package's name."""
    return {row["package"]: row["group"] for row in _data()["symbols"] if "package" in row}


@cache
def names_of(package: str) -> frozenset[str]:
    """Return the projects that have the functions of such a package: tensorflow-cpu has tensorflow's."""
    also = (row.get("also", ()) for row in _data()["symbols"] if row.get("package") == package)
    return frozenset({package}).union(*also)


def _group(row: Mapping[str, Any], *, defined: bool) -> SymbolGroup:
    return SymbolGroup(
        row["group"],
        tuple(map(str.encode, row.get("prefixes", ()))),
        row["names"].encode(),
        row.get("marker", ""),
        defined or row.get("defined", True),
        tuple(map(str.encode, row.get("parts", ()))),
    )


def _of_platforms() -> Iterator[SymbolGroup]:
    """Yield the symbols of each system library that some policy forbids."""
    for library, forbidden in policy.forbidden().items():
        names = sorted(forbidden)
        prefixes, pattern = tuple(map(str.encode, names)), rf"(?:{'|'.join(names)})(?=\0)"
        yield SymbolGroup(library, prefixes, pattern.encode(), defined=False, library=library)


def _is_stable_abi(claims: Claims, file: str) -> bool:
    return STABLE_MODULE.search(file) is not None or (
        file.endswith(".so") and any(tag.abi in STABLE_ABIS for tag in claims.tags)
    )


def _of_another(package: str) -> Callable[[Claims, str], bool]:
    """Return whether a file is of another package: the package's own has a hundred thousand of these symbols."""
    return lambda claims, _: claims.project not in names_of(package)


@cache
def _data() -> dict[str, Any]:
    return load(__file__, "elf_patterns.toml")
