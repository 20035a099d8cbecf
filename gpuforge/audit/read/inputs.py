"""Turn the paths given to an audit into inputs: a wheel, folder, sdist or single binary becomes one input or several.

Wheels inside an sdist are unpacked into a temporary file without a name, which vanishes with the process.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from gpuforge.audit.read.input import ALONE, Beside, Input
from gpuforge.audit.read.site_packages import INFO, sites
from gpuforge.binary import fatbin
from gpuforge.binary.elf.header import MAGIC
from gpuforge.binary.window import Budget
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import MalformedError, TooLargeError
from gpuforge.wheel.archive import files_below

if TYPE_CHECKING:
    from gpuforge.audit.read.wheel import Watch

_BINARY = (MAGIC, fatbin.MAGIC, b"!<ar", b"!<th")  # archives, thin ones too


class Inputs:
    """Everything to read, and a diagnostic for each path that has nothing to read."""

    def __init__(self) -> None:
        self.readable: list[Input] = []
        self.problems: list[Diagnostic] = []
        self.unpacked: IO[bytes] | None = None  # the file with all unpacked wheels
        self.overriding: dict[str, str] = {}  # a library in LD_LIBRARY_PATH -> the first folder that has it
        self.python = ""  # of the environment beside them, "3.11"; "" without one, or if it is not known


@contextmanager
def expand(
    paths: Iterable[Path | Input], *, hashes: bool = False, beside: Beside = ALONE, watch: Watch | None = None
) -> Iterator[Inputs]:
    """Yield the inputs of these paths after those `beside` them; unpacked wheels are freed at the end.

    A path of an unknown kind counts as a wheel, so that reading it reports what is wrong. An archive whose unpacking
    takes too long or too much is one input, which is too large to judge.
    """
    inputs, given = Inputs(), dict.fromkeys(paths)

    def unpacking(size: int) -> AbstractContextManager[None]:
        return watch.unpacking(size, len(given)) if watch else nullcontext()

    try:
        for path in given:
            if isinstance(path, Input):
                inputs.readable.append(path)
                continue
            before = len(inputs.readable)
            try:
                _add(path, inputs, unpacking)
            except MalformedError as error:
                inputs.problems.append(_problem(path, error.diagnostics[0].head, _AGAIN))
            except (TooLargeError, MemoryError) as error:
                reason = error.diagnostics[0].message if isinstance(error, TooLargeError) else NO_MEMORY
                del inputs.readable[before:]
                place = PurePosixPath(path)
                inputs.readable.append(Input(path.name, path, place, "nested", too_large=reason))
            except OSError as error:
                inputs.problems.append(_problem(path, error.strerror or str(error), "check the path"))
        others = _others(beside, inputs) if beside else []
        judged = [one._replace(hashes=hashes) for one in inputs.readable]
        inputs.readable = labelled(unique([*others, *judged]))
        yield inputs
    finally:
        if inputs.unpacked:
            inputs.unpacked.close()


def _others(beside: Beside, inputs: Inputs) -> list[Input]:
    from gpuforge.audit.read import environment  # noqa: PLC0415  few audits have one

    inputs.overriding = environment.overriding(beside.library_path)
    if beside.environment:
        inputs.problems += environment.problems(beside.environment)
        inputs.python = environment.python_of(beside.environment)
    return [one._replace(neighbour=True) for one in environment.inputs(beside, inputs.readable)]


NO_MEMORY = "reading it takes more memory than an audit may take"
_AGAIN = "download or build it again"
_NO_FILE = "it is neither a file nor a folder", "save it to a file first"


_Unpacking = Callable[[int], AbstractContextManager[None]]  # of an archive of so many bytes


def _add(path: Path, inputs: Inputs, unpacking: _Unpacking) -> None:
    if path.is_dir():
        _add_folder(path, inputs)
    elif path.exists() and not path.is_file():
        inputs.problems.append(_problem(path, *_NO_FILE))
    elif path.suffix == ".whl" or not path.exists():
        inputs.readable.append(Input.of(path))
    elif _is_binary(path):
        inputs.readable.append(Input(path.name, path, PurePosixPath(path), "file", member=path.name))
    else:
        with unpacking(path.stat().st_size):
            _add_archive(path, inputs)


def _is_binary(path: Path) -> bool:
    return _head(path).startswith(_BINARY) or path.suffix == ".ptx"


def _head(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(8)


def _add_folder(path: Path, inputs: Inputs) -> None:
    """Add the inputs of a folder: an environment, an unpacked wheel, wheels below it, or binaries."""
    whole = path.resolve()
    files = {} if (found := sites(path)) else files_below(path)
    if found:
        for site in found:
            _add_site(site, inputs)
    elif len(infos := [entry.name for entry in path.iterdir() if entry.name.endswith(INFO)]) == 1:
        inputs.readable.append(Input(whole.name, path, PurePosixPath(whole), "unpacked", info=infos[0]))
    elif wheels := [file for name, file in files.items() if name.endswith(".whl")]:
        for file in wheels:
            if file.exists() and not file.is_file():  # reading a pipe or a device may never end
                inputs.problems.append(_problem(file, *_NO_FILE))
            else:
                inputs.readable.append(Input.of(file))
    elif any(file.is_file() and _is_binary(file) for file in files.values()):
        inputs.readable.append(Input(whole.name, path, PurePosixPath(whole), "folder"))
    else:
        problem = _problem(
            path,
            "the folder has no wheel and no binary, and is neither an unpacked wheel nor an environment",
            "build the wheel first (`gpuforge build`, `python -m build`), or name the site-packages folder",
        )
        inputs.problems.append(problem)


def _add_site(site: Path, inputs: Inputs) -> None:
    for info in sorted(entry.name for entry in site.iterdir() if entry.name.endswith(INFO)):
        if (site / info / "RECORD").is_file():
            inputs.readable.append(Input(info, site, PurePosixPath(site / info), "installed", info=info))
        else:
            message = "it has no RECORD, so its files are not known"
            inputs.problems.append(_problem(site / info, message, "install it with pip"))


def _add_archive(path: Path, inputs: Inputs) -> None:
    from gpuforge.wheel import nested  # noqa: PLC0415  few inputs are archives of wheels

    if not nested.is_archive(path) or nested.is_wheel(path):
        if path.suffix == ".whl" or _head(path).startswith(b"PK"):
            inputs.readable.append(Input.of(path))
        else:
            hint = "name a wheel, a folder, an sdist or a binary"
            inputs.problems.append(_problem(path, "it is neither a wheel nor a binary", hint))
        return
    import tempfile  # noqa: PLC0415

    before = len(inputs.readable)
    budget = Budget(path.stat().st_size)
    inputs.unpacked = inputs.unpacked or tempfile.TemporaryFile()  # noqa: SIM115  `expand` closes it
    for name, span in nested.wheels(path, budget, inputs.unpacked):
        place = PurePosixPath(path) / name
        inputs.readable.append(Input(f"{path.name}/{name}", path, place, "nested", span=span, within=budget))
    if len(inputs.readable) == before:
        problem = "there is no wheel in it", "build a wheel of it (`python -m build`), and audit that"
        inputs.problems.append(_problem(path, *problem))


def _problem(path: Path, message: str, hint: str) -> Diagnostic:
    return Diagnostic(message, Place(str(path)), hint)


def unique(inputs: Sequence[Input]) -> list[Input]:
    """Drop duplicates, and label single files by their paths below their common folder.

    The RPATH of one then leads to another: `$ORIGIN/../lib`.
    """
    apart = {i: i.form == "nested" or i.remote is not None for i in inputs}
    real = {i: i.place if apart[i] else PurePosixPath(os.path.realpath(i.path)) for i in inputs}
    unique = list({(i.form, i.info, real[i]): i for i in inputs}.values())
    files = [i.path.absolute() for i in unique if i.form == "file"]
    if len({file.parent for file in files}) < 2:
        return unique
    base = os.path.commonpath([file.parent for file in files])
    return [
        i._replace(member=i.path.absolute().relative_to(base).as_posix()) if i.form == "file" else i
        for i in unique
    ]


def labelled(inputs: Sequence[Input]) -> list[Input]:
    """Label inputs of the same name with as much of their paths as distinguishes them."""
    counts = Counter(i.label for i in inputs)
    return [i if counts[i.label] == 1 else i._replace(label=_label(i, inputs)) for i in inputs]


def _label(one: Input, inputs: Sequence[Input]) -> str:
    alike = [i for i in inputs if i.label == one.label and i is not one]
    own = _parts(one)
    others = [_parts(i) for i in alike]
    for count in range(len(PurePosixPath(one.label).parts) + 1, len(own)):
        if all(parts[-count:] != own[-count:] for parts in others):
            return "/".join(own[-count:])
    return str(one.place)


def _parts(one: Input) -> tuple[str, ...]:
    return PurePosixPath(os.path.abspath(one.place)).parts  # noqa: PTH100 - links stay as they were given
