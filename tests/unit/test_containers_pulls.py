"""What gpuforge makes itself is never pulled: held at the engine's own interface, on every path that could."""

from __future__ import annotations

import json
import platform
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from image_samples import reference
from plan_samples import PACKAGE

from gpuforge.cli.main import run
from gpuforge.containers import catalog
from gpuforge.containers.catalog import DebianRelease, Stage
from gpuforge.containers.images import Images
from gpuforge.errors import MissingError

MANIFEST = (
    PACKAGE
    + """\
[toolchains.device]
compiler = "nvcc"
[toolchains.host]
compiler = "g++"
[cuda.13]
toolkit = "13.0"
archs = ["90"]
"""
)
MADE = [image.name for image in catalog.images() if image.built]
PINNED = re.compile(r"quay\.io/pypa/\w+@sha256:[0-9a-f]{64}")
pytestmark = pytest.mark.skipif(
    platform.machine() not in {"x86_64", "aarch64"}, reason="no images for this machine type"
)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    (tmp_path / "gpuforge.toml").write_text(MANIFEST)
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path / "cache"))
    with running() as found:
        monkeypatch.setenv("DOCKER_HOST", found.url)
        yield found


def build(folder: Path, *options: str) -> int:
    return run(["build", str(folder), "--runner", "docker", "--dry-run", *options])


@pytest.mark.parametrize("name", MADE)
def test_a_build_in_an_image_that_is_not_built_yet_shows_how_and_pulls_nothing(
    engine, tmp_path, capsys, name
):
    assert build(tmp_path, "--image", name) == 3
    image = catalog.find(name)
    assert image is not None
    wanted = [*([image.test] if image.test else []), name]
    errors = [
        f"error: image {each} is not built yet\n  hint: gpuforge images build {each}\n" for each in wanted
    ]
    assert capsys.readouterr().err == "".join(errors) + ("2 errors\n" if len(errors) == 2 else "")
    assert engine.pulls == []


@pytest.mark.parametrize(
    "manifest",
    [
        '[wheel]\nimage = "manylinux_2_28-cuda12.4"\n',
        '[wheel]\nimage = ["bookworm-cuda11.8", "trixie"]\n',
        '[test]\nimage = "bookworm-test"\n[wheel]\nimage = "trixie"\n',
    ],
)
def test_nor_is_an_image_of_the_manifest(engine, tmp_path, manifest):
    with (tmp_path / "gpuforge.toml").open("a") as file:
        file.write(manifest)
    assert build(tmp_path) == 3
    assert engine.pulls == []


def test_of_the_default_only_pypas_image_is_pulled_and_not_the_one_for_its_tests(engine, tmp_path, capsys):
    engine.offline = True
    assert build(tmp_path) == 3
    assert "error: image bullseye-test is not built yet" in capsys.readouterr().err
    (pulled,) = engine.pulls
    assert PINNED.fullmatch(pulled)


NEVER = {
    "gpuforge/bookworm:0123456789ab": """\
error: image gpuforge/bookworm:0123456789ab is not here. It is never pulled: gpuforge makes its images on each machine
  hint: call it 'bookworm', and make it: gpuforge images build bookworm
""",
    "docker.io/gpuforge/manylinux_2_28-cuda12.4:7abd1cbaf8b2": """\
error: image docker.io/gpuforge/manylinux_2_28-cuda12.4:7abd1cbaf8b2 is not here. It is never pulled: gpuforge makes \
its images on each machine
  hint: call it 'manylinux_2_28-cuda12.4', and make it: gpuforge images build manylinux_2_28-cuda12.4
""",
    "localhost/gpuforge/cpython-bookworm:1": """\
error: image localhost/gpuforge/cpython-bookworm:1 is not here. It is never pulled: gpuforge makes its images on each \
machine
  hint: `gpuforge images list` shows those it makes
""",
    "localhost/team/builder": """\
error: image localhost/team/builder is not here, and no registry has it: its name says that this machine made it
  hint: build it, or name a registry's image
""",
    "bokworm": """\
error: image bokworm is not here, and gpuforge knows none of this name
  hint: did you mean bookworm? `gpuforge images list` shows what it knows; for Docker Hub's image write \
docker.io/library/bokworm
""",
    "sha256:0123456789ab": """\
error: the engine has no image sha256:0123456789ab
  hint: `docker images --no-trunc` lists the IDs that it has
""",
}


@pytest.mark.parametrize("name", NEVER)
@pytest.mark.parametrize("path", ["build", "test", "check"])
def test_names_that_only_this_machine_gives_are_never_pulled(engine, tmp_path, capsys, name, path):
    if path == "test":
        engine.here.add(reference("bookworm"))
        with (tmp_path / "gpuforge.toml").open("a") as file:
            file.write(f'[test]\nimage = "{name}"\n[wheel]\nimage = "manylinux_2_28-cuda12.4"\n')
    status = run(["images", "check", name]) if path == "check" else (
        build(tmp_path) if path == "test" else build(tmp_path, "--image", name)
    )  # fmt: skip
    assert status == 3
    assert capsys.readouterr().err.startswith(NEVER[name])
    assert engine.pulls == []


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("registry.example.org/team/builder:7", "registry.example.org/team/builder:7"),
        ("localhost:5000/builder", "localhost:5000/builder:latest"),
        ("team/gpuforge:1", "team/gpuforge:1"),
        ("docker.io/library/debian", "docker.io/library/debian:latest"),
        ("debian:12", "debian:12"),
    ],
)
def test_a_reference_of_the_users_own_is_pulled_as_it_is_written(engine, tmp_path, name, asked):
    assert build(tmp_path, "--image", name) == 3
    assert engine.pulls == [asked]


def test_an_image_on_pypas_is_built_on_the_digest_and_nothing_else_is_pulled(engine):
    for name in ("manylinux_2_28-cuda12.4", "manylinux_2_28-cuda13.0"):
        assert run(["images", "build", name]) == 0
        assert PINNED.fullmatch(engine.builds[reference(name)]["BASE"])
    assert engine.pulls == [catalog.pinned("manylinux_2_28", platform.machine())]
    assert engine.pulled_bases == []


def bases(stage: Stage) -> Iterator[str]:
    """Yield what a stage and all that it is made of put behind FROM."""
    for below in (stage.base, stage.cpython):
        if isinstance(below, Stage):
            yield below.reference
            yield from bases(below)
        elif isinstance(below, str):
            yield below
        else:
            assert below is None or isinstance(
                below, DebianRelease
            )  # its base is `localhost/…` too: see below


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_builder_finds_each_base_here_or_by_its_digest(machine):
    for row in catalog.rows():
        stage = catalog.stage_of(row.name, machine)
        for base in bases(stage) if stage else ():
            assert base.startswith("localhost/gpuforge/") or PINNED.fullmatch(base), row.name
    froms = {
        line.split()[1]
        for file in catalog.folder().rglob("*.Dockerfile")
        for line in file.read_text().splitlines()
        if line.startswith("FROM ")
    }
    assert froms == {"${BASE}", "${CPYTHON}", "scratch"}


@pytest.mark.parametrize("name", ["gpuforge/bookworm:1", "localhost/gpuforge/bookworm:1", "bookworm"])
def test_the_engines_client_itself_refuses(engine, name):
    images = Images()
    with pytest.raises(MissingError):
        list(images.pull(name, "x86_64"))
    images.close()
    assert engine.pulls == []


@dataclass
class Engine:
    """What an engine was asked to fetch (`pulls`) and to build: each image with its build arguments and its `pull`."""

    url: str
    here: set[str] = field(default_factory=set)
    pulls: list[str] = field(default_factory=list)
    builds: dict[str, dict[str, str]] = field(default_factory=dict)
    pulled_bases: list[str] = field(default_factory=list)  # of builds that were to fetch their bases anew
    offline: bool = False

    def answer(self, method: str, path: str, query: dict[str, str]) -> tuple[int, Any]:
        """Return the status and the content of an answer; lists are streams of objects."""
        match method, path.removeprefix("/"):
            case "GET", "_ping":
                return 200, {}
            case "GET", "version":
                return 200, {"ApiVersion": "1.41"}
            case "GET", "info":
                return 200, {"NCPU": 2, "SystemTime": "2026-01-01T00:00:00Z"}
            case "GET", "containers/json":
                return 200, {}
            case "POST", "images/create":
                return self._pull(query)
            case "POST", "build":
                return self._build(query)
        if found := re.fullmatch(r"/images/(.+)/json", path):
            there = found[1] in self.here
            image = {"Id": "sha256:" + "0" * 64, "Size": 1, "Config": {"Labels": {}}}
            return (200, image) if there else (404, {"message": f"No such image: {found[1]}"})
        return 200, {}

    def _pull(self, query: dict[str, str]) -> tuple[int, Any]:
        tag = query.get("tag", "")
        reference = query["fromImage"] + (("@" if tag.startswith("sha256:") else ":") + tag if tag else "")
        self.pulls.append(reference)
        if reference.startswith("quay.io/pypa/") and not self.offline:
            self.here.add(reference)
            return 200, [{"status": "done"}]
        return 404, {"message": f"pull access denied for {query['fromImage']}"}

    def _build(self, query: dict[str, str]) -> tuple[int, Any]:
        arguments = json.loads(query["buildargs"])
        self.builds[query["t"]] = arguments
        if query.get("pull", "") not in {"", "0", "False", "false"}:
            self.pulled_bases.append(query["t"])
        self.here.add(query["t"])
        return 200, [{"stream": "done\n"}]


@contextmanager
def running(here: set[str] | None = None) -> Iterator[Engine]:
    """Run an engine that has the images `here`; DOCKER_HOST is to be its `url`."""
    engine = Engine("", here or set())

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Be quiet."""

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            path = unquote(re.sub(r"^/v1\.\d+", "", parts.path))
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self._read()
            status, content = engine.answer(self.command, path, query)
            listing = path in {"/containers/json", "/images/json"}
            text = (
                "".join(json.dumps(each) + "\n" for each in content)
                if isinstance(content, list)
                else json.dumps([] if listing else content)
            )
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815  as BaseHTTPRequestHandler wants them

        def _read(self) -> None:
            if self.headers.get("Transfer-Encoding") != "chunked":
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                return
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            self.rfile.readline()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        engine.url = f"tcp://127.0.0.1:{server.server_port}"
        yield engine
        server.shutdown()
