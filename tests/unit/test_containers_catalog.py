"""The catalog of images: what a manifest may name, and tags that follow from what an image is made of."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.version import Version

from gpuforge.containers import catalog
from gpuforge.cuda import releases

MACHINES = ("x86_64", "aarch64")
ROOT = Path(__file__).parents[2]
CACHES = (catalog.rows, catalog.release, catalog.cpythons, catalog.stage_of, catalog.images)


@pytest.fixture
def definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the definitions that a test may change."""
    copy = tmp_path / "definitions"
    shutil.copytree(catalog.folder(), copy)
    monkeypatch.setattr(catalog, "folder", lambda: copy)
    for known in CACHES:
        known.cache_clear()
    yield copy
    monkeypatch.undo()
    for known in CACHES:
        known.cache_clear()


def references() -> dict[str, str]:
    for known in CACHES:
        known.cache_clear()
    return {image.name: image.reference for image in catalog.images("x86_64")}


def changed(before: dict[str, str]) -> set[str]:
    return {name for name, reference in references().items() if before[name] != reference}


@pytest.mark.parametrize("machine", MACHINES)
def test_every_image_names_what_exists(machine):
    images = catalog.images(machine)
    names = [image.name for image in images]
    assert len(names) == len(set(names))
    for image in images:
        assert re.fullmatch(
            r"localhost/gpuforge/[a-z0-9_.-]+:[0-9a-f]{12}|quay\.io/pypa/\w+@sha256:[0-9a-f]{64}",
            image.reference,
        )
        assert image.test is None or catalog.find(image.test, machine) is not None
        assert machine in image.policy
        if image.purpose == "build":
            assert any(Version(minor) >= Version("3.11") for minor in image.pythons), image.name
            assert image.test, f"{image.name} has no image to test its wheels in"


def test_a_wheel_is_tested_where_its_own_pythons_are_and_on_no_older_glibc():
    for image in catalog.images("x86_64"):
        if image.test:
            test = catalog.find(image.test, "x86_64")
            assert test is not None
            assert test.purpose == "test"
            assert test.compilers == ()
            assert Version(test.glibc) >= Version(image.glibc)
            if image.kind == "debian":
                assert test.pythons == image.pythons


def test_images_are_found_by_name_and_by_reference_and_others_are_the_users_own():
    bookworm = catalog.find("bookworm")
    assert bookworm is not None
    assert catalog.find(bookworm.reference) == bookworm
    assert catalog.find("registry.example.org/team/builder:7") is None


def test_an_image_of_a_registry_is_pinned_by_digest_on_each_machine_type():
    x86_64, aarch64 = (catalog.find("manylinux_2_28", machine) for machine in MACHINES)
    assert x86_64 is not None and aarch64 is not None  # noqa: PT018
    assert "manylinux_2_28_x86_64@sha256:" in x86_64.reference
    assert "manylinux_2_28_aarch64@sha256:" in aarch64.reference
    assert not x86_64.built


def test_an_image_with_a_toolkit_has_a_host_compiler_that_the_toolkit_takes():
    for row in catalog.rows():
        if row.toolkit:
            newest = releases.release(row.toolkit).hosts["g++"][1]
            compiler = row.host_compiler or row.compilers[0]
            image = catalog.find(row.name, "x86_64")
            assert image is not None
            assert compiler in image.compilers
            assert int(compiler.removeprefix("g++-")) <= newest, row.name


def test_the_tag_does_not_depend_on_names_in_the_code():
    """A renamed class gave every image a new tag: none that was there was found."""
    assert catalog.release("bookworm").identity == "Release(suite='bookworm', glibc='2.36', python='3.11')"


def test_a_tag_is_the_same_for_the_same_content(definitions):
    before = references()
    assert references() == before
    (definitions / "debian" / "lean.cfg").touch()
    assert changed(before) == set()


def test_a_changed_file_gives_new_tags_to_what_is_made_of_it_and_to_nothing_else(definitions):
    before = references()
    with (definitions / "debian" / "test.Dockerfile").open("a") as file:
        file.write("# changed\n")
    assert changed(before) == {"bullseye-test", "bookworm-test", "trixie-test"}

    before = references()
    with (definitions / "debian" / "build.Dockerfile").open("a") as file:
        file.write("# changed\n")
    assert changed(before) == {"bullseye", "bookworm", "trixie", "bookworm-cuda11.8", "trixie-cuda12.4"}


def test_a_changed_python_or_package_gives_new_tags(definitions):
    before = references()
    data = definitions / "images.toml"
    text = data.read_text()
    data.write_text(text.replace(catalog.cpythons()["3.11"].sha256, "0" * 64))
    with_trixie = {"trixie", "trixie-test", "trixie-cuda12.4"}
    assert changed(before) == {"bullseye", "bullseye-test"} | with_trixie  # bookworm has 3.11 from Debian

    data.write_text(text.replace('packages = ["g++", "g++-11", "make"]', 'packages = ["g++", "make"]'))
    assert changed(before) == {"bookworm", "bookworm-cuda11.8"}


def test_a_toolkit_of_other_wheels_gives_another_tag():
    assert catalog.toolkit_identity("11.8", "x86_64") != catalog.toolkit_identity("12.4", "x86_64")
    assert catalog.toolkit_identity("12.4", "x86_64") != catalog.toolkit_identity("12.4", "aarch64")


@pytest.mark.thorough
def test_the_catalog_is_data_and_imports_no_engine():
    code = "import sys, gpuforge.containers.catalog as c; c.images(); print('docker' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_every_definition_file_is_used():
    made = [stage for row in catalog.rows() if (stage := catalog.stage_of(row.name, "x86_64"))]
    made += [stage.cpython for stage in made if stage.cpython]
    used = {name for stage in made for name in stage.files}
    there = {
        path.relative_to(catalog.folder()).as_posix()
        for path in catalog.folder().rglob("*")
        if path.is_file()
    }
    assert there - used == {"images.toml"}


@pytest.mark.parametrize(
    "dockerfile", sorted(catalog.folder().rglob("*.Dockerfile")), ids=lambda path: path.name
)
def test_every_dockerfile_is_without_findings_of_its_linter(dockerfile):
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed: pip install '.[lint]'")
    done = subprocess.run([hadolint, "--no-color", dockerfile], capture_output=True, text=True, check=False)
    assert done.stdout == ""
