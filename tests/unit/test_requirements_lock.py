"""What `make` installs is locked: every package that pyproject.toml names, in an allowed version, with hashes."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpuforge import toolkits
from gpuforge.actions import venv
from gpuforge.containers import catalog
from gpuforge.datafile import load
from gpuforge.manifest.model import PypiSource
from gpuforge.toolkits import providers

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REQUIRED = PROJECT["project"]["dependencies"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
DEMO, DEVELOP = "demo.txt", "develop.txt"


def locked(name: str) -> list[tuple[Requirement, list[str]]]:
    """Return each entry of a lock with its hashes."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "requirements" / name).read_text(), flags=re.MULTILINE)
    lines = [line.split(" --hash=") for line in re.sub(r" *\\\n *", " ", text).splitlines()]
    return [(Requirement(requirement), hashes) for requirement, *hashes in lines]


def versions(name: str, python: str) -> dict[str, str]:
    """Return the version of each project that a lock installs on a Python."""
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.9"}
    found: dict[str, str] = {}
    for requirement, _ in locked(name):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            project = canonicalize_name(requirement.name)
            assert project not in found, f"{project} is locked twice for Python {python}"
            (clause,) = requirement.specifier
            assert clause.operator == "=="
            found[project] = clause.version
    return found


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize(
    ("name", "required"),
    [
        (DEMO, [*REQUIRED, *PROJECT["build-system"]["requires"]]),
        (DEVELOP, [*REQUIRED, *EXTRAS["test"], *EXTRAS["lint"]]),
    ],
)
def test_the_lock_has_what_the_project_requires(name, required, python):
    found = versions(name, python)
    for each in map(Requirement, required):
        if each.marker is None or each.marker.evaluate():
            assert found[canonicalize_name(each.name)] in each.specifier, f"{each}: run `make lock`"


def test_the_demo_and_the_tests_run_with_the_same_versions():
    develop = versions(DEVELOP, "3.11")
    demo = versions(DEMO, "3.11")
    assert {project: develop.get(project, version) for project, version in demo.items()} == demo


@pytest.mark.parametrize("name", [DEMO, DEVELOP])
def test_the_lock_holds_on_any_machine(name):
    """No address of an index, and a sha256 of every file."""
    assert not re.search(r"://|^\s*-(?!-hash)", (ROOT / "requirements" / name).read_text(), re.MULTILINE)
    for requirement, hashes in locked(name):
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes)


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
def test_tables_of_downloads_have_digests(folder, name):
    found = digests(load(folder.__file__, name))
    assert len(found) > 5
    assert all(digest and re.fullmatch(r"[0-9a-f]{64}", digest) for digest in found)


def test_what_images_are_made_of_is_pinned():
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


def test_an_sdist_needs_its_digest_and_uv_installs_without_an_index():
    assert PypiSource.model_fields["sha256"].is_required()
    assert {"--offline", "--no-config"} <= set(venv._ALWAYS)
