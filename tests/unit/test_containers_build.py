"""Making images: each once, nothing half-made left, and messages that say what to do."""

import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from image_samples import MemoryImages
from toolkit_samples import Server, sha256

from gpuforge import digest, locks
from gpuforge.containers import catalog, emulation, image_build
from gpuforge.containers.catalog import CatalogImage
from gpuforge.containers.container import (
    MACHINE,
    OWNER,
    SECONDS,
    Containers,
    LabelledContainer,
    is_left,
    labels,
)
from gpuforge.containers.image_build import ImageBuilder, Log
from gpuforge.containers.images import EngineImage, lines
from gpuforge.errors import ActionError, MissingError


def image(name: str, machine: str = "x86_64") -> CatalogImage:
    found = catalog.find(name, machine)
    assert found is not None
    return found


PYPA = image("manylinux_2_28")
CUDA = image("manylinux_2_28-cuda12.4")


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def builder(tmp_path: Path, said: list[str]) -> Callable[..., ImageBuilder]:
    def make(images: MemoryImages, network: str | None = None) -> ImageBuilder:
        return ImageBuilder(images, tmp_path / "cache", said.append, said.append, network)

    return make


def left(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "images").iterdir())


def test_an_image_that_is_there_is_not_made_again(builder, tmp_path):
    images = MemoryImages({CUDA.reference: EngineImage("sha256:0", 1)})
    assert not builder(images).make(CUDA)
    assert images.contexts == {}
    assert not (tmp_path / "cache").exists()


def test_an_image_of_a_registry_is_pulled(builder, said):
    images = MemoryImages()
    assert builder(images).make(PYPA)
    assert PYPA.reference in images.here
    assert said == [f"pull {PYPA.reference}"]


def test_an_image_is_built_on_its_pulled_base_with_its_arguments(builder, said, tmp_path):
    images = MemoryImages()
    assert builder(images, network="host").make(CUDA)
    assert list(images.here) == [PYPA.reference, CUDA.reference]
    assert images.arguments[CUDA.reference] == {
        "BASE": PYPA.reference, "TOOLKIT": "12.4", "TOOLSET": "13", "REPOSITORY": "x86_64",
    }  # fmt: skip
    assert images.networks == ["host"]
    assert list(images.contexts[CUDA.reference]) == ["Dockerfile"]
    assert said == [f"pull {PYPA.reference}", f"build {CUDA.reference}"]
    assert left(tmp_path) == ["lock"]


def test_a_failed_build_shows_its_last_lines_and_names_its_log(builder, said, tmp_path):
    images = MemoryImages(
        {PYPA.reference: EngineImage("sha256:0", 1)},
        says=[*(f"line {n}" for n in range(30)), "\x1b[91mNo match for argument: cuda-nvcc-12-4\x1b[0m"],
        fails=ActionError.of("The command 'dnf install' returned a non-zero code: 1"),
    )
    with pytest.raises(ActionError) as caught:
        builder(images).make(CUDA)
    log = tmp_path / "cache" / "logs" / f"image-{CUDA.name}-{CUDA.reference[-12:]}.log"
    assert str(caught.value) == (
        "manylinux_2_28-cuda12.4 was not made: The command 'dnf install' returned a non-zero code: 1\n"
        f"  hint: log: {log}"
    )
    assert said[0] == f"build {CUDA.reference}"
    assert said[1:] == [
        *(f"line {n}" for n in range(19, 30)),
        "No match for argument: cuda-nvcc-12-4",
    ]
    assert "line 3\n" in log.read_text()
    assert left(tmp_path) == ["lock"]
    assert CUDA.reference not in images.here


@pytest.mark.parametrize(
    ("says", "error", "hint"),
    [
        (
            "Err:1 http://deb.debian.org Temporary failure resolving 'deb.debian.org'",
            MissingError,
            "--network host",
        ),
        ("E: Failed getting release file http://deb.debian.org/x", MissingError, "GPUFORGE_DEBIAN_MIRROR"),
        ("cp: error writing '/x': No space left on device", MissingError, "docker system df"),
        ("g++: internal compiler error", ActionError, "log: "),
    ],
)
def test_what_the_machine_lacks_is_reported_with_a_hint(builder, says, error, hint):
    images = MemoryImages(
        {PYPA.reference: EngineImage("sha256:0", 1)}, says=[says], fails=ActionError.of("it failed")
    )
    with pytest.raises(error) as caught:
        builder(images).make(CUDA)
    assert type(caught.value) is error
    assert hint in caught.value.diagnostics[0].hint
    assert "log: " in caught.value.diagnostics[0].hint


def test_an_interrupted_build_leaves_nothing(builder, tmp_path):
    images = MemoryImages({PYPA.reference: EngineImage("sha256:0", 1)}, fails=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        builder(images).make(CUDA)
    assert left(tmp_path) == ["lock"]


def test_what_a_killed_process_left_is_cleared_away(builder, tmp_path):
    (tmp_path / "cache" / "images" / "base.partial" / "root").mkdir(parents=True)
    builder(MemoryImages()).make(PYPA)
    assert left(tmp_path) == ["lock"]


def test_a_second_process_waits_and_then_finds_the_image(builder, said, tmp_path):
    images = MemoryImages()
    first = locks.claim(tmp_path / "cache" / "images" / "lock")
    assert first
    made = []
    second = threading.Thread(target=lambda: made.append(builder(images).make(PYPA)))
    second.start()
    while not said:
        second.join(0.01)
    images.here[PYPA.reference] = EngineImage("sha256:0", 1)
    first.release()
    second.join(20)
    assert said == ["waiting for another gpuforge that makes images"]
    assert made == [False]


def test_a_debian_base_of_the_mirrors_release_is_used_again(server, tmp_path, said, monkeypatch):
    monkeypatch.setenv("GPUFORGE_DEBIAN_MIRROR", server.url)
    index = tmp_path / "www" / "dists" / "bookworm" / "InRelease"
    index.parent.mkdir(parents=True)
    index.write_text("Suite: oldstable\n")
    tag = digest.of_file(index)[:12]
    bases = {
        machine: f"localhost/gpuforge/debian-bookworm{suffix}:{tag}"
        for machine, suffix in (("x86_64", ""), ("aarch64", "-aarch64"))
    }
    images = MemoryImages({base: EngineImage("sha256:0", 1) for base in bases.values()})
    release = catalog.release("bookworm")
    with closing(Log(tmp_path / "log", said.append)) as log:
        for machine, base in bases.items():
            assert image_build.debian_base(release, machine, images, tmp_path, log) == base
    assert said == []


@pytest.mark.usefixtures("mirrored")
@pytest.mark.parametrize(
    ("here", "machine", "compiler"),
    [
        ("x86_64", "x86_64", "g++"),
        ("x86_64", "aarch64", "g++-aarch64-linux-gnu"),
        ("aarch64", "aarch64", "g++"),
        ("aarch64", "x86_64", "g++-x86-64-linux-gnu"),
    ],
)
def test_a_python_for_another_machine_type_is_made_by_a_cross_compiler_of_this_one(
    builder, tmp_path, monkeypatch, here, machine, compiler
):
    asked = image("bookworm", machine)
    (tmp_path / "www" / "python.tar").write_bytes(b"sources")
    source = catalog.CPythonSource("3.13", "3.13.5", "python.tar", sha256(b"sources"))
    monkeypatch.setattr(catalog, "cpythons", lambda: {"3.13": source})
    monkeypatch.setattr(catalog, "stage_of", catalog.stage_of.__wrapped__)
    monkeypatch.setattr(platform, "machine", lambda: here)
    tag = digest.of_file(tmp_path / "www" / "dists" / "bookworm" / "InRelease")[:12]
    bases = {
        "x86_64": f"localhost/gpuforge/debian-bookworm:{tag}",
        "aarch64": f"localhost/gpuforge/debian-bookworm-aarch64:{tag}",
    }
    images = MemoryImages(
        {base: EngineImage("sha256:0", 1) for base in bases.values()}, fails=ActionError.of("it failed")
    )
    with pytest.raises(ActionError):
        builder(images).make(asked)
    (arguments,) = images.arguments.values()
    assert arguments == {
        "ARCHITECTURE": {"x86_64": "amd64", "aarch64": "arm64"}[machine],
        "BASE": bases[here],
        "COMPILER": compiler,
        "PYTHONS": "3.13",
        "TRIPLET": f"{machine}-linux-gnu",
    }


def test_a_release_that_the_mirror_no_longer_has_is_reported(builder, server, monkeypatch):
    monkeypatch.setenv("GPUFORGE_DEBIAN_MIRROR", server.url)
    with pytest.raises(MissingError, match=r"has no Debian bullseye \(any more\)\n.*archive\.debian\.org"):
        builder(MemoryImages()).make(image("bullseye"))


@pytest.fixture
def mirrored(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror that has bookworm's index, and a root user who has debootstrap and the keys."""
    monkeypatch.setenv("GPUFORGE_DEBIAN_MIRROR", server.url)
    index = tmp_path / "www" / "dists" / "bookworm" / "InRelease"
    index.parent.mkdir(parents=True)
    index.write_text("Suite: oldstable\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("debootstrap", "unshare"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    (tmp_path / "keys.gpg").write_text("keys")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(image_build, "PLACES", ())
    monkeypatch.setattr(image_build, "KEYRINGS", (str(tmp_path / "keys.gpg"),))
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("mirrored")
@pytest.mark.parametrize(
    ("without", "message", "hint"),
    [
        ("root", "needs root", "sudo"),
        ("debootstrap", "needs debootstrap, which this machine does not have", "apt-get install debootstrap"),
        ("unshare", "needs util-linux, which this machine does not have", "dnf install"),
        ("keys", "needs Debian's archive keys", "debian-archive-keyring"),
        ("emulation", "needs an emulation of riscv64, which this kernel does not have", "qemu-user-static"),
    ],
)
def test_what_a_debian_base_needs_is_reported_before_anything_is_made(
    builder, tmp_path, monkeypatch, without, message, hint
):
    if without == "root":
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    elif without == "keys":
        (tmp_path / "keys.gpg").unlink()
    elif without == "emulation":
        monkeypatch.setattr(emulation, "REGISTERED", tmp_path)
    else:
        (tmp_path / "bin" / without).unlink()
    machine = "riscv64" if without == "emulation" else platform.machine()
    with pytest.raises(MissingError) as caught:
        builder(MemoryImages()).make(image("bookworm", machine))
    assert message in caught.value.diagnostics[0].message
    assert hint in caught.value.diagnostics[0].hint
    assert left(tmp_path) == ["lock"]


@pytest.mark.parametrize(
    ("entry", "runs"),
    [
        ("enabled\ninterpreter /usr/bin/qemu\nflags: POCF\noffset 0\n", True),
        ("enabled\ninterpreter /usr/bin/qemu\nflags: \noffset 0\n", False),
        ("disabled\ninterpreter /usr/bin/qemu\nflags: F\noffset 0\n", False),
    ],
)
def test_an_emulator_counts_if_the_kernel_keeps_it_for_other_file_systems(tmp_path, monkeypatch, entry, runs):
    monkeypatch.setattr(emulation, "REGISTERED", tmp_path)
    assert emulation.runs(platform.machine())
    assert not emulation.runs("riscv64")
    (tmp_path / "qemu-riscv64").write_text(entry)
    assert emulation.runs("riscv64") is runs


def test_lines_are_whole_however_the_text_arrives():
    assert list(lines(["one\ntw", "o\r\n", "", "three"])) == ["one", "two", "three"]


HOUR = 3600.0

pytestmark = pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="reads Linux's /proc")


def other(**owner: str) -> dict[str, str]:
    """The labels of this process, as another one of that boot, namespace, number or start would have them."""
    boot, namespace, pid, started = labels()[OWNER].split()[0].split(":", 1) + labels()[OWNER].split()[1:]
    said = {"boot": boot, "namespace": namespace, "pid": pid, "started": started} | owner
    return labels("x", HOUR) | {OWNER: "{boot}:{namespace} {pid} {started}".format(**said)}


def test_a_process_that_lives_keeps_its_containers_however_old_they_are():
    assert not is_left(labels("x", HOUR), 1000 * HOUR)


@pytest.mark.thorough
def test_a_process_that_ended_leaves_them_and_one_of_the_same_number_is_another():
    ask = "from gpuforge.containers.container import *; print(labels()[OWNER])"
    ended = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert is_left(labels() | {OWNER: ended.stdout.strip()}, 1.0)
    assert is_left(other(started="1"), 1.0)


def test_a_machine_that_was_started_again_has_none_of_its_processes():
    before = other(boot="00000000-0000-0000-0000-000000000000")
    if not before[MACHINE]:
        pytest.skip("this machine cannot be told from others: a container, or without /etc/machine-id")
    assert is_left(before, 1.0)
    assert not is_left(before | {MACHINE: "another"}, 1.0)
    assert not is_left(before | {MACHINE: ""}, 1.0)


@pytest.mark.parametrize("unseen", [{"namespace": "pid:[7]"}, {"boot": "another", "namespace": "pid:[7]"}])
def test_of_a_process_that_cannot_be_seen_they_are_left_after_their_time(unseen):
    said = other(**unseen) | {MACHINE: ""}
    assert not is_left(said, 1.0)
    assert not is_left(said, HOUR + 60)  # it may be about to remove it
    assert is_left(said, HOUR + 3600)


@pytest.mark.parametrize("missing", [{SECONDS: ""}, {OWNER: ""}, {OWNER: "x", SECONDS: "soon"}])
def test_incomplete_labels_are_no_reason_to_remove_a_container(missing):
    assert not is_left(other(namespace="pid:[7]") | missing, 1.0)


def test_the_list_asks_the_engine_about_no_single_container():
    """Docker 20.10 was seen to hang for ten minutes with one container: it listed it, but did not describe it."""
    listed = [{"Id": "1", "Labels": {OWNER: "x"}, "Created": 1000}]
    client: Any = SimpleNamespace(
        api=SimpleNamespace(containers=lambda **_: listed),
        info=lambda: {"SystemTime": "1970-01-01T01:00:00.5Z"},
    )
    assert Containers(client).labelled(OWNER) == [LabelledContainer("1", {OWNER: "x"}, 2600.5)]
