"""Requirements: of one release, of others, and in files of constraints; nothing that steers pip."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement

from gpuforge.actions.project_requirements import checked, rewritten
from gpuforge.errors import ActionError, UsageError
from gpuforge.manifest.checks import files
from gpuforge.project import obtain
from gpuforge.requirements import (
    Constraint,
    Release,
    WrongLine,
    parse_requirement,
    read_constraints,
    requirement_by_name,
)
from gpuforge.wheel import metadata


def test_a_pin_names_a_release():
    assert Release.of_pin("cuFINUFFT==2.5.1rc1") == Release("cuFINUFFT", "2.5.1rc1")


@pytest.mark.parametrize(
    "text",
    [
        "demo",
        "demo>=1",
        "demo==1.*",
        "demo===1",
        "demo==1,!=2",
        "demo[x]==1",
        "demo == 1",
        "demo==1;x",
        "demo==new",
    ],
)
def test_other_requirements_name_no_release(text):
    with pytest.raises(ValueError, match="demo"):
        Release.of_pin(text)


def nested(levels: int) -> str:
    return "a; " + "(" * levels + 'os_name == "x"' + ")" * levels


DEEP = nested(1500)
INVALID_STRING = 'a; os_name == "\\x"'


@pytest.mark.parametrize("text", [nested(100), "a; " + " or ".join(["(os_name == 'x')"] * 150)])
def test_as_many_levels_as_any_project_writes_are_read(text):
    assert parse_requirement(text).name == "a"


@pytest.mark.parametrize("levels", [101, 199, 201, 1500, 100_000])
def test_more_levels_are_refused_in_our_own_words(levels):
    with pytest.raises(InvalidRequirement, match=r"\Ait is nested too deeply\Z"):
        parse_requirement(nested(levels))


def test_a_string_that_python_does_not_read_is_refused():
    with pytest.raises(InvalidRequirement):
        parse_requirement(INVALID_STRING)


@pytest.mark.parametrize("text", [DEEP, INVALID_STRING])
def test_nothing_that_reads_requirements_fails_otherwise(text):
    with pytest.raises(ActionError, match="METADATA has a Requires-Dist that is not valid"):
        metadata.parsed([text])
    with pytest.raises(UsageError, match="is neither here nor the name of a project"):
        obtain.requirement_of(text)


HASH = "sha256:" + "0" * 64


def test_what_pip_compile_writes_is_read():
    text = f"""# by uv pip compile
cmake==3.31.6 \\
    --hash={HASH} \\
    --hash=sha256:{"1" * 64}
    # via demo
ninja==1.11 ; python_version >= "3.9"  # a comment
jax[cuda12] >= 0.8

"""
    assert [str(found) for found in read_constraints(text)] == [
        f"cmake==3.31.6 --hash={HASH} --hash=sha256:{'1' * 64}",
        'ninja==1.11; python_version >= "3.9"',
        "jax[cuda12]>=0.8",
    ]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a==1\n-r /etc/passwd", 2, "'-r' is an option of pip"),
        ("a==1 \\\n-r /etc/passwd", 1, "'a==1  -r /etc/passwd' is not a requirement: "),
        ("\\\n-r /etc/passwd", 1, "'-r' is an option of pip"),
        ("a==1\n\\\n \\\n--index-url=https://evil/simple", 2, "'--index-url=https://evil/simple' is an option of pip"),
        ("-f https://evil/", 1, "'-f' is an option of pip"),
        ("--trusted-host evil", 1, "'--trusted-host' is an option of pip"),
        ("a @ https://evil/a-1-py3-none-any.whl", 1, "is a direct reference"),
        ("./a-1-py3-none-any.whl", 1, "is not a requirement: "),
        ("https://evil/a-1-py3-none-any.whl", 1, "is not a requirement: "),
        (f"a==1 --hash={HASH} --index-url=https://evil", 1, "is not a requirement: "),
        ("a==1 --config-settings=x=y", 1, "is not a requirement: "),
        ("a==1;python_version>'3' -r b", 1, "is not a requirement: "),
    ],
)  # fmt: skip
def test_what_steers_pip_is_no_constraint(tmp_path, text, line, what):
    wrong = [found for found in read_constraints(text) if isinstance(found, WrongLine)]
    assert [found.line for found in wrong] == [line]
    assert what in wrong[0].what
    (tmp_path / "given.txt").write_text(text)
    with pytest.raises(ActionError, match="constraints: line"):
        rewritten(tmp_path / "given.txt", tmp_path)


@given(st.text(alphabet=st.sampled_from('ab1=<>-r/ \t\\\n#;@"[],.:\x0b\x0c\x1c\x85\u2028\r'), max_size=40))
def test_what_is_passed_on_is_a_requirement_a_line(text):
    """Whatever pip takes for the end of a line: what it is given holds none within a requirement."""
    found = [each for each in read_constraints(text) if isinstance(each, Constraint)]
    for each in found:
        again = [str(one) for one in read_constraints(f"{each}\n")]
        assert again == [str(each)]
        assert len(str(each).splitlines()) == 1
        assert not str(each).startswith("-")


@pytest.mark.parametrize(
    "text", ["-r x", "--index-url=https://evil", "a @ file:///etc/passwd", "a==1 -r x", "a\n-r x", ""]
)
def test_what_a_project_asks_for_is_a_name(text):
    with pytest.raises(ActionError) as error:
        checked(["cmake", text], "its build backend")
    assert "its build backend has a requirement that is not a name with versions" in str(error.value)
    with pytest.raises(ValueError, match=r".+"):
        requirement_by_name(text)


def test_what_a_project_asks_for_is_told_as_it_was_read():
    assert checked(["Cmake >= 3", "jax[cuda12]; sys_platform=='linux'"], "it") == [
        "Cmake>=3",
        'jax[cuda12]; sys_platform == "linux"',
    ]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda file: file.symlink_to("/etc/passwd"), "cannot be read: it leads out of its folder"),
        (lambda file: file.symlink_to("../secret"), "cannot be read: it leads out of its folder"),
        (os.mkfifo, "cannot be read: it is a pipe, not a file"),
        (lambda file: file.write_bytes(b"\n" * 5_000_000), "cannot be read: it is larger than 1000000 bytes"),
    ],
)
def test_a_file_of_constraints_lies_beside_the_manifest(tmp_path, make, why):
    """Messages quote its lines: those of another file would be in a log."""
    (tmp_path / "secret").write_text("password\n")
    folder = tmp_path / "project"
    folder.mkdir()
    make(folder / "exact.txt")
    (problem,) = files({"build": {"constraints": "exact.txt"}}, folder)
    assert why in problem.message


def test_of_many_wrong_lines_some_are_shown_and_a_link_within_the_folder_is_followed(tmp_path):
    (tmp_path / "real.txt").write_text("-r x\n" * 50_000)
    (tmp_path / "exact.txt").symlink_to("real.txt")
    assert len(list(files({"build": {"constraints": "exact.txt"}}, tmp_path))) == 10


@pytest.mark.parametrize(
    "text", ["a===${HOME}", 'a; python_version > "3\n-r x"', "a\x00", 'a; os_name == "\u202e"']
)
def test_what_pip_would_fill_in_or_a_terminal_would_obey_is_refused(text):
    with pytest.raises(ValueError, match=r"has a \$, a control character or a line break"):
        requirement_by_name(text)
