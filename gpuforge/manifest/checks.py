"""Conditions between keys of the manifest, checked on the parsed TOML, so that all errors are reported at once."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from pathlib import Path

from packaging.requirements import InvalidRequirement
from packaging.utils import canonicalize_name

from gpuforge.cpython import CPython
from gpuforge.cuda.suffix import majors_of, suffix_of
from gpuforge.cuda.version import is_of, major_of
from gpuforge.manifest import braces
from gpuforge.manifest.model import ROLE_KEYS
from gpuforge.manifest.problem import (
    VERSION_KEY,
    KeyPath,
    Problem,
    Raw,
    compiler_of,
    numbered,
    object_title,
    quote,
    table,
    text_of,
    texts_of,
    toolkits_of,
)
from gpuforge.requirements import Release, WrongLine, constraints_text, read_constraints
from gpuforge.toolchain_names import OWN, makes, needs_cuda

OLDEST_PYTHON = "3.10"
"""The oldest Python that wheels are built and tested with: the oldest that pip supports.
Source: Requires-Python of https://pypi.org/project/pip/26.3/"""

_FREE_THREADED, _ABI3T = 13, 15
"""The first minor versions of CPython with a free-threaded build (PEP 703) and with its stable ABI (PEP 803)."""


def python(data: Raw) -> Iterator[Problem]:
    """Yield Python versions that do not fit `abi`, and those that are too old."""
    package = table(data, "package")
    python, abi = package.get("python", []), package.get("abi")
    if "package" not in data or not isinstance(package, Mapping) or not isinstance(python, list):
        return
    stable = abi in ("abi3", "abi3t")  # it may be of any type here
    for index, version in enumerate(python):
        if isinstance(version, str) and re.fullmatch(r"3\.[0-9]{1,2}t?", version):
            yield from _python_version(("package", "python", index), CPython.parse(version), abi)
    if abi is None and not python:
        yield Problem(
            ("package", "python") if "python" in package else ("package",),
            "[package] needs `python`: the versions to build wheels for",
            'write, for example, python = ["3.11", "3.12"], or set `abi` if one wheel serves all versions',
        )
    if stable and len(python) != 1:
        yield Problem(
            ("package", "python") if python else ("package", "abi"),
            f'[package] abi = "{abi}" needs exactly one Python version, but `python` has {len(python)}',
            "keep the lowest version that the wheel supports; one wheel serves it and all later versions",
        )
    if abi == "none" and len(python) > 1:
        yield Problem(
            ("package", "python"),
            f'[package] abi = "none" takes at most one Python version, but `python` has {len(python)}',
            "one wheel serves all versions; keep the one that builds it, or remove `python`",
        )


def _python_version(at: KeyPath, python: CPython, abi: object) -> Iterator[Problem]:
    """Yield what is wrong with one version: it is too old, has no free-threaded build, or not this stable ABI."""
    if abi != "abi3" and python < CPython.parse(OLDEST_PYTHON):
        yield Problem(
            at,
            f"[package] python: {python} is older than {OLDEST_PYTHON}, the oldest that gpuforge builds for",
            'remove it; abi = "abi3" can promise an older one',
        )
    elif python.threads and (abi == "abi3" or python.minor < _FREE_THREADED):
        yield Problem(
            at,
            '[package] python: no free-threaded Python loads a module for "abi3"'
            if abi == "abi3"
            else f"[package] python: CPython {python.number} has no free-threaded build",
            f'write "{python.number}"'
            + (
                '; abi = "abi3t" is for both, from Python 3.15 on'
                if abi == "abi3"
                else "; 3.13t is the first"
            ),
        )
    elif abi == "abi3t" and python.minor < _ABI3T:
        yield Problem(
            at,
            f'[package] abi = "abi3t" is for CPython 3.{_ABI3T} and newer, but `python` has {python}',
            f'write python = ["3.{_ABI3T}"], or make one wheel for each free-threaded version ("3.14t")',
        )


def import_name(data: Raw) -> Iterator[Problem]:
    """Yield a name from which no import package follows."""
    package = table(data, "package")
    name = package.get("name")
    if "import" in package or not isinstance(name, str):
        return
    default = name.replace("-", "_")
    if re.match(r"[A-Za-z0-9]", name) and not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", default):
        yield Problem(
            ("package", "name"),
            f"[package] needs `import`: its default from the name, {quote(default)}, cannot be imported",
            'name the import package for the kernels, e.g. import = "example"',
        )


def c_header(data: Raw) -> Iterator[Problem]:
    """Yield a header that would find nothing."""
    roles = [thing.get("role") for _, thing in numbered(data.get("objects"))]
    has_kernels = "fallback" in roles or "user-compiled" in roles
    if table(data, "package").get("c-header") is True and not has_kernels:
        yield Problem(
            ("package", "c-header"),
            "[package] c-header adds the header that loads the wheel's kernels, and the wheel has none: no object is "
            "`fallback` or `user-compiled`",
            "remove `c-header`, or add an object with kernels",
            at_key=True,
        )


_TOOLKIT = '[cuda.13] with toolkit = "13.0" and archs = ["80", "90"]'
_ARCHITECTURES = ("CMAKE_CUDA_ARCHITECTURES", "CUDAARCHS")
# CMake; nvcc, clang++ and nvc++; nvcc's `-gencode arch=compute_80,code=[sm_80,native]`
_NATIVE = re.compile(
    r"""((?<!\w)|(?<=-D))(CMAKE_CUDA_ARCHITECTURES(:\w+)?|CUDAARCHS)=["']?native\b
    |(?<![^\s"'=,])(-arch|-code|--(gpu-architecture|gpu-code|offload-arch|cuda-gpu-arch))[=\s]\s*["']?native\b
    |(?<![^\s"'=,])-gpu=\S*\bccnative\b
    |(?<![^\s"'=,])(-gencode|--generate-code)[=\s]\s*\S*[=,\[]native\b""",
    re.VERBOSE,
)
_FILLED = ("config-settings", "env", "before")  # the keys of [build] whose strings may hold placeholders


def without_cuda(data: Raw) -> Iterator[Problem]:
    """Yield keys of a build without CUDA that use its toolkit."""
    build = table(data, "build")
    if build.get("cuda") is not False and "cuda" in data:
        return
    why = "with cuda = false" if "cuda" in data else "without [cuda]"
    for key in _FILLED:
        if any("toolkit" in braces.names(text) for _, text in _texts(build.get(key))):
            yield Problem(
                ("build", key),
                f"[build] {key} uses {{toolkit}}, but {why} the build has no CUDA toolkit",
                "remove `cuda = false` if the host build needs a toolkit"
                if "cuda" in data
                else f"add, for example, {_TOOLKIT}",
            )


def native(data: Raw) -> Iterator[Problem]:
    """Yield settings that compile GPU code for the build machine's own GPU, not for `archs`."""
    build, toolchains = table(data, "build"), table(data, "toolchains")
    places: list[tuple[KeyPath, str, object]]
    places = [(("build", key), f"[build] {key}", build.get(key)) for key in ("config-settings", "env")]
    for name in toolchains:
        flags = table(toolchains, name).get("flags")
        places.append((("toolchains", name, "flags"), f"[toolchains.{name}] flags", flags))
    for number, thing in numbered(data.get("objects")):
        places.append((("objects", number, "flags"), f"{object_title(thing)} flags", thing.get("flags")))
    for path, title, value in places:
        before: tuple[KeyPath, str] = ((), "")  # the string before in a list: `["-arch", "native"]`
        for inside, text in _texts(value):
            named = str(inside[0]).rpartition(".")[2] if inside else ""
            follows = inside and inside[:-1] == before[0] and isinstance(inside[-1], int)
            call = f"{before[1]} {text}" if follows else text
            before = (inside[:-1], text)
            ends = max((found.end() for found in _NATIVE.finditer(call)), default=0)
            if (named in _ARCHITECTURES and text.strip() == "native") or ends > len(call) - len(text):
                yield Problem(
                    (*path, *inside),
                    f"{title}: {quote(text)} compiles GPU code for the GPU of the build machine only",
                    "remove it: gpuforge passes the architectures in `archs` to the build",
                )


def unknown_placeholders(data: Raw) -> Iterator[Problem]:
    """Yield unknown placeholders."""
    axes = table(data, "axes")  # their names have been filled in, where they are known
    places = [(("build", key), braces.OF_BUILD) for key in _FILLED]
    places.append((("wheel", "bundle-from"), braces.OF_BUILD))
    of_tests = [(("test", "command"), braces.OF_TEST), (("wheel", "label"), braces.OF_LABEL)]
    of_tests += [(("indexes", name), braces.OF_LABEL) for name in table(data, "indexes")]
    for path, own in [*places, *of_tests]:
        names = (*own, *(name for name in axes if isinstance(name, str)))
        title, key = path
        for inside, text in _texts(table(data, title).get(key)):
            for name in dict.fromkeys(braces.names(text)):
                if name not in names:
                    near = get_close_matches(name.lower(), names, n=1)
                    known = ", ".join(f"{{{each}}}" for each in names)
                    choices = f"did you mean {{{near[0]}}}?" if near else f"known here: {known}."
                    yield Problem(
                        (*path, *inside),
                        f"[{title}] {key}: {{{name}}} is not a placeholder",
                        f"{choices} For literal braces write {{{{{name}}}}}",
                    )


def indexes_of_cuda(data: Raw) -> Iterator[Problem]:
    """Yield indexes that depend on the toolkit where one build environment serves all toolkits."""
    if "cuda" in data and table(data, "build").get("cuda") is not False:
        return
    for name, url in table(data, "indexes").items():
        if isinstance(url, str) and set(braces.names(url)) & {*braces.OF_LABEL}:
            yield Problem(
                ("indexes", name),
                f"[indexes] {name} depends on the CUDA toolkit, and the host build gets none",
                "write one index for all wheels, or give the build a toolkit: [build] cuda = true",
            )


def _texts(value: object) -> Iterator[tuple[KeyPath, str]]:
    """Yield every string in a value of the parsed TOML, each with the path that leads to it."""
    if isinstance(value, str):
        yield (), value
    elif isinstance(value, Mapping | list):
        parts = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, part in parts:
            for path, text in _texts(part):
                yield (key, *path), text


_CUDA_EXAMPLE = f"write, for example, {_TOOLKIT}"


def without(data: Raw) -> Iterator[Problem]:
    """Yield keys that need a CUDA toolkit in a manifest without `[cuda]`, and a manifest with nothing for a GPU."""
    if "cuda" in data:
        return
    if not data.get("objects") and table(data, "build").get("cuda") is not False:
        hint = f"{_CUDA_EXAMPLE}; for a package without CUDA write cuda = false in [build]"
        yield Problem((), "the manifest has no table [cuda]", hint)
    for name in table(data, "toolchains"):
        if needs_cuda(compiler := compiler_of(data, name)):
            yield Problem(
                ("toolchains", name, "compiler"),
                f"[toolchains.{name}] {compiler} needs a CUDA toolkit, and the manifest has no [cuda]",
                _CUDA_EXAMPLE,
            )
    if table(data, "build").get("cuda") is True:
        yield Problem(
            ("build", "cuda"),
            "[build] cuda = true needs a toolkit, and the manifest has no [cuda]",
            _CUDA_EXAMPLE,
        )
    wheel = table(data, "wheel")
    if wheel.get("kernels") == "own":
        yield Problem(
            ("wheel", "kernels"),
            '[wheel] kernels = "own" makes a wheel for each CUDA major, and the manifest has no [cuda]',
            "remove it",
        )
    elif wheel.get("naming", ["plain"]) != ["plain"]:
        yield Problem(
            ("wheel", "naming"),
            "[wheel] naming tells CUDA versions apart, and the manifest has no [cuda]",
            "remove it: the wheels have the package's plain name",
            at_key=True,
        )


def beside(data: Raw) -> Iterator[Problem]:
    """Yield packages of `[audit] beside` for a CUDA major that no wheel is for: they would be compared with none."""
    built = {major_of(key) for key, _ in toolkits_of(data)}
    for index, text in texts_of(table(data, "audit").get("beside")):
        try:
            majors = majors_of(text)
        except InvalidRequirement:
            continue
        if built and majors and not built & majors:
            yield Problem(
                ("audit", "beside", index),
                f"[audit] beside: {quote(text)} is for CUDA {min(majors)}, and no wheel is: it would not be compared",
                "remove it: libraries of two CUDA majors in one process are an error; or add "
                f"{_version_table(str(min(majors)))}",
            )


def toolkits(data: Raw) -> Iterator[Problem]:
    """Yield `[cuda]` without toolkits, a toolkit in the table of another CUDA major, and a toolkit in two tables."""
    cuda = table(data, "cuda")
    if "cuda" not in data or not isinstance(data["cuda"], Mapping):
        return
    if not any(re.search(VERSION_KEY, key) for key in cuda):
        yield Problem(
            ("cuda",),
            "[cuda] has no toolkit",
            f"add a table for one, e.g. {_TOOLKIT}",
        )
    owners: dict[str, str] = {}
    for key, written in toolkits_of(data):
        toolkit = written.get("toolkit", key)
        if not isinstance(toolkit, str) or not re.fullmatch(r"[0-9]{1,4}\.[0-9]+", toolkit):
            continue
        at: KeyPath = ("cuda", key, "toolkit") if "toolkit" in written else ("cuda", key)
        if not is_of(toolkit, key):
            yield Problem(
                at,
                f"{_version_table(key)} cannot have the toolkit {quote(toolkit)}",
                f"move it to {_version_table(str(major_of(toolkit)))}, or choose a toolkit of CUDA {key}",
            )
        elif toolkit in owners:
            yield Problem(
                at,
                f"{_version_table(key)} has the same toolkit as {_version_table(owners[toolkit])}: {toolkit}",
                "keep one of the two tables",
            )
        owners.setdefault(toolkit, key)


def architectures(data: Raw) -> Iterator[Problem]:
    """Yield tables for machines without wheels, and what contradicts a toolkit's `archs = []`: there is no GPU code."""
    known, written = ("x86_64", "aarch64"), table(data, "wheel").get("machines")
    machines = written if isinstance(written, list) and all(machine in known for machine in written) else []
    for key, version in toolkits_of(data):
        for machine in known:
            if machine in version and machines and machine not in machines:
                yield Problem(
                    ("cuda", key, machine),
                    f"{_version_table(key)} has architectures for {machine}, but [wheel] machines does not list it",
                    f'add "{machine}" there, or remove the table',
                    at_key=True,
                )
        if version.get("archs") != []:
            continue
        if "ptx" in version:
            yield Problem(
                ("cuda", key, "ptx"),
                f"{_version_table(key)} has `ptx`, but archs = [] means that the package has no GPU code",
                "list the architectures to compile for, or remove `ptx`",
                at_key=True,
            )
        for _, thing in numbered(data.get("objects")):
            if text_of(thing, "role") == "fallback" and not _without_archs(data, thing):
                yield Problem(
                    ("cuda", key, "archs"),
                    f"{_version_table(key)} has archs = [] (no GPU code), but {object_title(thing)} is GPU code",
                    'list the architectures to compile for, e.g. archs = ["80", "90"]',
                )


def _without_archs(data: Raw, thing: Raw) -> bool:
    """Return whether none of an object's compilers makes code for GPUs only; the plan looks at the others' flags."""
    one = [name] if (name := text_of(thing, "toolchain")) else []
    compilers = [
        compiler_of(data, name) for name in (*one, *dict(texts_of(thing.get("toolchains"))).values())
    ]
    return bool(compilers) and all(name and not needs_cuda(name) for name in compilers)


def linkage(data: Raw) -> Iterator[Problem]:
    """Yield `requires` with a linkage that declares no packages."""
    cuda = table(data, "cuda")
    linkage = cuda.get("linkage", "pip")
    if "requires" in cuda and isinstance(linkage, str) and linkage in {"bundle", "system", "static"}:
        yield Problem(
            ("cuda", "requires"),
            f'[cuda] `requires` works with linkage = "pip" only; {quote(linkage)} declares no packages',
            'remove it, or choose linkage = "pip"',
            at_key=True,
        )


def minors(data: Raw) -> Iterator[Problem]:
    """Yield CUDA releases to test with for which there is no wheel, or whose libraries no wheel takes from PyPI."""
    tests = table(table(data, "test"), "matrix")
    version = r"[0-9]{1,4}(\.[0-9]{1,4})?"
    majors = {major_of(key) for key, _ in toolkits_of(data) if re.fullmatch(version, key)}
    linkage = table(data, "cuda").get("linkage", "pip")
    for index, minor in texts_of(tests.get("minors")):
        at: KeyPath = ("test", "matrix", "minors", index)
        if isinstance(linkage, str) and linkage in {"bundle", "system", "static"}:
            yield Problem(
                at,
                f'[test.matrix] minors works with [cuda] linkage = "pip" only: {quote(linkage)} installs no '
                "libraries of CUDA",
                "remove it",
            )
        elif re.fullmatch(version, minor) and major_of(minor) not in majors:
            yield Problem(
                at,
                f"[test.matrix] minors: no wheel is for CUDA {major_of(minor)}",
                "the manifest has CUDA " + ", ".join(map(str, sorted(majors))) if majors else "remove it",
            )


def _version_table(key: str) -> str:
    return f'[cuda."{key}"]' if "." in key else f"[cuda.{key}]"


def kernels_wheels(data: Raw) -> Iterator[Problem]:
    """Yield keys that contradict kernels in wheels of their own."""
    wheel, cuda = table(data, "wheel"), table(data, "cuda")
    if wheel.get("kernels") != "own" or "cuda" not in data:
        return
    fallbacks = (thing for _, thing in numbered(data.get("objects")) if thing.get("role") == "fallback")
    if not any(needs_cuda(compiler_of(data, text_of(thing, "toolchain"))) for thing in fallbacks):
        yield Problem(
            ("wheel", "kernels"),
            '[wheel] kernels = "own" makes empty kernels wheels: nvcc compiles no fallback object',
            "remove `kernels`, or add a fallback object",
        )
    if table(data, "build").get("cuda") is not False:
        yield Problem(
            ("wheel", "kernels"),
            '[wheel] kernels = "own" makes one wheel for all CUDA versions, but the host build uses a CUDA toolkit',
            "write [build] cuda = false if the host code needs no CUDA; otherwise remove `kernels`",
        )
    if wheel.get("naming", ["plain"]) != ["plain"]:
        yield Problem(
            ("wheel", "naming"),
            '[wheel] naming needs kernels inside the wheel: with kernels = "own" the package keeps its plain name',
            "remove `naming`; the kernels wheels are called name-kernels-cu12",
            at_key=True,
        )
    if cuda.get("requires") == "extra":
        yield Problem(
            ("cuda", "requires"),
            '[cuda] requires = "extra" needs kernels inside the wheel: with kernels = "own" the extras install the '
            "kernels wheels, which require NVIDIA's packages",
            "remove `requires`",
            at_key=True,
        )
    name = table(data, "package").get("name")
    if isinstance(name, str) and suffix_of(name):
        yield Problem(
            ("package", "name"),
            f"[package] name: {quote(name)} is named for one CUDA version, but with [wheel] kernels = "
            '"own" it serves all of them',
            "give the package a name without a CUDA suffix",
        )


def labels(data: Raw) -> Iterator[Problem]:
    """Yield a `label` that no wheel would have."""
    wheel = table(data, "wheel")
    naming = wheel.get("naming", [])
    if "label" in wheel and isinstance(naming, list) and "local" not in naming:
        yield Problem(
            ("wheel", "label"),
            "[wheel] label is what the naming `local` appends to the version, and [wheel] naming does not have it",
            'write naming = ["local"], or remove `label`',
        )


def front(data: Raw) -> Iterator[Problem]:
    """Yield keys that contradict a front package."""
    wheel, name = table(data, "wheel"), table(data, "package").get("name")
    chosen = wheel.get("front")
    if not isinstance(chosen, str):
        return
    if wheel.get("kernels") == "own":
        yield Problem(
            ("wheel", "front"),
            '[wheel] front installs a wheel for each CUDA major, but with kernels = "own" the package has one for all',
            "remove `front`: the extras of that wheel install the kernels wheels",
        )
        return
    naming = wheel.get("naming", ["suffix"])
    if isinstance(naming, list) and "suffix" not in naming:
        yield Problem(
            ("wheel", "front"),
            "[wheel] front installs the wheels that are named for a CUDA major, and [wheel] naming has none of them",
            'add "suffix" to `naming`, or remove `front`',
        )
    if suffix_of(chosen):
        yield Problem(
            ("wheel", "front"),
            f"[wheel] front: {quote(chosen)} is named for one CUDA major, but its extras are for all of them",
            "choose a name without a CUDA suffix",
        )
    same = isinstance(name, str) and canonicalize_name(name) == canonicalize_name(chosen)
    if same and isinstance(naming, list) and set(naming) - {"suffix"}:
        yield Problem(
            ("wheel", "front"),
            f"[wheel] front: {quote(chosen)} is also the name of the wheels that the other entries of `naming` make",
            "choose another name",
        )


_MOST = 10  # wrong lines of one file


def _constraints(folder: Path, file: str) -> Iterator[Problem]:
    """Yield the problems of the file of constraints, at most a few, because messages quote its lines."""
    keys, name = ("build", "constraints"), quote(file)
    try:
        text = constraints_text(folder, file)
    except (OSError, ValueError) as error:  # also a folder, a name too long, a NUL character
        absent = isinstance(error, FileNotFoundError)
        reason = getattr(error, "strerror", None) or str(error)
        yield Problem(
            keys,
            f"[build] constraints: no file {name} beside the manifest"
            if absent
            else f"[build] constraints: the file {name} cannot be read: {reason}",
            "create it, with a line like cmake==3.31.6 for each requirement, or remove the key",
        )
        return
    wrong = (found for found in read_constraints(text) if isinstance(found, WrongLine))
    for found in islice(wrong, _MOST):
        yield Problem(keys, f"[build] constraints: line {found.line} of {name}: {found.what}", found.hint)


def files(data: Raw, folder: Path) -> Iterator[Problem]:
    """Yield files and folders that are missing or cannot be read."""
    build = table(data, "build")
    named = build.get("constraints")
    if isinstance(named, str) and named:
        yield from _constraints(folder, named)
    overlays = build.get("overlay")
    for index, name in texts_of(overlays):
        if name and not _is_there(folder, name):
            yield Problem(
                ("build", "overlay", index),
                f"[build] overlay: no folder {quote(name)} beside the manifest",
                "create the folder, or remove it from the list",
            )
    yield from _same_sdists(overlays)
    source = table(data, "package").get("source")
    path = source.get("path") if isinstance(source, Mapping) and set(source) == {"path"} else None
    if isinstance(path, str) and path.strip() and not _is_there(folder, path, or_sdist=True):
        yield Problem(
            ("package", "source", "path"),
            f"[package.source] path: no folder and no sdist {quote(path)}",
            "the path is relative to the manifest's folder; an sdist is a file NAME-VERSION.tar.gz or .zip",
        )


def _same_sdists(overlays: object) -> Iterator[Problem]:
    """Yield sdists of `[build] overlay` that would be unpacked into the same folder."""
    seen = set()
    for index, item in enumerate(overlays if isinstance(overlays, list) else []):
        try:
            name = canonicalize_name(Release.of_pin(str(item["pypi"])).project)
        except (TypeError, LookupError, ValueError):
            continue  # a folder, or a value that is reported as wrong
        if name in seen:
            yield Problem(
                ("build", "overlay", index, "pypi"),
                f"[build] overlay: {quote(name)} is listed twice, and both would be unpacked into {{overlay}}/{name}",
                "remove one of them",
            )
        seen.add(name)


def _is_there(folder: Path, name: str, *, or_sdist: bool = False) -> bool:
    """Return whether a name is that of a folder or, with `or_sdist`, of an sdist."""
    try:
        path = folder / name
        return path.is_dir() or (or_sdist and name.endswith((".tar.gz", ".zip")) and path.is_file())
    except (OSError, ValueError):  # a name too long, a folder that may not be read, a NUL character
        return False


def nul_characters(data: Raw) -> Iterator[Problem]:
    """Yield text with a NUL character: no program can receive it."""
    for path, text in _texts(data):
        if "\0" in text:
            hint = "remove it; no program can receive one"
            yield Problem(path, f"{quote(text)} contains a NUL character", hint)


def problems(data: Raw, folder: Path | None) -> Iterator[Problem]:
    """Yield every condition that the parsed TOML breaks; values of a wrong type are left to the model.

    The files that the manifest names are looked for in `folder`, and not at all if it is None.
    """
    checks = (python, import_name, c_header, without_cuda, native, unknown_placeholders, indexes_of_cuda)
    of_cuda = (without, beside, toolkits, architectures, linkage, minors, object_problems)
    for check in (*checks, *of_cuda, kernels_wheels, labels, front):
        yield from check(data)
    if folder is not None:
        yield from files(data, folder)
    yield from nul_characters(data)


_ROLE_HINTS: Mapping[str, str] = {
    "files": 'patterns of files in the built wheel, e.g. files = ["**/*.so"]',
    "sources": 'patterns of source files beside the manifest, e.g. sources = ["kernels/*.cu"]',
    "toolchain": 'the name of one of the [toolchains], e.g. toolchain = "device"',
    "toolchains": 'names of [toolchains] in the order to try them in, e.g. toolchains = ["acc", "host"]',
}
_OBJECT_KEYS = frozenset(key for keys in ROLE_KEYS.values() for key in keys.required + keys.optional)
_ABI_HINT = 'add, for example, abi = { version = "1", headers = ["mod/mechanisms.h"] }'
_KIND_HINT = 'write kind = "library", or remove the key'
_OWNERS = {key: name for name, own in OWN.items() for key in own.keys}


@dataclass(frozen=True)
class _Object:
    """An element of `[[objects]]`; values of a wrong type, which the model reports, count as not written."""

    index: int
    data: Raw

    @cached_property
    def title(self) -> str:
        return object_title(self.data)

    @cached_property
    def role(self) -> str:
        return text_of(self.data, "role")

    @cached_property
    def kind(self) -> str:
        """What the sources become, "module" or "library", as a program counts; the default depends on the role."""
        found = text_of(self.data, "kind") or ("library" if self.role == "user-compiled" else "module")
        return "library" if found == "program" else found

    @cached_property
    def is_program(self) -> bool:
        return text_of(self.data, "kind") == "program"

    @property
    def what(self) -> str:
        return "a program" if self.is_program else "a library"

    @cached_property
    def target(self) -> str | None:
        """The name of the object that it stands in for."""
        name = self.data.get("stands-in-for")
        return name if isinstance(name, str) else None

    @cached_property
    def toolchains(self) -> list[tuple[KeyPath, str]]:
        """The names of its toolchains, each with its place in the element."""
        one = [(("toolchain",), name)] if (name := text_of(self.data, "toolchain")) else []
        return [*one, *((("toolchains", n), name) for n, name in texts_of(self.data.get("toolchains")))]

    def replaces(self, kind: str) -> bool:
        """Return whether a fallback of a kind may stand in for it; a library may also do so for other fallbacks."""
        independent = self.role == "fallback" and kind == "library" and "stands-in-for" not in self.data
        return self.role == "user-compiled" or independent

    def problem(self, message: str, hint: str, *at: str | int, at_key: bool = False) -> Problem:
        return Problem(("objects", self.index, *at), message, hint, at_key)


def object_problems(data: Raw) -> Iterator[Problem]:
    """Yield every condition that the objects and their toolchains break."""
    objects = [_Object(index, thing) for index, thing in numbered(data.get("objects"))]
    by_name: dict[str, _Object] = {}
    for item in objects:
        yield from _role_keys(item)
        yield from _undeclared(item, data.get("toolchains", {}))
        if item.role == "user-compiled":
            yield from _compilers(data, item)
        if (name := text_of(item.data, "name")) in by_name:
            yield item.problem(f"two objects have the name {quote(name)}", "give each its own name", "name")
        elif name:
            by_name[name] = item
    yield from _fallbacks(data, [item for item in objects if item.role == "fallback"], by_name)
    yield from _commands(data)
    yield from _commands_without_id(data, objects)


def _role_keys(item: _Object) -> Iterator[Problem]:
    """Yield keys that an object's role needs or does not have."""
    if item.role not in ROLE_KEYS:
        return
    role, required = quote(item.role), ROLE_KEYS[item.role].required
    taken = required + ROLE_KEYS[item.role].optional
    for key in required:
        if key not in item.data:
            yield item.problem(f"{item.title} needs `{key}`, because its role is {role}", _ROLE_HINTS[key])
        elif item.data[key] == []:
            yield item.problem(f"{item.title}: `{key}` must not be empty", _ROLE_HINTS[key], key)
    for key in item.data:
        if key in _OBJECT_KEYS and key not in taken:
            owners = [quote(name) for name, keys in ROLE_KEYS.items() if key in keys.required + keys.optional]
            yield item.problem(
                f"{item.title} has `{key}`, which its role {role} does not take",
                f"`{key}` belongs to {' and '.join(owners)}; {role} takes {', '.join(f'`{k}`' for k in taken)}",
                key,
                at_key=True,
            )


def _undeclared(item: _Object, declared: object) -> Iterator[Problem]:
    """Yield toolchains that are not declared."""
    if not isinstance(declared, Mapping):
        return
    for at, name in item.toolchains:
        if name not in declared:
            likely = quote("nvcc" if item.role == "fallback" else "g++")
            yield item.problem(
                f"{item.title} names the toolchain {quote(name)}, which is not declared",
                f"declared toolchains: {', '.join(declared)}"
                if declared
                else f"add a table [toolchains.{name}] with compiler = {likely}",
                *at,
            )


def _compilers(data: Raw, item: _Object) -> Iterator[Problem]:
    """Yield toolchains that cannot make a user-compiled object's kind."""
    for number, name in texts_of(item.data.get("toolchains")):
        compiler, kind = compiler_of(data, name), item.kind
        if compiler in OWN and not OWN[compiler].makes:
            able = ", ".join(name for name, own in OWN.items() if kind in own.makes)
            what = f"is compiled on users' machines, but {compiler} compiles only during builds"
            hint = f'write role = "fallback", or use one of {able}'
        elif kind == "library" and not makes(compiler, kind):
            what, hint = f"is {item.what}, but {compiler} makes no libraries", 'write kind = "module"'
            hint += ", or remove the toolchain"
        elif kind == "module" and not makes(compiler, kind):
            what, hint = f"is a set of modules, but {compiler} makes libraries", 'write kind = "library"'
            hint += ", or remove the toolchain"
        else:
            continue
        yield item.problem(f"{item.title} {what}", hint, "toolchains", number)


def _fallbacks(data: Raw, fallbacks: list[_Object], by_name: Mapping[str, _Object]) -> Iterator[Problem]:
    """Yield libraries without an ABI, and objects that stand in for one that they cannot replace."""
    taken: dict[tuple[str, str], str] = {}
    for item in fallbacks:
        for key in ("abi", "cpu") if item.kind != "library" else ():
            if key in item.data:
                what = f'{item.title} has `{key}`, which only kind = "library" takes'
                yield item.problem(what, _KIND_HINT, key, at_key=True)
        compiler = compiler_of(data, text_of(item.data, "toolchain"))
        refusal = OWN[compiler].refuses_cpu if compiler in OWN else ""
        if item.kind == "library" and "cpu" in item.data and refusal:
            hint = "remove it; a further fallback of the host toolchain, which stands in for this one, can have it"
            yield item.problem(f"{item.title} has `cpu`, but {refusal}", hint, "cpu", at_key=True)
        if item.target is not None:
            other = by_name.get(item.target)
            yield from _stand_in(item, other, by_name)
            several = item.kind == "library" and other is not None and other.kind == "library"
            if (item.target, item.kind) in taken and not several:
                yield item.problem(
                    f"{item.title} and {taken[item.target, item.kind]} both stand in for {quote(item.target)}",
                    "only one fallback can be used; remove the key from the other",
                    "stands-in-for",
                )
            taken.setdefault((item.target, item.kind), item.title)
        elif item.kind == "library" and not {"stands-in-for", "abi"} & item.data.keys():
            yield item.problem(
                f"{item.title} is {item.what}, and has neither `abi` nor `stands-in-for`",
                f"{_ABI_HINT}, or name the object to replace in stands-in-for",
            )


def _stand_in(item: _Object, other: _Object | None, by_name: Mapping[str, _Object]) -> Iterator[Problem]:
    """Yield what keeps a fallback from replacing an object."""
    target = quote(item.target)
    if other is None or other.index == item.index or not other.replaces(item.kind):
        others = (
            name for name, each in by_name.items() if each.index != item.index and each.replaces(item.kind)
        )
        known = ", ".join(others)
        yield item.problem(
            f"{item.title} cannot stand in for {target}, which is not a user-compiled object"
            + (" or another fallback" if item.kind == "library" else ""),
            f"objects it can replace: {known}" if known else "the manifest has none",
            "stands-in-for",
        )
    elif item.is_program != other.is_program:
        what, one = ("a program", "no") if item.is_program else ("no program", "one")
        hint = 'write kind = "program" in both, or in none of them'
        yield item.problem(f"{item.title} is {what}, and {target} is {one}", hint, "stands-in-for")
    elif item.kind == "module" and other.kind != "module":
        what = f"{item.title} is a set of modules, and cannot stand in for {target}, a library"
        yield item.problem(what, _KIND_HINT, "stands-in-for")
    else:
        if "abi" in item.data:
            what = f"{item.title} has an `abi`, but takes the ABI of {target}, which it stands in for"
            yield item.problem(what, "remove it", "abi", at_key=True)
        if "abi" not in other.data and other.kind != "module":
            yield other.problem(
                f"{other.title} needs `abi`, because {item.title} stands in for it", _ABI_HINT
            )


def _commands(data: Raw) -> Iterator[Problem]:
    """Yield commands without a command line, and keys of one compiler on others."""
    for name in table(data, "toolchains"):
        compiler, toolchain = compiler_of(data, name), table(table(data, "toolchains"), name)
        if not compiler:
            continue
        if compiler == _OWNERS["command"] and not toolchain.get("command"):
            yield Problem(
                ("toolchains", name),
                f"[toolchains.{name}] needs `command`, because its compiler is {quote(compiler)}",
                'write the command line, e.g. command = ["make", "-f", "{include}/Makefile", "OUTPUT={output}"]',
            )
        for key, owner in _OWNERS.items():
            if key in toolchain and compiler != owner:
                yield Problem(
                    ("toolchains", name, key),
                    f"[toolchains.{name}] has `{key}`, which only compiler = {quote(owner)} takes",
                    "remove it, or change the compiler",
                    at_key=True,
                )


def _commands_without_id(data: Raw, objects: list[_Object]) -> Iterator[Problem]:
    """Yield commands that make a library with an ABI but do not use the file with its id."""
    bound = {text_of(item.data, "name") for item in objects if "abi" in item.data} - {""}
    users: dict[str, str] = {}
    for item in objects:
        for _, name in item.toolchains if "abi" in item.data or item.target in bound else ():
            users.setdefault(name, item.title)
    for name, title in users.items():
        words = table(table(data, "toolchains"), name).get("command")
        if isinstance(words, list) and words and not any("{abi}" in word for _, word in texts_of(words)):
            yield Problem(
                ("toolchains", name, "command"),
                f"[toolchains.{name}] command needs {{abi}}, because {title} has an ABI",
                "the library must contain the C file with the ABI id: add {abi} where the command takes an object or "
                "a source",
            )
