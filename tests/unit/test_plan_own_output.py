"""The file that a build's own output goes to is no source of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from plan_samples import PACKAGE

PROGRAM = """
import sys
from pathlib import Path
from gpuforge.digest import Contents
from gpuforge.manifest.load import load
from gpuforge.plan.source_files import host_tree

file = load(Path(sys.argv[1]))
print("done", file=sys.stdout, flush=True)
sys.stderr.write(" ".join(host_tree(file, file.folder, Contents()).members or ()))
"""
MANIFEST = (
    PACKAGE
    + """\
[toolchains.host]
compiler = "g++"
[cuda.13]
toolkit = "13.0"
archs = ["80"]
"""
)


@pytest.mark.thorough
def test_a_log_in_the_projects_folder_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "gpuforge.toml").write_text(MANIFEST)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "other.log").write_text("")
    with (tmp_path / "build.log").open("w") as log:
        program = [sys.executable, "-c", PROGRAM, str(tmp_path)]
        done = subprocess.run(program, stdout=log, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "other.log pyproject.toml"
