"""The compiler cache with real compilers: what hits, and that no result depends on it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builds import DEVICES, build, forget_wheels

from gpuforge.actions import build_notes, compiler_cache
from gpuforge.actions.compiler_cache import PROGRAM, write_wrapper
from gpuforge.errors import MissingError
from gpuforge.toolchains import cpython
from gpuforge.toolchains.detect import detect

MINOR = sys.version_info.minor
pytestmark = [pytest.mark.toolkit, pytest.mark.xdist_group("build")]


class Compiler:
    """g++ behind its wrapper, compiling one source in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.real = detect("g++").path
        self.wrapper = write_wrapper(self.real, "g++", folder / "bin")
        self.cache: dict[str, str] = {}

    def serving(self, **settings: str) -> Any:
        return compiler_cache.serving({"SCCACHE_DIR": str(self.folder / "cache"), **settings}, self.folder)

    def __call__(self, text: str, *flags: str, real: bool = False) -> bytes:
        """Return the object of a source."""
        (self.folder / "a.cpp").write_text(text)
        command = [self.real if real else self.wrapper, *flags, "-c", "a.cpp", "-o", "a.o"]
        environ = {**os.environ, "TMPDIR": str(self.folder), **self.cache}
        subprocess.run(command, check=True, cwd=self.folder, env=environ, timeout=60)
        return (self.folder / "a.o").read_bytes()


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return Compiler(tmp_path)


def counts(said: str) -> str:
    return said.strip().rpartition("compiler cache: ")[2]


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("int f(int x) { return x; }", ["-g"]),
        (
            "#include <source_location>\nint f() { return std::source_location::current().line(); }",
            ["-std=c++20"],
        ),
    ],
)
def test_lines_that_moved_are_compiled_anew(compiler, text, flags, capsys):
    with compiler.serving() as compiler.cache:
        for source in (text, f"\n// moved\n{text}", text):
            assert compiler(source, *flags) == compiler(source, *flags, real=True)
    assert counts(capsys.readouterr().out) == "1 of 3 hits"


def test_a_file_that_assembly_includes_is_read_anew(compiler):
    text = 'void f() { asm(".incbin \\"data\\""); }'
    with compiler.serving() as compiler.cache:
        for data in ("one", "two"):
            (compiler.folder / "data").write_text(data)
            assert compiler(text) == compiler(text, real=True)


@pytest.mark.parametrize("flags", [[], ["-MD"], ["-MMD", "-MF", "x.d"]])
def test_headers_are_listed_of_objects_that_the_cache_had(compiler, flags):
    with compiler.serving() as compiler.cache:
        for _ in range(2):
            compiler("#include <cstdio>\nint x;", *flags)
            (listed,) = (compiler.folder / build_notes.FILES_READ).iterdir()
            assert "/stdio.h" in listed.read_text()
            listed.unlink()


def test_broken_entries_are_replaced(compiler, capsys):
    text = "int f() { return 1; }"
    with compiler.serving() as compiler.cache:
        good = compiler(text)
    (entry,) = [path for path in (compiler.folder / "cache").rglob("*") if path.is_file()]
    for broken in (b"", entry.read_bytes()[:40], bytes(len(entry.read_bytes()))):
        entry.write_bytes(broken)
        with compiler.serving() as compiler.cache:
            assert compiler(text) == good
            assert compiler(text) == good
        assert counts(capsys.readouterr().out).startswith("1 of 2 hits")


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(compiler, capsys):
    (compiler.folder / "file").write_text("")
    with compiler.serving(SCCACHE_DIR=str(compiler.folder / "file")) as compiler.cache:
        assert compiler("int x;") == compiler("int x;", real=True)
    assert counts(capsys.readouterr().out) == "0 of 1 hits, 1 failed writes"


def test_a_back_end_that_does_not_answer_is_told(compiler, capsys, monkeypatch):
    monkeypatch.setattr(compiler_cache, "START", 1.0)
    with compiler.serving(SCCACHE_REDIS_ENDPOINT="tcp://127.0.0.1:1") as compiler.cache:
        assert compiler("int x;") == compiler("int x;", real=True)
    assert counts(capsys.readouterr().out) == "not used: the server did not answer in 1 s"


def servers(folder: Path) -> Iterator[int]:
    """The processes of sccache whose socket lies in a folder."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ = (process / "environ").read_bytes().split(b"\0")
            if (process / "comm").read_text() == "sccache\n" and any(
                line.startswith(f"SCCACHE_SERVER_UDS={folder}/".encode()) for line in environ
            ):
                yield int(process.name)
        except OSError:
            continue


def test_a_server_that_is_killed_is_done_without(compiler, capsys):
    with compiler.serving() as compiler.cache:
        compiler("int x;")
        (server,) = servers(compiler.folder)
        os.kill(server, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while Path(compiler.cache[PROGRAM]).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert compiler("int y;") == compiler("int y;", real=True)
    assert "ended before the build did" in capsys.readouterr().out
    assert list(servers(compiler.folder)) == []


class Builder:
    """gpuforge with a cache and working directories of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cache = root / "cache"

    def __call__(self, *pythons: str, **env: str) -> dict[str, dict[str, Any]]:
        """Build; return each cell's wheel with what its host build says of the compiler cache."""
        options = ["--cuda", 13, "--python", ",".join(pythons), "-o", self.root / "dist"]
        result = build(DEVICES, *options, cache=self.cache, **env)
        told = {action["id"].partition("/")[0]: action.get("compiler_cache") for action in result["actions"]
                if action["id"].endswith("/host-build")}  # fmt: skip
        return {
            w["cell"].split("-")[0]: {"sha256": w["sha256"], "cache": told[w["cell"]]}
            for w in result["wheels"]
        }


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("builds"))


@pytest.mark.network
@pytest.mark.slow
def test_wheels_have_the_same_bytes_without_a_cache_with_a_new_one_and_with_a_full_one(builder):
    python, name = f"3.{MINOR}", f"cp3{MINOR}"
    without = builder(python, GPUFORGE_NO_SCCACHE="1")
    assert without[name]["cache"] == {"text": "off (GPUFORGE_NO_SCCACHE)"}
    found = []
    for _ in range(2):
        forget_wheels(builder.cache)
        found.append(builder(python)[name])
    cold, warm = found
    assert cold["sha256"] == warm["sha256"] == without[name]["sha256"]
    assert cold["cache"]["hits"] == 0
    # CMake's own checks of the compilers lie in folders with random names: the rest hits
    assert warm["cache"]["hits"] >= 10
    assert list(servers(Path("/"))) == []


@pytest.mark.network
@pytest.mark.slow
def test_what_does_not_include_python_hits_for_the_second_python(builder):
    second = next(
        (f"3.{minor}" for minor in (11, 12, 13, 14) if minor != MINOR and _there(f"3.{minor}")), None
    )
    if second is None:
        pytest.skip("there is one CPython with headers on this machine")
    forget_wheels(builder.cache)
    builder(f"3.{MINOR}")
    told = builder(second)[f"cp{second.replace('.', '')}"]["cache"]
    # touch.cu for two architectures and its host part: cudafe++, 2 cicc, 2 ptxas, g++
    assert told["hits"] >= 6


def _there(minor: str) -> bool:
    try:
        return bool(cpython.find(minor))
    except MissingError:
        return False
