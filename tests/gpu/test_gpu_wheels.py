"""Kernels in wheels of their own on a GPU: saxpy's, laid out as such wheels lie, are found, chosen and launched."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gpu]
PROGRAM = """\
import numpy
from split._gpuforge import KernelSet
kernels = KernelSet.shipped("default-kernels")
kernel = kernels.function("saxpy")
x, y = numpy.arange(1000, dtype=numpy.float32), numpy.ones(1000, dtype=numpy.float32)
with kernel.upload(x) as on_gpu, kernel.upload(y) as result:
    kernel.launch(4, 256, numpy.uint64(1000), numpy.float32(2), on_gpu, result)
    result.read(y)
assert (y == 2 * x + 1).all()
print(kernels.candidates("saxpy")[0].label)
"""


def lay_out(site: Path, versions: dict[int, str]) -> None:
    """Make a package `split` 1.0 of the installed saxpy, its kernels in wheels with these versions by CUDA major."""
    found = importlib.util.find_spec("saxpy")
    if found is None or found.origin is None:
        pytest.skip("the wheel of recipes/saxpy is not installed")
    home = Path(found.origin).parent / "_gpuforge"
    shutil.copytree(home, site / "split" / "_gpuforge", ignore=shutil.ignore_patterns("kernels", "sources"))
    sets = [{"name": "default-kernels", "kind": "module", "abi": "1"}]
    wheels = [
        {"distribution": f"split-kernels-cu{n}", "folder": f"split_kernels_cu{n}", "extra": f"cuda{n}"}
        for n in sorted(versions, reverse=True)
    ]
    listing = {"schema": 1, "distribution": "split", "version": "1.0", "wheels": wheels, "sets": sets}
    (site / "split" / "_gpuforge" / "wheels.json").write_text(json.dumps(listing))
    for cuda, version in versions.items():
        own = site / f"split_kernels_cu{cuda}" / "_gpuforge"
        shutil.copytree(home / "kernels", own / "kernels")
        about = {"schema": 1, "distribution": f"split-kernels-cu{cuda}", "version": version, "sets": sets}
        (own / "wheel.json").write_text(json.dumps(about))


def launched(site: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{PROGRAM}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_kernels_beside_the_package_are_launched(tmp_path):
    lay_out(tmp_path, {13: "1.0", 12: "1.0"})
    assert launched(tmp_path).endswith(" of split-kernels-cu13")


def test_those_of_another_version_are_not(tmp_path):
    lay_out(tmp_path, {13: "1.1", 12: "1.0"})
    assert launched(tmp_path).endswith(" of split-kernels-cu12")
