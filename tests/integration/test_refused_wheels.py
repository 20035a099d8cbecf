"""pip and uv do with the archives of the unit tests what `refusals.toml` says: from a file, and from an index."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from archive_samples import wheel_file
from packaging.version import Version
from refused_samples import SAMPLES, TWINS
from toolkit_samples import serving

from gpuforge.wheel.checks import kind

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        Version(version("uv")) < Version("0.13.9") or Version(version("pip")) < Version("26.3"),
        reason="the table is about pip 26.3 and uv 0.13.9",
    ),
]
ANYWHERE = {
    name: sample
    for name, sample in {**SAMPLES, **TWINS}.items()
    if sample.kind not in {"platform tag", "variant"}
}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "simple" / "demo").mkdir(parents=True)
    with serving(tmp_path) as server:
        server.ranges = False
        yield f"{server.url}/simple"


def fails(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize("sample", ANYWHERE.values(), ids=ANYWHERE)
def test_installers_do_what_the_table_says(tmp_path, index, sample):
    wheel = wheel_file(tmp_path / "simple" / "demo", sample.data, sample.name)
    link = f'<a href="{sample.name.replace("+", "%2B")}">{sample.name}</a>'
    (wheel.parent / "index.html").write_text(link)
    pip = [sys.executable, "-m", "pip", "--isolated", "--no-cache-dir", "install", "--no-deps", "--no-index"]
    uv = [
        str(Path(sys.executable).with_name("uv")),
        "pip",
        "install",
        "--no-config",
        "--no-cache",
        "--no-deps",
    ]
    python = ["--python", sys.executable]
    demo = f"demo=={sample.name.split('-')[1]}"
    by, where = (kind(sample.kind).by, kind(sample.kind).uv) if sample.kind else ((), "")
    assert fails(*pip, "--target", str(tmp_path / "pip"), str(wheel)) == ("pip" in by)
    from_index = fails(*uv, *python, "--target", str(tmp_path / "uv"), "--default-index", index, demo)
    assert from_index == ("uv" in by and where != "file")
    if where != "index":
        from_file = fails(*uv, *python, "--target", str(tmp_path / "file"), str(wheel))
        assert from_file == ("uv" in by)
