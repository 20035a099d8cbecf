"""The wrapper around nvcc: the options that this nvcc has, and a seed that is the object's own name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpuforge.actions.compiler_cache import write_nvcc
from gpuforge.errors import MissingError


def stub(folder: Path, knows: str) -> Path:
    """A compiler that lists its options on --help and otherwise prints its arguments, one a line."""
    path = folder / "a folder" / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\n[ "$1" = --help ] && echo "{knows}" && exit\nprintf "%s\\n" "$@"\n')
    path.chmod(0o755)
    return path


def called(wrapper: Path, *arguments: str) -> list[str]:
    return subprocess.run(
        [wrapper, *arguments], check=True, capture_output=True, text=True
    ).stdout.splitlines()


def test_each_object_has_its_own_seed(tmp_path: Path) -> None:
    nvcc = stub(tmp_path, "--objdir-as-tempdir (-objtemp) --frandom-seed (-frandom-seed)")
    wrapper = write_nvcc(nvcc, tmp_path / "cuda", tmp_path / "behind")
    assert called(wrapper, "-c", "a b.cu", "-o", "x y.o") == [
        "--objdir-as-tempdir", "-frandom-seed=x y.o", "-c", "a b.cu", "-o", "x y.o",
    ]  # fmt: skip
    assert called(wrapper, "--output-file", "z.o")[1] == "-frandom-seed=z.o"
    assert called(wrapper, "--version") == ["--objdir-as-tempdir", "--version"]


def test_an_older_nvcc_gets_no_option_that_it_does_not_know(tmp_path: Path) -> None:
    wrapper = write_nvcc(
        stub(tmp_path, "--objdir-as-tempdir (-objtemp)"), tmp_path / "cuda", tmp_path / "behind"
    )
    assert called(wrapper, "-c", "a.cu", "-o", "a.o") == ["--objdir-as-tempdir", "-c", "a.cu", "-o", "a.o"]


def test_no_nvcc(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="does not run"):
        write_nvcc(tmp_path / "nvcc", tmp_path / "cuda", tmp_path / "behind")
