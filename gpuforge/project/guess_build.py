"""Guesses `[build]`: the requirements of the build, and the settings that make it build for CUDA."""

import posixpath
import re
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from gpuforge.cuda.carriers import linked_frameworks
from gpuforge.cuda.version import numbers_of
from gpuforge.datafile import load
from gpuforge.project import cibuildwheel
from gpuforge.project.cmake import TOP
from gpuforge.project.facts import OFF, Project
from gpuforge.project.files import Seen, Where
from gpuforge.project.guess import Guess, Note, Reason, because
from gpuforge.project.setup_script import Import, Switch
from gpuforge.project.sources import NATIVE, OF_EVERY_TOOLKIT, library, names

_BUILD, _SETTINGS, _ENV = ("build",), ("build", "config-settings"), ("build", "env")
# Variables that switch CUDA as a whole; USE_CUDA_FP8 is for a part that upstream leaves off.
_SWITCHES = (
    r"(\w+_)?(FORCE|USE|WITH|BUILD|ENABLE|INSTALL)_(\w+_)?(CUDA|GPU)"
    r"(_(EXT|EXTENSIONS?|SUPPORT|KERNELS?|OPS|BACKEND|WHEEL))?"
)
_OTHER = r"ONLY|(^|_)NO_|SKIP|DISABLE|WITHOUT"
_OF_COMPILERS = frozenset(
    {"c", "m", "dl", "rt", "pthread", "stdc++", "gomp", "omp", "gcc", "gcc_s", "util", "c10", "torch"}
)
# Functions of torch.cuda that fail without a GPU.
_OF_A_GPU = {
    "get_device_capability",
    "get_device_properties",
    "get_device_name",
    "current_device",
    "device_count",
}
_WITH_CMAKE_FILES = {"torch", "pybind11", "nanobind", "numpy"}
_LOOKS_AT_CPU = r"-xHost\b|/proc/cpuinfo|\blscpu\b"
# Variables for a toolkit; gpuforge sets the second group.
_TOOLKIT = r"CUDA_?(TOOLKIT_?)?(ROOT|HOME|PATH|DIR|ROOT_DIR|INSTALL_DIR)|CUDA_TOOLKIT"
_SET = frozenset({"CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"})


def guesses(project: Project) -> Iterator[Guess | Note]:
    """Yield the keys of [build]."""
    if project.cuda is None:
        yield Guess(_BUILD, "cuda", False, (because("no-cuda"),))
    requires = dict(_requires(project))
    if requires:
        yield Guess(_BUILD, "requires", tuple(requires), tuple(requires.values()))
    native = [each.where for each in project.cmake.this_cpu if each.native]  # those that no setting turns off
    native += [seen.where for seen in project.script.texts if re.search(NATIVE, seen.text)]
    native += [each for each in (project.sources.meson_native,) if each]
    if before := dict([*_older_standards(project), *_without_a_gpu(project)]):
        yield Guess(_BUILD, "before", tuple(before), tuple(before.values()))
    if native:
        yield Guess(_BUILD, "cpu", "x86-64", (because("native", native[0]),))
    found = [*_settings(project), *_variables(project)]
    taken = {each.key.rpartition(".")[2] for each in found if isinstance(each, Guess)}
    yield from (*found, *cibuildwheel.guesses(project, taken), *_notes(project))


def _requires(project: Project) -> Iterator[tuple[str, Reason]]:
    """Yield the build requirements that are not in pyproject.toml."""
    declared, backend = project.backend.requires, project.backend
    if backend.cmake is not None:
        minimum = project.cmake.minimum
        old = minimum and numbers_of(minimum.text) < (3, 5)
        if minimum and old:
            yield "cmake<4", because("cmake-old", minimum.where, version=minimum.text)
        elif "cmake" not in declared:
            kind = "cmake-needed" if backend.name == "scikit-build-core" else "cmake-called"
            yield "cmake", because(kind, backend.where)
        if "ninja" not in declared and (ninja := _ninja(project)):
            yield "ninja", because("ninja-needed", ninja)
    known = load(__file__, "requirements.toml")["requirements"]
    for each in _unmet(project):
        if (name := known.get(each.module)) and name not in declared:
            declared = {**declared, name: Seen(name, each.where)}
            yield name, because("imported", each.where, module=each.module)
    for package in project.cmake.packages:  # those of Python's packages that bring CMake files
        name = package.name.lower()
        if package.required and package.sure and name in _WITH_CMAKE_FILES - declared.keys():
            declared = {**declared, name: Seen(name, package.where)}
            yield name, because("found-by-cmake", package.where, name=package.name)
    yield from _setuptools(project)
    yield from cibuildwheel.requires(project)
    numpy = next((seen for seen in project.sources.includes if seen.text.startswith("numpy/")), None)
    if numpy and not {"numpy", "oldest-supported-numpy"} & declared.keys():
        yield "numpy", because("numpy-headers", numpy.where, header=numpy.text)
    used = project.framework
    compiles = used and used.framework.builder in project.script.names and not project.script.no_ninja
    if used and compiles and "ninja" not in declared and backend.cmake is None:
        yield "ninja", because("framework-ninja", used.where, framework=used.framework.package)


def _older_standards(project: Project) -> Iterator[tuple[tuple[str, ...], Reason]]:
    """Yield commands that replace an older C++ than the framework's newest headers take, if that release is used."""
    used = project.framework
    if not used or not used.framework.standard:
        return
    framework = used.framework
    required = [project.backend.requires.get(framework.package), *project.metadata.requires]
    if any(seen and re.match(rf"{framework.package}\b.*(<|==|~=)\s*\d", seen.text) for seen in required):
        return  # perhaps an older release
    for seen in project.script.texts:
        if old := re.fullmatch(r"-std=(c|gnu)\+\+(11|14|17)", seen.text):
            new = f"-std={old[1]}++{framework.standard}"
            reason = because(
                "framework-standard", seen.where, framework=framework.package, standard=framework.standard
            )
            yield ("sed", "-i", f"s/{old[0]}/{new}/g", seen.where.file), reason


def _asks_for_gpu(project: Project) -> Where | None:
    """Return where setup.py asks torch for a GPU, if no variable switches CUDA on."""
    is_switched = any(_value(switch, project) for switch in project.script.switches)
    return project.script.asks_for_gpu if project.cuda and not is_switched else None


def _without_a_gpu(project: Project) -> Iterator[tuple[tuple[str, ...], Reason]]:
    """Yield the command that answers for a GPU, unless the GPU is asked further, or setup.py ends without one."""
    script = project.script
    asks = _asks_for_gpu(project)
    otherwise = script.ends_without_gpu or script.asks_otherwise or _OF_A_GPU & script.names.keys()
    if asks and not otherwise:
        command = ("sed", "-i", r"s/torch\.cuda\.is_available()/True/g", asks.file)
        yield command, because("without-gpu", asks)


def _unmet(project: Project) -> Iterator[Import]:
    """Yield the imports of setup.py that neither the project nor setuptools has; of optional ones, frameworks."""
    frameworks = {each.package for each in linked_frameworks()}
    named = {seen.text.rpartition("/")[2] for seen in project.script.texts} | {""}
    of_setuptools = load(__file__, "requirements.toml")["setuptools"]
    for each in project.script.imports:
        folders = project.files.modules.get(each.module, ())  # beside setup.py, or in a folder that it names
        is_own = any(folder.rpartition("/")[2] in named for folder in folders)
        is_declared = canonicalize_name(each.module) in project.backend.requires
        is_needed = (not each.optional or each.module in frameworks) and not is_declared
        if is_needed and not is_own and each.module not in {*of_setuptools, "wheel", "pip"}:
            yield each


def _setuptools(project: Project) -> Iterator[tuple[str, Reason]]:
    """Yield a limit for setuptools, if setup.py imports a module that later releases do not have."""
    gone = load(__file__, "requirements.toml")["setuptools"]
    declared = project.backend.requires.get("setuptools")
    specifier = Requirement(declared.text).specifier if declared else SpecifierSet()
    for each in project.script.imports:
        for name in () if each.optional else dict.fromkeys((each.module, *each.names)):
            if (limit := gone.get(name)) and specifier.contains(limit):
                reason = because("setuptools-limit", each.where, module=name, release=limit)
                yield f"setuptools<{limit}", reason


def _ninja(project: Project) -> Where | None:
    """Return the place that makes the build use ninja: scikit-build does if it is there, CMake if it is told to."""
    if project.backend.name.startswith("scikit-build"):
        return project.backend.where
    asking = (seen.where for seen in project.script.texts if re.search(r"(?i)\bninja\b|-GNinja", seen.text))
    return next(asking, None)


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
        for reason in reasons.values():
            yield Note(_BUILD, because("cmake-switch", *reason.where, **reason.facts))


def _variables(project: Project) -> Iterator[Guess]:
    """Yield the environment variables that make a setup.py build for CUDA, and build at all."""
    done: set[str] = set()
    for switch in project.script.switches:
        value = _value(switch, project) if project.cuda or switch.variable.endswith("FORCE_BUILD") else ""
        if value and switch.variable not in done:
            done.add(switch.variable)
            kind = "force-build" if switch.variable.endswith("FORCE_BUILD") else "variable"
            reason = because(kind, switch.where, name=switch.variable, value=value)
            yield Guess(_ENV, switch.variable, value, (reason,))
    read = {switch.variable: switch.where for switch in project.script.switches}
    if project.cuda and _SET.isdisjoint(read):
        for name, where in read.items():
            if re.fullmatch(_TOOLKIT, name):
                yield Guess(_ENV, name, "{toolkit}", (because("toolkit-variable", where, name=name),))


def _value(switch: Switch, project: Project) -> str:
    """Return the value that enables CUDA; "" if the variable is for something else, or enables it already.

    One that has the project's name alone (BUILD_MONAI) is for all that is compiled.
    """
    if switch.default and switch.default == switch.value:
        return ""
    named = project.metadata.name
    own = named is not None and switch.variable == f"BUILD_{re.sub('[-.]', '_', named.text).upper()}"
    if switch.variable.endswith("FORCE_BUILD"):
        return switch.value or "1"
    if re.fullmatch(r"(?i)cuda", switch.value):
        return switch.value
    if not own and (not re.fullmatch(_SWITCHES, switch.variable) or re.search(_OTHER, switch.variable)):
        return ""
    return "" if switch.value and switch.value.upper() in OFF else switch.value or "1"


def _notes(project: Project) -> Iterator[Note]:
    """Yield the needs of the build for which no key can be guessed."""
    if downloads := project.cmake.downloads:
        what = ", ".join(dict.fromkeys(each.text for each in downloads))
        yield Note(_BUILD, because("downloads", *(each.where for each in downloads[:4]), what=what))
    for seen in project.script.downloads[:1]:
        yield Note(_BUILD, because("script-downloads", seen.where, module=seen.text))
    known = load(__file__, "requirements.toml")["requirements"]
    unknown = {each.module: each.where for each in _unmet(project) if each.module not in known}
    if unknown:
        yield Note(_BUILD, because("import-unknown", *unknown.values(), modules=", ".join(unknown)))
    for switch in project.script.switches if project.cuda is None else ():
        if re.fullmatch(_TOOLKIT, switch.variable) or re.fullmatch(_SWITCHES, switch.variable):
            yield Note(_BUILD, because("cuda-perhaps", switch.where, name=switch.variable))
            break
    if absent := project.script.absent:
        what = ", ".join(dict.fromkeys(seen.text for seen in absent))
        yield Note(_BUILD, because("absent", absent[0].where, what=what))
    if (asks := _asks_for_gpu(project)) and not dict(_without_a_gpu(project)):
        yield Note(_BUILD, because("asks-for-gpu", asks))
    yield from _of_system(project)
    if project.backend.cmake is not None and project.chosen is None:
        yield Note(_BUILD, because("no-cmake-files", file=posixpath.join(project.backend.cmake, TOP)))
    checks = [each.where for each in project.cmake.this_cpu if not each.native]
    checks += [seen.where for seen in project.script.texts if re.search(_LOOKS_AT_CPU, seen.text)]
    checks += [each.where for each in project.script.imports if each.module in {"cpuinfo", "cpufeature"}]
    checks += [each for each in (project.sources.meson_run,) if each]
    if checks:
        yield Note(_BUILD, because("native-check", checks[0]))


def _of_system(project: Project) -> Iterator[Note]:
    """Yield the packages that the build looks for, and that neither its requirements nor CUDA's toolkits bring."""
    brought = set(load(__file__, "system.toml")["brought"])
    brought |= {name.replace("-", "") for name in project.backend.requires}
    brought |= {file.rpartition("/")[2].lower().removesuffix(".wrap") for file in project.files.names}
    found: dict[str, Where] = {}
    for package in project.cmake.packages:
        name = package.name
        own = f"find{name}.cmake".lower() in brought and not package.required
        is_cuda = library(name) in names() - {"opencl"}
        if name.isidentifier() and package.sure and not own and not is_cuda and name.lower() not in brought:
            found.setdefault(name, package.where)
    for seen in (*project.sources.meson_packages, *project.script.libraries):
        is_cuda = library(seen.text) in (names() | OF_EVERY_TOOLKIT) - {"opencl"}
        if not is_cuda and seen.text.lower() not in brought | _OF_COMPILERS:
            found.setdefault(seen.text, seen.where)
    if found:
        places = tuple(dict.fromkeys(found.values()))
        yield Note(_BUILD, because("of-system", *places[:4], names=", ".join(found)))
