"""A fallback library that a command of the manifest makes, in the build environment, with the host compiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from gpuforge.actions import compiler
from gpuforge.actions.compiler import CompilingStep
from gpuforge.actions.environment import build_environment
from gpuforge.actions.kernel_index import IndexLibraries
from gpuforge.cuda.kernels import KernelImage
from gpuforge.errors import ActionError, UsageError
from gpuforge.package import contents
from gpuforge.package.contents import CompiledBy, CompiledLibrary
from gpuforge.plan import advice, recipe, source_files
from gpuforge.plan.action import ActionInput, Handle, Laid, P, Staged, Workdir
from gpuforge.plan.cell import Cell
from gpuforge.plan.context import PlanContext, kernels_name
from gpuforge.plan.source_files import LoweredObject
from gpuforge.runtime.cpu import CpuLevel
from gpuforge.runtime.placeholders import fill

# The runtime itself computes ids and reads libraries, in the environment's Python. The argument is a file with the
# runtime's folder and either what an id is made of, or the library to read it from.
_ASK = """\
import importlib, json, os, sys
with open(sys.argv[1], encoding="utf-8") as stream:
    request = json.load(stream)
above, package = os.path.split(request["runtime"])
sys.path.insert(0, above)
abi_id, elf = (importlib.import_module(f"{package}.{name}") for name in ("abi_id", "elf"))
try:
    if "library" in request:
        answer = elf.read_string(request["library"], request["symbol"])
    else:
        answer = abi_id.identity(request["abi"], request["packages"])
except abi_id.PackageMissing as missing:
    answer = {"missing": missing.args[0]}
except elf.NotReadable as error:
    answer = {"unreadable": str(error)}
json.dump(answer, sys.stdout)
"""


@dataclass(frozen=True, kw_only=True)
class CommandLibrary(CompilingStep[P]):
    """Make one library by a command line, and prove that it has its ABI id."""

    packages: ClassVar = ("uv",)
    sources: P
    runtime: P  # a folder with the runtime's files for compilers, abi_id.py and elf.py, and what they import
    env: P
    python: P
    name: str
    argv: tuple[str, ...]  # with the placeholders of toolchains
    compiled: tuple[str, ...]  # the names of the sources to compile
    product: str = ""  # a pattern in the folder that the command runs in; "": it writes {output}
    abi: str
    abi_packages: Mapping[str, str] = field(default_factory=dict)

    def run(self: CommandLibrary[Path], at: Workdir) -> None:
        """Write the library; raises ActionError if the command makes no usable one."""
        from gpuforge.actions.venv import adopt, run_command

        os.environ.update({what.upper(): str(path) for what, path in self.compilers().items()})
        python = adopt(self.env, self.python)
        identity = _identity(self, at.scratch, python)
        template = (self.runtime / "abi.c").read_text(encoding="utf-8")
        if not (errors := self.sources / contents.ERRORS_H.name).exists():
            shutil.copyfile(self.runtime / errors.name, errors)
        abi_file = at.scratch / "gpuforge_abi.c"
        abi_file.write_text(f'#define GPUFORGE_ABI_ID "{identity}"\n{template}', encoding="utf-8")
        argv = self._argv(at.scratch, abi_file)
        called = f"object {self.name!r}: {argv[0]}"
        hint = (
            "it is looked for in the build environment and in the system's folders: name the package that brings it in "
            "[build] requires"
        )
        folder = run_command(python, argv, at.scratch, name=called, program=called, hint=hint)
        library = _product(self, argv, folder)
        _check(self, argv[0], at.scratch, python, library, identity)
        shutil.copyfile(library, at.output("library"))

    def _argv(self: CommandLibrary[Path], scratch: Path, abi_file: Path) -> list[str]:
        paths = {
            "include": [str(self.sources)],
            "sources": [str(self.sources / name) for name in self.compiled],
            "abi": [str(abi_file)],
            "output": [str(scratch / "library.so")],
            **{name: [] for name in ("arch", "cuda", "folders")},  # a command of the build has none
        }
        return [*fill(self.argv, paths)]


def _identity(step: CommandLibrary[Path], scratch: Path, python: Path) -> str:
    answer = _ask(step, scratch, python, abi=step.abi, packages=dict(step.abi_packages))
    if isinstance(answer, dict):
        raise UsageError.of(
            f"object {step.name!r}: {answer['missing']} is part of its ABI and not in the build environment",
            hint=f'add it: [build] requires = ["{answer["missing"]}"]',
        )
    return str(answer)


def _product(step: CommandLibrary[Path], argv: Sequence[str], folder: Path) -> Path:
    found = sorted(path for path in folder.glob(step.product) if path.is_file()) if step.product else []
    made = folder.parent / "library.so"
    found = found or [made] * made.is_file()
    if len(found) != 1:
        names = ", ".join(path.relative_to(folder).as_posix() for path in found) or "none"
        where = f"matching {step.product!r}" if step.product else "at {output}"
        raise ActionError.of(
            f"object {step.name!r}: {argv[0]} ended well and left {names} {where}, "
            "where one library was expected",
            hint="`product` of the toolchain is a pattern in the folder that the command runs in",
        )
    return found[0]


def _check(
    step: CommandLibrary[Path], program: str, scratch: Path, python: Path, library: Path, identity: str
) -> None:
    if not step.abi:
        return
    found = _ask(step, scratch, python, library=str(library), symbol="gpuforge_abi_id")
    if found != identity:
        raise ActionError.of(
            f"object {step.name!r}: the library that {program} made has "
            + (f"the ABI id {found}, not {identity}" if isinstance(found, str) else "no ABI id"),
            hint="the command must link {abi} in, a C file that g++ and nvc++ take among their objects",
        )


def _ask(
    step: CommandLibrary[Path], scratch: Path, python: Path, **question: object
) -> str | dict[str, str] | None:
    request = scratch / "question.json"
    request.write_text(json.dumps({"runtime": str(step.runtime), **question}), encoding="utf-8")
    answer = subprocess.run([python, "-I", "-c", _ASK, request], check=True, stdout=subprocess.PIPE)
    found: str | dict[str, str] | None = json.loads(answer.stdout)
    return found


def lower(context: PlanContext, cell: Cell, item: LoweredObject) -> IndexLibraries[Handle]:
    """Make a fallback's library by the manifest's command."""
    _, host = context.machine.host_at(cell)
    made_by = CompiledBy(f"{item.toolchain.command[0]} and {host.family}", str(host.version))
    made = CompiledLibrary[Handle](_run_command(context, cell, item), (KernelImage("library", CpuLevel()),))
    return IndexLibraries[Handle](
        sources=item.files, libraries=(made,), made=item.library_set(cell.toolkit, made_by)
    )


def _run_command(context: PlanContext, cell: Cell, item: LoweredObject) -> ActionInput:
    """Run an object's command where the host code is built, with the environment of the cell's Python.

    The library does not depend on that Python: one serves all wheels. Its compiler is the host compiler, by CC and CXX.
    """
    at, host = context.machine.host_at(cell)
    made = recipe.call(item.toolchain, item, item.sources)
    assert made is not None  # noqa: S101  a command always makes a library
    step = CommandLibrary[Handle](
        sources=Staged(item.files),
        runtime=Staged(source_files.files(contents.FOLDER, contents.FOR_COMMANDS, context.contents)),
        env=Laid(build_environment(context, cell, at)),
        python=compiler.interpreter(cell, at),
        **compiler.of_step(context, host, at),
        name=item.name,
        argv=tuple(made.argv),
        compiled=item.sources,
        product=item.toolchain.product or "",
        abi=item.abi,
        abi_packages=item.abi_packages,
    )
    return context.add_step(
        step,
        at,
        id=f"{kernels_name(context, cell)}/{item.name}/library",
        kind="compile",
        title=f"make {item.name} by {made.argv[0]} with {host.family} {host.version}",
        advice=advice.of_compile(context.file, item.number),
        outputs=("library",),
    )
