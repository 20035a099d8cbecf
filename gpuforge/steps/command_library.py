"""Make a fallback library by a command of the manifest, in the build environment, and prove that it has its ABI id."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from gpuforge.errors import ActionError, UsageError
from gpuforge.plan.requests.command_library import CommandLibrary
from gpuforge.steps import entry
from gpuforge.steps.venv import adopt, runner_of

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


def main(spec: CommandLibrary) -> None:
    """Write the library to `output`; raises ActionError if the command makes no usable one."""
    python = adopt(spec.environment, spec.python)
    identity = _identity(spec, python)
    template = (spec.runtime / "abi.c").read_text(encoding="utf-8")
    spec.abi_file.write_text(f'#define GPUFORGE_ABI_ID "{identity}"\n{template}', encoding="utf-8")
    folder = spec.scratch / "run"
    folder.mkdir()
    print("command:", *spec.argv, flush=True)
    try:
        runner_of(python)(spec.argv, str(folder))
    except subprocess.CalledProcessError as error:
        raise ActionError.of(
            f"object {spec.name!r}: {spec.argv[0]} failed with exit status {error.returncode}",
            hint="its first errors are above, and all of its output is in the log",
        ) from error
    except OSError as error:
        raise ActionError.of(
            f"object {spec.name!r}: {spec.argv[0]} cannot be run: {error.strerror}",
            hint="it is looked for in the build environment and in the system's folders: name the package that "
            "brings it in [build] requires",
        ) from error
    library = _product(spec, folder)
    _check(spec, python, library, identity)
    shutil.copyfile(library, spec.output)


def _identity(spec: CommandLibrary, python: Path) -> str:
    answer = _ask(spec, python, abi=spec.abi, packages=dict(spec.packages))
    if isinstance(answer, dict):
        raise UsageError.of(
            f"object {spec.name!r}: {answer['missing']} is part of its ABI and not in the build environment",
            hint=f'add it: [build] requires = ["{answer["missing"]}"]',
        )
    return str(answer)


def _product(spec: CommandLibrary, folder: Path) -> Path:
    found = sorted(path for path in folder.glob(spec.product) if path.is_file()) if spec.product else []
    found = found or [spec.made] * spec.made.is_file()
    if len(found) != 1:
        names = ", ".join(path.relative_to(folder).as_posix() for path in found) or "none"
        where = f"matching {spec.product!r}" if spec.product else "at {output}"
        raise ActionError.of(
            f"object {spec.name!r}: {spec.argv[0]} ended well and left {names} {where}, "
            "where one library was expected",
            hint="`product` of the toolchain is a pattern in the folder that the command runs in",
        )
    return found[0]


def _check(spec: CommandLibrary, python: Path, library: Path, identity: str) -> None:
    if not spec.abi:
        return
    found = _ask(spec, python, library=str(library), symbol="gpuforge_abi_id")
    if found != identity:
        raise ActionError.of(
            f"object {spec.name!r}: the library that {spec.argv[0]} made has "
            + (f"the ABI id {found}, not {identity}" if isinstance(found, str) else "no ABI id"),
            hint="the command must link {abi} in, a C file that g++ and nvc++ take among their objects",
        )


def _ask(spec: CommandLibrary, python: Path, **question: object) -> str | dict[str, str] | None:
    request = spec.scratch / "question.json"
    request.write_text(json.dumps({"runtime": str(spec.runtime), **question}), encoding="utf-8")
    answer = subprocess.run([python, "-I", "-c", _ASK, request], check=True, stdout=subprocess.PIPE)
    found: str | dict[str, str] | None = json.loads(answer.stdout)
    return found


if __name__ == "__main__":
    entry.run(CommandLibrary, main)
