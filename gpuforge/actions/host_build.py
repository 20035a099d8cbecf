"""The project's own build: once per Python and toolkit, or per Python alone; all namings share it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from gpuforge import tree
from gpuforge.actions import compiler
from gpuforge.actions.compiler import CompilingStep
from gpuforge.actions.environment import Settings, build_environment, python_name
from gpuforge.actions.source import sdist, source
from gpuforge.actions.toolkit import toolkit
from gpuforge.errors import ActionError
from gpuforge.plan import source_files, variables
from gpuforge.plan.action import ActionInput, Handle, Laid, P, Staged, Workdir
from gpuforge.plan.cell import Cell
from gpuforge.plan.context import PlanContext

if TYPE_CHECKING:
    from gpuforge.actions.venv import HookRunner
    from gpuforge.manifest.model import Manifest

LIBRARIES = "libraries"  # the output with those of the overlays and of [wheel] bundle-from
_ACCEPTED = {"others": {"GF409"}, "missing": {"GF401", "GF402"}}  # by the rules of [audit] ignore


@dataclass(frozen=True, kw_only=True)
class HostBuild(CompilingStep[P]):
    """Build one wheel in the environment that `MakeEnvironment` made, by the project's own PEP 517 build.

    Without `toolkit` the build gets none. The folders `overlay` are laid over each other, and `sdist` lie in folders of
    their names beside them; `before` are commands that run first. Compilers, toolkit and architectures come by
    environment variables.
    """

    packages: ClassVar = ("build",)
    source: P
    env: P
    toolkit: P | None = None
    python: P
    overlay: tuple[P, ...] = ()
    sdist: Mapping[str, P] = field(default_factory=dict)
    config_settings: Settings
    version: str = ""  # of a checkout, as `git describe` writes it
    before: tuple[tuple[str, ...], ...] = ()
    gencode: tuple[str, ...] = ()  # nvcc's options for the manifest's architectures
    left_out: tuple[str, ...] = ()  # those for architectures that `--archs` leaves out
    accepted: tuple[str, ...] = ()  # what nvcc may compile for all the same: "others", or some "missing"
    cpu: str = ""  # the level that is compiled for: "x86-64-v2"
    system: tuple[str, ...] | None = None  # the system packages that it may use
    bundle_from: tuple[str, ...] = ()  # folders whose shared libraries the wheel may get

    def run(self: HostBuild[Path], at: Workdir) -> dict[str, Any]:
        """Write the wheel; return what the compiler cache was used for, and notes for the user."""
        from gpuforge.actions import build_notes, compiler_cache
        from gpuforge.actions.venv import adopt, runner_of
        from gpuforge.plan import git_version
        from gpuforge.toolchains.sccache import CacheUse

        git_version.write(self.source, self.version)
        settings = compiler_cache.take_settings(os.environ)
        self.make_ready(at)
        python = adopt(self.env, self.python)
        at.output("wheel").mkdir(exist_ok=True)
        used: list[CacheUse] = []
        with compiler_cache.serving(settings, at.scratch, used.append) as wrapped:
            os.environ.update(wrapped)
            build(self, at, runner_of(python))
        if self.overlay or self.sdist or self.bundle_from:
            _keep_libraries(self, at)
        apart = [path.resolve() for path in (self.toolkit, self.host, self.env, self.source) if path]
        packages = build_notes.packages(at.scratch, apart)
        if self.system is not None:
            build_notes.check(packages, self.system)
        notes = [*build_notes.of_cpu(at.scratch, self.source), *build_notes.of_packages(packages)]
        return {"compiler_cache": asdict(used[0]), "notes": notes}

    def make_ready(self: HostBuild[Path], at: Workdir, *, in_place: bool = False) -> None:
        """Lay the overlays out, and write the compilers' wrappers, anew in the folder that a failed build left.

        What they link for a build `in_place` finds libraries where the wheel would get them from.
        """
        from gpuforge.actions.compiler_cache import write_nvcc, write_wrapper

        for made in ("overlay", "bin", "cuda", "nvcc"):
            tree.remove(at.scratch / made)
        overlay = at.scratch / "overlay"
        overlay.mkdir()
        for folder in self.overlay:
            tree.copy(folder, overlay)
        for name, folder in self.sdist.items():
            tree.copy(folder, overlay / name)
        rpath: list[Path] = []
        if in_place:
            rpath += [self.toolkit / "lib64"] if self.toolkit else []
            rpath += [*_bundled(self, at), *(overlay / each for each in ("", "lib", "lib64"))]
        for what, path in self.compilers().items():
            libraries = at.scratch / "cuda" / "lib64" if self.toolkit else None
            write_wrapper(path, self.names[what], at.scratch / "bin", self.cpu, libraries, rpath)
        if self.toolkit:
            nvcc = self.toolkit / "bin" / "nvcc"
            archs = self.gencode, self.accepted, self.left_out
            write_nvcc(nvcc, at.scratch / "cuda", at.scratch / "nvcc", *archs)


def build(
    step: HostBuild[Path], at: Workdir, runner: HookRunner, kind: Literal["wheel", "editable"] = "wheel"
) -> None:
    """Run `[build] before`, then the project's build backend; raises ActionError when one of them fails."""
    from build import BuildBackendException, BuildException, ProjectBuilder

    from gpuforge.actions.venv import filled
    from gpuforge.manifest.braces import fill

    names = _names(step, at)
    for command in step.before:
        run_before(runner, [fill(word, names) for word in command], step.source)
    try:
        builder = ProjectBuilder(step.source, python_executable=str(step.env / "bin/python"), runner=runner)
        settings = filled(step.config_settings, names)
        print("wheel:", builder.build(kind, at.output("wheel"), settings), flush=True)
    except BuildBackendException as error:
        logged = "its first errors are above, and all of its output is in the log"
        hint = logged if kind == "wheel" else "its output is above"
        raise ActionError.of("the project's own build failed", hint=hint) from error
    except BuildException as error:
        raise ActionError.of(f"the project cannot be built: {error}") from error


def _names(step: HostBuild[Path], at: Workdir) -> dict[str, str]:
    """Return the values of the manifest's placeholders."""
    places = {"project": step.source, "overlay": at.scratch / "overlay", "toolkit": at.scratch / "cuda"}
    return {name: str(place) for name, place in (places | {"env": step.env}).items()}


def _bundled(step: HostBuild[Path], at: Workdir) -> list[Path]:
    """Return the folders of `bundle_from`."""
    from gpuforge.manifest.braces import fill

    return [step.source / fill(each, _names(step, at)) for each in step.bundle_from]


def _keep_libraries(step: HostBuild[Path], at: Workdir) -> None:
    """Copy the shared libraries that the wheel may need: from `bundle_from`, and all below the overlay.

    Raises ActionError for a folder that is not there after the build.
    """
    import shutil

    kept = at.output(LIBRARIES)
    kept.mkdir()
    folders = _bundled(step, at)
    for written, folder in zip(step.bundle_from, folders, strict=True):
        if not folder.is_dir():
            raise ActionError.of(
                f"[wheel] bundle-from: the build has no folder {written}",
                hint="it is looked for after the build, which had to make it: [build] before, or an overlay",
            )
    overlay = at.scratch / "overlay"
    found = [(folder, folder.glob("lib*.so*")) for folder in folders] + [(overlay, overlay.rglob("lib*.so*"))]
    for number, (folder, paths) in enumerate(found):
        for path in sorted(paths):
            if path.is_file():
                target = kept / f"{number:03}" / path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


def run_before(runner: HookRunner, command: Sequence[str], source: Path) -> None:
    """Run one of `[build] before`'s commands in the source folder; raises ActionError when it fails."""
    import subprocess

    print("before:", [*command], flush=True)
    try:
        runner(command, str(source))
    except (OSError, subprocess.CalledProcessError) as error:
        raise ActionError.of(
            f"a [build] before command failed: {error}", hint=f"it was {[*command]}"
        ) from error


def keeps_libraries(manifest: Manifest) -> bool:
    """Return whether the build has libraries for the wheel as an output."""
    return bool(manifest.build.overlay or manifest.wheel.bundle_from)


def host_build(context: PlanContext, cell: Cell) -> ActionInput:
    """Run the project's own build."""
    manifest = context.file.manifest
    build, cuda = manifest.build, manifest.host_cuda
    at, host = context.machine.host_at(cell)
    targets = manifest.cuda.versions[cell.cuda].targets if cuda else ()
    whole = context.file.whole.cuda.versions[cell.cuda].targets if cuda and context.file.whole else ()
    gencode = tuple(option for target in targets for option in target.gencode)
    step = HostBuild[Handle](
        source=Staged(source(context)),
        env=Laid(build_environment(context, cell, at)),
        toolkit=toolkit(context, cell, at) if cuda else None,
        python=compiler.interpreter(cell, at),
        **compiler.of_step(context, host, at, lay=True),
        overlay=tuple(
            source_files.overlay(context.file, n, each, context.contents) for n, each in build.overlay_folders
        ),
        sdist={each.folder: sdist(context, each) for each in build.overlay_sdists},
        config_settings=build.config_settings,
        version=context.git_version,
        before=build.before,
        gencode=gencode,
        left_out=tuple(option for target in whole for option in target.gencode if option not in gencode),
        accepted=tuple(
            what
            for what, rules in _ACCEPTED.items()
            if targets and any(each.rule in rules for each in manifest.audit.ignore)
        ),
        cpu=(build.cpu or "") if cell.machine == "x86_64" else "",
        system=build.system,
        bundle_from=manifest.wheel.bundle_from,
    )
    env = variables.host_build(
        context.environ, host, f"{variables.TOOLKIT_SEEN}/bin:{at.path}" if cuda else at.path
    )
    if cuda:
        env |= variables.host_cuda(host, targets, manifest.cuda.linkage)
    name = cell.build_id if cuda else python_name(context, cell, at)
    return context.add_step(
        step,
        at,
        id=f"{name}/host-build",
        kind="build",
        title=f"build {manifest.package.name} for Python {cell.python}"
        + (f" and CUDA {cell.toolkit}" if cuda else ""),
        outputs=("wheel", LIBRARIES) if keeps_libraries(manifest) else ("wheel",),
        env=env | {name: variables.with_names(text, variables.NAMES) for name, text in build.env.items()},
        passes=variables.build_passes(context.environ, contained=at.image is not None),
        caches=variables.COMPILER_CACHE,
        place="host-build",
        advice=context.build_advice,
    )
