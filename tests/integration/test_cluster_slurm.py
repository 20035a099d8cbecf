"""The Slurm cluster of docs/clusters.md, run as it stands there: real slurmctld, slurmd and munge, on this machine."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm_service
from builds import PYTHON, RECIPES, build

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.network,
    pytest.mark.toolkit,
    pytest.mark.slow,
    pytest.mark.skipif(bool(slurm_service.missing()), reason=slurm_service.missing() or "Slurm is here"),
]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Slurm with two CPUs, and a folder that its jobs share."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
    monkeypatch.setenv("GPUFORGE_STORE", str(tmp_path / "shared"))
    monkeypatch.setenv("GPUFORGE_WORK", str(tmp_path / "work"))
    with slurm_service.slurm(tmp_path / "slurm", cpus=2) as configuration:
        monkeypatch.setenv("SLURM_CONF", str(configuration))
        yield tmp_path


def program(folder: Path) -> Path:
    """The program of the page, with this test's folder and two jobs."""
    text = (ROOT / "docs" / "clusters.md").read_text().partition("\n## Slurm\n")[2]
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found
    code = found[1]
    for old, new in (
        ("/tmp/$USER-gpuforge", str(folder / "workers")),  # noqa: S108
        ("jobs=10", "jobs=2"),
        ("job_cpu=4", "job_cpu=1"),
        ('"8 GB"', '"2 GB"'),
    ):
        assert old in code
        code = code.replace(old, new)
    place = folder / "cluster.py"
    place.write_text(code)
    return place


def wheels(folder: Path, *options: str) -> list[str]:
    """Build recipes/saxpy with an empty cache; return the digests of its wheels."""
    options = ("--cuda", 13, "--archs", 90, "--python", PYTHON, "-o", folder / "dist", *options)
    result = build(RECIPES / "saxpy", *options, cache=folder / "cache")
    return [each["sha256"] for each in result["wheels"]]


def jobs() -> list[str]:
    done = subprocess.run(["squeue", "-h", "-o", "%T"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_workers_are_slurm_jobs_and_the_wheel_is_the_same(site):
    cluster = subprocess.Popen(
        [sys.executable, str(program(site))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=site,
    )
    assert cluster.stdout
    try:
        address = cluster.stdout.readline().strip()
        on_slurm = wheels(site / "client", "--runner", "dask", "--scheduler", address)
        assert jobs() == ["RUNNING", "RUNNING"]
    finally:
        cluster.communicate("\n", timeout=60)
    shutil.rmtree(site / "shared")
    assert wheels(site / "here") == on_slurm
