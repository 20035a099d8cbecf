"""A build that bench/kills.py starts, disturbs, and judges by what it left."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import kills_client

SHORT = "short"


class Forked:
    """A client of `short` as a process that has loaded all it needs; it is asked as subprocess.Popen is."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], out: int, err: int) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                os.setsid()
                os.dup2(out, 1)
                os.dup2(err, 2)
                os.environ.update(env)
                status = kills_client.run(argv)
            except BaseException:  # noqa: BLE001 - what a program of its own would print
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> int | None:
        """Return the exit status, once it has ended."""
        while self.poll() is None:
            time.sleep(0.05)
        return self.returncode


@dataclass
class Build:
    """One `gpuforge build`; below its folder lie its cache, its dist and what it printed."""

    argv: Sequence[str]
    folder: Path
    env: Mapping[str, str]
    process: subprocess.Popen[bytes] | Forked | None = None

    def start(self) -> Build:
        """Start it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        env = {**os.environ, "GPUFORGE_CACHE_DIR": str(self.folder / "cache"), **self.env}
        argv = [each.replace("DIST", str(self.folder / "dist")) for each in self.argv]
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "err").rename(self.folder / "err-of-the-disturbed-build")
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            if argv[0] == SHORT:
                self.process = Forked(argv[1:], env, out.fileno(), err.fileno())
            else:
                self.process = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, start_new_session=True
                )
        return self

    def status(self) -> int | None:
        """Return its exit status, None while it runs."""
        return self.process.poll() if self.process else None

    def is_silent(self) -> bool:
        """Return whether it has printed no message yet."""
        return not (self.folder / "err").stat().st_size

    def ran(self) -> set[str]:
        """Return the keys of all that it ever ran to a good end, by its ledger."""
        ledger = Path(self.env.get("GPUFORGE_CACHE_DIR", self.folder / "cache")) / "ledger.jsonl"
        entries = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
        return {each["key"] for each in entries if each["result"] == "ok" and each["seconds"]}

    def sha256(self) -> list[str]:
        """Return the digests of its wheels; none where it printed no result."""
        with contextlib.suppress(ValueError):
            return [each["sha256"] for each in json.loads((self.folder / "out").read_text())["wheels"]]
        return []

    def complaints(self) -> list[str]:
        """Return what is wrong with its messages and with what it left in dist."""
        text = (self.folder / "err").read_text(errors="replace")
        found = ["a traceback"] if "Traceback" in text else []
        if (messages := sum(line.startswith("error: ") for line in text.splitlines())) > 1:
            found.append(f"{messages} messages")
        dist = self.folder / "dist"
        odd = [path.name for path in dist.iterdir()] if dist.exists() else []
        odd = [
            name for name in odd if not name.endswith(".whl") and name not in {".gpuforge.json", ".set-aside"}
        ]
        return [*found, *(f"{name} in dist" for name in odd)]
