"""`gpuforge init PROJECT` takes the newest sdist of the index, and only the bytes that the index promised."""

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from toolkit_samples import Server

from gpuforge.cli import main
from gpuforge.manifest.load import load

PROJECT = {"pyproject.toml": '[project]\nname = "demo"\nversion = "1"\n', "demo/__init__.py": ""}


def sdist(top: str, files: Mapping[str, str] = PROJECT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def publish(
    www: Path, files: Mapping[str, bytes], digests: Mapping[str, str] | None = None, yanked: str = ""
) -> None:
    """Write a simple index (PEP 503) with one project, `demo`."""
    page = www / "simple/demo"
    page.mkdir(parents=True)
    links = []
    for name, data in files.items():
        (www / name).write_bytes(data)
        digest = (digests or {}).get(name, hashlib.sha256(data).hexdigest())
        fragment = f"#sha256={digest}" if digest else ""
        links.append(f'<a href="/{name}{fragment}"{" data-yanked" if name == yanked else ""}>{name}</a>')
    (page / "index.html").write_text(f"<!DOCTYPE html><body>{''.join(links)}</body>")


@pytest.fixture(autouse=True)
def index(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return tmp_path / "www"


@pytest.mark.thorough
def test_the_newest_release_is_taken_that_is_neither_yanked_nor_early(index):
    names = ["demo-1.9.tar.gz", "demo-1.10.tar.gz", "demo-2.0rc1.tar.gz", "demo-3.0.tar.gz"]
    files = {name: sdist(name.removesuffix(".tar.gz")) for name in names}
    publish(index, {**files, "demo-4.0-py3-none-any.whl": b"", "odd.exe": b""}, yanked="demo-3.0.tar.gz")
    assert main.run(["init", "Demo"]) == 0
    made = load(Path("gpuforge.toml")).manifest.package.source
    digest = hashlib.sha256(files["demo-1.10.tar.gz"]).hexdigest()
    assert made.model_dump() == {"pypi": "Demo==1.10", "sha256": digest}
    assert main.run(["init", "demo==1.9", "-o", "old.toml"]) == 0
    assert 'pypi = "demo==1.9"' in Path("old.toml").read_text()


@pytest.mark.thorough  # pip says what the index is
def test_wheels_for_every_python_make_one_wheel(index):
    compiled = {**PROJECT, "setup.py": "from setuptools import setup\nsetup(ext_modules=[])\n"}
    wheels = {"demo-1.0-py3-none-manylinux_2_28_x86_64.whl": b"", "demo-1.0-cp311-cp311-win_amd64.whl": b""}
    publish(index, {"demo-1.0.tar.gz": sdist("demo-1.0", compiled), **wheels})
    assert main.run(["init", "demo"]) == 0
    assert load(Path("gpuforge.toml")).manifest.package.abi == "none"


@pytest.mark.thorough  # pip says what the index is
@pytest.mark.parametrize(
    ("digest", "says"),
    [("0" * 64, "arrived broken"), ("", "gives no sha256 for demo-1.0.tar.gz")],
    ids=["another", "none"],
)
def test_other_bytes_than_the_index_promised_are_refused(index, digest, says, capsys):
    publish(index, {"demo-1.0.tar.gz": sdist("demo-1.0")}, {"demo-1.0.tar.gz": digest})
    assert main.run(["init", "demo"]) in {1, 2}
    said = capsys.readouterr().err
    assert says in said
    assert "hint: " in said
    assert not Path("gpuforge.toml").exists()


@pytest.mark.thorough  # pip says what the index is
@pytest.mark.parametrize(
    ("project", "says"),
    [("other", "has no project other"), ("demo==9", "has no source distribution of demo==9")],
)
def test_what_the_index_has_not_is_said(index, project, says, capsys):
    publish(index, {"demo-1.0.tar.gz": sdist("demo-1.0")})
    assert main.run(["init", project]) == 2
    assert says in capsys.readouterr().err
    assert list(Path().iterdir()) == []


@pytest.mark.thorough  # pip says what the index is
def test_a_project_of_wheels_alone_is_named(index, capsys):
    publish(index, {"demo-1.0-py3-none-any.whl": b""})
    assert main.run(["init", "demo"]) == 2
    assert "clone its repository" in capsys.readouterr().err


def test_an_sdist_on_this_machine_is_the_source(tmp_path):
    (tmp_path / "demo-1.0.tar.gz").write_bytes(sdist("demo-1.0"))
    assert main.run(["init", "../demo-1.0.tar.gz"]) == 0
    made = load(Path("gpuforge.toml")).manifest.package
    assert (made.name, made.source.model_dump()) == ("demo", {"path": "../demo-1.0.tar.gz"})


def test_a_file_that_is_no_sdist_is_refused(capsys):
    Path("demo.whl").write_bytes(b"")
    Path("demo-1.0.zip").write_bytes(b"PK")
    assert main.run(["init", "demo.whl"]) == 2
    assert "demo.whl is neither a folder nor an sdist" in capsys.readouterr().err
    assert main.run(["init", "demo-1.0.zip"]) == 1
    assert "is not a sound sdist" in capsys.readouterr().err
    assert not Path("gpuforge.toml").exists()


@pytest.mark.thorough  # pip says what the index is
def test_a_damaged_sdist_leaves_nothing(index, capsys):
    publish(index, {"demo-1.0.tar.gz": sdist("demo-1.0")[:-40]})
    assert main.run(["init", "demo"]) == 1
    assert "is not a sound sdist" in capsys.readouterr().err
    assert list(Path().iterdir()) == []
