"""What docs/fetched.md calls pinned has a digest."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest

from gpuforge import toolkits
from gpuforge.actions import venv
from gpuforge.containers import catalog
from gpuforge.datafile import load
from gpuforge.manifest.model import PypiSource
from gpuforge.toolkits import providers


def digests(data: Any) -> list[str | None]:
    """Return the sha256 of each thing with a size: a wheel, a package or a part of one."""
    if isinstance(data, list):
        return [found for each in data for found in digests(each)]
    if not isinstance(data, dict):
        return []
    own = [data.get("sha256")] if "size" in data and "package" in data else []
    return own + [found for each in data.values() for found in digests(each)]


@pytest.mark.parametrize(
    ("folder", "name"), [(providers, "pypi.toml"), (providers, "debian.toml"), (toolkits, "compilers.toml")]
)
def test_tables_of_downloads_have_digests(folder: ModuleType, name: str) -> None:
    found = digests(load(folder.__file__, name))
    assert len(found) > 5
    assert all(digest and re.fullmatch(r"[0-9a-f]{64}", digest) for digest in found)


def test_what_images_are_made_of_is_pinned() -> None:
    requirements = (catalog.folder() / "debian/requirements.txt").read_text()
    requirements = re.sub(r"^#.*\n", "", requirements, flags=re.MULTILINE).replace("\\\n", "")
    assert requirements
    for line in requirements.strip().splitlines():
        assert re.fullmatch(r"[\w.-]+==[\w.]+(\s+--hash=sha256:[0-9a-f]{64})+", line), line
    for source in catalog.cpythons().values():
        assert re.fullmatch(r"[0-9a-f]{64}", source.sha256)
    for row in catalog.rows():
        for reference in row.machines.values():
            assert not isinstance(reference, str) or re.search(r"@sha256:[0-9a-f]{64}$", reference)


def test_an_sdist_needs_its_digest_and_uv_installs_without_an_index() -> None:
    assert PypiSource.model_fields["sha256"].is_required()
    assert {"--offline", "--no-config"} <= set(venv._ALWAYS)
