"""Judges whether the dynamic linker can bind the objects of a wheel, once it has found all that they NEED.

Symbol versions: elf/dl-version.c of glibc. It checks them when it loads an object, and symbols then or at the first
call. The symbols of libraries outside of the wheel are not read; those of glibc and GCC all have a version, so a symbol
without one is of another library.
"""

import posixpath
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from gpuforge.audit import layout, policy
from gpuforge.audit.link.edges import LoadSet
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import PACKAGES, WheelFacts
from gpuforge.audit.rules.loading import is_imported
from gpuforge.binary.elf.file import version_hash
from gpuforge.binary.elf.header import DT_SYMTAB
from gpuforge.binary.elf.symbols import export_hash, gnu_hash, hash_at
from gpuforge.binary.facts import ElfObject
from gpuforge.cpython import CPython
from gpuforge.cuda.version import numbers_of
from gpuforge.datafile import load
from gpuforge.grouping import grouped

_NAMED = 3
_OF_PYTHON = re.compile(r"_?Py[A-Z_]")
_PYTHON = re.compile(r"libpython3.*\.so.*")
_OF_GCC = re.compile(r"lib(?:stdc\+\+|gcc_s|gfortran|quadmath|gomp|atomic)\.so\.\d+")
_OF_MUSL = re.compile(r"libc\.(?:musl|so$)")
_OF_GLIBC = re.compile(r"lib(?:c|m|dl|rt|pthread|util|crypt|resolv|anl|nsl|mvec)\.so\.\d+")
_LOADED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"}  # by every Python
# bytes: the least of all releases, with their own libraries in it; dlopen takes from it (elf/dl-tls.c, since 2.32)
_TLS_SURPLUS = 3 * 144 + 4 * 144 + 512
_TLS_ALIGN = 64  # bytes; a larger one must be that of an object which the program started with
# Functions of the C library, and of libm, libdl and libpthread, which every Python has loaded with it. Objects that
# were not linked with these import the functions without a version.
_IN_EVERY_PYTHON = re.compile(
    r"c?(?:acos|asin|atan|cos|sin|tan)h?[fl]?|atan2[fl]?|c?(?:exp|log|pow|sqrt)[fl]?|(?:cbrt|ceil|copysign|erfc?|exp(?:2|10|m1)"
    r"|fabs|fdim|floor|fma|fmax|fmin|fmod|frexp|hypot|ilogb|[jy][01n]|ldexp|[lt]?gamma|lgamma_r|log(?:10|1p|2|b)|l?l?r(?:int|ound)"
    r"|modf|nan|nearbyint|nextafter|nexttoward|remainder|remquo|scalbl?n|sincos|trunc|cabs|carg|c?imag|conj|cproj|creal)[fl]?"
    r"|fe(?:(?:clear|raise|test|enable|disable|get)except|[gs]et(?:round|env)|(?:get|set)exceptflag|holdexcept|updateenv)"
    r"|dl(?:open|close|error|sym|vsym|addr|info|mopen|_iterate_phdr)|sem_(?:init|destroy|open|close|unlink|(?:timed|try)?wait|post)"
    r"|pthread_(?:create|join|detach|self|equal|exit|cancel|once|key_\w+|[gs]etspecific|mutex(?:attr)?_\w+|cond(?:attr)?_\w+"
    r"|rwlock(?:attr)?_\w+|attr_\w+|sigmask|kill)"
    r"|mem(?:cpy|move|set|cmp|chr)|str(?:n?len|n?cmp|n?cpy|n?cat|r?chr|str|n?dup|to(?:u?ll?|[dfl])|error)|[cm]alloc|realloc|free"
    r"|abort|exit|atexit|qsort|bsearch|getenv|v?(?:f|s|sn)?printf|puts|putchar|f(?:open|close|read|write|flush|puts|putc)"
    r"|__cxa_(?:finalize|atexit)|__errno_location|__stack_chk_fail|__tls_get_addr"
    r"|_ITM_\w+|_ZGTt\w+"  # of libitm: libstdc++ calls them, if it is linked statically, in transactions alone
)
# folders below that of a library where glibc looks for it first, on some processors (elf/dl-hwcaps.c, some until 2.36)
_HWCAPS = re.compile(
    r"(?P<folder>.+?)/(?:glibc-hwcaps/[^/]+|(?:(?:tls|haswell|xeon_phi|avx512_1|x86_64|atomics)/?)+)"
)


_MODULE = re.compile(r"\.(?:cpython-3\d+[mt]?(?:-[\w-]+)?|abi3t?(?:-[\w-]+)?|pypy3\d+-pp\d+-[\w-]+)\.so$")
_OF_PROCESSOR = re.compile(r"-(x86_64|aarch64)-linux-")  # in the names of modules
# behind a module's name, by the beginning of the tags: EXTENSION_SUFFIXES of CPython and PyPy
_OF_CPYTHON = r"cpython-3\d+[mt]?(?:-\w+-linux-(?:gnu|musl)\w*)?\."
_SUFFIXES = {
    "cp": re.compile(rf"(?:{_OF_CPYTHON}|abi3\.)?so"),
    "cp315": re.compile(rf"(?:{_OF_CPYTHON}|abi3t?(?:-\w+-linux-(?:gnu|musl)\w*)?\.)?so"),  # and newer
    "pp": re.compile(r"(?:pypy3\d+-pp\d+-[\w-]+\.)?so"),
}
# the first that calls PyModExport_NAME before PyInit_NAME (PEP 793), and looks for NAME.abi3-x86_64-linux-gnu.so
_SLOTS = CPython(3, 15)
# of the oldest systems with Python wheels; glibc before 2.36 ignores objects that demand a newer kernel
_KERNEL = (3, 10)


# an object's name, the hashes of what it exports, whether it has versions, its hash table was followed, and the hashes
# of each kind
_Exports = tuple[str, frozenset[int], bool, bool, Mapping[str, frozenset[int]]]


# kinds of refusals for which the bytes that are installed under a name depend on the installer
_SEVERAL = {
    "duplicate", "hidden member", "local name", "local sizes", "local checksum", "local method", "no local header",
    "overlap", "other name", "other local name", "other data folder",
}  # fmt: skip


class Judged(NamedTuple):
    """Why objects cannot be bound, and the functions that were not compared, in words."""

    problems: tuple[str, ...]
    unjudged: tuple[str, ...]


def judge(graph: LinkGraph, wheel: WheelFacts) -> Judged:
    """Judge the objects that imports and programs of a wheel load."""
    problems: dict[str, None] = {}
    others: set[str] = set()
    plugins = False
    imported: dict[str, ElfObject] = {}
    for load_set in graph.load_sets:
        if load_set.root.wheel != wheel.name:
            continue
        problems |= dict.fromkeys(_versions(graph, load_set))
        if is_imported(wheel, [load_set.root]):
            missing, unknown = _missing(graph, load_set, every_python=_is_of_known_python(wheel))
            problems |= dict.fromkeys((*_of_root(wheel, load_set.root), *missing))
            imported |= {} if load_set.root.is_program else {o.file: o for o in load_set.objects}
            others |= unknown
        else:
            problems |= dict.fromkeys(_tls(load_set.root.name, load_set.objects))
            plugins |= any(o.bindings and o.bindings.imports for o in load_set.objects)
    problems |= dict.fromkeys(_tls("the package", imported.values()))
    problems |= dict.fromkeys((*_hidden(graph, wheel), *refused(wheel), *_of_other_pythons(wheel)))
    unjudged = [f"functions of {_short(sorted(others))}"] if others else []
    unjudged += ["functions that plug-ins import"] if plugins else []
    if not _is_of_known_python(wheel) and any(map(_python, wheel.linked)):
        unjudged += [f"functions of Pythons other than CPython up to {_functions().newest}"]
    if any(tag.startswith("linux_") for tag in wheel.platforms):
        unjudged += ["the versions of the system's libraries"]
    unjudged += ["functions of the system's libraries"] * bool(wheel.linked)
    if any(o.bindings and not o.bindings.all_followed for o in wheel.linked):
        unjudged += ["large hash tables"]
    unjudged += (
        ["relocations", "processor instructions", "what code does when it is loaded"] if wheel.linked else []
    )
    return Judged(tuple(problems), tuple(unjudged))


def _of_root(wheel: WheelFacts, root: ElfObject) -> Iterator[str]:
    """Yield why Python cannot import a module."""
    if not root.is_python_module:
        return
    if not _is_looked_for(wheel, root):
        yield f"Python does not look for {root.name}"
    named = _OF_PROCESSOR.search(root.name)
    if named and not root.processor.startswith(named[1]):
        yield f"Python on {root.processor} does not look for {root.name}"
    if root.is_refused or root.no_dlopen:
        yield f"{root.name} can only be loaded as a program"
    has_symbols = root.bindings and any(tag == DT_SYMTAB for tag, _ in root.dynamic)
    name = _exported_as(layout.install_path(root.file))
    if has_symbols and root.bindings and name:
        hooks = [f"PyInit{name}", f"PyModExport{name}"][: 1 + (_oldest(wheel) >= _SLOTS)]
        exports = _exports(root.bindings.exports)
        numbers = {export_hash(gnu_hash(hook), followed=root.bindings.all_followed): hook for hook in hooks}
        if numbers.keys().isdisjoint(exports):
            yield f"{root.name} does not define {' or '.join(hooks)}"
        for kind, hashes in root.bindings.kinds.items():
            for number in (numbers.keys() & _exports(hashes)) if kind else ():
                yield f"{numbers[number]} is a {kind} of {root.name}"


def _exported_as(file: str) -> str:
    """Return how the function ends that Python looks for in a module (PEP 489); "" if it has no name."""
    folder, _, name = file.rpartition("/")
    module = name.partition(".")[0]
    if module == "__init__":
        module = folder.rpartition("/")[2]
    if module.isascii():
        return module and f"_{module}"
    return f"U_{module.encode('punycode').decode().replace('-', '_')}"


def _is_looked_for(wheel: WheelFacts, module: ElfObject) -> bool:
    """Return whether each Python of the tags looks for a module under its name, or under another that is there."""
    start = f"{module.file[: -len(module.name)]}{module.name.partition('.')[0]}."
    suffixes = [file.removeprefix(start) for file in wheel.members if file.startswith(start)]
    new = "cp315" if _oldest(wheel) >= _SLOTS else "cp"
    pythons = {"pp" if tag.interpreter.startswith("pp") else new for tag in wheel.file_tags}
    glibc = any("linux_" in platform and "musl" not in platform for platform in wheel.platforms)
    fitting = [suffix for suffix in suffixes if not (glibc and suffix.endswith("-musl.so"))]
    return all(any(map(_SUFFIXES[python].fullmatch, fitting)) for python in pythons)


def _hidden(graph: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    """Yield the libraries that some systems load instead of those that were judged, or do not find."""
    named = grouped((found.name, found.file) for found in wheel.linked)
    for edge in graph.edges_of(wheel):
        target, files = edge.provider.object, named.get(edge.needed, [])
        if target and edge.needed in _LOADED and not edge.loader.is_program:
            yield f"Python has loaded the system's {edge.needed} before {target.file}"
        if target and target.wheel == wheel.name and edge.route and edge.route.is_path:
            roots = {_root(wheel, file) for file in (edge.loader.file, target.file)} - {None}
            if len(roots) > 1:
                yield f"where purelib and platlib differ, as on Fedora, {edge.loader.name} does not find {target.file}"
        if target is None or len(files) < 2:
            continue
        folders = {entry.folder for entry in layout.search(edge.loader, wheel.linked)}
        for file in files:
            match = _HWCAPS.fullmatch(posixpath.dirname(file))
            if match and posixpath.dirname(layout.install_path(f"{match['folder']}/x")) in folders:
                yield f"on some processors glibc loads {file} instead of {target.file}"


def _root(wheel: WheelFacts, file: str) -> bool | None:
    """Return whether a file is installed into purelib, not platlib; None for one outside of both."""
    _, data, rest = file.partition(".data/")
    scheme = rest.partition("/")[0] if data else ""
    return wheel.purelib if not data else {"purelib": True, "platlib": False}.get(scheme)


def refused(wheel: WheelFacts) -> Iterator[str]:
    """Yield what glibc refuses on some systems, or on all, and files that are modules by their names alone."""
    if twice := [refusal.member for refusal in wheel.refusals if refusal.kind in _SEVERAL]:
        yield f"installers do not agree on the content of {_short(map(posixpath.basename, twice))}"
    modules = {o.file for o in wheel.linked}
    for file in wheel.members.keys() - modules:
        if _MODULE.search(file) and not (wheel.form in PACKAGES and layout.left_over_folder(file)):
            yield f"{posixpath.basename(file)} is no library that the dynamic linker loads"
    for level in sorted({o.isa for o in wheel.linked} - {""}):
        names = [o.name for o in wheel.linked if o.isa == level]
        yield f"glibc refuses {_short(names)} on processors below {level}"
    for level in sorted({o.isa_used for o in wheel.linked if o.isa_used != o.isa} - {""}):
        names = [o.name for o in wheel.linked if o.isa_used == level]
        has = "has" if len(names) == 1 else "have"
        yield f"{_short(names)} {has} code for {level}, by GNU properties"
    for found in wheel.linked:
        if not found.has_known_abi:
            yield f"glibc refuses {found.name}, which is for {found.processor}"
        name, _, release = found.system.partition(" ")
        if found.system and (name != "Linux" or numbers_of(release) > _KERNEL):
            yield f"{found.name} demands {found.system}, and some releases of glibc ignore it elsewhere"


def _versions(graph: LinkGraph, load_set: LoadSet) -> Iterator[str]:
    """Yield the versions that objects of a wheel need of each other and do not define."""
    for found in load_set.objects:
        needs = {need.library: need.versions for need in found.version_needs}
        for edge in graph.from_object(found):
            target = edge.provider.object
            defined = target.bindings.versions if target and target.bindings else ()
            missing = sorted(set(needs.get(edge.needed, ())) - set(defined)) if defined else []
            if missing and target:
                yield f"{target.name} does not define {_short(missing)}, which {found.name} needs"


def _tls(name: str, objects: Iterable[ElfObject]) -> Iterator[str]:
    """Yield why glibc may have no place for the static TLS of objects that are loaded together."""
    loaded = list(objects)
    taken = sum(o.static_tls for o in loaded)
    if taken > _TLS_SURPLUS:
        yield f"{name} loads {taken:,} bytes of static TLS, and some releases of glibc keep {_TLS_SURPLUS:,} free"
    if aligned := [o.name for o in loaded if o.static_tls and o.tls_align > _TLS_ALIGN]:
        yield f"glibc has no place for static TLS with the alignment that {_short(aligned)} demands"


def _missing(graph: LinkGraph, load_set: LoadSet, *, every_python: bool) -> tuple[list[str], set[str]]:
    """Return what objects import and nothing defines, and the libraries that may define what has no version.

    With `every_python` all functions of the wheel's Pythons are known.
    """
    edges = [edge for each in load_set.objects for edge in graph.from_object(each)]
    scope = {id(o): o for o in load_set.objects}
    scope |= {id(o): o for e in edges if (o := e.provider.object) is not None}
    unknown = {e.needed for e in edges if e.provider.object is None and not _has_versions(e.needed)}
    unknown |= {o.name for o in scope.values() if o.bindings is None}
    exports = [
        (
            o.name,
            _exports(b.exports),
            bool(b.versions),
            b.all_followed,
            {k: _exports(h) for k, h in b.kinds.items()},
        )
        for o in scope.values()
        if (b := o.bindings)
    ]
    problems, unjudged = [], set[str]()
    for found in load_set.objects:
        own = {e.needed for e in graph.from_object(found) if e.provider.object is not None}
        glibc = not any(_OF_MUSL.match(name) for name in found.needed)
        missing = []
        for (library, kind), all_names in (found.bindings.imports if found.bindings else {}).items():
            if library and library not in own:
                continue
            names = [n for n in all_names if not (_OF_PYTHON.match(n) and (_is_known(n) or not every_python))]
            definitions = {name: _definition(name, exports) for name in names}
            other = grouped(
                (d, name) for name, d in definitions.items() if d and kind and d[1] not in ("", kind)
            )
            problems += [
                f"{found.name} uses {_short(sorted(each))} as a {kind}, and {where} defines it as a {defined}"
                for (where, defined), each in other.items()
            ]
            lost = [name for name, definition in definitions.items() if not definition]
            lost = lost if library else [name for name in lost if not _IN_EVERY_PYTHON.fullmatch(name)]
            if library or (glibc and not unknown):
                missing += lost
            elif lost:
                unjudged |= unknown or {"the C library"}
        if missing:
            problems.append(f"nothing that is loaded with {found.name} defines {_short(sorted(missing))}")
    return problems, unjudged


_hashed = lru_cache(maxsize=1 << 15)(gnu_hash)  # a hundred modules import the same names


def _definition(name: str, exports: Iterable[_Exports]) -> tuple[str, str] | None:
    """Return the first object that defines a symbol, at its version if its symbols have any, and the symbol's kind."""
    plain, _, version = name.partition("@")
    value = _hashed(plain)
    hashed = version_hash(version)
    for library, hashes, versions, followed, kinds in exports:
        number = export_hash(value, followed=followed)
        at = {hash_at(number, hashed), hash_at(number, 0)} if version and versions else {number}
        if not at.isdisjoint(hashes):
            return library, next((kind for kind, of_kind in kinds.items() if number in of_kind), "function")
    return None


@lru_cache(maxsize=256)  # a library is in the load sets of a hundred modules
def _exports(hashes: bytes) -> frozenset[int]:
    return frozenset(array("I", hashes))


def _has_versions(library: str) -> bool:
    """Return whether all symbols of a library have a version, or names of Python."""
    known = (_OF_GLIBC, _OF_GCC, _PYTHON)
    return policy.is_loader(library) or any(pattern.fullmatch(library) for pattern in known)


def _python(binary: ElfObject) -> list[str]:
    imports = binary.bindings.imports.items() if binary.bindings else ()
    return [
        name for (library, _), names in imports if not library for name in names if _OF_PYTHON.match(name)
    ]


def _of_other_pythons(wheel: WheelFacts) -> Iterator[str]:
    """Yield the functions of CPython that some Python of the tags does not have; "py3" means any."""
    pythons, known, oldest = _pythons(wheel), _functions(), _oldest(wheel)
    newest = max(pythons, default=known.newest)
    for found in wheel.linked:
        names = sorted(_python(found))
        for python, lacking in (
            (oldest, [name for name in names if known.since.get(name, oldest) > oldest]),
            (newest, [name for name in names if known.until.get(name, newest) < newest]),
        ):
            if lacking:
                lack = f"CPython {python} does not have" if pythons else "not every CPython has"
                yield f"{found.name} needs functions that {lack}: {_short(lacking)}"


def _pythons(wheel: WheelFacts) -> list[CPython]:
    return [python for tag in wheel.file_tags if (python := CPython.of_tag(tag.interpreter))]


def _oldest(wheel: WheelFacts) -> CPython:
    """Return the oldest CPython of the tags; 3.0 if they name none."""
    return min(_pythons(wheel), default=CPython(3, 0))


def _is_of_known_python(wheel: WheelFacts) -> bool:
    """Return whether all functions of the oldest Python of the tags are known; not of PyPy, and without the GIL."""
    others = any(tag.interpreter.startswith("pp") or tag.abi.endswith("t") for tag in wheel.file_tags)
    return not others and _oldest(wheel) <= _functions().newest


class _Functions(NamedTuple):
    always: frozenset[str]
    since: Mapping[str, CPython]  # the first version that has them
    until: Mapping[str, CPython]  # the last one
    newest: CPython  # of which all are known


@cache
def _functions() -> _Functions:
    table = load(__file__, "python_functions.toml")
    since, until = (
        {name: CPython.parse(version) for version, names in table[key].items() for name in names.split()}
        for key in ("since", "until")
    )
    return _Functions(frozenset(table["always"].split()), since, until, CPython.parse(table["newest"]))


def _is_known(name: str) -> bool:
    known = _functions()
    return name in known.always or name in known.since or name in known.until


def _short(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_NAMED]) + " …" * (len(listed) > _NAMED)
