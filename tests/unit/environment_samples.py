"""What several tests of the audit share: environment_samples."""

import zipfile
from pathlib import Path

from audit_samples import wheel

TAGS = "cp311-cp311-manylinux_2_17_x86_64"


def one(folder: Path, project: str, files: dict[str, bytes], *requires: str) -> Path:
    return wheel(folder, files, name=f"{project}-{TAGS}.whl", requires=requires)


def environment(folder: Path, *wheels: Path) -> Path:
    """Install wheels as pip does, into an environment of Python 3.11 whose interpreter leaves a trace when it runs."""
    site = folder / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    for name in ("python", "python3", "python3.11", "pip"):
        (folder / "bin" / name).write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
        (folder / "bin" / name).chmod(0o755)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
    (site / "sitecustomize.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")
    (site / "start.pth").write_text(f"import sys; open({str(folder / 'ran')!r}, 'w')\n")
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(site)
        project, version, *_ = path.name.split("-")
        (site / f"{project}-{version}.dist-info" / "INSTALLER").write_text("pip\n")
    return folder
