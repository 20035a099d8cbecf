"""Positions of keys and values, in every way that TOML can write them."""

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import tomli

from gpuforge.diagnostics import Place
from gpuforge.manifest.load import load
from gpuforge.manifest.positions import KeyPath, locate

EXAMPLE = Path(__file__).parents[2] / "gpuforge.toml.example"

DOCUMENTS = {
    "keys": """\
    a = 100000
    \t"b c" = 100001 # é, = ]
    'd\\"e' = 100002
    "\\u00e9𓀀" = 100003
    f.'g.h' . "i" = 100004
    f.k.l = {m = 100005, n.o = [100006]}
    """,
    "arrays": """\
    a = [100000, [100001,[ 100002] ] ,]
    "é" = [ # é, ]
      100003,  # 1, [
      { b = 100004, "c" = [ { d.e = 100005 } ] },
    ]
    """,
    "tables": """\
    top = 100000
    [a]  # é
    b = 100001
    [a."c.d"]
    e = 100002
    [ f . g ]
    h = {}
    i = [{}, 100003]
    [f]
    j = 100004
    """,
    "arrays of tables": """\
    [[a]]
    b = 100000
    [[a]]
    [a.c]
    d = 100001
    [[a.e]]
    f = 100002
    [[ "a" . 'e' ]]
    f = {g = 100003}
    [[a]]
    e = [[{h = 100004}]]
    """,
}


def leaves(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, int]]:
    """Yield each number of a document, which stands there once, with its path."""
    if isinstance(value, int):
        yield path, value
        return
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(part, (*path, key))


def position_in(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_value_is_found_and_keys_stand_before_their_values(name, newline):
    text = dedent(DOCUMENTS[name]).replace("\n", newline)
    positions, lines = locate(text), text.split("\n")
    found = dict(leaves(tomli.loads(text)))
    assert len(found) > 4
    for path, number in found.items():
        assert positions.values[path] == position_in(text, text.index(str(number)))
        if isinstance(key := path[-1], str):
            line, column = positions.keys[path]
            assert (line, column) < positions.values[path]
            assert lines[line - 1][column - 1 :].startswith((key, '"', "'"))


def test_what_only_toml_1_1_allows():
    text = 'a = {\n  b = 1, # c\n  "d e" = [2],\n}\ntime = 07:32\ntext = "\\e\\x20"\n[t]\nlast = 3\n'
    positions = locate(text)
    assert positions.value(("a", "b")) == (2, 7)
    assert positions.value(("a", "d e", 0)) == (3, 12)
    assert positions.value(("t", "last")) == (8, 8)


def test_places_in_the_example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "overlay").mkdir()
    (tmp_path / "build-constraints.txt").touch()
    text = EXAMPLE.read_text()
    Path("gpuforge.toml").write_text(text)
    file = load(Path())

    def at(quoted: str, skip: int = 0) -> Place:
        return Place("gpuforge.toml", *position_in(text, text.index(quoted) + skip))

    assert file.place("cuda", "13.0", "archs", 1) == at('"90a"')
    assert file.place("cuda", "12") == at("[cuda.12]")
    assert file.place("cuda", "12", "provider") == at('"debian"')
    assert file.place("package", "source", "sha256") == at('"f12849b9')
    assert file.place("objects", 1, "toolchain") == at('toolchain = "device"', len("toolchain = "))
    assert file.place("objects", 2) == at('[[objects]]\nname = "mechanisms"')
    assert file.place("build", "config-settings", "cmake.args", 1) == at('"-Wno-dev"')
    assert file.place("wheel", "not written") == at("[wheel]\n")
    assert file.place("nowhere") == Place("gpuforge.toml")


def test_the_file_is_shown_relative_when_inside(tmp_path, monkeypatch):
    text = 'schema = 1\npackage = {name = "a", abi = "none"}\ncuda.13 = {toolkit = "13.0", archs = ["80"]}\n'
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "gpuforge.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    file = load(Path("sub"))
    assert file.path == tmp_path / "sub" / "gpuforge.toml"
    assert file.folder == tmp_path / "sub"
    assert str(file.place("cuda", "13")) == "sub/gpuforge.toml:3:11"
    monkeypatch.chdir(tmp_path / "sub")
    assert str(file.place("package", "name")) == "gpuforge.toml:2:19"
