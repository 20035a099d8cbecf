"""Releases of projects, as exact requirements name them."""

from __future__ import annotations

import pytest

from gpuforge.requirements import Release


def test_a_pin_names_a_release() -> None:
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
def test_other_requirements_name_no_release(text: str) -> None:
    with pytest.raises(ValueError, match="demo"):
        Release.of_pin(text)
