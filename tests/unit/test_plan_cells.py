"""The matrix and the choice among its cells."""

import pytest

from gpuforge.errors import UsageError
from gpuforge.plan.cell import Choice, matrix, select

PYTHONS = 'python = ["3.11", "3.13"]'


def test_every_toolkit_with_every_python(recipe):
    assert [cell.id for cell in matrix(recipe().manifest, "x86_64")] == [
        "cp311-cu12.4-x86_64",
        "cp313-cu12.4-x86_64",
        "cp311-cu13.0-x86_64",
        "cp313-cu13.0-x86_64",
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ('abi = "none"', ["py3-cu12.4-x86_64", "py3-cu13.0-x86_64"]),
        ('abi = "abi3"\npython = ["3.11"]', ["cp311-abi3-cu12.4-x86_64", "cp311-abi3-cu13.0-x86_64"]),
    ],
)
def test_one_wheel_for_all_pythons(recipe, change, expected):
    file = recipe((PYTHONS, change))
    assert [cell.id for cell in matrix(file.manifest, "x86_64")] == expected


def test_each_naming_has_its_cells(recipe):
    file = recipe(add='\n[wheel]\nnaming = ["suffix", "plain"]\n')
    ids = [cell.id for cell in matrix(file.manifest, "x86_64")]
    assert len(ids) == len(set(ids)) == 8
    assert ids[:2] == ["cp311-cu12.4-x86_64-suffix", "cp311-cu12.4-x86_64-plain"]


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        ({"cuda": ["12"]}, ["cp311-cu12.4-x86_64", "cp313-cu12.4-x86_64"]),
        ({"cuda": ["13.0"], "python": ["3.13"]}, ["cp313-cu13.0-x86_64"]),
        ({"cell": "cp311-cu13.0-x86_64"}, ["cp311-cu13.0-x86_64"]),
        ({"cuda": ["12", "13"], "python": ["3.11"]}, ["cp311-cu12.4-x86_64", "cp311-cu13.0-x86_64"]),
    ],
)
def test_choice(recipe, choice, chosen):
    selection = select(recipe(), "x86_64", Choice(**choice))  # type: ignore[arg-type]
    assert [cell.id for cell in selection.cells] == chosen
    assert len(selection.cells) + len(selection.left_out) == 4
    assert {item.reason.kind for item in selection.left_out} <= {"not-selected"}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"cuda": ["11"]}, "--cuda 11: the manifest has no such toolkit\n  hint: it has 12.4, 13.0"),
        ({"cuda": ["12.9"]}, "--cuda 12.9: the manifest has no such toolkit\n  hint: it has 12.4, 13.0"),
        ({"python": ["3.12"]}, "--python 3.12: the manifest has no such Python\n  hint: it has 3.11, 3.13"),
        (
            {"machine": ["aarch64"]},
            "--machine aarch64: the manifest has no wheels for it\n"
            "  hint: it has x86_64; [wheel] machines lists them",
        ),
        (
            {"cell": "cp311-cu13-x86_64"},
            "the manifest has no cell 'cp311-cu13-x86_64'\n"
            "  hint: nearest: cp311-cu13.0-x86_64, cp313-cu13.0-x86_64, cp311-cu12.4-x86_64",
        ),
    ],
)
def test_what_the_manifest_lacks_is_an_error(recipe, choice, message):
    with pytest.raises(UsageError) as caught:
        select(recipe(), "x86_64", Choice(**choice))  # type: ignore[arg-type]
    assert str(caught.value).endswith(message)


def test_the_stable_abi_serves_newer_pythons_only(recipe):
    file = recipe((PYTHONS, 'abi = "abi3"\npython = ["3.11"]'))
    assert len(select(file, "x86_64", Choice(cuda=["13"], python=["3.14"])).cells) == 1
    with pytest.raises(UsageError, match=r"the wheel's stable ABI starts at 3\.11"):
        select(file, "x86_64", Choice(python=["3.10"]))


def test_a_cell_is_not_chosen_twice(recipe):
    with pytest.raises(UsageError, match="--cell names one cell"):
        select(recipe(), "x86_64", Choice(cuda=["13"], cell="cp311-cu13.0-x86_64"))
