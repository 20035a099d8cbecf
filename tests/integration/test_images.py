"""The Debian images for real: made once, used without a network and without root, and left clean when stopped."""

import io
import re
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from image_samples import reference

from gpuforge.cli.main import run
from gpuforge.containers import catalog
from gpuforge.containers.engine import connect
from gpuforge.containers.images import IMAGE_LABEL, Images
from gpuforge.containers.obtain import contents, missing
from gpuforge.errors import ActionError

pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.slow]
BUILD, TEST = "bookworm", "bookworm-test"
EXTENSION = """\
#include <Python.h>
#include <string>
static PyObject *word(PyObject *, PyObject *) { return PyUnicode_FromString(std::string("made").c_str()); }
static PyMethodDef methods[] = {{"word", word, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "piece", "", -1, methods};
extern "C" PyObject *PyInit_piece() { return PyModule_Create(&module); }
"""
COMPILE = """
set -eu
for python in /opt/python/cp31*/bin/python; do
  mkdir -p /work/$(basename $(dirname $(dirname $python)))
  g++ -O2 -shared -fPIC -I$($python -c 'import sysconfig; print(sysconfig.get_path("include"))') /work/piece.cpp \\
    -o /work/$(basename $(dirname $(dirname $python)))/piece.so
done
"""
IMPORT = """
set -eu
for python in /opt/python/cp31*/bin/python; do
  folder=/work/$(basename $(dirname $(dirname $python)))
  $python -m venv /tmp/venv
  /tmp/venv/bin/python -m pip --version
  PYTHONPATH=$folder /tmp/venv/bin/python -c 'import piece; print(piece.word())'
  rm -rf /tmp/venv
done
"""


def gpuforge(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from gpuforge.cli.main import main; main()"
    argv = [sys.executable, "-c", code, "images", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def images() -> Iterator[Images]:
    """The engine, with the images of this file in it."""
    done = gpuforge("build", BUILD, TEST)
    if done.returncode == 3 and "root" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    made = Images()
    yield made
    made.close()


def run_in(name: str, folder: Path, script: str) -> str:
    """Run a script in an image as a user that it does not know, without a network, with `folder` at /work."""
    folder.chmod(0o777)
    client = connect()
    try:
        return client.containers.run(  # type: ignore[no-any-return]
            reference(name),
            ["sh", "-c", script],
            user="12345:12345",
            network_mode="none",
            volumes={str(folder): {"bind": "/work", "mode": "rw"}},
            environment={"HOME": "/tmp"},  # noqa: S108  in the container
            cap_drop=["ALL"],
            remove=True,
        ).decode()
    finally:
        client.close()


@pytest.mark.usefixtures("images")
def test_images_that_are_there_are_looked_up_and_nothing_else_is_done(monkeypatch, capsys):
    sent: list[tuple[str, str]] = []
    send = requests.Session.send

    def record(self: requests.Session, request: requests.PreparedRequest, **more: Any) -> requests.Response:
        sent.append((request.method or "", re.sub(r"^/v[\d.]+/", "/", request.path_url)))
        return send(self, request, **more)

    def refuse(*arguments: object, **_: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(requests.Session, "send", record)
    monkeypatch.setattr(
        socket, "getaddrinfo", refuse
    )  # the network; the engine is at a socket of this machine
    assert run(["images", "build", BUILD, TEST]) == 0
    there = [f"{n}: is there already: {reference(n)}" for n in (BUILD, TEST)]
    assert capsys.readouterr().out.splitlines() == there
    looked_up = [("GET", f"/images/{reference(n)}/json") for n in (BUILD, TEST)]
    assert sent == [("GET", "/version"), ("GET", "/_ping"), *looked_up]


@pytest.mark.parametrize("name", [image.name for image in catalog.images() if image.kind == "debian"])
def test_every_debian_image_here_holds_what_the_catalog_lists(images, name, tmp_path):
    image = catalog.find(name)
    assert image is not None
    here = images.find(image.reference)
    if here is None:
        pytest.skip(f"{name} is not built here: gpuforge images build {name}")
    assert missing(contents(images, here, name, tmp_path), image, image.purpose) == []


@pytest.mark.usefixtures("images")
def test_each_python_compiles_in_one_image_and_runs_in_the_other(tmp_path):
    (tmp_path / "piece.cpp").write_text(EXTENSION)
    run_in(BUILD, tmp_path, COMPILE)
    said = run_in(TEST, tmp_path, IMPORT).splitlines()
    assert [line for line in said if line == "made"] == ["made", "made"]


@pytest.mark.usefixtures("images")
def test_a_clean_container_has_cxx_but_no_openmp_and_no_cuda(tmp_path):
    code = """
import ctypes
for name in ("libstdc++.so.6", "libgomp.so.1", "libcudart.so.12", "libcuda.so.1"):
    try: ctypes.CDLL(name)
    except OSError: print("no", name)
"""
    (tmp_path / "look.py").write_text(code)
    said = run_in(TEST, tmp_path, "/opt/python/cp313-cp313/bin/python /work/look.py")
    assert said.splitlines() == ["no libgomp.so.1", "no libcudart.so.12", "no libcuda.so.1"]


@pytest.mark.usefixtures("images")
def test_the_tools_that_cibuildwheel_expects_are_there(tmp_path):
    script = """
auditwheel --version > /dev/null && patchelf --version > /dev/null && echo tools
/opt/python/cp313-cp313/bin/python -m build --version
manylinux-interpreters ensure cp311-cp311 cp313-cp313 && echo ensured
manylinux-interpreters ensure cp39-cp39 || echo refused
/opt/python/cp39-cp39/bin/python -c 'print("utility")'
"""
    said = run_in(BUILD, tmp_path, script).splitlines()
    assert said[0] == "tools"
    assert said[2:] == ["ensured", "refused", "utility"]


def packed(dockerfile: str) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(dockerfile)
        archive.addfile(member, io.BytesIO(dockerfile.encode()))
    stream.seek(0)
    return stream


def leftovers(tag: str) -> list[object]:
    client = connect()
    try:
        ours = {"label": f"{IMAGE_LABEL}={tag}"}
        return [
            *client.containers.list(all=True, filters=ours),
            *client.images.list(filters={**ours, "dangling": True}),
        ]
    finally:
        client.close()


def dockerfile(command: str) -> io.BytesIO:
    return packed(
        f"FROM {reference(TEST)}\nARG IMAGE\nLABEL {IMAGE_LABEL}=${{IMAGE}}\nRUN touch /one\nRUN {command}\n"
    )


def test_a_failed_build_leaves_nothing(images):
    tag = "localhost/gpuforge/failing-test:0"
    said: list[str] = []
    with pytest.raises(ActionError, match="returned a non-zero code: 7"):
        said.extend(images.build(dockerfile("echo why && exit 7"), tag, {}, None))
    assert images.find(tag) is None
    assert leftovers(tag) == []


def test_an_interrupted_build_leaves_nothing(images):
    tag = "localhost/gpuforge/stopped-test:0"
    lines = images.build(dockerfile("echo begun; sleep 300"), tag, {}, None)
    for line in lines:
        if line == "begun":
            break
    begin = time.monotonic()
    lines.close()  # type: ignore[attr-defined]  what an exception in the loop does
    assert time.monotonic() - begin < 200  # it does not wait for the container
    assert images.find(tag) is None
    assert leftovers(tag) == []


def test_two_builds_at_once_do_not_disturb_each_other(images):
    tags = [f"localhost/gpuforge/parallel-test:{n}" for n in range(2)]
    ends: dict[str, list[str]] = {}

    def make(tag: str) -> None:
        mine = Images()
        ends[tag] = list(mine.build(dockerfile(f"sleep 2; echo {tag} > /two"), tag, {}, None))
        mine.close()

    threads = [threading.Thread(target=make, args=(tag,)) for tag in tags]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    client = connect()
    try:
        assert [bool(images.find(tag)) for tag in tags] == [True, True]
        assert [leftovers(tag) for tag in tags] == [[], []]
    finally:
        for tag in tags:
            client.images.remove(tag, force=True)
        client.close()
