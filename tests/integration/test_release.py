"""The wheel and the sdist of gpuforge itself can be uploaded, installed and used."""

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from gpuforge import __version__

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def run(*command: str | Path, **env: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was made from it."""
    folder = tmp_path_factory.mktemp("release")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ".")
    return folder


def test_the_files_pass_the_checks_of_an_upload(dist):
    assert sorted(path.name for path in dist.iterdir()) == [
        f"gpuforge-{__version__}-py3-none-any.whl",
        f"gpuforge-{__version__}.tar.gz",
    ]
    programs = Path(sys.executable).parent
    run(programs / "twine", "check", "--strict", *dist.iterdir())
    run(programs / "check-wheel-contents", *dist.glob("*.whl"))
    accepted = "GF306:gpuforge/containers/definitions/*=these scripts run in the images that they make"
    audited = run(programs / "gpuforge", "audit", dist, "--fail-on", "warning", "--ignore", accepted)
    assert "clean: only accepted findings" in audited


def test_the_wheel_has_all_that_its_commands_read(dist, tmp_path):
    """Nothing of the tree is imported: it runs from the unpacked wheel, in another folder."""
    (wheel,) = dist.glob("*.whl")
    run(sys.executable, "-m", "zipfile", "-e", wheel, tmp_path)

    def gpuforge(*words: str) -> str:
        code = "import os, sys; os.chdir(sys.argv.pop(1)); from gpuforge.cli.main import main; main()"
        return run(sys.executable, "-c", code, tmp_path, *words, PYTHONPATH=str(tmp_path), PYTHONSAFEPATH="1")

    assert __version__ in gpuforge("--version")
    assert "bookworm" in gpuforge("images", "list")
    assert '"$schema"' in gpuforge("schema")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    gpuforge("init", "--ci", "github")
    assert (tmp_path / ".github" / "workflows" / "wheels.yml").is_file()


def test_the_sdist_has_the_tests_and_what_they_read(dist):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = run("git", "ls-files").splitlines()
    left_out = {name for name in tracked if name not in names}
    assert {name for name in left_out if not name.startswith(".")} == set()


def test_the_changelog_begins_with_this_version():
    (first, *_) = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first == __version__
