"""User builds after an upgrade of the package: none is unused without a word, and none that is in use is removed."""

import os
import shutil
import time
from pathlib import Path

import pytest
from library_samples import answer, install, loaded, program, run, toolchain

from gpuforge.runtime.userbuild.activation import UNUSED_DAYS, remove_leftovers

pytestmark = pytest.mark.thorough

OLD = (
    "your build was made for demo 1.0, and other sources are installed now: python -m demo._gpuforge compile"
)
NEVER = "nothing was compiled yet: python -m demo._gpuforge compile"


def release(site: Path, version: str) -> None:
    """Install a release in a folder, in place of what is there; each has other toolchains, and so another recipe."""
    for old in (site / "demo", *site.glob("*.dist-info")):
        if old.exists():
            shutil.rmtree(old)
    install(site, toolchain("host", "g++", version=f">={version}"), toolchain("other", "g++"))
    info = site / f"demo-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: demo\nVersion: {version}\n")
    (info / "RECORD").write_text("demo/_gpuforge/__init__.py,,\n")


def reason(site: Path) -> str:
    """What `explain` says of the user's build."""
    lines = run(site, "explain").stdout.splitlines()
    return next(line for line in lines if "user build" in line).partition("user build")[2].strip()


def places(site: Path) -> list[Path]:
    return sorted((site.parent / "builds/user/demo").iterdir())


def age(place: Path, days: float) -> None:
    os.utime(place / "active.json", (time.time() - days * 86400,) * 2)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    release(tmp_path / "site", "1.0")
    return tmp_path / "site"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    source = tmp_path / os.fsdecode(b"\xff") / "own.cpp"  # a name that is no text
    source.parent.mkdir()
    source.write_text('extern "C" int more(void) { return 43; }\n')
    return source


def test_an_upgrade_is_told_and_compile_needs_no_options(site, tmp_path):
    (tmp_path / "own.cpp").write_text('extern "C" int more(void) { return 43; }\n')
    assert run(site, "compile", "--toolchain", "other", tmp_path / "own.cpp").returncode == 0
    release(site, "2.0")
    assert reason(site) == OLD
    printed, warning = loaded(site)
    assert (printed, f"RuntimeWarning: answers: {OLD}\n" in warning) == ("7\n", True)
    done = run(site, "compile")
    assert (done.returncode, done.stderr) == (0, "")
    assert "(toolchain other) with 1 source of yours, is used from now on" in done.stdout
    assert loaded(site) == ("42\n", "")


def test_a_release_with_the_same_sources_keeps_the_build(site):
    run(site, "compile")
    (site / "demo-1.0.dist-info").rename(site / "demo-1.1.dist-info")
    assert " made by g++" in reason(site)
    assert answer(site) == 42


def test_an_installation_elsewhere_is_another_matter(site, tmp_path):
    run(site, "compile")
    other = tmp_path / "elsewhere" / "site"
    release(other, "2.0")
    env = {"GPUFORGE_KERNEL_HOME": str(tmp_path / "builds")}
    assert NEVER in run(other, "explain", **env).stdout
    run(other, "compile", **env)
    assert (answer(site), answer(other, **env), len(places(site))) == (42, 42, 2)


def test_what_the_former_build_was_made_with_is_gone(site, tmp_path, own):
    source = tmp_path / "own.cpp"
    source.write_bytes(own.read_bytes())
    run(site, "compile", source)
    release(site, "2.0")
    source.unlink()
    done = run(site, "compile")
    assert (done.returncode, done.stderr) == (
        2,
        f"error: answers: your build for demo 1.0 was made with {source}, which is gone; name your sources, or drop "
        "that build with --remove\n",
    )
    assert run(site, "compile", "--remove").stdout.startswith(
        "answers: your build was removed; in use: the shipped"
    )
    assert reason(site) == NEVER
    assert run(site, "compile").returncode == 0


def test_a_toolchain_that_the_new_release_has_not_is_chosen_anew(site, tmp_path):
    version = "echo 'g++ (Debian 12.2.0-1) 12.2.0'; echo 'Copyright (C) Free Software Foundation, Inc.'"
    mine = program(tmp_path / "bin", "mine", f'[ "$1" = --version ] && {{ {version}; exit; }}\nexec g++ "$@"')
    assert run(site, "compile", f"--toolchain=other={mine}").returncode == 0
    mine.unlink()
    assert answer(site) == 42  # a build needs no compiler
    release(site, "2.0")
    assert "(toolchain host), is used from now on" in run(site, "compile").stdout


def test_sources_whose_names_are_no_text(site, own):
    done = run(site, "compile", os.fsdecode(os.fsencode(own)))
    assert (done.returncode, done.stderr) == (0, "")
    assert answer(site) == 42


def test_a_build_that_is_looked_up_is_in_use(site):
    run(site, "compile")
    (place,) = places(site)
    age(place, UNUSED_DAYS + 1)
    answer(site)
    assert time.time() - (place / "active.json").stat().st_mtime < 3600


@pytest.mark.parametrize("by", ["compile", "prune"])
def test_builds_of_releases_that_are_gone_are_removed_by_and_by(site, by):
    run(site, "compile")
    (old,) = places(site)
    release(site, "2.0")
    age(old, UNUSED_DAYS - 1)
    assert remove_leftovers(site.parent / "builds/user") == []
    age(old, UNUSED_DAYS + 1)
    done = run(site, *(["compile"] if by == "compile" else ["cache", "prune"]))
    assert not old.exists()
    assert (f"removed {old}: what it was compiled for is gone" in done.stdout) == (by == "prune")


def test_a_build_whose_package_is_there_is_kept_however_old(site):
    run(site, "compile")
    (place,) = places(site)
    age(place, 1000)
    assert remove_leftovers(site.parent / "builds/user") == []
    shutil.rmtree(site / "demo")  # pip uninstall
    assert remove_leftovers(site.parent / "builds/user") == [place]


def test_the_log_of_a_failure_goes_with_the_next_build(site, tmp_path):
    bad = tmp_path / "bad.cpp"
    bad.write_text("no\n")
    assert "all it printed: " in run(site, "compile", bad).stderr
    (place,) = places(site)
    assert (place / "answers.log").exists()
    run(site, "compile")
    assert not (place / "answers.log").exists()
