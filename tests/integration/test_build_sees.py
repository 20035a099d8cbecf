"""What a project's code sees and can write in containers: as a hook, as a build and as a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_build_apart import MANIFEST, PYPROJECT, skip_without_image

GPUFORGE = str(Path(sys.executable).with_name("gpuforge"))
SECRET = "hunter2"  # noqa: S105
TEST = '[test]\ncommand = ["python", "{project}/probe.py"]\n'
PROBE = """
import glob, json, os, socket, subprocess
def works(what):
    try:
        what()
    except (OSError, subprocess.SubprocessError):
        return False
    return True
def has(path):
    try:
        with open(path, "rb") as stream:
            return b"hunter2" in stream.read()
    except OSError:
        return False
def seen():
    mounts = [line.split()[4] for line in open("/proc/self/mountinfo")]
    own = [path for path in mounts if not path.startswith(("/proc", "/sys", "/dev", "/etc"))]
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    places = glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline")
    folders = [found for top in ("/tmp", "/opt", "/etc", "/root") for found in os.walk(top)]
    names = [f"{folder}/{name}" for folder, _, files in folders for name in files]
    print("seen:", json.dumps({
        "secrets": [path for path in places + names if not path.endswith("probe.py") and has(path)],
        "writable": [path for path in own if path != "/" and os.access(path, os.W_OK)],
        "interfaces": [name for _, name in socket.if_nameindex()],
        "sockets": glob.glob("/run/*.sock") + glob.glob("/var/run/*.sock"),
        "capabilities": [status[name].strip("\\t\\n0") for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")],
        "new rights": status["NoNewPrivs"].strip(),
        "namespaces": works(lambda: subprocess.run(["unshare", "-rm", "true"], check=True, capture_output=True)),
        "devices": works(lambda: os.mknod("/tmp/device", 0o060600, os.makedev(8, 0))),
        "kernel": works(lambda: open("/proc/sys/kernel/core_pattern", "w")),
    }), flush=True)
if __name__ == "__main__":
    seen()
"""
BACKEND = """
from setuptools import build_meta
from setuptools.build_meta import *
from probe import seen
def get_requires_for_build_wheel(settings=None):
    seen()
    return []
def build_wheel(folder, settings=None, metadata=None):
    seen()
    return build_meta.build_wheel(folder, settings, metadata)
"""
pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.docker,
    pytest.mark.xdist_group("docker"),
]


def test_a_hostile_project_sees_no_secret_and_writes_only_its_own(tmp_path: Path) -> None:
    skip_without_image("bookworm")
    project = tmp_path / "project"
    (project / "src/apart").mkdir(parents=True)
    texts = {"gpuforge.toml": MANIFEST + TEST, "pyproject.toml": PYPROJECT, "backend.py": BACKEND}
    for file, text in {**texts, "probe.py": PROBE, "src/apart/__init__.py": ""}.items():
        (project / file).write_text(text)
    (tmp_path / "netrc").write_text(f"machine index.example login user password {SECRET}\n")
    names = ("AWS_SECRET_ACCESS_KEY", "SCCACHE_WEBDAV_TOKEN", "ACTIONS_RUNTIME_TOKEN", "GITHUB_TOKEN")
    environ = {**os.environ, **dict.fromkeys(names, SECRET), "NETRC": str(tmp_path / "netrc")}
    environ |= {"GPUFORGE_CACHE_DIR": str(tmp_path / "cache"), "GPUFORGE_STORE": str(tmp_path / "shared")}
    command = [
        GPUFORGE,
        "build",
        project,
        "--runner",
        "docker",
        "--image",
        "bookworm",
        "-o",
        project / "dist",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stderr
    found = {}
    for name in ("hook", "host-build", "test"):
        (log,) = (tmp_path / "cache/logs").glob(f"*-{name}-????????.log")
        (line,) = (each for each in log.read_text().splitlines() if each.startswith("seen:"))
        found[name] = json.loads(line.partition(":")[2])
    for name, each in found.items():
        writable = [Path(path).name for path in each.pop("writable")]
        own = (
            ["host-build", "host-build.out", "sccache"]
            if name == "host-build"
            else [f"-{name}", f"-{name}.out"]
        )
        assert len(writable) == len(own)
        assert all(path.endswith(end) for path, end in zip(sorted(writable), own, strict=True)), writable
        assert each == {
            "secrets": [],
            "interfaces": ["lo"],
            "sockets": [],
            "capabilities": ["", "", "", ""],
            "new rights": "1",
            "namespaces": False,
            "devices": False,
            "kernel": False,
        }
    kept = [
        path for folder in ("cache", "shared") for path in (tmp_path / folder).rglob("*") if path.is_file()
    ]
    assert [path for path in kept if SECRET.encode() in path.read_bytes() and path.name != "probe.py"] == []
