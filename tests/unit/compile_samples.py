"""A site with sources for the user's compiler, a compiler that is a script, and the builds it made."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from library_samples import install, program, toolchain

GXX = shutil.which("g++") or "g++"
VERSION = "echo 'g++ (Debian 12.2.0-1) 12.2.0'; echo 'Copyright (C) 2022 Free Software Foundation, Inc.'"


def compiler(tmp_path: Path, script: str) -> str:
    """A compiler that answers as g++ 12 and otherwise runs `script`; returned as the option that names it."""
    file = program(tmp_path / "bin", "g++", f'[ "$1" = --version ] && {{ {VERSION}; exit; }}\n{script}')
    return f"--toolchain=host={file}"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    install(tmp_path / "site", toolchain("host", "g++", version=">=9"))
    return tmp_path / "site"


def builds(site: Path) -> list[str]:
    return sorted(
        p.name.partition("-")[0] for p in (site.parent / "builds").glob("user/demo/*/*") if p.is_dir()
    )


def eventually(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)
