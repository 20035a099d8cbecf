"""METADATA and WHEEL are read as installers read them, and edited without a change to anything else."""

import zipfile
from email.parser import BytesParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.tags import Tag

from gpuforge.errors import ActionError, MalformedError
from gpuforge.wheel import metadata
from gpuforge.wheel.archive import Archive

ANY = Tag("py3", "none", "any")
NAMES = st.sampled_from(["Name", "name", "Version", "Requires-Dist", "Provides-Extra", "Summary"])
VALUES = st.from_regex(r"\A[A-Za-z0-9 ;=\"'<>.\[\]-]{0,20}\Z")
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=8)
NEWLINES = st.sampled_from(["\n", "\r\n"])


def text_of(fields: list[tuple[str, str]], newline: str = "\n", body: str = "") -> bytes:
    lines = [f"{name}: {value}" for name, value in fields]
    return newline.join([*lines, "", body]).encode()


@given(st.one_of(st.binary(max_size=200), FIELDS.map(text_of)), NAMES)
def test_any_bytes_can_be_read(text, name):
    assert all(isinstance(value, str) for value in metadata.fields(text, name))
    metadata.tags_of(text)
    metadata.purelib_lines(text)


@given(FIELDS, NEWLINES, st.text("abc:\n ", max_size=20))
def test_fields_are_those_that_the_standard_library_reads(fields, newline, body):
    text = text_of(fields, newline, body)
    expected = BytesParser().parsebytes(text)
    for name in ("Name", "Requires-Dist"):
        found = metadata.fields(text, name)
        assert found == [value.strip() for value in expected.get_all(name, [])]
        if "\n" not in body:
            assert found == [value.strip() for own, value in fields if own.lower() == name.lower()]


@given(FIELDS, NEWLINES, st.lists(st.sampled_from(["cuda12", "cuda13", "dev"]), max_size=3, unique=True))
def test_only_the_new_lines_are_added(fields, newline, extras):
    text = text_of([("Name", "demo"), *fields], newline, "the description\nName: other\n")
    edited = metadata.provide_extras(text, extras)
    added = [line for line in edited.splitlines() if line not in text.splitlines()]
    assert edited.endswith(b"the description\nName: other\n")
    assert set(extras) <= set(metadata.fields(edited, "Provides-Extra"))
    assert [line for line in edited.splitlines() if line not in added] == text.splitlines()
    assert metadata.provide_extras(edited, extras) == edited


@given(st.binary(max_size=200), st.lists(st.sampled_from([ANY, Tag("cp311", "abi3", "any")]), unique=True))
def test_new_tags_take_the_place_of_the_old(text, tags):
    edited = metadata.with_tags(b"Wheel-Version: 1.0\nTag: cp39-cp39-any\n", tags)
    assert metadata.tags_of(edited) == tuple(sorted(tags, key=str))
    assert metadata.with_tags(metadata.with_tags(text, [Tag("a", "b", "c")]), tags) == metadata.with_tags(
        text, tags
    )


def test_a_new_wheel_file_is_read_back():
    text = metadata.new_wheel_file(purelib=True, tags=[ANY])
    assert (metadata.purelib_lines(text), metadata.tags_of(text)) == (("true",), (ANY,))


def test_numbers_that_python_refuses_are_shortened():
    assert metadata.field(b"Version: 1." + b"9" * 5000 + b"\n", "Version") == "1.…"


def test_a_name_is_required():
    with pytest.raises(ActionError, match="METADATA has no Name"):
        metadata.required(b"Version: 1\n", "Name")


@pytest.mark.parametrize("count", [0, 2])
def test_a_wheel_has_one_metadata_file(tmp_path, count):
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as bundle:
        for number in range(count):
            bundle.writestr(f"a{number}-1.dist-info/METADATA", "Name: a\n")
    with (
        Archive(tmp_path / "a.whl") as archive,
        pytest.raises(MalformedError, match=f"has {count} METADATA files"),
    ):
        metadata.of_archive(archive)


def test_an_extra_goes_with_the_requirements_that_it_alone_has():
    text = text_of(
        [
            ("Name", "demo"),
            ("Provides-Extra", "cuda12"),
            ("Provides-Extra", "CUDA12.local"),
            ("Provides-Extra", "plots"),
            ("Requires-Dist", "jax"),
            ("Requires-Dist", 'jax[cuda12]; extra == "cuda12"'),
            ("Requires-Dist", 'jax-cuda12-plugin; "cuda12" == extra'),
            ("Requires-Dist", 'cuda12; sys_platform == "extra"'),
            ("Requires-Dist", "nvidia-cufft-cu12;\n  python_version >= '3.9' and extra == 'cuda12-local'"),
            ("Requires-Dist", 'rich; extra == "cuda12" or extra == "plots"'),
        ],
        body="Provides-Extra: cuda12\n",
    )
    edited = metadata.without_extras(text, ["cuda12", "cuda12-local"])
    assert metadata.fields(edited, "Provides-Extra") == ["plots"]
    assert metadata.fields(edited, "Requires-Dist") == [
        "jax",
        'cuda12; sys_platform == "extra"',
        'rich; extra == "cuda12" or extra == "plots"',
    ]
    assert edited.endswith(b"Provides-Extra: cuda12\n")
    assert metadata.without_extras(text, []) == text
