"""The audit of a finished wheel: with what its requirements bring, and what it must live beside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BeforeValidator

from gpuforge.actions import compiler, trial
from gpuforge.cuda.suffix import majors_of
from gpuforge.cuda.version import major_of
from gpuforge.errors import ActionError
from gpuforge.expectation import Expectation
from gpuforge.plan.action import ActionInput, Handle, P, Step, Workdir
from gpuforge.plan.cell import Cell
from gpuforge.plan.context import PlanContext
from gpuforge.plan.expectation import expectation
from gpuforge.plan.recipe import indexes_of
from gpuforge.runtime.arch import Arch

if TYPE_CHECKING:
    from gpuforge.audit.beside import Neighbour
    from gpuforge.audit.judge import Report

RESOLUTION = "resolution.json"  # in the folder that `FetchBeside` fills


class Resolution(NamedTuple):
    """The packages that were chosen for a requirement, together with a wheel."""

    requirement: str  # "jax[cuda13]"
    packages: tuple[str, ...]  # "jax ==0.7.0"


@dataclass(frozen=True, kw_only=True)
class FetchBeside(Step[P]):
    """Resolve a wheel together with a package that it must live beside, and fetch that with all that it needs."""

    packages: ClassVar = ("pip", "uv")
    wheel: P  # one of its metadata alone, or its folder
    python: P
    kernels: P | None = None  # folder of the wheel's own kernels wheel, which no index has
    beside: str  # a requirement: "jax[cuda13]"
    extras: tuple[str, ...] = ()  # the wheel's extras to install
    indexes: Mapping[str, str] = field(default_factory=dict)  # of packages that have an index of their own

    def run(self: FetchBeside[Path], at: Workdir) -> None:
        """Write the wheels, and a `Resolution` with every package that was chosen.

        NVIDIA's packages of libraries are not fetched: the audit knows their libraries.
        """
        from gpuforge.actions import value_file, wheelhouse
        from gpuforge.cuda import carriers
        from gpuforge.wheel import filename, metadata, package_index

        output = at.output("wheels")
        output.mkdir()
        wheel = wheelhouse.one_wheel(self.wheel)
        declared = metadata.requirements(metadata.of_wheel(wheel))
        metadata.refuse_references(declared, wheel.name)
        own = filename.project(wheel.name)
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        # uv takes from an index of its own only what the project requires itself
        of_index = {each.name for each in declared if canonicalize_name(each.name) in self.indexes}
        requirements = [f"{own}{extras} @ {wheel.as_uri()}", self.beside, *sorted(of_index)]
        project = [
            "[project]",
            'name = "beside"',
            'version = "0"',
            f"dependencies = {json.dumps(requirements)}",
        ]
        requirements_file = at.scratch / "pyproject.toml"
        requirements_file.write_text("\n".join([*project, *package_index.sources(self.indexes), ""]))
        lines = resolve(requirements_file, self.python, own, self.beside, self.kernels)
        with_own = [path.name for path in self.kernels.glob("*.whl")] if self.kernels else []
        ours = {own, *map(filename.project, with_own)}
        chosen = {canonicalize_name(r.name): r for r in lines if canonicalize_name(r.name) not in ours}
        wheelhouse.download(
            self.python,
            [str(r) for name, r in sorted(chosen.items()) if name not in carriers.nvidia_packages()],
            output,
            alone=True,
            indexes=self.indexes,
            what=f"what {self.beside} brings",
            hint="correct `[audit] beside`",
        )
        packages = sorted(f"{r.name} {r.specifier}" for r in chosen.values())
        value_file.write(Resolution(self.beside, tuple(packages)), output / RESOLUTION)


def resolve(
    requirements_file: Path, python: Path, own: str, beside: str, wheels: Path | None = None
) -> list[Requirement]:
    """Return the packages that uv chooses for the requirements in a file; raises ActionError with uv's reason in short.

    `wheels` is a folder with further wheels to choose from.
    """
    from gpuforge.wheel import package_index

    options = [f"--python={python}", *([f"--find-links={wheels}"] if wheels else [])]
    answer = package_index.compile_requirements(requirements_file, options, beside)
    print(answer.stderr, answer.stdout, sep="", flush=True)
    if answer.returncode == 0:
        return [Requirement(line) for line in answer.stdout.splitlines() if line and line[0] not in "#-/ "]
    raise ActionError.of(
        f"{own} cannot be installed beside {beside}{package_index.reason(answer.stderr)}",
        hint="change the project's dependencies or its toolkit, or `[audit] beside`; uv's output is above",
    )


def _parsed(expectation: Mapping[str, Any]) -> Any:
    """Return the fields of an expectation with its architectures, which `_written` wrote."""
    return {
        **expectation,
        **{key: [Arch.parse(arch) for arch in expectation[key]] for key in ("cubins", "ptx")},
        "kernels_wheels": {name: _parsed(each) for name, each in expectation["kernels_wheels"].items()},
    }


def _written(expectation: Expectation, plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain fields of an expectation, in which machine code is "sm_90" and PTX "compute_90"."""
    wheels = expectation.kernels_wheels.items()
    return {
        **plain,
        "cubins": [arch.sm for arch in expectation.cubins],
        "ptx": [arch.compute for arch in expectation.ptx],
        "kernels_wheels": {name: _written(each, plain["kernels_wheels"][name]) for name, each in wheels},
    }


@dataclass(frozen=True, kw_only=True)
class AuditWheel(Step[P]):
    """Audit a wheel, or the wheels of a folder, against what the manifest expects."""

    packages: ClassVar = ("abi3info", "auditwheel")  # its policies
    wheel: P
    kernels: P | None = None  # folder of the wheel's own kernels wheel, audited with it
    provided: P | None = None  # what the packages of its CUDA libraries have
    beside: tuple[P, ...] = ()  # folders that `FetchBeside` made
    expectation: Annotated[Expectation, BeforeValidator(_parsed)]

    def plain(self) -> dict[str, Any]:
        """Return its fields as plain data, with readable architectures."""
        plain = super().plain()
        return {**plain, "expectation": _written(self.expectation, plain["expectation"])}

    def run(self: AuditWheel[Path], at: Workdir) -> None:
        """Write the report as JSON, the text to the log.

        Raises ActionError for findings of severity error, and for wheels that cannot be read.
        """
        from gpuforge.actions import value_file
        from gpuforge.audit import audit, beside
        from gpuforge.audit.judge import accepted_by
        from gpuforge.audit.report import data, text
        from gpuforge.cuda.provided import Provided

        wheels = sorted(self.wheel.glob("*.whl")) if self.wheel.is_dir() else [self.wheel]
        if not wheels:
            raise ActionError.of(f"{self.wheel} holds no wheel", hint="the step before this one made none")
        brought = value_file.read(Provided, self.provided) if self.provided else None
        own = sorted(self.kernels.glob("*.whl")) if self.kernels else []
        report = audit([*wheels, *own], expectation=self.expectation, brought=brought)
        if self.beside and len(wheels) == 1 and len(report.wheels) == 1 + len(own):
            accepted = accepted_by(self.expectation)
            report = beside.judged(report, [*wheels, *own], map(_neighbour, self.beside), accepted)
        for name, part in (("report.json", wheels), *([("kernels.json", own)] if self.kernels else [])):
            at.output(name).write_text(data.dumps(_of(report, part)), encoding="utf-8")
        print(text.render(report, width=100), end="")
        _refuse(report)


def _refuse(report: Report) -> None:
    """Raise ActionError for errors in a report."""
    from gpuforge.audit.report import text

    if report.problems:
        raise ActionError(*report.problems)
    errors = [finding for finding in report.findings if finding.severity == "error"]
    if errors:
        codes = ", ".join(sorted({finding.code for finding in errors}))
        error = ActionError.of(
            f"the audit found errors: {codes}",
            hint="the findings above say what to change; [audit] ignore accepts one, with a reason",
        )
        error.add_note(text.render(_errors_of(report), width=100))
        raise error


def _of(report: Report, wheels: list[Path]) -> Report:
    """Return the part of a report about some of its wheels, with all problems of reading."""
    names = {path.name for path in wheels}
    return report._replace(wheels=tuple(each for each in report.wheels if each.facts.name in names))


def _errors_of(report: Report) -> Report:
    """Return the part of a report that explains a failure: the errors, without the proofs."""
    errors = (
        each._replace(
            findings=tuple(f for f in each.findings if f.severity == "error"), proofs=(), ignored=()
        )
        for each in report.wheels
    )
    return report._replace(wheels=tuple(each for each in errors if each.findings), together=None)


def _neighbour(folder: Path) -> Neighbour:
    from gpuforge.actions import value_file
    from gpuforge.audit.beside import Neighbour

    return Neighbour(*value_file.read(Resolution, folder / RESOLUTION), tuple(sorted(folder.glob("*.whl"))))


def audit(
    context: PlanContext,
    cell: Cell,
    wheel: ActionInput,
    own: ActionInput | None,
    provided: ActionInput | None,
) -> ActionInput:
    """Prove the finished wheel against the manifest; an error finding fails the cell.

    `own` is its kernels wheel, if it has one. It needs nothing of the test: a wheel is judged also where its test
    cannot be made ready.
    """
    step = AuditWheel[Handle](
        wheel=wheel,
        kernels=own,
        provided=provided,
        beside=_beside(context, cell, wheel, own),
        expectation=expectation(context.file, cell.cuda or None, cell.machine),
    )
    return context.add_step(
        step,
        None,  # it reads the wheel alone, and nothing of an image
        id=f"{cell.id}/audit",
        kind="audit",
        title=f"audit the wheel of {cell.id}",
        outputs=("report.json", "kernels.json") if own else ("report.json",),
    )


def _beside(
    context: PlanContext, cell: Cell, wheel: ActionInput, own: ActionInput | None
) -> tuple[ActionInput, ...]:
    """Fetch what `[audit] beside` names, each resolved together with the wheel."""
    at = context.machine.tested_at(cell)
    major = major_of(cell.toolkit) if cell.toolkit else None
    packages = [text for text in context.file.manifest.audit.beside if is_for(text, major)]
    return tuple(
        context.add_step(
            FetchBeside[Handle](
                wheel=ActionInput(wheel.action, "declared"),
                python=compiler.interpreter(cell, at),
                kernels=ActionInput(own.action, "declared") if own else None,
                beside=requirement,
                extras=trial.extras(context.file.manifest, cell),
                indexes=indexes_of(context.file.manifest, cell.toolkit),
            ),
            at,
            id=f"{cell.id}/beside/{number}",
            kind="fetch",
            title=f"fetch what {cell.id} must live beside: {requirement}",
            outputs=("wheels",),
            **context.by_pip,
        )
        for number, requirement in enumerate(packages)
    )


def is_for(requirement: str, major: int | None) -> bool:
    """Return whether a requirement is for a CUDA major, or for any: jax[cuda12] and cupy-cuda12x are not for 13.

    A wheel without CUDA (None) may meet all of them.
    """
    found = majors_of(requirement)
    return major is None or not found or major in found
