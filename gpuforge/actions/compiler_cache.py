"""The compilers of one host build, behind wrappers, and their cache: an sccache server that runs as long as the build.

The result never depends on it: without a server, or when it fails, the wrappers of `cached_compilers` call the
compilers themselves.
"""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from gpuforge import digest
from gpuforge.actions.build_notes import CPU_OPTIONS, FILES_READ
from gpuforge.errors import MissingError
from gpuforge.toolchains import sccache
from gpuforge.toolchains.sccache import CacheUse

START = 30.0  # seconds; the server first connects to a remote back end
STOP = 15.0
# A client that finds no server starts one, which would hold the build's pipes open. If it cannot open its log, it
# starts none.
_NOWHERE = "/dev/null/none"
_LONGEST = 100  # bytes of a socket's path; 107 on Linux (unix(7))


def take_settings(environ: MutableMapping[str, str]) -> dict[str, str]:
    """Move the cache's settings out of `environ`, so that a project's build sees no credentials; return them."""
    return {name: environ.pop(name) for name in sorted(environ) if sccache.is_setting(name)}


@contextmanager
def serving(
    settings: Mapping[str, str], folder: Path, report: Callable[[CacheUse], None] | None = None
) -> Iterator[dict[str, str]]:
    """Run a server while the context lasts; yield the variables by which the compilers' wrappers use it.

    There are none when there is no cache. `report` is called once with the use of the cache, or the reason for having
    none; the log has it, too. `folder` gets the server's log and, if its path is short enough, its socket.
    """

    def tell(use: CacheUse) -> None:
        print(f"compiler cache: {use}", flush=True)
        if report:
            report(use)

    if settings.get(sccache.OFF) or not settings.get(sccache.FOLDER):
        why = sccache.OFF if settings.get(sccache.OFF) else f"{sccache.FOLDER} is not set"
        tell(CacheUse(notes=(f"off ({why})",)))
        yield {}
        return
    short = len(os.fsencode(folder)) < _LONGEST - len("/sccache-12345678/server")
    with tempfile.TemporaryDirectory(dir=folder if short else "/tmp", prefix="sccache-") as place:  # noqa: S108
        server = _Server(settings, Path(place), folder / "sccache.log")
        try:
            if server.answers():
                yield server.offer()
                tell(server.use())
            else:
                tell(CacheUse(notes=(f"not used: {server.first_words()}",)))
                yield {}
        finally:
            server.stop()


class _Server:
    """An sccache server with its socket in `place`."""

    def __init__(self, settings: Mapping[str, str], place: Path, log: Path) -> None:
        self._program = Path(sysconfig.get_path("scripts")) / "sccache"
        self._place, self._log, self._is_listening = place, log, False
        self._shared = {
            "SCCACHE_SERVER_UDS": f"{place}/server",
            "SCCACHE_NO_DAEMON": "1",  # the server then ends with this step's process group
            "SCCACHE_DIRECT": "false",  # it does not notice a header that is new
        }
        begin = {"SCCACHE_START_SERVER": "1", "SCCACHE_IDLE_TIMEOUT": "0"}
        environ = {**os.environ, **settings, **self._shared, **begin}
        self._process: subprocess.Popen[bytes] | None = None
        with log.open("wb") as words:
            try:
                self._process = subprocess.Popen(
                    [self._program], env=environ, stdin=subprocess.DEVNULL, stdout=words, stderr=words
                )
            except OSError as error:
                words.write(f"{self._program}: {error.strerror}\n".encode())

    def answers(self) -> bool:
        """Wait until the server listens; False when it ended instead, or takes too long."""
        deadline = time.monotonic() + START
        while self._runs() and time.monotonic() < deadline and not self._is_listening:
            with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
                client.connect(self._shared["SCCACHE_SERVER_UDS"])
                self._is_listening = True
            time.sleep(0.01)
        return self._is_listening

    def first_words(self) -> str:
        """Return the first line of the log of a server that did not start."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[0].removeprefix("sccache: ") if lines else f"the server did not answer in {START:.0f} s"

    def offer(self) -> dict[str, str]:
        """Return the variables of its clients; the program is found as long as the server runs."""
        found = self._place / "sccache"
        found.symlink_to(self._program)
        Thread(target=self._withdraw, args=(found,), daemon=True).start()
        return {PROGRAM: str(found), **self._client()}

    def use(self) -> CacheUse:
        """Return its counts."""
        try:
            answer = self._ask("--show-stats", "--stats-format=json") if self._runs() else b""
            return counted(json.loads(answer)["stats"])
        except (OSError, subprocess.SubprocessError, ValueError, KeyError):
            return CacheUse(
                notes=("the server ended before the build did: the rest was compiled without it",)
            )

    def stop(self) -> None:
        """End it. If it answers, it is asked to stop, and finishes its writing."""
        if self._is_listening and self._process:
            with suppress(OSError, subprocess.SubprocessError):
                self._ask("--stop-server")
                self._process.wait(STOP)
        if self._process and self._runs():
            self._process.kill()
            self._process.wait()

    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _client(self) -> dict[str, str]:
        return {**self._shared, "SCCACHE_IGNORE_SERVER_IO_ERROR": "1", "SCCACHE_ERROR_LOG": _NOWHERE}

    def _ask(self, *words: str) -> bytes:
        environ = {**os.environ, **self._client()}
        command = [str(self._program), *words]
        return subprocess.run(command, env=environ, capture_output=True, check=True, timeout=STOP).stdout

    def _withdraw(self, found: Path) -> None:
        if self._process:
            self._process.wait()
        found.unlink(missing_ok=True)


def counted(counts: Mapping[str, Any]) -> CacheUse:
    """Return hits, compile steps and errors, from the `stats` of `sccache --show-stats`."""
    hits = sum(counts["cache_hits"]["counts"].values())
    misses = sum(counts["cache_misses"]["counts"].values())
    reasons = ", ".join(sorted(counts["not_cached"]))
    troubles = {
        f"not cacheable ({reasons})": counts["requests_not_cacheable"],
        "failed reads": counts["cache_read_errors"] + counts["cache_timeouts"],
        "failed writes": counts["cache_write_errors"],
    }
    notes = tuple(f"{number} {what}" for what, number in troubles.items() if number)
    return CacheUse(hits, hits + misses, notes)


PROGRAM = "GPUFORGE_SCCACHE"  # path of the cache's program while its server runs


def write_wrapper(
    compiler: Path,
    name: str,
    folder: Path,
    cpu: str = "",
    libraries: Path | None = None,
    rpath: Sequence[Path] = (),
) -> Path:
    """Write `folder/name`, which calls `compiler`; return its path.

    It compiles for the level `cpu` ("x86-64-v2") where the command has no `-march`. `-march=native` is an error, or
    that level. Libraries are also linked from the folder `libraries`, and found in those of `rpath`. Options for CPUs
    (`-mavx2`) are recorded in `CPU_OPTIONS` beside the folder, and the files that compilers and linkers read in
    `FILES_READ`.
    """
    files = folder.parent / FILES_READ
    for each in (folder, files):
        each.mkdir(exist_ok=True)
    return _write(
        folder / name,
        *("compiler.sh", "sccache.sh"),
        identity=compiler_identity(compiler),
        compiler=compiler,
        cpu=cpu,
        libraries=libraries or "",
        rpath=":".join(map(str, rpath)),
        options_file=folder.parent / CPU_OPTIONS,
        files=files,
        linker_lists="yes" if _links(compiler) else "",
    )


def _links(compiler: Path) -> bool:
    """Return whether the compiler's linker lists the files that it read (GNU ld 2.35)."""
    answer = subprocess.run([compiler, "-Wl,--help"], capture_output=True, text=True, check=False)
    return "--dependency-file" in answer.stdout


def _write(program: Path, *scripts: str, **values: str | Path) -> Path:
    """Write a program that sets variables and goes on with scripts from beside this module; return its path."""
    assigned = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in values.items())
    texts = [(Path(__file__).parent / name).read_text() for name in scripts]
    program.write_text("".join(["#!/bin/sh\n", assigned, *texts]))
    program.chmod(0o755)
    return program


def compiler_identity(compiler: Path) -> str:
    """Return a digest of the programs that compile, for the wrapper, by which the cache identifies the compiler.

    By itself, sccache would look at the driver only, which is not the program that compiles.
    """
    parts = [compiler]
    for part in ("cc1", "cc1plus", "as"):
        answer = subprocess.run(
            [compiler, f"-print-prog-name={part}"], capture_output=True, text=True, check=False
        )
        found = shutil.which(answer.stdout.strip() or part)
        parts += [Path(found)] if found else []
    return digest.of_data([digest.of_file(part) for part in parts])


_NVCC_TOOLS = {
    "cudafe++": "bin",
    "cicc": "nvvm/bin",
    "ptxas": "bin",
}  # what takes the time; the rest is not cacheable


def write_nvcc(
    nvcc: Path,
    toolkit: Path,
    behind: Path,
    gencode: Sequence[str] = (),
    accepted: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> Path:
    """Make the folder `toolkit` look like nvcc's own toolkit, with a wrapper as `bin/nvcc`; return that wrapper.

    The wrapper calls `nvcc` with the options among these that this version has, and with the architectures `gencode`
    (`-gencode=arch=compute_90,code=sm_90`) if a command has none of its own. A command for "others", or one with some
    "missing", ends with an error, unless that is `accepted`. Of the architectures `left_out`, for a quick try, none is
    compiled beside others. Builds find headers and libraries relative to the nvcc on
    their PATH or in CUDA_HOME, which is the wrapper. `behind` becomes a folder of links to the toolkit, with the
    programs that the cache calls. Raises MissingError if nvcc does not run.
    """
    try:
        answer = subprocess.run([nvcc, "--help"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise MissingError.of(f"{nvcc} does not run: {error}", hint="check the CUDA toolkit") from error
    called = _cached(nvcc, behind)
    _link(nvcc.parent.parent, toolkit, replaced={nvcc.name})
    return _write(
        toolkit / "bin" / nvcc.name,
        "nvcc.sh",
        nvcc=called,
        options=" ".join(each for each in ("--objdir-as-tempdir", "--frandom-seed") if each in answer.stdout),
        gencode=" ".join(gencode),
        named=_images(gencode),
        left_out=_images(left_out),
        accepted=" ".join(accepted),
    )


def _images(gencode: Sequence[str]) -> str:
    return "\n".join(option.rpartition("=")[2] for option in gencode)


def _link(root: Path, place: Path, replaced: Set[str]) -> None:
    """Make a folder with the content of `root` by links; its `bin` is a folder of its own, without some files."""
    (place / "bin").mkdir(parents=True)
    for path in sorted(root.iterdir()):
        if path.name != "bin":
            (place / path.name).symlink_to(path)
    for path in sorted((root / "bin").iterdir()):
        if path.name not in replaced:
            (place / "bin" / path.name).symlink_to(path)


def _cached(nvcc: Path, behind: Path) -> Path:
    """Return an nvcc that finds wrappers of its programs; `nvcc` itself if they are not in NVIDIA's layout.

    nvcc searches the folders in its profile, which lies beside the path that it was called by
    (https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#nvcc-profile). Headers and libraries keep their paths.
    """
    root = nvcc.parent.parent
    profile = nvcc.parent / "nvcc.profile"
    tools = {name: root / folder / name for name, folder in _NVCC_TOOLS.items()}
    if not all(path.is_file() for path in (profile, *tools.values())):
        return nvcc
    own = behind / "bin"
    _link(root, behind, replaced={profile.name, *tools})
    for name, path in tools.items():
        _write(own / name, "tool.sh", "sccache.sh", compiler=path)
    text = profile.read_text().replace("$(_HERE_)", str(nvcc.parent)).rstrip("\n")
    (own / profile.name).write_text(f"{text}\nCICC_PATH = {own}\nPATH += {own}:\n")
    return own / nvcc.name
