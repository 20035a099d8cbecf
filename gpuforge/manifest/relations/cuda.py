"""`[cuda]`: toolkits, architectures and linkage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpuforge.cuda.version import is_of, major_of
from gpuforge.manifest import forms
from gpuforge.manifest.positions import KeyPath
from gpuforge.manifest.problem import Problem, Raw, numbered, object_title, table, text_of
from gpuforge.manifest.quoting import quote
from gpuforge.toolchain_names import compiles_for, needs_cuda

_EXAMPLE = 'write, for example, [cuda.13] with toolkit = "13.0" and archs = ["80", "90"]'


def without(data: Raw) -> Iterator[Problem]:
    """Yield keys that need a CUDA toolkit in a manifest without `[cuda]`, and a manifest with nothing for a GPU."""
    if "cuda" in data:
        return
    if not data.get("objects") and table(data, "build").get("cuda") is not False:
        hint = f"{_EXAMPLE}; for a package without CUDA write cuda = false in [build]"
        yield Problem((), "the manifest has no table [cuda]", hint)
    for name, toolchain in table(data, "toolchains").items():
        compiler = toolchain.get("compiler") if isinstance(toolchain, Mapping) else None
        if isinstance(compiler, str) and needs_cuda(compiler):
            yield Problem(
                ("toolchains", name, "compiler"),
                f"[toolchains.{name}] {compiler} needs a CUDA toolkit, and the manifest has no [cuda]",
                _EXAMPLE,
            )
    if table(data, "build").get("cuda") is True:
        yield Problem(
            ("build", "cuda"), "[build] cuda = true needs a toolkit, and the manifest has no [cuda]", _EXAMPLE
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


def toolkits(data: Raw) -> Iterator[Problem]:
    """Yield `[cuda]` without toolkits, a toolkit in the table of another CUDA major, and a toolkit in two tables."""
    cuda = table(data, "cuda")
    if "cuda" not in data or not isinstance(data["cuda"], Mapping):
        return
    versions = {key: cuda[key] for key in cuda if re.search(forms.VERSION_KEY, key)}
    if not versions:
        yield Problem(
            ("cuda",),
            "[cuda] has no toolkit",
            'add a table for one, e.g. [cuda.13] with toolkit = "13.0" and archs = ["80", "90"]',
        )
    owners: dict[str, str] = {}
    for key, written in versions.items():
        toolkit = written.get("toolkit", key) if isinstance(written, Mapping) else None
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
    """Yield `ptx` and objects with code for `archs` if a toolkit's `archs = []` means that there is none."""
    cuda = table(data, "cuda")
    for key, version in cuda.items():
        if not (
            re.search(forms.VERSION_KEY, key) and isinstance(version, Mapping) and version.get("archs") == []
        ):
            continue
        if "ptx" in version:
            yield Problem(
                ("cuda", key, "ptx"),
                f"{_version_table(key)} has `ptx`, but archs = [] means that the package has no GPU code",
                "list the architectures to compile for, or remove `ptx`",
                at_key=True,
            )
        for _, thing in numbered(data.get("objects")):
            if text_of(thing, "role") in {"fallback", "user-compiled"} and not _without_archs(data, thing):
                yield Problem(
                    ("cuda", key, "archs"),
                    f"{_version_table(key)} has archs = [] (no GPU code), but {object_title(thing)} is GPU code",
                    'list the architectures to compile for, e.g. archs = ["80", "90"]',
                )


def _without_archs(data: Raw, thing: Raw) -> bool:
    """Return whether none of an object's toolchains compiles for `archs`."""
    several = thing.get("toolchains")
    names = [thing.get("toolchain"), *(several if isinstance(several, list) else ())]
    tables = [table(table(data, "toolchains"), name) for name in names if isinstance(name, str)]
    compilers = [text_of(each, "compiler") for each in tables]
    return bool(compilers) and all(name and compiles_for(name) != "archs" for name in compilers)


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


def _version_table(key: str) -> str:
    return f'[cuda."{key}"]' if "." in key else f"[cuda.{key}]"
