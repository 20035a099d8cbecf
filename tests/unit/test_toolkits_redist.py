"""A toolkit made of NVIDIA's archives, from a server on this machine that has their layout."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace

import pytest
import toolkit_samples as samples
from toolkit_samples import publish, relist, wanted

from gpuforge.actions.toolkit import FetchToolkit
from gpuforge.errors import ActionError, MissingError, UsageError
from gpuforge.toolkits import download as downloads
from gpuforge.toolkits import progress
from gpuforge.toolkits.pins import PinnedWheel
from gpuforge.toolkits.providers import redist

Change = Callable[[dict[str, dict[str, object]]], None]


def test_each_archive_says_how_far_it_is(tmp_path, nvidia, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE_S", -1.0)
    said: list[str] = []
    redist.fetch(wanted(nvidia.url), tmp_path / "cuda", say=said.append)
    begun = [number for number, line in enumerate(said) if line.startswith("fetching ")]
    assert begun
    assert all(said[number + 1] == "  0 of 0 MB" for number in begun)


def test_the_tree_is_the_archives_without_their_top_folders(tmp_path, nvidia):
    said: list[str] = []
    redist.fetch(wanted(nvidia.url), tmp_path / "cuda", say=said.append)

    tree = tmp_path / "cuda"
    files = {str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file() and not p.is_symlink()}
    assert files == {
        "bin/cuobjdump",
        "bin/nvcc",
        "bin/nvcc.profile",
        "dist-info/cuda_cudart/LICENSE",
        "dist-info/cuda_nvcc/LICENSE",
        "include/cub/cub.cuh",
        "include/cuda.h",
        "lib/libcudart.so.12.4.127",
        "lib/libcufft.so.11",
        "lib/stubs/libcuda.so",
        "nvvm/bin/cicc",
        "packages.json",
    }
    assert (tree / "lib64" / "libcudart.so").resolve().name == "libcudart.so.12.4.127"
    assert (tree / "targets" / "x86_64-linux" / "include" / "cuda.h").is_file()
    assert (tree / "bin" / "nvcc").stat().st_mode & 0o100
    assert json.loads((tree / "packages.json").read_text()) == {
        "nvidia-cuda-runtime-cu12": "12.4.127",
        "nvidia-cufft-cu12": "11.2.1.3",
    }
    assert "fetching libcufft 11.2.1.3 (0 MB)" in said
    assert [path.name for path in tmp_path.iterdir() if path.name != "www"] == ["cuda"]


def _drop(entries: dict[str, dict[str, object]]) -> None:
    del entries["libcufft"]


def _change(name: str, key: str, value: str) -> Change:
    def change(entries: dict[str, dict[str, object]]) -> None:
        row = entries[name]["linux-x86_64"]
        assert isinstance(row, dict)
        (row if key in row else entries[name])[key] = value

    return change


def _without_sha256(entries: dict[str, dict[str, object]]) -> None:
    entries["libcufft"]["linux-x86_64"] = {"relative_path": "x"}


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (_drop, ActionError, "CUDA 12.4.1 has no libcufft for linux-x86_64 among NVIDIA's archives"),
        (_change("libcufft", "sha256", "0" * 64), ActionError, "arrived broken: its sha256 is "),
        (_change("libcufft", "relative_path", "../x"), ActionError, "at ../x, outside its folder"),
        (_change("libcufft", "relative_path", "x.tar.xz"), MissingError, "x.tar.xz is not there (HTTP 404)"),
        (
            _change("cuda_nvcc", "version", "12.4.99"),
            ActionError,
            "should have nvcc 12.4.131, and the list of",
        ),
        (
            _without_sha256,
            ActionError,
            "the entry of libcufft in the list of archives is incomplete: 'sha256'",
        ),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_left(tmp_path, nvidia, change, error, says):
    entries = publish(tmp_path / "again")
    change(entries)
    relist(tmp_path / "www", entries)
    with pytest.raises(error) as caught:
        redist.fetch(wanted(nvidia.url), tmp_path / "out" / "cuda")
    assert says in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_an_archive_that_climbs_out_is_refused(tmp_path, nvidia):
    data = samples.tar_xz({"top/../../../outside": b"x"})
    entries = publish(tmp_path / "again")
    (tmp_path / "www" / "bad.tar.xz").write_bytes(data)
    _change("libcufft", "relative_path", "bad.tar.xz")(entries)
    _change("libcufft", "sha256", samples.sha256(data))(entries)
    relist(tmp_path / "www", entries)
    with pytest.raises(ActionError, match=r"bad\.tar\.xz cannot be unpacked"):
        redist.fetch(wanted(nvidia.url), tmp_path / "out" / "cuda")
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize("text", ["<html>log in first</html>", "[]"])
def test_a_list_that_is_none(tmp_path, nvidia, text):
    (tmp_path / "www" / "redistrib_12.4.1.json").write_text(text)
    with pytest.raises(ActionError, match=r"redistrib_12\.4\.1\.json is not a list of archives"):
        redist.fetch(wanted(nvidia.url), tmp_path / "cuda")


def test_a_place_without_the_release(tmp_path, nvidia):
    with pytest.raises(
        MissingError, match=r"no list of CUDA 12\.4\.1's archives at .*\n  hint: check GPUFORGE_REDIST"
    ):
        redist.fetch(wanted(nvidia.url + "/elsewhere"), tmp_path / "cuda")


def test_no_server(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "TRIES", 1)
    with pytest.raises(
        MissingError, match=r"cannot fetch http://127\.0\.0\.1:9/redistrib_12\.4\.1\.json: .*refused"
    ):
        redist.fetch(wanted("http://127.0.0.1:9"), tmp_path / "cuda")


@pytest.mark.thorough
def test_the_step_fetches_archives(tmp_path, nvidia):
    file = tmp_path / "request.json"
    file.write_text(FetchToolkit(provider="redist", source=wanted(nvidia.url)).text())
    step = ["gpuforge.actions.entry", "toolkit.FetchToolkit", str(file), str(tmp_path / "end.json")]
    argv = [sys.executable, "-m", *step]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"CUDA toolkit ready in {tmp_path / 'toolkit'}\n")
    file.write_text('{"provider": "redist", "source": {}}')
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "source.Archives.label: Field required" in done.stderr


@pytest.mark.thorough
def test_libraries_outside_the_toolkit_come_from_wheels(tmp_path, nvidia, monkeypatch):
    name, content = "nvidia_nccl_cu12-2.9.9-py3-none-any.whl", tmp_path / "wheels"
    info = "nvidia_nccl_cu12-2.9.9.dist-info"
    content.mkdir()
    with zipfile.ZipFile(content / name, "w") as wheel:
        for file, text in {
            "nvidia/nccl/include/nccl.h": "//",
            "nvidia/nccl/lib/libnccl.so.2": "ELF",
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: nvidia-nccl-cu12\nVersion: 2.9.9\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        }.items():
            wheel.writestr(file, text)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(content))
    pin = PinnedWheel("nvidia-nccl-cu12", "2.9.9", name, samples.sha256((content / name).read_bytes()), 1)

    redist.fetch(replace(wanted(nvidia.url), pins=(pin,)), tmp_path / "cuda")

    assert (tmp_path / "cuda" / "include" / "nccl.h").is_file()
    assert (tmp_path / "cuda" / "lib" / "libnccl.so.2").is_file()
    assert json.loads((tmp_path / "cuda" / "packages.json").read_text()) == {
        "nvidia-cuda-runtime-cu12": "12.4.127",
        "nvidia-cufft-cu12": "11.2.1.3",
        "nvidia-nccl-cu12": "2.9.9",
    }


@pytest.mark.parametrize(
    ("toolkit", "library", "project", "archive"),
    [
        ("12.9", "nccl", "nvidia-nccl-cu12", None),
        ("12.8", "cudnn", "nvidia-cudnn-cu12", "libcublas"),  # which it needs
        ("13.0", "cudnn", "nvidia-cudnn-cu13", "libcublas"),
    ],
)
def test_a_library_outside_the_toolkit_is_pinned_with_what_it_needs(toolkit, library, project, archive):
    plain, found = redist.source(toolkit, [], "x86_64"), redist.source(toolkit, [library], "x86_64")
    assert [pin.package for pin in found.pins] == [project]
    assert {*found.needed} - {*plain.needed} == ({archive} if archive else set())


def test_a_library_of_another_cuda_is_refused():
    with pytest.raises(UsageError, match=r"CUDA 11\.5 has no library 'cudss'"):
        redist.source("11.5", ["cudss"], "x86_64")
