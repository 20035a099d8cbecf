"""Guesses `[build]`: the requirements of the build, and the settings that make it build for CUDA."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

from packaging.utils import canonicalize_name

from gpuforge.cuda.frameworks import linked
from gpuforge.cuda.version import numbers_of
from gpuforge.datafile import load
from gpuforge.project.build_variables import Switch
from gpuforge.project.cmake import TOP
from gpuforge.project.facts import OFF, Project
from gpuforge.project.files import Seen, Where
from gpuforge.project.guess.guess import Guess, Note, Reason, because

_BUILD, _SETTINGS, _ENV = ("build",), ("build", "config-settings"), ("build", "env")
_ASKS = r"CUDA|GPU"
_VERBS = r"FORCE|USE|WITH|BUILD|ENABLE|INSTALL"
_THIS_CPU = r"-m(arch|cpu)=native|-xHost\b|/proc/cpuinfo|\blscpu\b"
# Variables for a path, or for disabling something.
_OTHER = r"ONLY|NO_|SKIP|DISABLE|WITHOUT|HOME|PATH|ROOT|DIR|ARCH|VERSION|FLAGS|VISIBLE|INCLUDE|LIB|CONDA|HOST|INDEX"
# Variables for a toolkit; gpuforge sets the second group.
_TOOLKIT = r"CUDA_?(TOOLKIT_?)?(ROOT|HOME|PATH|DIR|ROOT_DIR|INSTALL_DIR)|CUDA_TOOLKIT"
_SET = frozenset({"CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"})
_ARCHS = r"(?!TORCH_|CMAKE_|CUDAARCHS).*(CUDA|NVCC|SM|GPU)\w*ARCH\w*"
_SETUPTOOLS = frozenset({"setuptools", "wheel", "pip", "distutils", "pkg_resources"})


def guesses(project: Project) -> Iterator[Guess | Note]:
    """Yield the keys of [build]."""
    if project.cuda is None:
        yield Guess(_BUILD, "cuda", False, (because("no-cuda"),))
    requires = dict(_requires(project))
    if requires:
        yield Guess(_BUILD, "requires", tuple(requires), tuple(requires.values()))
    yield from _settings(project)
    yield from _variables(project)
    yield from _notes(project)


def _requires(project: Project) -> Iterator[tuple[str, Reason]]:
    """Yield the build requirements that are not in pyproject.toml."""
    declared, backend = project.backend.requires, project.backend
    cmake = project.cmake
    if backend.cmake is not None:
        minimum = cmake.minimum if cmake else None
        old = minimum and numbers_of(minimum.text) < (3, 5)
        if minimum and old:
            yield "cmake<4", because("cmake-old", minimum.where, version=minimum.text)
        elif "cmake" not in declared:
            kind = "cmake-needed" if backend.name == "scikit-build-core" else "cmake-called"
            yield "cmake", because(kind, backend.where)
        if "ninja" not in declared:
            yield "ninja", because("ninja-needed", backend.where)
    names = load(__file__, "imports.toml")["distributions"]
    frameworks = {each.package for each in linked()}
    is_own = _own(project)
    for each in project.script.imports:
        name = canonicalize_name(names.get(each.module, each.module))
        known = name in declared or name in _SETUPTOOLS or is_own(each.module)
        if not known and (not each.optional or each.module in frameworks):
            declared = {**declared, name: Seen(name, each.where)}
            yield name, because("imported", each.where, module=each.module)
    numpy = next((seen for seen in project.sources.includes if seen.text.startswith("numpy/")), None)
    if numpy and not {"numpy", "oldest-supported-numpy"} & declared.keys():
        yield "numpy", because("numpy-headers", numpy.where, header=numpy.text)
    used = project.framework
    compiles = used and used.framework.builder in _words(project)
    if (
        used
        and compiles
        and not project.script.no_ninja
        and "ninja" not in declared
        and backend.cmake is None
    ):
        yield "ninja", because("framework-ninja", used.where, framework=used.framework.package)


def _own(project: Project) -> Callable[[str], bool]:
    """Return a predicate for the project's modules: beside setup.py, or in a folder that it names."""
    named = {seen.text.rpartition("/")[2] for seen in project.script.texts} | {""}
    return lambda module: any(
        folder.rpartition("/")[2] in named for folder in project.files.with_module(module)
    )


def _words(project: Project) -> set[str]:
    texts = project.files.text("setup.py")
    return set(re.findall(r"\b[A-Z]\w+", texts))


def _settings(project: Project) -> Iterator[Guess | Note]:
    """Yield config settings: CMake's options for CUDA, and those that cibuildwheel passes."""
    chosen = project.chosen.settings if project.chosen else {}
    reasons = {
        name: because(each.kind, *each.where, name=each.library or name, option=name, value=each.value)
        for name, each in chosen.items()
    }
    backend = project.backend.name
    if backend == "scikit-build-core":
        for name, each in chosen.items():
            yield Guess(_SETTINGS, f"cmake.define.{name}", each.value, (reasons[name],))
    elif chosen and backend == "scikit-build":
        options = " ".join(f"-D{name}={each.value}" for name, each in chosen.items())
        yield Guess(_ENV, "SKBUILD_CONFIGURE_OPTIONS", options, tuple(reasons.values()))
    else:
        yield from (
            Note(_BUILD, because("cmake-switch", *reason.where, **reason.facts))
            for reason in reasons.values()
        )
    for key, value, where in project.wheelbuilder.settings:
        name = key.rpartition(".")[2]
        if name in {"CMAKE_CUDA_ARCHITECTURES", "CIBUILDWHEEL"} or name in chosen:
            continue
        if key.isprintable() and value.isprintable() and "{" not in value:
            yield Guess(_SETTINGS, key, value, (because("cibuildwheel", where),))


def _variables(project: Project) -> Iterator[Guess]:
    """Yield the environment variables that make a setup.py build for CUDA, and build at all."""
    done: set[str] = set()
    for switch in project.script.switches:
        value = _value(switch)
        if value and switch.variable not in done:
            done.add(switch.variable)
            kind = "force-build" if switch.variable.endswith("FORCE_BUILD") else "variable"
            reason = because(kind, switch.where, name=switch.variable, value=value)
            yield Guess(_ENV, switch.variable, value, (reason,))
    read = {switch.variable: switch.where for switch in project.script.switches}
    if _SET.isdisjoint(read):
        for name, where in read.items():
            if re.fullmatch(_TOOLKIT, name):
                yield Guess(_ENV, name, "{toolkit}", (because("toolkit-variable", where, name=name),))


def _native(project: Project) -> Iterator[Where]:
    """Yield the places where code is compiled for the build machine's CPU, and no setting turns it off."""
    yield from (each.where for each in (project.cmake.this_cpu if project.cmake else ()))
    yield from (seen.where for seen in project.script.texts if re.search(_THIS_CPU, seen.text))


def _value(switch: Switch) -> str:
    """Return the value that enables CUDA; "" if the variable is for something else, or enables it already."""
    if switch.default and switch.default == switch.value:
        return ""
    if switch.variable.endswith("FORCE_BUILD"):
        return switch.value or "1"
    if re.fullmatch(r"(?i)cuda|gpu", switch.value):
        return switch.value
    asks = re.search(_ASKS, switch.variable) and re.search(_VERBS, switch.variable)
    if not asks or re.search(_OTHER, switch.variable):
        return ""
    return "" if switch.value and switch.value.upper() in OFF else switch.value or "1"


def _notes(project: Project) -> Iterator[Note]:
    """Yield the needs of the build for which no key can be guessed."""
    downloads = project.cmake.downloads if project.cmake else ()
    if downloads:
        what = ", ".join(dict.fromkeys(each.text for each in downloads))
        yield Note(_BUILD, because("downloads", *(each.where for each in downloads[:4]), what=what))
    for seen in project.script.downloads[:1]:
        yield Note(_BUILD, because("script-downloads", seen.where, module=seen.text))
    for switch in project.script.switches:
        if re.fullmatch(_ARCHS, switch.variable):
            yield Note(_BUILD, because("own-archs", switch.where, name=switch.variable))
            break
    for seen in (project.cmake.own_archs if project.cmake and project.cuda else ())[:1]:
        yield Note(_BUILD, because("own-archs", seen.where, name=seen.text))
    if project.backend.cmake is not None and project.cmake is None:
        yield Note(_BUILD, because("no-cmake-files", file=posixpath.join(project.backend.cmake, TOP)))
    if native := next(_native(project), None):
        yield Note(_BUILD, because("native", native))
    before = project.wheelbuilder.before
    if before:
        yield Note(_BUILD, because("before-all", before.where, command=before.text))
