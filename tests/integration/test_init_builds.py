"""What `gpuforge init` writes is built, proved and tested, with nothing changed by hand."""

import json
import shutil
from pathlib import Path

import builds
import pytest

from gpuforge.manifest.load import load

pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.xdist_group("recipes")]


def gpuforge(*arguments: str, cwd: Path) -> str:
    done = builds.gpuforge(*arguments, cache=cwd / "cache", cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_folder_is_built_from_the_manifest_that_was_guessed(tmp_path):
    folder = shutil.copytree(builds.DEVICES, tmp_path / "devices")
    (folder / "gpuforge.toml").unlink()
    assert "[cuda.13] archs = " in gpuforge("init", "devices", cwd=tmp_path)
    result = gpuforge(
        "build", "devices", "--cuda", "13", "--python", builds.PYTHON, "--archs", "90", "--json", cwd=tmp_path
    )
    (wheel,) = json.loads(result)["wheels"]
    assert [each["code"] for each in wheel["findings"]] == ["GF712"]  # the version of a quick try


def test_a_project_of_the_index_is_planned(tmp_path):
    said = gpuforge("init", "cufinufft==2.5.1", cwd=tmp_path)
    assert "py3-cu13.0-x86_64" in said
    digest = "f12849b91674d049543cb963c94c0ee60e8e34e1bbad5e32fefe12961b0621b4"
    assert load(tmp_path).manifest.package.source.model_dump()["sha256"] == digest
    gpuforge("build", "--dry-run", "--cuda", "13", cwd=tmp_path)
