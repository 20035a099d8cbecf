"""A toolchain from outside: a package of its own with an entry point, as pip installs it."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuforge.toolchains import registry

CODE = """\
from pathlib import Path

from gpuforge.runtime.cpu import CpuLevel
from gpuforge.toolchains.toolchain import CompilerTarget, PackagedCompiler, Toolchain


def targets(names, machine):
    known = {"cpu": CompilerTarget("cpu", "library", CpuLevel())}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is not one of {', '.join(known)}")
    return [known[name] for name in names or known]


def compile_source(target, machine, flags):
    return ["{python}", "{programs}/make.py", "{source}", *flags, "{output}"]


TOOLCHAIN = Toolchain(
    name="plugged",
    compiles=(".plug",),
    packaged=PackagedCompiler(
        requires="plugged-compiler",
        makes="library",
        targets=targets,
        compile=compile_source,
        programs=Path(__file__).parent / "programs",
    ),
)
"""


@contextmanager
def install_plug_in(
    site: Path,
    *,
    name: str = "plugged",
    package: str = "plugged_toolchain",
    code: str = CODE,
) -> Iterator[Path]:
    """Install a distribution with a toolchain into a folder, and let Python find it; yield its package's folder."""
    folder = site / package
    (folder / "programs").mkdir(parents=True)
    (folder / "__init__.py").write_text(code)
    (folder / "programs" / "make.py").write_text("")
    record = site / f"{package}-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(f"[gpuforge.toolchains]\n{name} = {package}:TOOLCHAIN\n")
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    forget()
    try:
        yield folder
    finally:
        sys.path.remove(str(site))
        sys.modules.pop(package, None)
        forget()


def forget() -> None:
    """Look for plug-ins again at the next use."""
    registry._installed.cache_clear()
    registry.toolchain.cache_clear()
    registry.identity.cache_clear()
