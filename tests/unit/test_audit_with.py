"""`gpuforge audit --with`: chosen by uv, read by byte ranges, and no server keeps an audit for long."""

import json
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import requests
from audit_samples import elf, wheel
from index_samples import Index, in_ranges, read_in_part, serving_wheels, whole

from gpuforge.audit import audit
from gpuforge.cli import bounded
from gpuforge.cli.audit_with import installed_with
from gpuforge.cli.bounded import Watched
from gpuforge.cli.main import run
from gpuforge.errors import ActionError, MalformedError, MissingError, TooLargeError, UsageError
from gpuforge.wheel import remote

TAGS = "cp311-cp311-manylinux_2_17_x86_64"
CU12, CU13 = "$ORIGIN/../nvidia/cuda_runtime/lib", "$ORIGIN/../nvidia/cu13/lib"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Wheels on an index: `old` for CUDA 12, `new` for CUDA 13, and NVIDIA's runtimes."""
    made = tmp_path / "index"
    made.mkdir()
    for name, requires, files in (
        (
            "old-1.0",
            "nvidia-cuda-runtime-cu12",
            {"old/ext.so": elf(needed=["libcudart.so.12"], runpath=CU12)},
        ),
        ("old-2.0", "nvidia-cuda-runtime", {"old/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)}),
        ("new-1.0", "nvidia-cuda-runtime", {"new/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)}),
        ("nvidia_cuda_runtime_cu12-12.9.79", "", {"nvidia/cuda_runtime/lib/libcudart.so.12": elf()}),
        ("nvidia_cuda_runtime-13.0.96", "", {"nvidia/cu13/lib/libcudart.so.13": elf()}),
    ):
        wheel(made, files, name=f"{name}-{TAGS}.whl", requires=[requires] if requires else [])
    return made


@pytest.fixture
def index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    with serving_wheels(folder) as server:
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", server.url)
        monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server


@pytest.mark.thorough
@pytest.mark.parametrize(
    "answer", [in_ranges, pytest.param(whole, marks=pytest.mark.thorough)], ids=["ranges", "whole files"]
)
def test_what_pip_would_install_is_read_from_the_index(index, answer):
    index.answer = answer
    report = audit([], beside=installed_with([], ["old==1.0", "new"], python="3.11"), jobs=2)
    assert report.problems == ()
    assert {f.code for f in report.findings} == {"GF104"}
    (found,) = report.findings
    assert {(s.library, s.wheel) for s in found.subjects} == {
        ("libcudart.so.12", "old 1.0"), ("libcudart.so.13", "new 1.0")
    }  # fmt: skip
    assert report.together is not None
    assert [(x.name, x.file) for x in report.together.of_kind("CUDA runtime")] == [
        ("libcudart.so.12", "nvidia/cuda_runtime/lib/libcudart.so.12"),
        ("libcudart.so.13", "nvidia/cu13/lib/libcudart.so.13"),
    ]
    assert read_in_part(index)


@pytest.mark.thorough
def test_a_published_wheel_to_compare_with_comes_from_the_index_without_its_requirements(
    index, tmp_path, capfd
):
    own = wheel(tmp_path, {"old/__init__.py": b""}, name=f"old-3.0-{TAGS}.whl")
    assert run(["audit", str(own), "--like", "old==2.0"]) == 0
    out, err = (" ".join(text.split()) for text in capfd.readouterr())
    assert f"compared with old-2.0-{TAGS}.whl" in out
    assert "only there requirements: nvidia-cuda-runtime" in out
    assert "--like chose old-2.0" in err
    assert run(["audit", str(own), "--like", "old==9"]) == 2
    assert "old==9" in capfd.readouterr().err


@pytest.mark.thorough
def test_one_major_is_no_conflict(index):
    report = audit([], beside=installed_with([], ["old", "new"], python="3.11"))
    assert (report.findings, report.problems) == ((), ())


@pytest.mark.thorough
def test_a_wheel_is_chosen_for_together_with_what_it_requires(index, tmp_path, capfd):
    files = {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)}
    own = wheel(tmp_path, files, requires=["nvidia-cuda-runtime"])
    assert run(["audit", str(own), "--with", "old<2", "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["wheels"][0]["name"], "beside" in found["wheels"][0]) == (own.name, False)
    assert {w["project"] for w in found["wheels"] if w.get("beside")} == {
        "old", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"
    }  # fmt: skip
    assert {f["code"] for f in found["findings"] if f["across"]} == {"GF104"}


@pytest.mark.thorough
def test_what_is_installed_is_kept_where_it_fits(index, folder, tmp_path):
    site = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    for name in ("old-1.0", "nvidia_cuda_runtime_cu12-12.9.79"):
        with zipfile.ZipFile(folder / f"{name}-{TAGS}.whl") as archive:
            archive.extractall(site)
        (site / f"{name}.dist-info" / "INSTALLER").write_text("pip\n")
    kept = installed_with([], ["old", "new"], tmp_path / "env")
    assert {one.label.partition("-")[0] for one in kept.wheels} == {"new", "nvidia_cuda_runtime"}
    assert {f.code for f in audit([], beside=kept).findings} == {"GF104"}
    newer = installed_with([], ["old>=2", "new"], tmp_path / "env")
    assert not audit([], beside=newer).findings


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("requirement", "error", "message"),
    [
        pytest.param(
            "old>=3",
            UsageError,
            "these cannot be installed together: old>=3: Because only",
            marks=pytest.mark.thorough,
        ),
        ("nothing-called-so", UsageError, "these cannot be installed together: nothing-called-so"),
        ("old @ https://example.org/old.whl", UsageError, "--with old @ https://example.org/old.whl: "),
        ("--index-url=https://example.org", UsageError, "--with --index-url=https://example.org: "),
        ("old\nnew", UsageError, "--with old"),
        ("./dist/old.whl", UsageError, "--with ./dist/old.whl: "),
    ],
)
def test_a_requirement_that_cannot_be_had(index, requirement, error, message):
    with pytest.raises(error, match="^" + message.replace("(", "\\(").replace(".", "\\.")):
        installed_with([], [requirement], python="3.11")


def test_a_wheel_that_has_something_else_fetched_is_refused(index, tmp_path):
    own = wheel(tmp_path, {}, requires=["old @ https://example.org/old-1.0-py3-none-any.whl"])
    with pytest.raises(ActionError, match="by a direct reference"):
        installed_with([own], ["new"])


@pytest.mark.thorough  # uv tries three times, for seconds
def test_an_index_that_is_not_there(monkeypatch):
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(
        MissingError, match=r"cannot reach the package index http://127\.0\.0\.1:9/simple/ for new"
    ):
        installed_with([], ["new"], python="3.11")


@pytest.mark.thorough
def test_the_kernel_ends_a_wait_without_end():
    """What a server does before its first byte is in no one's hands but the kernel's."""

    def work(watched: Watched) -> int:
        if watched.refuses(0):
            return 7
        watched.wait_at_most(0.2)
        watched.begins(0, 0)
        time.sleep(600)
        return 0

    assert bounded.run(work) == 7


def opened(index: Index, name: str) -> int:
    session = requests.Session()
    session.trust_env = False
    url = f"http://127.0.0.1:{index.server_port}/files/{name}"
    with remote.opened(session, name, url) as archive:
        return sum(len(chunk) for member in archive.members for chunk in archive.chunks(member))


def says_it_is_large(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes 0-0/{10**13}")
    handler.send_header("Content-Length", "1")
    handler.end_headers()
    handler.wfile.write(b"P")


def has_no_end(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    while True:
        handler.wfile.write(data)


def answers_another_part(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    handler.send_response(206)
    handler.send_header("Content-Range", "bytes 7-7/x")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def has_shrunk(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    first = handler.headers["Range"] == "bytes=0-0"
    in_ranges(handler, data if first else data[: len(data) // 2])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (says_it_is_large, TooLargeError),
        (has_no_end, TooLargeError),
        (answers_another_part, MalformedError),
        (has_shrunk, MalformedError),
        (lambda handler, _: handler.send_error(500), MissingError),
    ],
)
def test_a_hostile_server(index, folder, answer, error, monkeypatch):
    monkeypatch.setattr(remote, "LARGEST", 1 << 20)
    index.answer = answer
    with pytest.raises(error):
        opened(index, f"old-1.0-{TAGS}.whl")


@pytest.mark.parametrize(
    "body", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["its bytes", "its headers"]
)
def test_a_server_that_trickles(index, folder, body, monkeypatch):
    def trickles(handler: BaseHTTPRequestHandler, data: bytes) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"Connection: close\r\n\r\n" if body else b"X: "))
        while True:
            handler.wfile.write(b"x")
            handler.wfile.flush()

    if not body:
        monkeypatch.setattr(remote, "LARGEST", 1 << 20)
    monkeypatch.setattr(remote, "_SECONDS", 0.2)
    monkeypatch.setattr(remote, "_BYTES_A_SECOND", 1 << 40)
    index.answer = trickles
    with pytest.raises(MissingError, match=r"it sends less than|ConnectionError"):
        opened(index, f"old-1.0-{TAGS}.whl")
