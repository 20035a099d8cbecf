"""A hint that shows TOML works: once it is followed, the error that it stands under is gone."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import tomli

from gpuforge.manifest.explain import reading
from gpuforge.manifest.load import check
from gpuforge.manifest.problem import Problem
from gpuforge.manifest.syntax import TomlError, parse

GOLDEN = Path(__file__).parents[1] / "golden" / "manifest"
KEY_VALUE = re.compile(r'(?<![\w.])(?P<key>[A-Za-z][\w-]*|"[^"]+") = (?P<rest>.+)')
HEADER = re.compile(r'\[\[?(?P<path>[A-Za-z][\w-]*(?:\.(?:[\w<>-]+|"[^"]+"))*)\]\]?')
VALUE = re.compile(r'(?:write|e\.g\.|look like) (?P<value>"[^"]*"|\[".*\])')
REMOVE = re.compile(r"remove `(?P<key>[\w-]+)(?: = [^`]+)?`")
MEANT = re.compile(r"did you mean (?P<name>`[^`]+`|\"[^\"]+\"|\{[^}]+\})\?")

Data = Any


def shown() -> Iterator[Any]:
    """Every problem of the broken manifests of the golden files whose hint shows TOML, with the hint followed."""
    for path in sorted(GOLDEN.glob("*.toml")):
        try:
            data = parse(path.read_bytes().decode())
        except (TomlError, UnicodeDecodeError):  # nothing to change in it as data
            continue
        for number, problem in enumerate(check(data, None)[1]):
            if (changed := followed(data, problem)) is not None:
                yield pytest.param(changed, problem, id=f"{path.stem}-{number}")


def followed(data: Data, problem: Problem) -> Data | None:
    """Return the manifest with the hint followed; None when it shows nothing to write."""
    if "…" in problem.hint:  # a form to fill in
        return None
    changed = copy.deepcopy(data)
    if meant := MEANT.search(problem.hint):
        return _rename(changed, problem, meant["name"])
    header = HEADER.search(problem.hint)
    if removed := REMOVE.search(problem.hint):
        _nearest_table(changed, problem, "").pop(removed["key"], None)
        _at(changed, problem.path[:-1]).pop(removed["key"], None)
        return changed
    if pairs := list(_pairs(problem.hint)):
        table = (
            _table(changed, header["path"])
            if header and f"{header[0]} with" in problem.hint
            else _nearest_table(changed, problem, pairs[0][0])
        )
        table.update(pairs)
        return changed
    if header and problem.hint.startswith("write "):
        return _move(changed, problem, header)
    if value := VALUE.search(problem.hint):
        _set(changed, problem.path, tomli.loads(f"x = {value['value']}")["x"])
        return changed
    return None


def _pairs(hint: str) -> Iterator[tuple[str, Any]]:
    """Yield each `key = value` of a hint; the value is the longest text that is one."""
    for match in re.finditer(r"(?=" + KEY_VALUE.pattern + ")", hint):
        rest = match["rest"]
        for end in range(len(rest), 0, -1):
            try:
                found = tomli.loads(f"{match['key']} = {rest[:end]}")
            except tomli.TOMLDecodeError:
                continue
            yield next(iter(found.items()))
            break


def _rename(data: Data, problem: Problem, name: str) -> Data:
    parent, last = _at(data, problem.path[:-1]), problem.path[-1]
    if name.startswith("`"):
        parent[name.strip("`")] = parent.pop(last)
    elif name.startswith('"'):
        parent[last] = name.strip('"')
    else:
        wrong = re.search(r"\{[^}]+\}", problem.message)
        assert wrong
        parent[last] = parent[last].replace(wrong[0], name)
    return data


def _move(data: Data, problem: Problem, header: re.Match[str]) -> Data:
    """Write the table at the problem's place below another header."""
    parent, last = _at(data, problem.path[:-1]), problem.path[-1]
    table = parent.pop(last)
    if isinstance(parent, MutableMapping) and not parent:
        _at(data, problem.path[:-2]).pop(problem.path[-2])
    table = table[0] if isinstance(table, list) else table if isinstance(table, dict) else {}
    below: Data = tomli.loads(f"{header[0]}")
    _merge(data, below, [table] if header[0].startswith("[[") else table)
    return data


def _merge(data: Data, below: Data, table: Data) -> None:
    ((key, inner),) = below.items()
    if isinstance(inner, dict) and inner:
        _merge(data.setdefault(key, {}), inner, table)
    else:
        data[key] = table


def _table(data: Data, header: str) -> Data:
    found = data
    for key in re.findall(r'"[^"]+"|[^.]+', header):
        found = found.setdefault(key.strip('"'), {})
    return found


def _nearest_table(data: Data, problem: Problem, key: str) -> Data:
    found = _at(data, problem.path)
    path = problem.path
    while not isinstance(found, dict) or (path and path[-1] == key):
        path = path[:-1]
        found = _at(data, path)
    return found


def _at(data: Data, path: tuple[Any, ...]) -> Data:
    for key in path:
        data = data[key]
    return data


def _set(data: Data, path: tuple[Any, ...], value: Any) -> None:
    _at(data, path[:-1])[path[-1]] = value


SHOWN = list(shown())


@pytest.mark.parametrize(("changed", "problem"), SHOWN)
def test_who_follows_a_hint_is_rid_of_the_error(changed: Data, problem: Problem) -> None:
    assert problem.message not in [each.message for each in check(changed, None)[1]], problem.hint


def test_most_hints_show_toml() -> None:
    assert len(SHOWN) >= 75


@pytest.mark.parametrize(
    ("written", "argv"),
    [
        ("pytest -q 'a b'", ["pytest", "-q", "a b"]),
        ("cd t && pytest", ["sh", "-c", "cd t && pytest"]),
        ("pytest | tee log", ["sh", "-c", "pytest | tee log"]),
        ("DEBUG=1 pytest", ["sh", "-c", "DEBUG=1 pytest"]),
        ("pytest {project}/tests -k a=b", ["pytest", "{project}/tests", "-k", "a=b"]),
    ],
)
def test_a_command_line_that_only_a_shell_understands_is_given_to_one(written: str, argv: list[str]) -> None:
    assert reading(written, ("test", "command")) == argv
