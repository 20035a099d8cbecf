"""What a hostile project sees, what it can write, and that nothing of it comes into another project's wheel."""

import json
import zipfile
from pathlib import Path

import builds
import pytest
from builds import gpuforge

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
pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("docker")]


@pytest.mark.parametrize(
    "runner",
    [
        pytest.param("local", marks=pytest.mark.toolkit),
        pytest.param("docker", marks=pytest.mark.docker),
    ],
)
def test_what_a_hostile_hook_writes_is_in_no_other_projects_wheel(runner, tmp_path, request):
    in_containers = runner == "docker"
    if in_containers:
        request.getfixturevalue("bookworm_image")
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
    image = ("--image", "bookworm") if runner == "docker" else ()
    options = ("--runner", runner, *image, "--no-test", "-o", project / "dist")
    result = builds.build(project, *options, cache=root / "cache", NETRC=netrc, TOKEN=SECRET)
    logs = "".join(path.read_text() for path in (root / "cache/logs").glob("*-hook-????????.log"))
    found = [line.partition(":")[2] for line in logs.splitlines() if line.startswith("seen:")]
    return json.loads(found[0]), Path(result["wheels"][0]["path"])


@pytest.mark.docker
@pytest.mark.usefixtures("bookworm_image")
def test_a_hostile_project_sees_no_secret_and_writes_only_its_own(tmp_path):
    project = tmp_path / "project"
    (project / "src/apart").mkdir(parents=True)
    texts = {"gpuforge.toml": MANIFEST + TEST, "pyproject.toml": PYPROJECT, "backend.py": BACKEND}
    for file, text in {**texts, "probe.py": PROBE, "src/apart/__init__.py": ""}.items():
        (project / file).write_text(text)
    (tmp_path / "netrc").write_text(f"machine index.example login user password {SECRET}\n")
    names = ("AWS_SECRET_ACCESS_KEY", "SCCACHE_WEBDAV_TOKEN", "ACTIONS_RUNTIME_TOKEN", "GITHUB_TOKEN")
    environ = {
        **dict.fromkeys(names, SECRET),
        "NETRC": tmp_path / "netrc",
        "GPUFORGE_STORE": tmp_path / "shared",
    }
    options = ("--runner", "docker", "--image", "bookworm", "-o", project / "dist")
    done = gpuforge("build", project, *options, cache=tmp_path / "cache", **environ)
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
