"""Whatever is in the file: a manifest, or one UsageError with messages of a line each."""

import re
from pathlib import Path

import pytest
from draws import draws
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import UsageError
from gpuforge.manifest.load import load
from gpuforge.manifest.positions import locate

EXAMPLE = (Path(__file__).parents[2] / "gpuforge.toml.example").read_bytes()
LINES = EXAMPLE.decode().splitlines()
VALUES = st.sampled_from(
    ['""', '"a"', '"\\u0000"', "1", "0x" + "f" * 5000, "true", "nan", "-inf", "[]", "{}", "[[]]", "[1, {}]",
     "1979-05-27", "07:32:00", "{a = {b = 1}}", "['']", '["é"]', '"((((("', "'''\n\n'''", '"' + "x" * 5000 + '"']
)  # fmt: skip
SETTINGS = draws(60, HealthCheck.function_scoped_fixture)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "overlay").mkdir()
    return tmp_path / "gpuforge.toml"


def complaints(file: Path) -> tuple[Diagnostic, ...]:
    try:
        load(file)
    except UsageError as error:
        return error.diagnostics
    return ()


def check(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    text = content.decode(errors="replace")
    locate(text)
    lines = text.split("\n")
    for found in complaints(file):
        assert found.message
        assert found.message.isprintable(), found.message
        assert found.hint.isprintable(), found.hint
        assert len(found.message) < 400
        if found.place is not None and found.place.line:
            assert 1 <= found.place.line <= len(lines)
            assert 1 <= found.place.column <= len(lines[found.place.line - 1]) + 1


@SETTINGS
@given(st.binary(max_size=200))
def test_random_bytes(file, content):
    check(file, content)


@pytest.mark.parametrize("value", ['""', "[]", "1", '[["-arch", ["native"]]]'])
@pytest.mark.parametrize("key", ["env", "config-settings"])
def test_settings_of_a_build_that_are_no_table(file, key, value):
    """Text in place of a table ended in a traceback."""
    check(file, f'schema = 1\n[package]\nname = "x"\n[build]\n{key} = {value}\n'.encode())


@SETTINGS
@given(st.data())
def test_the_example_with_bytes_changed(file, data):
    content = bytearray(EXAMPLE)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        stop = min(len(content), start + data.draw(st.integers(0, 30)))
        content[start:stop] = data.draw(st.binary(max_size=5))
    check(file, bytes(content))


@SETTINGS
@given(st.data())
def test_the_example_with_values_changed(file, data):
    lines = list(LINES)
    pairs = [index for index, line in enumerate(lines) if re.match(r'["\w.-]+ = ', line)]
    for index in data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=6)):
        key, _, _ = lines[index].partition(" = ")
        key = data.draw(st.sampled_from([key, key, f"{key}x", '"[key]"', '"<version>"']))
        lines[index] = f"{key} = {data.draw(VALUES)}"
    check(file, "\n".join(lines).encode())


@SETTINGS
@given(st.data())
def test_the_example_with_lines_moved(file, data):
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 5))):
        line = lines.pop(data.draw(st.integers(0, len(lines) - 1)))
        if data.draw(st.booleans()):
            lines.insert(data.draw(st.integers(0, len(lines))), line)
    check(file, "\n".join(lines).encode())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "value", ['""', '"\\u0000"', "1", "true", "[]", "{}", "[[]]", "[1, {}]", "0x" + "f" * 5000]
)
def test_each_value_of_the_example_with_another_type(file, value):
    for index, line in enumerate(LINES):
        if pair := re.match(r'["\w.-]+ = ', line):
            check(file, "\n".join([*LINES[:index], pair[0] + value, *LINES[index + 1 :]]).encode())
