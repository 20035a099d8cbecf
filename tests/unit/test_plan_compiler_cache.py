"""A compiler cache that projects share: only with projects whose manifests name each other."""

import shutil
from pathlib import Path

import pytest

from gpuforge.manifest.load import load
from gpuforge.plan.compiler_cache import sharing
from gpuforge.toolchains import sccache

MANIFEST = """\
schema = 1
package = {{ name = "{package}", abi = "none" }}
cuda.13 = {{ toolkit = "13.0", archs = ["80"] }}
{cache}
"""


def write(folder: Path, cache: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    text = f"build.compiler-cache = {{ {cache} }}" if cache else ""
    (folder / "gpuforge.toml").write_text(MANIFEST.format(package=folder.name, cache=text))
    return folder


def cache_of(folder: Path) -> Path:
    found = sharing(load(folder))
    return sccache.folder(found.name, *found.manifests)


def test_projects_that_name_each_other_share_one_cache_and_one_folder_for_builds(tmp_path):
    one = write(tmp_path / "one", 'name = "both", with = ["../two"]')
    two = write(tmp_path / "two", 'name = "both", with = ["../one"]')
    assert sharing(load(one)) == sharing(load(two))
    assert sharing(load(one)).name == "both"
    assert sharing(load(one)).refused == ()
    assert cache_of(one) == cache_of(two)
    shutil.copytree(tmp_path, tmp_path.with_name("elsewhere"))
    assert cache_of(tmp_path.with_name("elsewhere") / "one") != cache_of(one)


def test_the_user_says_which_projects_of_other_machines_are_the_same():
    def name(at: str, identity: str | None, package: str = "mine") -> str:
        return sccache.folder(package, Path(at), identity=identity)

    assert name("/a/gpuforge.toml", None) != name("/b/gpuforge.toml", None)
    assert name("/a/gpuforge.toml", None) != name("/a/gpuforge.toml", None, "other")
    assert (
        name("/a/gpuforge.toml", "acme") == name("/b/gpuforge.toml", "acme") != name("/a/gpuforge.toml", None)
    )
    assert name("/a/gpuforge.toml", "acme") != name("/a/gpuforge.toml", "other")
    assert name("/a/gpuforge.toml", "acme") != name("/a/gpuforge.toml", "acme", "other")
    assert name("/a/gpuforge.toml", "/a/gpuforge.toml") != name("/a/gpuforge.toml", None)


@pytest.mark.parametrize(
    ("victim", "why"),
    [
        ("", 'its manifest does not have [build] compiler-cache with the name "both"'),
        (
            'name = "another", with = ["../one"]',
            'its manifest does not have [build] compiler-cache with the name "both"',
        ),
        ('name = "both", with = ["../three"]', "its manifest does not name this project"),
        ('name = "both", wit = ["../one"]', "[build.compiler-cache] has no `with`"),
        (None, "does not exist"),
    ],
)
def test_nobody_gets_the_cache_of_a_project_that_does_not_name_it(victim, why, tmp_path):
    one = write(tmp_path / "one", 'name = "both", with = ["../two"]')
    three = write(tmp_path / "three", 'name = "both", with = ["../two"]')
    (tmp_path / "two").mkdir()
    if victim is not None:
        write(tmp_path / "two", victim)
    found = sharing(load(one))
    assert found.manifests == (one.resolve() / "gpuforge.toml",)
    (note,) = found.refused
    assert note.startswith("the compiler cache is not shared with ../two: ")
    assert why in note
    if victim and "three" in victim:
        assert cache_of(tmp_path / "two") == cache_of(three) != cache_of(one)
