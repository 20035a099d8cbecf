"""Broken manifests: every error at once, each message as a whole."""

import os
from pathlib import Path

import golden
import pytest

from gpuforge.errors import UsageError
from gpuforge.manifest.load import load

GOLDEN = Path(__file__).parents[1] / "golden" / "manifest"
BROKEN = sorted(path.stem for path in GOLDEN.glob("*.toml"))


def message_for(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        load(path)
    assert caught.value.exit_code == 2
    return f"{caught.value}\n"


@pytest.mark.parametrize("name", BROKEN)
def test_broken_manifest(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("overlay").mkdir()
    Path("exact.txt").write_text(
        "# -r not.txt\ncmake==3.31.6\n-r more.txt\n --constraint=../others.txt # all\n"
    )
    Path("gpuforge.toml").write_bytes((GOLDEN / f"{name}.toml").read_bytes())
    found = message_for(Path())
    golden.hold(f"manifest/{name}.txt", found)


@pytest.mark.parametrize(
    ("name", "reason"), [("x" * 5000, "File name too long"), ("overlay", "it is a folder, not a file")]
)
def test_a_file_of_constraints_that_cannot_be_read_is_said(name, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("overlay").mkdir()
    manifest = (
        'schema = 1\npackage = {name = "a", abi = "none"}\ncuda.13 = {toolkit = "13.0", archs = ["80"]}\n'
    )
    Path("gpuforge.toml").write_text(f'{manifest}build = {{constraints = "{name}"}}\n')
    found = message_for(Path())
    assert "gpuforge.toml:4:" in found
    assert f"cannot be read: {reason}" in found


def test_of_very_many_problems_the_first_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = "".join(f"key{number} = 1\n" for number in range(5_000))
    Path("gpuforge.toml").write_text(f"schema = 1\n[build]\n{keys}")
    lines = message_for(Path()).splitlines()
    assert any(line.endswith(": 4,901 more errors") for line in lines), "one table is not there"
    assert len(lines) < 220


@pytest.mark.parametrize("url", ["ssh://git@host/a/b", "git@host:a/b.git", "https://host/a/b", "file:///a/b"])
def test_other_urls_of_repositories_are_taken(url, tmp_path):
    (tmp_path / "gpuforge.toml").write_text(
        f'schema = 1\npackage = {{name = "a", abi = "none", source = {{git = "{url}", rev = "v1"}}}}\n'
        'cuda.13 = {toolkit = "13.0", archs = ["80"]}\n'
    )
    assert load(tmp_path).manifest.package.source.git == url  # type: ignore[union-attr]


def test_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hint = "  hint: name a gpuforge.toml, or the folder that it is in; `gpuforge init` writes a first one\n"
    assert message_for(Path("nowhere")) == "nowhere does not exist\n" + hint
    Path("empty").mkdir()
    assert message_for(Path("empty")) == f"no gpuforge.toml in {tmp_path}/empty\n" + hint
    assert message_for(Path()) == f"no gpuforge.toml in {tmp_path}\n" + hint


def test_not_a_regular_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("gpuforge.toml").mkdir()
    hint = "  hint: name a gpuforge.toml, or the folder that it is in\n"
    assert message_for(Path()) == "gpuforge.toml is a folder\n" + hint
    assert message_for(Path("gpuforge.toml")) == "gpuforge.toml is a folder\n" + hint
    os.mkfifo("pipe")
    assert message_for(Path("pipe")) == "pipe is not a regular file\n" + hint


def test_unreadable(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("gpuforge.toml").write_text("schema = 1\n")

    def refuse(*_arguments: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # the superuser may read everything
    assert message_for(Path()) == (
        "gpuforge.toml cannot be read: Permission denied\n"
        "  hint: check the path, its owner and its permissions\n"
    )


def test_a_path_no_system_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "cannot be read: File name too long" in message_for(Path("x" * 300))
    assert "cannot be read: embedded null byte" in message_for(Path("a\0b"))


def test_too_large(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("gpuforge.toml").write_bytes(b"#" * (2**20 + 1))
    assert message_for(Path()) == "gpuforge.toml is larger than 1 MiB\n  hint: check that it is a manifest\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 5000 + "]" * 5000, "values are nested too deeply"),
        ("a = " + "1" * 5000, "a number has too many digits"),
        ("schema = 0x1" + "0" * 5000, "schema"),
        ('[package]\nname = "a\\u0000b"\n', "contains a NUL character"),
    ],
)
def test_hostile_values(text, message, tmp_path):
    file = tmp_path / "gpuforge.toml"
    file.write_text(text)
    assert message in message_for(file)
