"""Guesses keys from cibuildwheel's settings; lists those that have no equivalent."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement

from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.frameworks import linked
from gpuforge.project.cibuildwheel import split
from gpuforge.project.facts import Project
from gpuforge.project.files import Seen, Where
from gpuforge.project.guess.guess import Guess, Note, Reason, because

_BUILD, _SETTINGS, _ENV, _TEST = ("build",), ("build", "config-settings"), ("build", "env"), ("test",)
# Variables that gpuforge sets, or that only an installation of CUDA has a meaning for.
_OURS = (
    r"CC|CXX|CFLAGS|CUDACXX|CUDAHOSTCXX|CUDAARCHS|CUDA_(HOME|PATH|ROOT)|CUDAToolkit_ROOT|NVCC_\w+|PATH|LD_LIBRARY_PATH|"
    r"TORCH_CUDA_ARCH_LIST|CMAKE_CUDA_ARCHITECTURES|MAX_JOBS|CMAKE_BUILD_PARALLEL_LEVEL|(PIP|UV|CIBW|SCCACHE|CCACHE)_\w+"
)
_HANDLED = frozenset(
    {
        *("build", "skip", "before-all", "before-build", "repair-wheel-command", "manylinux-x86_64-image"),
        *("test-command", "test-requires", "test-extras", "test-sources", "environment-pass"),
    }
)


def requires(project: Project) -> Iterator[tuple[str, Reason]]:
    """Yield the requirements that `before-build` installs by pip."""
    for name, where in _installed(project):
        yield name, because("cibuildwheel-before-build", where)


def guesses(project: Project, taken: set[str]) -> Iterator[Guess | Note]:
    """Yield keys of [build], [wheel] and [test], and notes; `taken` are the settings and variables guessed before."""
    yield from _build(project)
    left = [*_settings(project, taken), *_environment(project, taken)]
    yield from (each for each in left if isinstance(each, Guess))
    yield from _test(project)
    yield from _wheel(project)
    options = project.wheelbuilder.options
    others = [f"{name} = {seen.text}" for name, seen in options.items() if name not in _HANDLED]
    others += [each for each in left if isinstance(each, str)]
    others += [f"{name} = …" for name in project.wheelbuilder.tables if name == "test-environment"]
    others += [seen.text for seen in project.wheelbuilder.several]
    others += [f"overrides for {seen.text}" for seen in project.wheelbuilder.overrides]
    if others:
        places = [seen.where for name, seen in options.items() if name not in _HANDLED]
        places += [seen.where for seen in (*project.wheelbuilder.overrides, *project.wheelbuilder.several)]
        yield Note(_BUILD, because("cibuildwheel-left", *dict.fromkeys(places[:4]), what="; ".join(others)))


def _installed(project: Project) -> Iterator[tuple[str, Where]]:
    before = project.wheelbuilder.options.get("before-build")
    for command in _commands(before) if before else ():
        for word in _packages(command):
            if before and Requirement(word).name not in {"pip", *project.backend.requires}:
                yield word, before.where


def _commands(seen: Seen) -> list[list[str]]:
    return [words for text in re.split(r"&&|;|\n", seen.text) if (words := split(text))]


def _packages(command: list[str]) -> list[str]:
    """Return the requirements that a call of pip installs; none if it installs anything else, or is no call of pip."""
    match = re.fullmatch(r"(?:\S*python\S* -m )?(?:uv )?pip3? install (.*)", " ".join(command))
    words = split(match[1]) if match else []
    if {"-r", "-c", "-e", "--requirement", "--constraint", "--editable", "--index-url", "-i"} & {*words}:
        return []
    named = [word for word in words if not word.startswith("-")]
    try:
        return named if all(Requirement(word).url is None for word in named) else []
    except InvalidRequirement:
        return []


def _build(project: Project) -> Iterator[Note]:
    options = project.wheelbuilder.options
    if before := options.get("before-all"):
        yield Note(_BUILD, because("before-all", before.where, command=before.text))
    if before := options.get("before-build"):
        left = [each for each in _commands(before) if not _packages(each)]
        if left:
            command = " && ".join(" ".join(each) for each in left)
            yield Note(_BUILD, because("before-build", before.where, command=command))
    if passed := options.get("environment-pass"):
        yield Note(_ENV, because("environment-pass", passed.where, names=", ".join(split(passed.text))))


def _settings(project: Project, taken: set[str]) -> Iterator[Guess | str]:
    for key, seen in project.wheelbuilder.tables.get("config-settings", {}).items():
        name = key.rpartition(".")[2]
        if name in {"CMAKE_CUDA_ARCHITECTURES", "CIBUILDWHEEL"} or name in taken:
            continue
        if key.isprintable() and seen.text.isprintable() and not re.search(r"[{$]", seen.text):
            yield Guess(_SETTINGS, key, seen.text, (because("cibuildwheel", seen.where),))
        else:
            yield f"config-settings {key} = {seen.text}"


def _environment(project: Project, taken: set[str]) -> Iterator[Guess | str]:
    skbuild = project.backend.name == "scikit-build-core"
    for name, seen in project.wheelbuilder.tables.get("environment", {}).items():
        reason = because("cibuildwheel", seen.where)
        if name in {"CMAKE_ARGS", "SKBUILD_CMAKE_ARGS"} and skbuild and "$" not in seen.text:
            for option, value in re.findall(r"-D(\w+)(?::\w+)?=([^\s;]+)", seen.text):
                if option != "CMAKE_CUDA_ARCHITECTURES" and option not in taken:
                    yield Guess(_SETTINGS, f"cmake.define.{option}", value, (reason,))
        elif (
            not re.fullmatch(r"[A-Za-z_]\w*", name)
            or not seen.text.isprintable()
            or re.search(r"[{$]", seen.text)
        ):
            yield f"environment {name} = {seen.text}"
        elif re.fullmatch(_OURS, name) or name == "CMAKE_ARGS":
            yield f"environment {name} = {seen.text} (gpuforge sets it)"
        elif name not in taken:
            yield Guess(_ENV, name, seen.text, (reason,))


def _test(project: Project) -> Iterator[Guess | Note]:
    settings = project.wheelbuilder
    for option, key in (
        ("test-requires", "requires"),
        ("test-extras", "extras"),
        ("test-sources", "sources"),
    ):
        words = tuple(
            word
            for text in settings.words(option)
            for word in (text.split(",") if key == "extras" else [text])
        )
        plain = r"[\w.-]+" if key == "extras" else r"[^${}\s]+"
        if (
            words
            and all(re.fullmatch(plain, word) for word in words)
            and not any(".." in word for word in words)
        ):
            yield Guess(_TEST, key, words, (because("cibuildwheel", settings.options[option].where),))
    command = settings.options.get("test-command")
    if command and command.text.strip():
        yield Note(_TEST, because("test-command", command.where, command=command.text))


def _wheel(project: Project) -> Iterator[Guess | Note]:
    options = project.wheelbuilder.options
    repair = options.get("repair-wheel-command", Seen("", Where("")))
    excluded = dict.fromkeys(
        sonames.bare(name)
        for name in re.findall(r"--exclude[ =]([\w.*+-]+)", repair.text)
        if not libraries.is_toolkit_file(name)
        and not libraries.is_driver(name)
        and not any(re.match(each.libraries, name) for each in linked())
        and re.fullmatch(r"lib[\w.+-]+\.so[\w.]*", name)
    )
    if excluded:
        yield Guess(("wheel",), "exclude", tuple(excluded), (because("excluded", repair.where),))
    if repair.text and "auditwheel" not in repair.text:
        yield Note(("wheel",), because("repair", repair.where, command=repair.text))
    if image := options.get("manylinux-x86_64-image"):
        yield Note(("wheel",), because("image", image.where, image=image.text))
