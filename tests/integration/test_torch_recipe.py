"""`recipes/torch-extension`: one wheel for several releases of torch, and one for each, with torch's own builder.

The wheels of torch and CUDA take 15 GB: `GPUFORGE_TORCH=1` runs these tests, and builds what docs/axes.md and
docs/linkage.md show. With `GPUFORGE_CACHE_DIR` set, what one
run fetched serves the next.
"""

import json
import os
import zipfile
from pathlib import Path

import pytest
from builds import RECIPES, build, copy_recipe, edit, gpuforge

RECIPE = RECIPES / "torch-extension"
pytestmark = [pytest.mark.toolkit, pytest.mark.xdist_group("torch")]
large = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.skipif("GPUFORGE_TORCH" not in os.environ, reason="takes 15 GB: set GPUFORGE_TORCH=1"),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for this module, so that torch is fetched once."""
    kept = os.environ.get("GPUFORGE_CACHE_DIR")
    return Path(kept) if kept else tmp_path_factory.mktemp("cache")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return copy_recipe("torch-extension", tmp_path)


def requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]


def test_the_cells_of_both_manifests(cache):
    one = json.loads(gpuforge("matrix", RECIPE, "--format", "json", cache=cache).stdout)
    assert [cell["cell"] for cell in one["cells"]] == ["cp311-abi3-cu12.4-x86_64", "cp311-abi3-cu13.0-x86_64"]
    each = json.loads(gpuforge("matrix", RECIPE / "per-torch.toml", "--format", "json", cache=cache).stdout)
    assert [(cell["cell"], cell["axes"]) for cell in each["cells"]] == [
        ("cp311-abi3-cu13.0-torch2.11-x86_64", {"torch": "2.11"}),
        ("cp311-abi3-cu13.0-torch2.15-x86_64", {"torch": "2.15"}),
    ]


def test_a_torch_of_another_cuda_major_is_refused(recipe, cache):
    edit(recipe, ('axes = { torch = ["2.10"] }', 'axes = { torch = ["2.11"] }'))
    done = gpuforge("build", recipe, "--dry-run", cache=cache)
    assert done.returncode == 2
    assert "the wheels of torch==2.11.* on PyPI are for CUDA 13, and [cuda.12] is 12.4" in done.stderr
    assert 'hint: write axes = { torch = ["2.10"] } below [cuda.12]' in done.stderr


class TestLarge:
    """Tests that fetch torch."""

    pytestmark = large

    @pytest.mark.parametrize(
        ("cuda", "required", "releases"),
        [("12", "torch>=2.10,<2.11", ["2.10"]), ("13", "torch>=2.11,<2.16", ["2.11", "2.15"])],
    )
    def test_one_wheel_serves_the_releases_of_a_cuda_major(
        self, cuda, required, releases, recipe, tmp_path, cache
    ):
        result = build(recipe, "-o", tmp_path / "dist", "--cuda", cuda, "--archs", "90", cache=cache)
        (wheel,) = result["wheels"]
        assert {finding["severity"] for finding in wheel["findings"]} <= {"info"}
        path = Path(wheel["path"])
        assert path.name.startswith(f"scaled_add_cu{cuda}-0.1.0+try.sm90-cp311-abi3-")
        assert required in [line.replace(" ", "") for line in requirements(path)]
        found = [(test["axes"]["torch"], test["state"], test["counts"]["passed"]) for test in result["tests"]]
        assert found == [(release, "passed", 9) for release in releases]

    def test_the_unstable_interface_in_a_wheel_for_several_is_an_error(self, recipe, tmp_path, cache):
        edit(recipe, ('{ SCALED_ADD_TORCH = "{torch}" }', '{ SCALED_ADD_ABI = "aten" }'))
        done = gpuforge(
            "build", recipe, "--cuda", "13", "--archs", "90", "--json", "-o", tmp_path / "dist", cache=cache
        )
        assert done.returncode == 1
        assert "GF216" in done.stderr
        tests = {test["axes"]["torch"]: test["state"] for test in json.loads(done.stdout)["tests"]}
        assert tests == {
            "2.11": "passed",
            "2.15": "failed",
        }  # what the audit says is true: it does not load there
        assert not list((tmp_path / "dist").glob("*.whl"))

    def test_a_wheel_for_each_release(self, recipe, tmp_path, cache):
        manifest = recipe / "per-torch.toml"
        result = build(manifest, "-o", tmp_path / "dist", "--axis", "torch=2.11", cache=cache)
        (wheel,) = result["wheels"]
        assert {finding["severity"] for finding in wheel["findings"]} <= {"info"}
        assert Path(wheel["path"]).name.startswith("scaled_add-0.1.0+cu13.torch2.11-cp311-abi3-")
        assert "torch>=2.11,<2.12" in [line.replace(" ", "") for line in requirements(Path(wheel["path"]))]
        (test,) = result["tests"]
        assert (test["axes"], test["state"], test["counts"]["passed"]) == ({"torch": "2.11"}, "passed", 9)
