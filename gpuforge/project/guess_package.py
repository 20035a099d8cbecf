"""Guesses `[package]`: the name, the source, the Pythons and the ABI."""

import re
from collections.abc import Iterator

from packaging.specifiers import SpecifierSet

from gpuforge.cpython import CPython
from gpuforge.manifest.checks import OLDEST_PYTHON
from gpuforge.project.facts import Project
from gpuforge.project.files import Where
from gpuforge.project.guess import Guess, Note, Reason, because
from gpuforge.project.obtain import Origin

_PACKAGE = ("package",)
# Releases of CPython that get fixes: https://devguide.python.org/versions/
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
_CLASSIFIER = r"Programming Language :: Python :: (3\.\d+)"


def guesses(project: Project, origin: Origin) -> Iterator[Guess | Note]:
    """Yield the keys of [package]."""
    named = project.metadata.name
    name = named.text if named else origin.name
    reason = because("name", named.where) if named else because("name-of-folder")
    yield Guess(_PACKAGE, "name", name, (reason,))
    yield Guess(_PACKAGE, "source", origin.source, (because(origin.kind, **origin.facts),))
    abi, reason = _abi(project, origin)
    if abi:
        yield Guess(_PACKAGE, "abi", abi, (reason,))
    yield from _pythons(project, abi)
    yield from _import_name(project, name)


def _abi(project: Project, origin: Origin) -> tuple[str, Reason]:
    """Guess that one wheel serves many Pythons, by the backend's setting or by the wheels on the index."""
    api, published = project.backend.py_api, origin.tags
    if api and re.fullmatch(r"py[23](\.py3)?", api.text):
        return "none", because("py-api", api.where, value=api.text)
    if api and (python := CPython.of_tag(api.text)) and not python.threads:
        return "abi3", because("py-api", api.where, value=api.text)
    if project.script.limited_api:
        return "abi3", because("limited-api", project.script.limited_api)
    if not project.compiles:
        return "none", because("pure")
    if published and all((tag.interpreter, tag.abi) == ("py3", "none") for tag in published):
        return "none", because("published", tags="py3-none")
    if published and all(tag.abi == "abi3" for tag in published):
        return "abi3", because("published", tags="abi3")
    return "", because("")


def _pythons(project: Project, abi: str) -> Iterator[Guess]:
    """Yield the Python versions: what the classifiers list, else what Requires-Python allows."""
    required, api = project.metadata.requires_python, project.backend.py_api
    allowed, kind = _allowed(project)
    reason = because(kind, required.where if required else None)
    if abi == "none":
        if kind == "requires-python" and allowed[0] != OLDEST_PYTHON:
            yield Guess(_PACKAGE, "python", allowed[:1], (reason,))
        return
    if abi:
        lowest = CPython.of_tag(api.text) if api else None
        known = api or required
        reason = because("abi3-lowest", known.where if known else None)
        yield Guess(_PACKAGE, "python", (str(lowest or allowed[0]),), (reason,))
        return
    listed = {
        match[1]: seen.where
        for seen in project.metadata.classifiers
        if (match := re.fullmatch(_CLASSIFIER, seen.text))
    }
    chosen = tuple(version for version in allowed if version in listed)
    built = project.wheelbuilder.pythons(chosen or allowed)
    options = project.wheelbuilder.options
    selecting = [seen.where for name, seen in options.items() if name in {"build", "skip"}]
    if selecting and built:
        yield Guess(_PACKAGE, "python", built, (because("cibuildwheel-pythons", *selecting),))
    elif chosen:
        reason = because("classifiers", listed[chosen[0]], listed[chosen[-1]])
        yield Guess(_PACKAGE, "python", chosen, (reason,))
    else:
        yield Guess(_PACKAGE, "python", allowed, (reason,))


def _allowed(project: Project) -> tuple[tuple[str, ...], str]:
    """Return the versions that Requires-Python allows, and the kind of the reason."""
    required = project.metadata.requires_python
    if required is None:
        return PYTHONS, "every-python"
    try:
        specifier = SpecifierSet(required.text)
        fitting = tuple(
            version for version in PYTHONS if f"{version}.99" in specifier or version in specifier
        )
    except ValueError:  # not specifiers, or with a number of thousands of digits
        return PYTHONS, "every-python"
    return (fitting, "requires-python") if fitting else (PYTHONS, "requires-none")


def _import_name(project: Project, name: str) -> Iterator[Guess | Note]:
    """Yield the import package if its name differs from the distribution's."""
    usual = name.replace("-", "_")
    found = {
        _dotted(parts): Where(file)
        for file in sorted(project.files.names)
        if file.endswith("/__init__.py")
        and (parts := file.split("/"))
        and (len(parts) == 2 or parts[-3] in {"src", "python", usual} or "python" in parts[:-2])
        and parts[-2] not in {"tests", "test", "docs", "examples"}
        and f"{'/'.join(parts[:-2])}/__init__.py" not in project.files.names
    }
    if usual in found or not found:
        return
    near = [package for package in found if len(found) == 1 or package.lower() == usual.lower()]
    if near:
        yield Guess(_PACKAGE, "import", near[0], (because("import", found[near[0]]),))
    else:
        yield Note(_PACKAGE, because("imports", packages=", ".join(found)))


def _dotted(parts: list[str]) -> str:
    """Return the name of the package of an __init__.py, with the namespaces that it is in below src or python."""
    top = max(
        (n for n, part in enumerate(parts[:-2], 1) if part in {"src", "python"}), default=len(parts) - 2
    )
    return ".".join(parts[top:-1])
