"""Guesses `[package]`: the name, the source, the Pythons and the ABI."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.specifiers import SpecifierSet

from gpuforge.cpython import CPython
from gpuforge.manifest.checks import OLDEST_PYTHON
from gpuforge.project.facts import Project
from gpuforge.project.files import Where
from gpuforge.project.guess.guess import Guess, Note, because
from gpuforge.project.origin import Origin

_PACKAGE = ("package",)
# Releases of CPython that get fixes: https://devguide.python.org/versions/
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
_CLASSIFIER = r"Programming Language :: Python :: (3\.\d+)"


def guesses(project: Project, origin: Origin) -> Iterator[Guess | Note]:
    """Yield the keys of [package]."""
    name = project.metadata.name
    yield Guess(
        _PACKAGE,
        "name",
        name.text if name else origin.name,
        (because("name", name.where) if name else because("name-of-folder"),),
    )
    yield Guess(_PACKAGE, "source", origin.source, (because(origin.kind, **origin.facts),))
    limited = _abi(project, origin)
    if limited:
        yield limited
    if limited is None or limited.value == "abi3":
        yield _pythons(project, limited)
    else:
        yield from _oldest(project)
    yield from _import_name(project, name.text if name else origin.name)


def _abi(project: Project, origin: Origin) -> Guess | None:
    """Guess that one wheel serves many Pythons, by the backend's setting or by the wheels on the index."""
    api = project.backend.py_api
    if api and re.fullmatch(r"py[23](\.py3)?", api.text):
        return Guess(_PACKAGE, "abi", "none", (because("py-api", api.where, value=api.text),))
    if api and (python := CPython.of_tag(api.text)) and not python.threads:
        return Guess(_PACKAGE, "abi", "abi3", (because("py-api", api.where, value=api.text),))
    if project.script.limited_api:
        return Guess(_PACKAGE, "abi", "abi3", (because("limited-api", project.script.limited_api),))
    if not project.compiles:
        return Guess(_PACKAGE, "abi", "none", (because("pure"),))
    published = origin.tags
    if published and all((tag.interpreter, tag.abi) == ("py3", "none") for tag in published):
        return Guess(_PACKAGE, "abi", "none", (because("published", tags="py3-none"),))
    if published and all(tag.abi == "abi3" for tag in published):
        return Guess(_PACKAGE, "abi", "abi3", (because("published", tags="abi3"),))
    return None


def _pythons(project: Project, limited: Guess | None) -> Guess:
    """Guess the Python versions: what the classifiers list, else what Requires-Python allows."""
    required = project.metadata.requires_python
    allowed, reason = _allowed(project)
    if limited:
        api = project.backend.py_api
        lowest = CPython.of_tag(api.text) if api else None
        return Guess(
            _PACKAGE,
            "python",
            (str(lowest or allowed[0]),),
            (because("abi3-lowest", *(w for w in [_at(project)] if w)),),
        )
    listed = {
        match[1]: seen.where
        for seen in project.metadata.classifiers
        if (match := re.fullmatch(_CLASSIFIER, seen.text))
    }
    chosen = tuple(version for version in allowed if version in listed)
    built = project.wheelbuilder.pythons(chosen or allowed)
    selecting = [
        seen.where for name, seen in project.wheelbuilder.options.items() if name in {"build", "skip"}
    ]
    if selecting and built:
        return Guess(_PACKAGE, "python", built, (because("cibuildwheel-pythons", *selecting),))
    if chosen:
        return Guess(
            _PACKAGE, "python", chosen, (because("classifiers", listed[chosen[0]], listed[chosen[-1]]),)
        )
    return Guess(_PACKAGE, "python", allowed, (because(reason, required.where if required else None),))


def _at(project: Project) -> Where | None:
    seen = project.backend.py_api or project.metadata.requires_python
    return seen.where if seen else None


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


def _oldest(project: Project) -> Iterator[Guess]:
    """Yield the Python that builds a wheel for all, if the project does not allow the oldest."""
    allowed, reason = _allowed(project)
    required = project.metadata.requires_python
    if reason == "requires-python" and allowed[0] != OLDEST_PYTHON and required:
        yield Guess(_PACKAGE, "python", allowed[:1], (because("requires-python", required.where),))


def _import_name(project: Project, name: str) -> Iterator[Guess | Note]:
    """Yield the import package if its name differs from the distribution's."""
    usual = name.replace("-", "_")
    found = {
        parts[-2]: Where(file)
        for file in sorted(project.files.names)
        if file.endswith("/__init__.py")
        and (parts := file.split("/"))
        and (len(parts) == 2 or parts[-3] in {"src", "python", usual} or "python" in parts[:-2])
        and parts[-2] not in {"tests", "test", "docs", "examples"}
        and f"{'/'.join(parts[:-2])}/__init__.py" not in project.files.names
    }
    if usual in found or not found:
        return
    if len(found) == 1:
        ((package, where),) = found.items()
        yield Guess(_PACKAGE, "import", package, (because("import", where),))
    else:
        near = [package for package in found if package.lower() == usual.lower()]
        if near:
            yield Guess(_PACKAGE, "import", near[0], (because("import", found[near[0]]),))
        else:
            yield Note(_PACKAGE, because("imports", packages=", ".join(found)))
