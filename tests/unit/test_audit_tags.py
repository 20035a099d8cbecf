"""A wheel's file name and its metadata are of one release and one platform."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from audit_samples import elf, said, wheel

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines


def _renamed(path: Path, info: str | None = None, text: tuple[str, str] = ("", "")) -> Path:
    """Rewrite a wheel with another name for its .dist-info folder and other words in METADATA."""
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in held.items():
            changed = data.replace(*(t.encode() for t in text)) if text[0] else data
            archive.writestr(name.replace("demo-1.0.dist-info", info or "demo-1.0.dist-info"), changed)
    return path


@pytest.mark.parametrize(
    ("info", "text", "problems"),
    [
        ("other-1.0.dist-info", ("", ""), ["the name is 'other' in the .dist-info folder and 'demo' in the file name"]),
        ("demo-1.1.dist-info", ("", ""), ["the version is 1.1 in the .dist-info folder and 1.0 in the file name"]),
        (None, ("Name: demo", "Name: other"), ["the name is 'other' in METADATA and 'demo' in the file name"]),
        (None, ("Version: 1.0\nReq", "Version: 2.0\nReq"), ["the version is 2.0 in METADATA and 1.0 in the file name"]),
        (None, ("Name: demo\n", ""), ["METADATA gives no name"]),
        (None, ("Name: demo", "Name: DEMO"), []),
        (None, ("Version: 1.0\nReq", "Version: 1.0.0\nReq"), []),
        ("Demo-1.dist-info", ("", ""), []),
    ],
)  # fmt: skip
def test_metadata_and_file_name_are_of_one_release(
    tmp_path: Path, info: str | None, text: tuple[str, str], problems: list[str]
) -> None:
    path = _renamed(wheel(tmp_path, {"demo/ext.so": elf()}, requires=["numpy"]), info, text)
    found = said(audit([path]), "GF704")
    assert [line for f in found for line in lines(f)] == problems


def test_a_tag_that_is_none_is_no_traceback(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"demo/ext.so": elf()}, tags=["py3-none-any", "10-none-any", "cp311"])
    (found,) = said(audit([path]), "GF502")
    assert "10-none-any: in WHEEL only" in lines(found)


@pytest.mark.parametrize(
    ("platform", "differs"),
    [("manylinux2014_x86_64", False), ("manylinux_2_17_x86_64", False), ("manylinux_2_28_x86_64", True)],
)
def test_both_names_of_a_platform_are_one_tag(tmp_path: Path, platform: str, differs: bool) -> None:
    tags = [f"py3-none-{platform}", "py3-none-manylinux_2_17_x86_64"]
    path = wheel(
        tmp_path, {"demo/ext.so": elf()}, name="demo-1.0-py3-none-manylinux2014_x86_64.whl", tags=tags
    )
    assert bool(said(audit([path]), "GF502")) == differs
