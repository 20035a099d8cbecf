"""A wheel judged together with what it must live beside."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest
from audit_samples import elf, wheel

from gpuforge.actions.audit import is_for, resolve
from gpuforge.audit import audit
from gpuforge.audit.beside import Neighbour, judged
from gpuforge.audit.judge import Ignore
from gpuforge.wheel.package_index import reason

CU13 = "$ORIGIN/../nvidia/cu13/lib"
CUDART = "demo.libs/libcudart-0a1b2c3d.so.13.0.96"
OWN = {
    "demo/ext.so": elf(needed=["libcudart-0a1b2c3d.so.13.0.96"], runpath="$ORIGIN/../demo.libs"),
    CUDART: elf(soname="libcudart-0a1b2c3d.so.13.0.96"),
}
OTHER = {"other/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)}


def neighbour(folder: Path) -> Neighbour:
    name = "other-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    (folder / "other").mkdir()
    path = wheel(folder / "other", OTHER, name=name, requires=["nvidia-cuda-runtime"])
    return Neighbour("other[cuda13]", ("other ==1.0", "nvidia-cuda-runtime ==13.0.96"), (path,))


def test_what_both_bring_into_one_process_is_found_and_of_neither_alone(tmp_path: Path) -> None:
    own = wheel(tmp_path, OWN)
    alone = audit([own])
    report = judged(alone, [own], [neighbour(tmp_path)], [])
    new = [f for f in report.findings if f not in alone.findings]
    assert [(f.code, f.message.partition(": ")[0]) for f in new] == [("GF102", "beside other[cuda13]")]
    assert {f.wheel for f in new} == {own.name}
    assert "beside" not in {p.topic for p in report.wheels[0].proofs}


def test_an_accepted_finding_keeps_its_reason(tmp_path: Path) -> None:
    own = wheel(tmp_path, OWN)
    report = judged(audit([own]), [own], [neighbour(tmp_path)], [Ignore("GF102", "they exchange nothing")])
    assert "GF102" not in {f.code for f in report.findings}
    assert [i.reason for i in report.wheels[0].ignored] == ["they exchange nothing"]
    assert "beside" not in {p.topic for p in report.wheels[0].proofs}  # what was accepted was found


@pytest.mark.parametrize(
    ("requires", "chosen", "read", "fits"),
    [
        ("nvidia-cuda-runtime", "nvidia-cuda-runtime ==13.0.96", True, True),
        ("nvidia-cuda-runtime>=13.1", "nvidia-cuda-runtime ==13.0.96", True, False),
        ("nvidia-cuda-runtime", "nvidia-cublas ==13.0.0.19", True, False),
        ("nvidia-cuda-runtime", "nvidia-cuda-runtime ==13.0.96", False, False),
    ],
)
def test_packages_that_were_not_read_or_do_not_meet_the_requirements_do_not_fit(
    tmp_path: Path, requires: str, chosen: str, read: bool, fits: bool
) -> None:
    files = {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)}
    own = wheel(tmp_path, files, requires=[requires])
    other = neighbour(tmp_path)._replace(packages=("other ==1.0", chosen))
    report = judged(audit([own]), [own], [other if read else other._replace(wheels=())], [])
    assert ("beside" in {p.topic for p in report.wheels[0].proofs}) == fits


def test_two_that_share_pips_cudart_fit(tmp_path: Path) -> None:
    files = {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)}
    own = wheel(tmp_path, files, requires=["nvidia-cuda-runtime"])
    alone = audit([own])
    report = judged(alone, [own], [neighbour(tmp_path)], [])
    assert report.findings == alone.findings
    (proof,) = (p for p in report.wheels[0].proofs if p.topic == "beside")
    assert proof.text == "other[cuda13]: no conflict with 1 package in one process"


@pytest.mark.parametrize(
    ("requirement", "majors"),
    [
        ("jax[cuda12]", [12]),
        ("jax[cuda13]>=0.10", [13]),
        ("cupy-cuda12x", [12]),
        ("nvidia-cublas-cu12", [12]),
        ("torch>=2.15", [12, 13]),
        ("cuda-toolkit[curand]==12.9.1", [12, 13]),
    ],
)
def test_what_is_for_another_major_is_left_out(requirement: str, majors: list[int]) -> None:
    assert [major for major in (12, 13) if is_for(requirement, major)] == majors


def test_uvs_reason_is_one_line_without_its_hints() -> None:
    said = (
        "error: No solution found when resolving dependencies\n  cause: Because a depends on b<2 and\n"
        "         you require b>=2, we can conclude that\n    your requirements are unsatisfiable.\n"
        "hint: try --prerelease=allow\n"
    )
    assert reason(said) == (
        ": Because a depends on b<2 and you require b>=2, we can conclude that your requirements are unsatisfiable."
    )
    assert reason("cause: " + "word " * 400).endswith(" …")
    assert reason("") == ""


@pytest.mark.thorough
def test_a_names_versions_are_those_of_all_indexes_as_pip_sees_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index, version in (("main", "1.0"), ("more", "2.0")):
        page = tmp_path / index / "neighbour"
        page.mkdir(parents=True)
        name = f"neighbour-{version}-py3-none-any.whl"
        with zipfile.ZipFile(page / name, "w") as archive:
            folder = f"neighbour-{version}.dist-info"
            archive.writestr(
                f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: neighbour\nVersion: {version}\n"
            )
            archive.writestr(
                f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{folder}/RECORD", "")
        (page / "index.html").write_text(f'<a href="{name}">{name}</a>')
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "main").as_uri())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", (tmp_path / "more").as_uri())
    (tmp_path / "wanted").write_text("neighbour\n")
    (found,) = resolve(tmp_path / "wanted", Path(sys.executable), "demo", "neighbour")
    assert str(found) == "neighbour==2.0"
    (tmp_path / "wanted").write_text("neighbour<2\n")
    (found,) = resolve(tmp_path / "wanted", Path(sys.executable), "demo", "neighbour")
    assert str(found) == "neighbour==1.0"
