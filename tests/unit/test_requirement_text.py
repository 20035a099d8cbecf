"""Requirements that others wrote are read or refused, the same with every release of packaging."""

from __future__ import annotations

import pytest
from packaging.requirements import InvalidRequirement

from gpuforge.errors import ActionError, UsageError
from gpuforge.project import obtain
from gpuforge.requirements import parse_requirement
from gpuforge.wheel import metadata


def nested(levels: int) -> str:
    return "a; " + "(" * levels + 'os_name == "x"' + ")" * levels


DEEP = nested(1500)
INVALID_STRING = 'a; os_name == "\\x"'


@pytest.mark.parametrize("text", [nested(100), "a; " + " or ".join(["(os_name == 'x')"] * 150)])
def test_as_many_levels_as_any_project_writes_are_read(text: str) -> None:
    assert parse_requirement(text).name == "a"


@pytest.mark.parametrize("levels", [101, 199, 201, 1500, 100_000])
def test_more_levels_are_refused_in_our_own_words(levels: int) -> None:
    with pytest.raises(InvalidRequirement, match=r"\Ait is nested too deeply\Z"):
        parse_requirement(nested(levels))


def test_a_string_that_python_does_not_read_is_refused() -> None:
    with pytest.raises(InvalidRequirement):
        parse_requirement(INVALID_STRING)


@pytest.mark.parametrize("text", [DEEP, INVALID_STRING])
def test_nothing_that_reads_requirements_fails_otherwise(text: str) -> None:
    with pytest.raises(ActionError, match="METADATA has a Requires-Dist that is not valid"):
        metadata.parsed([text])
    with pytest.raises(UsageError, match="is neither here nor the name of a project"):
        obtain.requirement_of(text)
