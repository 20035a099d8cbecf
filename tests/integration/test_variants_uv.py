"""Variant wheels and the real uv: each machine gets the wheel that runs on it, or the plain one.

A machine is made up by the variables with which NVIDIA's provider, of which uv has a copy, is told what there is.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version
from toolkit_samples import Server, serving

from gpuforge.actions.wheel import VariantWheel, variant_gpus
from gpuforge.cli.dist import put_index
from gpuforge.cuda.targets import targets
from gpuforge.package import variants
from gpuforge.plan.action import Workdir
from gpuforge.wheel import unpacked

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(
        Version(version("uv")) < Version("0.13.9"), reason="uv installs variants from 0.13.9 on"
    ),
]
NAME = "demo-1.0-py3-none-any"
UV = Path(sys.executable).with_name("uv")
INDEX = "demo-1.0-variants.json"
CELLS = {"12.4": (["70", "80", "90a"], "90"), "13.0": (["75", "80", "90", "100f", "120"], "120")}
# driver, GPU -> the label of the wheel that is to be installed
MACHINES = {
    ("13.0", "9.0"): "cu13.0",
    ("13.0", "8.6"): "cu13.0",  # machine code of 8.0
    ("13.0", "10.3"): "cu13.0",  # machine code of the family of 10.0
    ("13.0", "12.0"): "cu13.0",
    ("13.0", "12.1"): "cu13.0",
    ("13.0", "11.0"): "cu12.4",  # nothing of CUDA 13.0 runs there; the PTX of 9.0 does
    ("13.0", "7.0"): "cu12.4",  # which CUDA 13 no longer compiles for
    ("13.1", "8.0"): "cu13.0",
    ("12.9", "9.0"): "cu12.4",
    ("12.4", "9.0"): "cu12.4",  # the bound is inclusive
    ("12.4", "8.6"): "cu12.4",
    ("12.4", "12.0"): "cu12.4",  # by PTX
    ("12.3", "9.0"): "plain",
    ("13.0", "6.1"): "plain",
    ("", ""): "plain",  # no GPU at all
}


def plain(folder: Path, label: str) -> Path:
    tree = folder / "tree"
    info = tree / "demo-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
    )
    (tree / "demo.py").write_text(label)
    unpacked.write(tree, folder / f"{NAME}.whl")
    return folder / f"{NAME}.whl"


def release(folder: Path) -> Path:
    """Make the release: two variants, the plain wheel, and the index of the variants."""
    dist = folder / "simple" / "demo"
    dist.mkdir(parents=True)
    for cuda, (archs, ptx) in CELLS.items():
        wheel = plain(folder / cuda, f"cu{cuda}")
        VariantWheel(wheel=wheel, cuda=cuda, gpus=variant_gpus(targets(archs, ptx))).run(
            Workdir(folder, folder / cuda)
        )
        (made,) = (folder / cuda / "wheel").iterdir()
        made.rename(dist / made.name)
    plain(folder / "plain", "plain").rename(dist / f"{NAME}.whl")
    put_index(dist, [path.name for path in dist.iterdir()])
    links = "".join(f'<a href="{path.name}">{path.name}</a>\n' for path in sorted(dist.iterdir()))
    (dist / "index.html").write_text(links)
    return dist


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    return release(tmp_path)


@pytest.fixture
def index(dist: Path) -> Iterator[Server]:
    with serving(dist.parents[1]) as server:
        server.ranges = False
        yield server


@pytest.fixture
def install(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(machine: tuple[str, str], *source: str) -> subprocess.CompletedProcess[str]:
        driver, gpu = machine
        forced = {"CUDA_DRIVER_VERSION": driver, "SM_ARCH": gpu}
        env = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
        env |= {f"NV_VARIANT_PROVIDER_FORCE_{name}": value for name, value in forced.items() if value}
        argv = [UV, "pip", "install", "--preview-features=wheel-variants", "--no-cache", "--no-config"]
        argv += [f"--python={sys.executable}", f"--target={tmp_path / 'site'}", "--reinstall"]
        argv += [*source, "demo"]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)

    return run


def test_each_machine_gets_its_wheel_from_an_index_and_no_provider_is_fetched(index, install, tmp_path):
    got = {}
    for machine in MACHINES:
        done = install(machine, f"--default-index={index.url}/simple")
        assert done.returncode == 0, done.stderr
        got[machine] = (tmp_path / "site" / "demo.py").read_text()
    assert got == MACHINES
    assert {path.split("/")[2] for path in index.requests} == {"demo"}


@pytest.mark.parametrize("machine", [("13.0", "9.0"), ("12.4", "8.6"), ("12.3", "9.0")])
def test_or_from_the_folder_that_a_build_has_filled(dist, install, tmp_path, machine):
    done = install(machine, "--no-index", f"--find-links={dist}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "demo.py").read_text() == MACHINES[machine]


def test_without_a_plain_wheel_a_machine_that_none_fits_gets_nothing(dist, install):
    (dist / f"{NAME}.whl").unlink()
    done = install(("12.3", "9.0"), "--no-index", f"--find-links={dist}")
    assert done.returncode != 0
    assert "has only unsupported wheel variants" in done.stderr


@pytest.mark.parametrize("change", ["no index", "no providers"])
def test_without_the_index_or_its_providers_no_variant_is_chosen(dist, install, tmp_path, change):
    file = dist / INDEX
    content = json.loads(file.read_text())
    del content["providers"]
    file.unlink()
    if change == "no providers":
        file.write_text(json.dumps(content))
    done = install(("13.0", "9.0"), "--no-index", f"--find-links={dist}")
    site = tmp_path / "site" / "demo.py"
    assert not site.is_file() or site.read_text() == "plain"
    if change == "no providers":
        assert "Variant providers must match the namespaces" in done.stderr


def test_uv_has_no_provider_for_releases_of_torch_yet_and_takes_the_plain_wheel(dist, install, tmp_path):
    for path in dist.glob("*-cu*.whl"):
        path.unlink()
    for torch in ("2.10", "2.11"):
        content = variants.describe("13.0", ["90_real"], [("torch", torch)])
        variants.make(plain(tmp_path / torch, torch), dist, content, epoch=0)
    put_index(dist, [path.name for path in dist.iterdir()])
    done = install(("13.0", "9.0"), "--no-index", f"--find-links={dist}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "demo.py").read_text() == "plain"
