"""gpuforge as its users run it, what it builds here, and environments that its wheels are installed into."""

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GPUFORGE = str(Path(sys.executable).with_name("gpuforge"))
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
RECIPES = Path(__file__).parents[2] / "recipes"
DEVICES = Path(__file__).parent / "devices"
CELL = f"cp{PYTHON.replace('.', '')}-cu13.0-x86_64"  # of DEVICES and of recipes/saxpy, for this Python


def run(
    *command: object, cwd: Path | None = None, env: Mapping[str, str] = os.environ, **variables: object
) -> subprocess.CompletedProcess[str]:
    """Run a program, with some more variables; how it ends is the caller's to judge."""
    environ = {**env, **{name: str(value) for name, value in variables.items()}}
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, env=environ, cwd=cwd
    )


def gpuforge(
    *arguments: object, cache: Path, cwd: Path | None = None, **variables: object
) -> subprocess.CompletedProcess[str]:
    done = run(GPUFORGE, *arguments, cwd=cwd, **{"GPUFORGE_CACHE_DIR": cache, **variables})
    assert "Traceback" not in done.stderr + done.stdout
    return done


def build(*arguments: object, cache: Path, cwd: Path | None = None, **variables: object) -> dict[str, Any]:
    """Build, and return the result, which is no failure."""
    done = gpuforge("build", *arguments, "--json", cache=cache, cwd=cwd, **variables)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def audit(*arguments: object) -> dict[str, Any]:
    """Return the report of an audit, whatever it finds; its exit status tells of errors."""
    done = run(GPUFORGE, "audit", *arguments, "--format", "json")
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == any(found["severity"] == "error" for found in report["findings"])
    return report


def copy_recipe(name: str, folder: Path) -> Path:
    """Copy a recipe to `folder/name`, without what was built in its folder."""
    return shutil.copytree(RECIPES / name, folder / name, ignore=shutil.ignore_patterns("dist", "build"))


def edit(project: Path, *changes: tuple[str, str]) -> None:
    """Replace some text of a project's manifest."""
    manifest = project / "gpuforge.toml"
    text = manifest.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    manifest.write_text(text)


def forget_wheels(cache: Path) -> None:
    """Remove all entries of a store but what was fetched."""
    for entry in cache.glob("store/??/*"):
        if entry.is_file():  # an alias
            entry.unlink()
        elif not any((entry / "out" / fetched).exists() for fetched in ("toolkit", "environment")):
            shutil.rmtree(entry)


def record(wheel: Path) -> dict[str, Any]:
    """Return the record of a wheel's build."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/gpuforge.json"))
        found: dict[str, Any] = json.loads(archive.read(name))
        return found


def install(python: Path, *what: object) -> None:
    """Let pip install requirements into an environment; options of pip stand among them."""
    pip = [sys.executable, "-m", "pip", f"--python={python}", "install", "--quiet"]
    subprocess.run([*pip, "--disable-pip-version-check", *map(str, what)], check=True)


def environment(folder: Path, *what: object) -> Path:
    """Make an environment with what is required; return its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    if what:
        install(python, *what)
    return python


def install_to(folder: Path, wheel: Path) -> Path:
    """Unpack a wheel alone to a folder, as pip installs it; return the folder."""
    install(Path(sys.executable), "--no-deps", "--target", folder, wheel)
    return folder
