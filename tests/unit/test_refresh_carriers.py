"""Rows of carriers.toml, as the maintainers' script reads them from packages."""

from __future__ import annotations

from email.message import Message

import pytest


@pytest.mark.parametrize(
    ("extra", "brings"),
    [("", ("nvidia-always", "nvidia-linux")), ("gpu", ("nvidia-extra",))],
)
def test_a_requirement_belongs_to_the_row_of_its_extra(
    extra: str, brings: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    import refresh_carriers as script

    metadata = Message()
    for line in (
        "nvidia-always",
        'nvidia-linux; sys_platform == "linux" or extra == "gpu"',
        'nvidia-extra; extra == "gpu"',
        'nvidia-other; extra == "cpu"',
        'nvidia-windows; sys_platform == "win32" and extra == "gpu"',
        "numpy",
    ):
        metadata["Requires-Dist"] = line
    monkeypatch.setattr(script, "_wheel", lambda *_: None)
    monkeypatch.setattr(script, "metadata_of", lambda _: metadata)
    row = {"package": "demo", "known": ["1.0"], **({"extra": extra} if extra else {})}
    assert script.brings(row, frozenset()) == brings
