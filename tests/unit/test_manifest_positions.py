"""Positions of keys and values, in every way that TOML can write them."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.diagnostics import Place
from gpuforge.manifest.load import load
from gpuforge.manifest.positions import KeyPath, locate

EXAMPLE = Path(__file__).parents[2] / "gpuforge.toml.example"

KEYS = st.text(st.sampled_from("ab-_ .\"\\'é𓀀\t#=[]{}"), min_size=1, max_size=6)
BARE = frozenset("ab-_")
SHAPES = st.recursive(
    st.just(None),  # a scalar, which gets a number of its own
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


class Writer:
    """Writes a document from shapes, choosing among TOML's styles; each scalar is a number found nowhere else."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.numbers = count(100000)
        self.leaves: dict[KeyPath, int] = {}

    def key(self, key: str) -> str:
        styles = ["basic"]
        if set(key) <= BARE:
            styles.append("bare")
        if "'" not in key:
            styles.append("literal")
        style = self.draw(st.sampled_from(styles))
        if style == "bare":
            return key
        if style == "literal":
            return f"'{key}'"
        basic = json.dumps(key, ensure_ascii=False)
        return (
            basic.replace("é", r"\u00e9").replace("𓀀", r"\U00013000") if self.draw(st.booleans()) else basic
        )

    def inline(self, shape: Any, path: KeyPath) -> str:
        if isinstance(shape, list):
            gap = self.draw(st.sampled_from(["", " ", "\n  ", " # é, ]\n"]))
            items = [f"{gap}{self.inline(item, (*path, index))}{gap}" for index, item in enumerate(shape)]
            return f"[{','.join(items)}{',' if items and self.draw(st.booleans()) else ''}{gap}]"
        if isinstance(shape, dict):
            return "{" + ", ".join(self.pair(key, part, path) for key, part in shape.items()) + "}"
        self.leaves[path] = next(self.numbers)
        return str(self.leaves[path])

    def pair(self, key: str, shape: Any, path: KeyPath) -> str:
        path, written = (*path, key), self.key(key)
        while isinstance(shape, dict) and len(shape) == 1 and self.draw(st.booleans()):  # a dotted key
            (key, shape), *_ = shape.items()
            path, written = (
                (*path, key),
                f"{written}{self.draw(st.sampled_from(['.', ' . ']))}{self.key(key)}",
            )
        return f"{written} = {self.inline(shape, path)}"

    def line(self, key: str, shape: Any, path: KeyPath) -> str:
        before, after = self.draw(st.sampled_from([("", ""), ("\t", " "), ("", "  # é, = ]")]))
        return f"{before}{self.pair(key, shape, path)}{after}"

    def table(self, shape: dict[str, Any], path: KeyPath, header: list[str]) -> list[str]:
        lines, below = [], []
        for key, part in shape.items():
            tables = isinstance(part, list) and part and all(isinstance(item, dict) for item in part)
            if (isinstance(part, dict) or tables) and self.draw(st.booleans()):
                below.append((key, part))
            else:
                lines.append(self.line(key, part, path))
        for key, part in below:
            inner = [*header, self.key(key)]
            if isinstance(part, dict):
                lines += [f"[{'.'.join(inner)}]  # é", *self.table(part, (*path, key), inner)]
            else:
                for index, item in enumerate(part):
                    lines += [f"[[ {'.'.join(inner)} ]]", *self.table(item, (*path, key, index), inner)]
        return lines


@st.composite
def documents(draw: Any) -> tuple[str, dict[KeyPath, int]]:
    writer = Writer(draw)
    lines = writer.table(draw(st.dictionaries(KEYS, SHAPES, max_size=4)), (), [])
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines), writer.leaves


def position_in(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


@given(documents())
def test_every_value_is_found(document: tuple[str, dict[KeyPath, int]]) -> None:
    text, leaves = document
    data: Any = tomli.loads(text)
    positions = locate(text)
    for path, number in leaves.items():
        value = data
        for part in path:
            value = value[part]
        assert value == number
        assert positions.values[path] == position_in(text, text.index(str(number)))


@given(documents())
def test_keys_stand_before_their_values(document: tuple[str, dict[KeyPath, int]]) -> None:
    text, leaves = document
    positions, lines = locate(text), text.split("\n")
    for path in leaves:
        if isinstance(key := path[-1], str):
            line, column = positions.keys[path]
            assert (line, column) < positions.values[path]
            assert lines[line - 1][column - 1 :].startswith((key, '"', "'"))


def test_what_only_toml_1_1_allows() -> None:
    text = 'a = {\n  b = 1, # c\n  "d e" = [2],\n}\ntime = 07:32\ntext = "\\e\\x20"\n[t]\nlast = 3\n'
    positions = locate(text)
    assert positions.value(("a", "b")) == (2, 7)
    assert positions.value(("a", "d e", 0)) == (3, 12)
    assert positions.value(("t", "last")) == (8, 8)


def test_places_in_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_file_is_shown_relative_when_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
