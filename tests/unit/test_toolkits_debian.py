"""A toolkit made of a Debian package and wheels, from a mirror on this machine; pip is stood in for."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest
from toolkit_samples import ELF, Server, deb, sha256, tar_xz, xz_block

from gpuforge.errors import ActionError, MissingError
from gpuforge.toolkits import pip, progress, unpack
from gpuforge.toolkits.compilers import provision_compiler
from gpuforge.toolkits.debian_parts import BlockFile, DebianPart
from gpuforge.toolkits.pins import PinnedWheel
from gpuforge.toolkits.providers.debian import place, provision_debian

OWN = "./usr/lib/nvidia-cuda-toolkit"
FILES: dict[str, bytes | str] = {
    f"{OWN}/bin/nvcc": ELF + b"nvcc",
    f"{OWN}/bin/nvcc.profile": "/etc/nvcc.profile",
    f"{OWN}/bin/cicc": ELF,
    f"{OWN}/bin/g++": b"#!/bin/sh\n",
    f"{OWN}/bin/crt/link.stub": b"stub",
    f"{OWN}/libdevice/libdevice.10.bc": b"BC",
    f"{OWN}/compute-sanitizer/compute-sanitizer": ELF,
    "./usr/bin/nvcc": b"#!/bin/sh\n",
    "./usr/bin/ptxas": ELF + b"Debian's",
    "./usr/bin/cudafe++": ELF,
    "./usr/share/doc/nvidia-cuda-toolkit/copyright": b"c",
    "./etc/nvcc.profile": b"NVVMIR_LIBRARY_DIR = /usr/lib/nvidia-cuda-toolkit/libdevice",
}


def part(data: bytes, *members: BlockFile, start: int = 0, size: int = 0) -> DebianPart:
    wanted = data[start : start + (size or len(data))]
    return DebianPart("nvidia-cuda-toolkit", "1-2", "pool/p.deb", start, len(wanted), sha256(wanted), members)


@pytest.fixture(autouse=True)
def _wheels(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """Lay out two wheels in pip's place; the mirror is the server of the test."""

    def fetch(pins: Sequence[PinnedWheel], partial: Path, say: object) -> None:
        for name in ("cuda_nvcc/bin/ptxas", "cuda_nvcc/include/crt/host_config.h", "cuda_nvcc/__init__.py",
                     "cuda_runtime/include/cuda.h", "cuda_runtime/lib/libcudart.so.12",
                     "cuda_runtime/lib/__init__.py", "__init__.py"):  # fmt: skip
            file = partial / "site" / "nvidia" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"wheel's")
        (partial / "site" / "nvidia_cuda_runtime_cu12-12.4.127.dist-info").mkdir()

    monkeypatch.setattr(pip, "fetch_wheels", fetch)
    monkeypatch.setenv("GPUFORGE_DEBIAN_MIRROR", server.url + "/")


def publish(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "www" / "pool").mkdir()
    (tmp_path / "www" / "pool" / "p.deb").write_bytes(data)


def test_each_part_says_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE_S", -1.0)
    package = deb(FILES)
    publish(tmp_path, package)
    toolkit: list[str] = []
    provision_debian([part(package)], [], tmp_path / "cuda", say=toolkit.append)
    compiler: list[str] = []
    provision_compiler([part(package)], tmp_path / "gcc", say=compiler.append)
    for said in (toolkit, compiler):
        assert said[0].startswith("fetching nvidia-cuda-toolkit 1-2 ")
        assert said[1] == "  0 of 0 MB"


def test_one_tree_of_both_with_a_profile_that_names_no_folder_of_debian(tmp_path):
    content = b"--" + b"archive" + b"stub"
    block = xz_block(content)
    package = deb(FILES)
    publish(tmp_path, package + block)
    parts = [
        part(package + block),
        part(package + block, BlockFile("libcudart_static.a", 2, 7), BlockFile("stubs/libcuda.so", 9, 4),
             start=len(package), size=len(block)),
    ]  # fmt: skip
    provision_debian(parts, [], tmp_path / "cuda")

    tree = tmp_path / "cuda"
    files = {str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file() and not p.is_symlink()}
    assert files == {
        "bin/crt/link.stub",
        "bin/cudafe++",
        "bin/nvcc",
        "bin/nvcc.profile",
        "bin/ptxas",
        "dist-info/nvidia-cuda-toolkit/copyright",
        "include/crt/host_config.h",
        "include/cuda.h",
        "lib/libcudart.so.12",
        "lib/libcudart_static.a",
        "lib/stubs/libcuda.so",
        "nvvm/bin/cicc",
        "nvvm/libdevice/libdevice.10.bc",
    }
    assert (tree / "bin" / "ptxas").read_bytes() == ELF + b"Debian's"
    assert "/usr" not in (tree / "bin" / "nvcc.profile").read_text()
    assert (tree / "lib" / "libcudart_static.a").read_bytes() == b"archive"
    assert (tree / "lib" / "stubs" / "libcuda.so").read_bytes() == b"stub"
    assert (tree / "lib64" / "libcudart.so").exists()
    assert (tree / "dist-info" / "nvidia_cuda_runtime_cu12-12.4.127.dist-info").is_dir()


def test_a_mirror_that_has_it_no_more(tmp_path, server):
    with pytest.raises(MissingError) as caught:
        provision_debian([part(b"x")], [], tmp_path / "out" / "cuda")
    assert str(caught.value) == (
        f"{server.url}/ has no nvidia-cuda-toolkit 1-2 (any more)\n"
        "  hint: set GPUFORGE_DEBIAN_MIRROR to one that has it: a day of "
        "https://snapshot.debian.org/archive/debian/ on which it was there; or upgrade gpuforge"
    )
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"<html>", "part is not a Debian package"),
        (b"!<arch>\n", "part holds no files"),
        (
            b"!<arch>\n" + b"data.tar.xz".ljust(58) + b"`\n",
            "part is damaged: the archive member at byte 8 has no size",
        ),
        (b"!<arch>\n" + b"debian-binary".ljust(40), "part is damaged: there is no archive member at byte 8"),
        (deb({}, data=b"\0" * 64), "part cannot be unpacked"),
        (deb({}, data=b"zst", name="data.tar.zst"), r"is compressed as \.zst"),
        (deb({"./usr/share/doc/x": b"x"}), "nvidia-cuda-toolkit 1-2 holds nothing of a CUDA toolkit"),
    ],
)
def test_what_is_no_package_is_refused(tmp_path, data, says):
    publish(tmp_path, data)
    with pytest.raises(ActionError, match=says):
        provision_debian([part(data)], [], tmp_path / "cuda")


def test_a_damaged_block_is_refused():
    block = bytearray(xz_block(b"content" * 100))
    block[20] ^= 0xFF
    with pytest.raises(ActionError, match="a part of a package cannot be unpacked"):
        unpack.unpack_block(bytes(block))


def test_only_what_is_asked_for_is_unpacked(tmp_path):
    file = tmp_path / "p.deb"
    file.write_bytes(deb({}, data=tar_xz({"./../../climbs": b"x", f"{OWN}/bin/crt/a.stub": b"a"})))
    assert unpack.unpack_deb(file, tmp_path / "tree", lambda path: place(path, package="p")) == 1
    assert place(PurePosixPath("usr/lib/nvidia-cuda-toolkit/bin/crt/../../x"), package="p") is None
