"""Builds whose processes are ended at random, and what the next build makes of it.

    python bench/kills.py [--rounds 50] [--seed 0] [OPTIONS OF gpuforge build]

Each round builds a small wheel with an empty cache and, at a random moment, ends one process of the build by SIGKILL:
gpuforge itself, a keeper, a step, a compiler; with `--runner dask` also a worker. The disturbed build must end by
itself, without a traceback. The same build must then succeed, with the wheel of an undisturbed build, byte for byte,
and leave no process, a sound store, and in dist nothing but the wheel and its record. Prints a line for each round;
the exit status is 1 when a round failed, whose folder is kept. psutil comes with the tests' requirements.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

LIMIT_S = 300  # for a disturbed build to end
MANIFEST = f"""\
schema = 1
[package]
name = "small"
python = ["{sys.version_info[0]}.{sys.version_info[1]}"]
source = {{ path = "." }}
[build]
before = [["sleep", "1"]]
[toolchains.host]
compiler = "g++"
"""
LIBRARY = """
[[objects]]
name = "part{number}"
role = "fallback"
kind = "library"
sources = ["parts/part{number}.cpp"]
abi = {{ version = "1", headers = ["parts/parts.h"] }}
toolchain = "host"
"""
BACKEND = '''\
"""A build backend without requirements: one module, the same bytes each time."""
import base64, hashlib, zipfile

def build_wheel(folder, settings=None, metadata=None):
    info = "small-1.0.dist-info"
    files = {
        "small/__init__.py": "answer = 42\\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: small\\nVersion: 1.0\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: small\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    lines = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(text.encode())}")
    files[f"{info}/RECORD"] = "\\n".join([*lines, f"{info}/RECORD,,", ""])
    with zipfile.ZipFile(f"{folder}/small-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text)
    return "small-1.0-py3-none-any.whl"
'''
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def write_project(folder: Path) -> None:
    """Write a wheel without CUDA, whose actions are short and many."""
    (folder / "parts").mkdir(parents=True)
    (folder / "gpuforge.toml").write_text(MANIFEST + "".join(LIBRARY.format(number=n) for n in range(6)))
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "backend.py").write_text(BACKEND)
    (folder / "parts" / "parts.h").write_text('extern "C" int part(const char *text);\n')
    for number in range(6):
        source = f'extern "C" int part{number}(const char *text) {{ return text[0] - {number}; }}\n'
        (folder / "parts" / f"part{number}.cpp").write_text(source)


class Round:
    """A project in a folder of its own, with its own cache and working directories."""

    def __init__(self, folder: Path, options: list[str]) -> None:
        self.folder, self.dist = folder, folder / "dist"
        write_project(folder / "project")
        self.gpuforge = [sys.executable, "-m", "gpuforge"]
        self.argv = [*self.gpuforge, "build", "project", "-o", str(self.dist), *options]
        work = str(folder.parent / "work")  # of all rounds: paths decide on bytes
        self.env = {**os.environ, "GPUFORGE_CACHE_DIR": str(folder / "cache"), "GPUFORGE_WORK": work}

    def start(self, log: str) -> subprocess.Popen[bytes]:
        """Start a build whose output goes to a file."""
        with (self.folder / log).open("wb") as output:
            return subprocess.Popen(
                self.argv, cwd=self.folder, env=self.env, stdout=output, stderr=output, start_new_session=True
            )

    def disturb(self, seconds: float, choice: random.Random) -> str:
        """Build, and end a process after so many seconds; return which one."""
        build = self.start("disturbed.log")
        time.sleep(seconds)
        victim = "nothing"
        try:
            root = psutil.Process(build.pid)
            process = choice.choice([root, *root.children(recursive=True)])
            victim = " ".join(process.cmdline()[-3:])[-60:] or process.name()
            process.kill()
        except psutil.NoSuchProcess:
            pass  # it has ended meanwhile
        build.wait(LIMIT_S)
        return victim

    def faults(self, sha256: str) -> list[str]:
        """Build again; return what is not as it should be."""
        status = self.start("again.log").wait(LIMIT_S)
        wheels = sorted(self.dist.glob("*.whl")) if self.dist.is_dir() else []
        found = [f"exit status {status}"] * (status != 0)
        found += [f"{len(wheels)} wheels"] * (len(wheels) != 1)
        found += ["another wheel"] * (sha256 not in {"", *map(digest_of, wheels)})
        known = {".gpuforge.json", *(wheel.name for wheel in wheels)}
        found += [f"left: {each.name}" for each in self.dist.iterdir() if each.name not in known]
        for log in self.folder.glob("*.log"):
            found += [f"a traceback in {log.name}"] * ("Traceback" in log.read_text(errors="replace"))
        verified = subprocess.run(
            [*self.gpuforge, "cache", "verify"], env=self.env, capture_output=True, check=False
        )
        found += ["the store is damaged"] * (verified.returncode != 0)
        cache = self.env["GPUFORGE_CACHE_DIR"]
        for process in psutil.process_iter():
            try:
                if cache in process.environ().values() or cache in " ".join(process.cmdline()):
                    found.append(f"left: process {process.pid} {process.name()}")
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found


def digest_of(wheel: Path) -> str:
    """Return a file's sha256."""
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def main() -> int:
    """Run the rounds; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    known, options = parser.parse_known_args()
    choice = random.Random(known.seed)  # noqa: S311
    top = Path(tempfile.mkdtemp(prefix="kills-"))
    first = Round(top / "undisturbed", options)
    begun = time.monotonic()
    if problems := first.faults(""):
        print(f"the undisturbed build failed: {', '.join(problems)}: {first.folder}")
        return 1
    seconds = time.monotonic() - begun
    (wheel,) = first.dist.glob("*.whl")
    sha256, failed = digest_of(wheel), 0
    for number in range(known.rounds):
        this = Round(top / f"round{number}", options)
        moment = choice.uniform(0, seconds)
        victim = this.disturb(moment, choice)
        problems = this.faults(sha256)
        failed += bool(problems)
        print(f"{number}: {moment:.1f} s, {victim}: {', '.join(problems) or 'ok'}", flush=True)
        if not problems:
            shutil.rmtree(this.folder)
    print(f"{known.rounds - failed} of {known.rounds} rounds were right{f': {top}' * bool(failed)}")
    return failed != 0


if __name__ == "__main__":
    raise SystemExit(main())
