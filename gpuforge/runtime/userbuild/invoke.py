"""Calls a compiler in its own folder, with limits on its time and stored output; all its processes end with it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from .. import document, layout
from ..libraries import identity_of
from ..placeholders import fill
from ..recipe import Recipe, UserToolchain, read_to_compile
from ..values import Reason, Refused
from .compilers import CompileInputs, Compiler
from .execute import MISSING, Stopped, execute


def recipes(home: Path) -> list[Recipe]:
    """Return the recipes of a package, by name; raises Stopped for one that cannot be read."""
    folders = [layout.sources(str(home), name) for name in layout.names(layout.sources(str(home)))]
    return [_read(folder) for folder in sorted(folders) if Path(layout.recipe(folder)).exists()]


def abi_of(recipe: Recipe) -> str:
    """Return the ABI id of an object's libraries here; raises Stopped if a package is missing."""
    found = identity_of(recipe.demands)
    if isinstance(found, Reason):
        raise Stopped(f"{recipe.name}: {found}: install it first", MISSING)
    return found


def _read(folder: str) -> Recipe:
    try:
        recipe = read_to_compile(folder)
        abi_of(recipe)  # no compiler is called for a library that nothing could use
        for name, sha256 in recipe.files.items():
            verify(recipe.path(name), recipe.path(name), sha256)
    except Refused as refused:
        raise Stopped(f"{refused}; install the wheel again") from refused
    except OSError as error:
        raise Stopped(f"{error.filename}: {error.strerror or error}") from error
    return recipe


def verify(file: str | Path, original: str, sha256: str) -> None:
    """Raise Stopped unless a file of the wheel, or a copy of it, is unchanged; raises OSError."""
    with document.open_file(file) as stream:
        if hashlib.sha256(stream.read()).hexdigest() == sha256:
            return
    raise Stopped(
        f"{original} was changed after it was installed: install the wheel again, and give sources of "
        "your own as arguments"
    )


_TELLING = re.compile(r"error|fatal|cannot|no space|not found|killed", re.IGNORECASE)


def invoke(
    recipe: Recipe,
    toolchain: UserToolchain,
    compiler: Compiler,
    work: Path,
    here: CompileInputs,
) -> Path:
    """Compile the recipe's sources and the user's own into one library below `work`.

    Raises Stopped, whose message has the compiler's log, and OSError.
    """
    values = _values(recipe, compiler, work, here, _toolkit(toolchain, compiler, here.env))
    if not any("{sources}" in word for word in toolchain.argv):
        _lay_beside(recipe, work / "sources", here.extra)
    argv = fill(toolchain.argv, values)
    if toolchain.by_command:
        argv[0] = str(compiler.path)
    try:
        ended = execute(
            argv,
            folder=work / "run",
            env={**here.env, "TMPDIR": str(work / "tmp"), "LC_ALL": "C"},
            limit=here.limit,
        )
    except OSError as error:
        raise Stopped(f"{argv[0]} cannot be run: {error.strerror or error}") from error
    if ended.status == 0:
        return _product(toolchain, compiler, work, ended.output)
    if ended.status is None:
        what = f"{compiler.label} did not end within {here.limit:g} s; --timeout sets another limit"
    else:
        what = _failure(compiler, ended.status, ended.output, work)
    raise Stopped(what, log=ended.output)


def _values(
    recipe: Recipe, compiler: Compiler, work: Path, here: CompileInputs, toolkit: Path | None
) -> dict[str, list[str]]:
    """Write the sources and the file with the ABI id, and return the values of the placeholders."""
    for folder in ("run", "tmp", "sources"):
        (work / folder).mkdir()
    laid = work / "sources"
    for name, sha256 in recipe.files.items():
        (laid / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(recipe.path(name), laid / name)
        verify(laid / name, recipe.path(name), sha256)  # it may have changed since the recipe was read
    abi = work / "gpuforge_abi.c"
    template = Path(__file__).parent.parent.joinpath("abi.c").read_text(encoding="utf-8")
    abi.write_text(f'#define GPUFORGE_ABI_ID "{abi_of(recipe)}"\n{template}', encoding="utf-8")
    folders = {laid, *((laid / name).parent for name in recipe.files)}
    return {
        "compiler": [str(compiler.path)],
        "include": [str(laid)],
        "folders": [str(folder) for folder in sorted(folders)],
        "sources": [*(str(laid / name) for name in recipe.sources), *map(str, here.extra)],
        "abi": [str(abi)],
        "output": [str(work / f"lib{recipe.name}.so")],
        "arch": [here.arch.number] if here.arch else [],
        "cuda": [str(toolkit)] if toolkit else [],
    }


def _lay_beside(recipe: Recipe, laid: Path, extra: Sequence[Path]) -> None:
    """Copy the user's own sources into the folder of the recipe's, for a command that gets a folder.

    Raises Stopped if one has the name of an existing file.
    """
    folder = laid / os.path.commonpath([os.path.dirname(name) for name in recipe.sources])
    for source in extra:
        if (folder / source.name).exists():
            raise Stopped(f"{source}: the package has a source of that name, give yours another")
        shutil.copyfile(source, folder / source.name)


def _toolkit(toolchain: UserToolchain, compiler: Compiler, env: Mapping[str, str]) -> Path | None:
    """Return the CUDA toolkit that a compiler belongs to, else the machine's."""
    own = [compiler.path.resolve().parent.parent] if toolchain.of_toolkit else []
    named = [Path(env[name]) for name in ("CUDA_HOME", "CUDA_PATH") if env.get(name)]
    for folder in (*own, *named, Path("/usr/local/cuda")):
        if (folder / "include" / "cuda.h").is_file() or list(folder.glob("lib*/libcudart.so*")):
            return folder
    return None


def _failure(compiler: Compiler, status: int, log: bytes, work: Path) -> str:
    how = f"was ended by {_signal(-status)}" if status < 0 else f"failed with exit status {status}"
    text = log.decode(errors="replace").replace(f"{work / 'sources'}/", "").replace(f"{work}/", "")
    lines = text.splitlines()
    telling = [line.strip() for line in lines if _TELLING.search(line)] or [
        line.strip() for line in lines[-1:]
    ]
    return f"{compiler.label} {how}" + (f": {telling[0][:300]}" if telling else "")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _product(toolchain: UserToolchain, compiler: Compiler, work: Path, log: bytes) -> Path:
    folder, pattern = (work / "run", toolchain.product) if toolchain.product else (work, "lib*.so")
    try:
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
    except (IndexError, NotImplementedError, ValueError) as error:
        raise Stopped(
            f"{pattern!r}, where the library would be, is not a pattern of files", log=log
        ) from error
    if len(found) != 1:
        what = ", ".join(path.name for path in found) or "no library"
        where = f" matching {toolchain.product!r}" if toolchain.product else ""
        raise Stopped(
            f"{compiler.label} ended well and left {what}{where}, where one library was expected", log=log
        )
    if not found[0].is_symlink():
        return found[0]
    whole = work / "library"  # the target of a link may be in a folder that is removed
    shutil.copyfile(found[0], whole)
    return whole
