"""docs/fetched.md against the code: each step that fetches is in its tables, and what they call pinned is pinned."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpuforge import cuda, toolkits
from gpuforge.containers import image_table
from gpuforge.datafile import load
from gpuforge.manifest.model.package import PypiSource
from gpuforge.steps import venv
from gpuforge.toolkits import providers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fetched.md").read_text(encoding="utf-8")
# How code reaches for the network: by a client, by pip, git, debootstrap or a container engine, or through these.
SIGNS = re.compile(
    r"^(?:import|from) (?:urllib\.request|http\.client|requests|pypi_simple|socket|docker)\b"
    r"|\"-m\", \"pip\"|__pip-runner__\.py\"|\[\"git\",|shutil\.which\(\"debootstrap\"|\.pull\("
    r"|^from gpuforge\.(?:toolkits\.download|steps\.remote_wheel) import|wheelhouse\.download\(|\bfetch_part\(",
    re.MULTILINE,
)
NO_FETCH = {
    "containers/docker_images.py": "what containers/image_build.py pulls with",
    "containers/connect.py": "the connection to the engine",
    "containers/docker_containers.py": "containers of images that are here",
    "containers/engine_errors.py": "the errors of the engine's client",
    "index/settings.py": "the session that others fetch with, and pip's own settings",
    "execute/runners/local/keeper.py": "a pair of sockets between two processes of gpuforge",
    "execute/runners/local/kept_command.py": "the other one",
    "plan/git_version.py": "git asks the checkout itself",
    "execute/compiled/service.py": "serves a socket; what it reads is `execute/objects` and OpenDAL",
    "steps/cache_bridge.py": "that socket's other end",
    "steps/compiler_cache.py": "a socket of sccache's server on this machine",
}


def rows() -> list[list[str]]:
    found = [line.strip("|").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    return [[cell.strip(" |") for cell in row] for row in found if row[0].strip() != "what"]


def named(suffix: str) -> set[str]:
    return {name for name in re.findall(r"`([\w./-]+)`", PAGE) if name.endswith(suffix) and "/" in name}


def test_every_module_that_fetches_is_on_the_page() -> None:
    package = ROOT / "gpuforge"
    fetching = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if SIGNS.search(path.read_text(encoding="utf-8"))
    }
    assert fetching - named(".py") - NO_FETCH.keys() == set()
    own = {name for name in named(".py") if not name.startswith(("tests/", "scripts/"))}
    assert own - fetching == {"containers/image_reference.py"}  # which says what is never pulled


def test_every_definition_and_file_on_the_page_is_there() -> None:
    dockerfiles = {
        p.relative_to(image_table.folder()).as_posix() for p in image_table.folder().rglob("*.Dockerfile")
    }
    assert named(".Dockerfile") == dockerfiles - {"debian/cuda.Dockerfile"}  # it copies, and fetches nothing
    for name in named(".py") | named(".toml") | named(".txt"):
        places = (ROOT / name, ROOT / "gpuforge" / name, image_table.folder() / name)
        assert any(place.is_file() for place in places), name


def test_every_row_says_whether_it_is_strong_or_weak() -> None:
    assert len(rows()) > 20
    for row in rows():
        assert len(row) == 5, row
        assert row[4] in {"strong", "weak"}, row


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
def test_what_is_called_pinned_has_a_digest(folder: ModuleType, name: str) -> None:
    found = digests(load(folder.__file__, name))
    assert len(found) > 5
    assert all(digest and re.fullmatch(r"[0-9a-f]{64}", digest) for digest in found)


def test_what_images_are_made_of_is_pinned() -> None:
    requirements = (image_table.folder() / "debian/requirements.txt").read_text()
    requirements = re.sub(r"^#.*\n", "", requirements, flags=re.MULTILINE).replace("\\\n", "")
    assert requirements
    for line in requirements.strip().splitlines():
        assert re.fullmatch(r"[\w.-]+==[\w.]+(\s+--hash=sha256:[0-9a-f]{64})+", line), line
    for source in image_table.cpythons().values():
        assert re.fullmatch(r"[0-9a-f]{64}", source.sha256)
    for row in image_table.rows():
        for reference in row.machines.values():
            assert not isinstance(reference, str) or re.search(r"@sha256:[0-9a-f]{64}$", reference)
    assert "--require-hashes" in (ROOT / "gpuforge/containers/build_context.py").read_text()
    assert "--require-hashes" in (ROOT / "gpuforge/toolkits/pip.py").read_text()
    assert "--require-hashes" in (ROOT / "Makefile").read_text()


def test_an_sdist_without_its_digest_is_refused() -> None:
    assert PypiSource.model_fields["sha256"].is_required()


def test_the_weak_rows_are_as_weak_as_they_say() -> None:
    """When one of these gets a digest, the page says so."""
    assert not any("sha256" in row for row in load(providers.__file__, "redist.toml")["release"])
    assert "--hash" not in (ROOT / "gpuforge/containers/image_environment.py").read_text()


def test_uv_installs_without_an_index() -> None:
    assert {"--offline", "--no-config"} <= set(venv._ALWAYS)


def test_the_libraries_that_wheels_require_are_nvidias() -> None:
    packages = {row["package"] for row in load(cuda.__file__, "libraries.toml")["package"]}
    assert all(name.startswith(("nvidia-", "cutensor-cu")) for name in packages)


def test_nobody_is_told_to_install_a_name_that_is_not_ours() -> None:
    places = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "gpuforge").rglob("*.py")]
    places += [*(ROOT / "recipes").rglob("*.md"), *(ROOT / "tests" / "golden").rglob("*.*")]
    for path in places:
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.name != "fetched.md":
            assert not re.search(r"pip install (?:-\S+ )*['\"]?gpuforge\b", text), path
            assert "pypi.org/project/gpuforge" not in text, path
