"""What `compile` and the package refuse to trust: damaged recipes and records, and folders of others."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from compile_samples import GXX, compiler
from library_samples import answer, run

from gpuforge.runtime.driver import Probe
from gpuforge.runtime.userbuild import compilers
from gpuforge.runtime.userbuild.execute import Stopped
from gpuforge.runtime.userbuild.invoke import invoke, recipes

pytestmark = pytest.mark.thorough

RECORD = '{"schema": 1, "build": "b", "file": "FILE", "size": SIZE, "toolchain": "", '
RECORD += '"compiler": "", "arch": "", "sources": []}'
NUL = RECORD.replace("FILE", "a\\u0000b").replace("SIZE", "1")
INFINITE = RECORD.replace("SIZE", "Infinity")


def test_changed_sources_are_not_compiled(site):
    source = site / "demo/_gpuforge/sources/answers/mod/answer.cpp"
    source.write_text(source.read_text() + "// mine\n")
    done = run(site, "compile")
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {source} was changed after it was installed: install the wheel again, and "
        "give sources of your own as arguments\n"
    )


def test_sources_that_change_after_the_recipe_was_read_are_not_compiled(site, tmp_path):
    (recipe,) = recipes(site / "demo/_gpuforge")
    (source,) = (Path(recipe.path(name)) for name in recipe.sources)
    source.write_text(source.read_text() + "// mine\n")
    made = compilers.Compiler("g++", Path(GXX), "12.2.0")
    with pytest.raises(Stopped, match=re.escape(f"{source} was changed after it was installed")):
        invoke(
            recipe,
            recipe.toolchains[0],
            made,
            tmp_path,
            compilers.CompileInputs(Probe(None), None, (), {}, 9),
        )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[" * 100_000, "it is not valid JSON"),
        (b" " * (5 << 20), "it has more than 4 MiB"),
        (None, "it is not a regular file"),
    ],
)
def test_a_damaged_recipe_is_one_line(site, content, problem):
    recipe = site / "demo/_gpuforge/sources/answers/recipe.json"
    recipe.unlink()
    recipe.write_bytes(content) if content else os.mkfifo(recipe)
    done = run(site, "compile")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert problem in done.stderr


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [("install", [1], "'install' is not an object"), ("argv", [], "'argv' is empty")],
)
def test_a_value_of_a_toolchain_that_cannot_be_is_one_line(site, key, value, problem):
    recipe = site / "demo/_gpuforge/sources/answers/recipe.json"
    content = json.loads(recipe.read_text())
    content["toolchains"][0][key] = value
    recipe.write_text(json.dumps(content))
    done = run(site, "compile")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr == f"error: {recipe}: is damaged: {problem}; install the wheel again\n"


def test_a_comparison_of_versions_that_does_not_exist_is_damage(site):
    recipe = site / "demo/_gpuforge/sources/answers/recipe.json"
    recipe.write_text(recipe.read_text().replace('">=",', '"~=",'))
    assert run(site, "compile").stderr == (
        f"error: {recipe}: is damaged: 'accepts' is not a list of bounds; install the wheel again\n"
    )


@pytest.mark.parametrize("product", ["lib**.so", "/usr/lib/*.so", "."])
def test_a_product_that_is_not_a_pattern_is_one_line(site, product):
    """A manifest cannot have it; Python 3.13 and later take the first one."""
    recipe = site / "demo/_gpuforge/sources/answers/recipe.json"
    content = json.loads(recipe.read_text())
    content["toolchains"][0]["product"] = product
    recipe.write_text(json.dumps(content))
    done = run(site, "compile")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    if sys.version_info < (3, 13):
        assert f": {product!r}, where the library would be, is not a pattern of files; " in done.stderr


@pytest.mark.parametrize(
    ("file", "content"),
    [("METADATA", b"caf\xe9"), ("RECORD", b"caf\xe9.so,,\n"), ("RECORD", b"a.so,x,1,4,5\n")],
)
def test_a_damaged_package_that_is_required_does_not_stop_a_compilation(site, file, content):
    own, other = site / "demo-1.0.dist-info", site / "other-1.0.dist-info"
    for folder, name in ((own, "demo"), (other, "other")):
        folder.mkdir(exist_ok=True)
        needs = "Requires-Dist: other\n" * (name == "demo")
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
    (own / "RECORD").write_text("demo/_gpuforge/__init__.py,,\n")
    (other / file).write_bytes(content)
    done = run(site, "compile")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_that_cannot_be_written(site, tmp_path):
    (tmp_path / "file").write_text("")
    done = run(site, "compile", GPUFORGE_KERNEL_HOME=str(tmp_path / "file"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Not a directory; nothing was changed. GPUFORGE_KERNEL_HOME names another folder" in done.stderr


@pytest.mark.parametrize("damage", ["", "{}", '{"schema": 2}', "[1]", NUL, INFINITE])
def test_a_damaged_record_is_a_reason(site, damage):
    run(site, "compile")
    (record,) = (site.parent / "builds").glob("user/demo/*/active.json")
    record.write_text(damage)
    assert answer(site) == 7
    assert run(site, "compile").returncode == 0
    assert answer(site) == 42


def test_a_link_to_the_library_is_followed(site, tmp_path):
    """Builds with a version leave libx.so as a link to libx.so.1."""
    script = f'{GXX} "$@"; for last; do :; done; mv $last $last.1; ln -s $last.1 $last'
    assert run(site, "compile", compiler(tmp_path, script)).returncode == 0
    assert answer(site) == 42


@pytest.mark.parametrize("part", ["", "*/", "*/libanswers.so", "active.json"])
def test_where_others_could_put_code_nothing_is_loaded(site, part):
    run(site, "compile")
    (place,) = (site.parent / "builds/user/demo").iterdir()
    (path,) = place.glob(part) if part else [place]
    mode = path.stat().st_mode
    path.chmod(0o777)
    assert answer(site) == 7
    assert f"{path} can be written by other users (chmod o-w {path})" in run(site, "explain").stdout
    done = run(site, "compile")
    assert (done.returncode, done.stderr.count("\n")) == ((1, 1) if not part else (0, 0))
    path.chmod(mode) if not part else None
    assert answer(site) == 42


@pytest.mark.parametrize("above", ["", "user", "user/demo"])
def test_where_others_could_replace_a_folder_above_nothing_is_loaded(site, above):
    run(site, "compile")
    path = site.parent / "builds" / above
    path.chmod(0o777)
    assert answer(site) == 7
    problem = f"{path} can be written by other users (chmod o-w {path})"
    assert problem in run(site, "explain").stdout
    done = run(site, "compile")
    refused = f"error: {problem}; nothing was changed. GPUFORGE_KERNEL_HOME names another folder\n"
    assert (done.returncode, done.stderr) == (1, refused)
    path.chmod(0o1777)  # as /tmp is: others cannot rename what is in it
    assert answer(site) == 42
    path.chmod(0o775)  # members of a group are trusted
    assert answer(site) == 42


def compile_without_umask(site: Path) -> None:
    """Compile where everybody may write to what is made, and see that it is used."""
    before = os.umask(0)
    try:
        assert run(site, "compile").returncode == 0
    finally:
        os.umask(before)
    assert answer(site) == 42


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")
@pytest.mark.parametrize("above", ["", "user", "user/demo"])
def test_below_a_folder_of_another_user_nothing_is_loaded(site, above):
    run(site, "compile")
    path = site.parent / "builds" / above
    os.chown(path, 12345, 12345)
    path.chmod(0o1755)
    assert answer(site) == 7
    assert f"{path} belongs to another user, who could put code into it" in run(site, "explain").stdout


def test_folders_are_not_made_for_everybody_whatever_the_umask(site):
    compile_without_umask(site)
    modes = {path.stat().st_mode & 0o022 for path in (site.parent / "builds").rglob("*") if path.is_dir()}
    assert modes <= {0, 0o020}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")
def test_a_build_of_another_user_is_not_loaded(site):
    run(site, "compile")
    (place,) = (site.parent / "builds/user/demo").iterdir()
    os.chown(place, 12345, 12345)
    assert answer(site) == 7
    done = run(site, "compile")
    assert done.stderr == (
        f"error: {place} belongs to another user, who could put code into it; nothing was changed. "
        "GPUFORGE_KERNEL_HOME names another folder\n"
    )


def test_a_build_is_used_whatever_the_umask(site):
    compile_without_umask(site)
