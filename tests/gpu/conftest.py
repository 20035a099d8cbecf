"""What all tests on a GPU share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own kernels and cache out of the tests, and the tests out of them."""
    monkeypatch.setenv("HOME", str(tmp_path / "own-home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("GPUFORGE_KERNEL_HOME", raising=False)
