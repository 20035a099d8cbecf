"""A key of thousands of parts is refused before a TOML parser meets it; dots of other texts do not count."""

import time
from contextlib import suppress

import pytest

from gpuforge.actions.project_requirements import required
from gpuforge.datafile import MOST_PARTS, long_key
from gpuforge.errors import ActionError, UsageError
from gpuforge.manifest.load import load
from gpuforge.project.files import Files
from gpuforge.project.metadata import Pyproject

LONG = ".".join("a" * (MOST_PARTS + 1))
ENDLESS = ".".join("a" * 30_000)  # tomllib takes two minutes for it
QUICK = 2.0  # seconds of processor time


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG} = 1",
        f"[{LONG}]",
        f"x = 1 # '''\n[[{LONG}]]",
        f'x = "\\"" # \\\n {LONG} = 1',
        f"x = '\\'\n{LONG} = 1",
        f'x = """ "" \\""" """\n{LONG} = 1',
        f"x = '''\n'a' '''\n{LONG} = 1",
        f"x = {{ {LONG} = 1 }}",
        '"\\"" . ' * MOST_PARTS + "a = 1",
        "'#'. " * MOST_PARTS + "a = 1",
        '"' + "\n" + LONG,
    ],
)
def test_a_long_key_is_found(text):
    assert long_key(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG[:-2]} = 1",
        f"# {LONG}",
        f'x = "{LONG}"',
        f"x = '{LONG}'",
        f'x = """\n{LONG}\n"""',
        f"x = '''\n{LONG}\n'''",
        "x = [" + "1.5, " * 99 + "]",
        "x = 1.5\n" * 99,
    ],
)
def test_a_text_with_dots_is_no_key(text):
    assert long_key(text) is None


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text",
    [
        '"' * 900_000,
        '"\\"' * 300_000,
        "'" * 900_000,
        '"' + '\\"' * 450_000,
        '"' + '\\"' * 450_000 + "\\",
        '"""' + '""\\' * 300_000,
        '"""' + "\\" * 900_000,
        (".".join("a" * MOST_PARTS) + " ") * 14_000,
        ". " * 450_000,
    ],
    ids=range(9),
)
def test_it_takes_time_in_proportion(text):
    begun = time.process_time()
    assert long_key(text) is None
    assert time.process_time() - begun < QUICK


def test_a_manifest_with_an_endless_key_is_refused_at_once(tmp_path):
    (tmp_path / "gpuforge.toml").write_text(f"schema = 1\n[package]\n {ENDLESS} = 1\n")
    begun = time.process_time()
    with pytest.raises(UsageError) as caught:
        load(tmp_path)
    assert time.process_time() - begun < QUICK
    (found,) = caught.value.diagnostics
    assert (found.message, found.hint) == (
        f"a key has more than {MOST_PARTS} parts",
        "use fewer dots",
    )
    assert found.place
    assert found.place[1:] == (3, 2)


def test_a_project_with_an_endless_key_is_not_built(tmp_path):
    (tmp_path / "pyproject.toml").write_text(f"[build-system]\nrequires = []\n[{ENDLESS}]\n")
    begun = time.process_time()
    with pytest.raises(ActionError) as caught:
        required(tmp_path)
    assert time.process_time() - begun < QUICK
    assert str(caught.value) == (
        f"the project cannot be built: a key in its pyproject.toml has more than {MOST_PARTS} parts\n"
        "  hint: correct its pyproject.toml"
    )


def test_a_project_with_a_large_file_is_not_built(tmp_path):
    (tmp_path / "pyproject.toml").write_text("# a\n" * 300_000)
    with pytest.raises(ActionError, match=r"its pyproject\.toml is larger than 1 MiB"):
        required(tmp_path)


def test_init_reads_a_project_with_an_endless_key(tmp_path):
    (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'x'\n{ENDLESS} = 1\n")
    begun = time.process_time()
    assert Pyproject(Files(tmp_path)).data == {}
    assert time.process_time() - begun < QUICK


@pytest.mark.thorough
@pytest.mark.parametrize("line", ["a.b = 1\n", "".join(f"b{n}." for n in range(20)) + "c{0} = 1\n"])
def test_a_file_of_the_largest_size_is_parsed_in_seconds(tmp_path, line):
    """What the bounds let through: long headers above many keys."""
    header = f"[{'.'.join('x' * MOST_PARTS)}]\n"
    count = 900_000 // (len(line) + 6)
    lines = "".join(line.replace("b", f"b{n}_", 1) for n in range(count))
    (tmp_path / "pyproject.toml").write_text(header + lines)
    begun = time.process_time()
    with suppress(ActionError):  # the second has no [build-system]
        required(tmp_path)
    assert time.process_time() - begun < 20
