"""A hostile project and a harmless one with the same pyproject.toml, built one after the other with one cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
from docker.errors import ImageNotFound

from gpuforge.containers import catalog
from gpuforge.containers.engine import connect

GPUFORGE = str(Path(sys.executable).with_name("gpuforge"))
MANIFEST = """\
schema = 1
[package]
name = "apart"
abi = "none"
source = { path = "." }
[build]
cuda = false
[cuda.13]
toolkit = "13.0"
archs = []
"""
PYPROJECT = """\
[build-system]
requires = ["setuptools>=80"]
build-backend = "backend"
backend-path = ["."]
[project]
name = "apart"
version = "1.0"
[tool.setuptools.package-data]
apart = ["*.txt"]
"""
HARMLESS = """
import sys
from setuptools import build_meta
from setuptools.build_meta import *
def build_wheel(folder, settings=None, metadata=None):
    with open("src/apart/found.txt", "w") as found:
        found.write(getattr(sys, "hostile", "nothing"))
    return build_meta.build_wheel(folder, settings, metadata)
"""
# Writes to all that it can find, and tells what it saw.
HOSTILE = """
import glob, json, os, pathlib, socket, sys, sysconfig
from setuptools.build_meta import *
def get_requires_for_build_wheel(settings=None):
    def works(what):
        try:
            what()
        except OSError:
            return False
        return True
    folders = ["/opt/gpuforge", "/opt/gpuforge-caches", *filter(None, [os.environ.get("PIP_CACHE_DIR")])]
    compiled = [p for f in folders for p in glob.glob(f"{f}/**/*.pyc", recursive=True)]
    site = pathlib.Path(sysconfig.get_paths()["purelib"])
    evil = "import sys; sys.hostile = 'the other project'\\n"
    seen = {
        "names": sorted(os.environ),
        "home": sorted(p.name for p in pathlib.Path(os.environ["HOME"]).iterdir()),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "environment": works(lambda: (site / "hostile.pth").write_text(evil)),
        "compiled": [p for p in compiled if works(lambda: open(p, "ab").close())],
    }
    print("seen:", json.dumps(seen), flush=True)
    return []
"""
pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("docker")]


@pytest.mark.parametrize(
    "runner",
    [
        pytest.param("local", marks=pytest.mark.toolkit),
        pytest.param("docker", marks=pytest.mark.docker),
    ],
)
def test_what_a_hostile_hook_writes_is_in_no_other_projects_wheel(runner: str, tmp_path: Path) -> None:
    in_containers = runner == "docker"
    if in_containers:
        skip_without_image("bookworm")
    seen, _ = build(tmp_path, "hostile", HOSTILE, runner)
    assert {"NETRC", "PIP_EXTRA_INDEX_URL", "PIP_CACHE_DIR", "TOKEN"}.isdisjoint(seen["names"])
    assert ".netrc" not in seen["home"]
    if in_containers:
        assert not seen["environment"]
        assert (seen["interfaces"], seen["compiled"]) == (["lo"], [])  # no network, and nothing to change
    _, wheel = build(tmp_path, "harmless", HARMLESS, runner)
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("apart/found.txt") == b"nothing"
    assert list((tmp_path / "cache").rglob("hostile.pth")) == []
    assert list((tmp_path / "cache" / "pip").rglob("*.pyc")) == []


def build(root: Path, name: str, backend: str, runner: str) -> tuple[dict[str, list[str]], Path]:
    """Build a project and return what its hook printed, and its wheel."""
    project = root / name
    (project / "src/apart").mkdir(parents=True)
    texts = {"gpuforge.toml": MANIFEST, "pyproject.toml": PYPROJECT, "backend.py": backend}
    for file, text in {**texts, "src/apart/__init__.py": "", "src/apart/found.txt": ""}.items():
        (project / file).write_text(text)
    netrc = root / "netrc"
    netrc.write_text("machine index.example login user password secret\n")
    secrets = {"NETRC": str(netrc), "TOKEN": "secret", "GPUFORGE_CACHE_DIR": str(root / "cache")}
    command = [GPUFORGE, "build", str(project), "--runner", runner, "--no-test", "--json"]
    command += ["-o", str(project / "dist")]
    command += ["--image", "bookworm"] if runner == "docker" else []
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **secrets})
    assert done.returncode == 0, done.stderr
    logs = "".join(path.read_text() for path in (root / "cache/logs").glob("*-hook-????????.log"))
    found = [line.partition(":")[2] for line in logs.splitlines() if line.startswith("seen:")]
    return json.loads(found[0]), Path(json.loads(done.stdout)["wheels"][0]["path"])


def skip_without_image(name: str) -> None:
    known = catalog.find(name)
    assert known
    with closing(connect()) as client:
        try:
            client.images.get(known.reference)
        except ImageNotFound:
            pytest.skip(f"image {name} is not here: gpuforge images build {name}")
