"""What a wheel says of its build: the record and the bill of materials, the same bytes every time."""

import json
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from golden import hold

from gpuforge.package import records

AUDITWHEEL = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.4",
    "version": 1,
    "metadata": {"component": {"type": "library", "bom-ref": "me", "name": "demo", "version": "1.0"}},
    "components": [
        {"type": "library", "bom-ref": "me", "name": "demo", "version": "1.0"},
        {
            "type": "library",
            "bom-ref": "pkg:deb/debian/libgomp1@12.2.0-14#0a1b",
            "name": "libgomp1",
            "version": "12.2.0-14",
            "purl": "pkg:deb/debian/libgomp1@12.2.0-14",
        },
    ],
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An unpacked wheel with two grafted libraries, auditwheel's bill and one of the project's own."""
    root = tmp_path / "tree"
    info = root / "demo-1.0.dist-info"
    (info / "sboms").mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: Demo\nVersion: 1.0\nRequires-Dist: nvidia-cufft>=12.0,<13\n"
    )
    (info / "sboms" / records.AUDITWHEEL).write_text(json.dumps(AUDITWHEEL))
    (info / "sboms" / "own.cdx.json").write_text("{}")
    (root / "demo.libs").mkdir()
    (root / "demo.libs" / "libcudart-0a1b2c3d.so.13").write_bytes(b"cudart")
    (root / "demo.libs" / "libgomp-0a1b2c3d.so.1").write_bytes(b"gomp")
    return root


def bill(tree: Path) -> dict[str, Any]:
    file = records.write_bill(
        tree,
        declared={"nvidia-cufft": "12.0.0.61", "nvidia-nccl-cu13": None},
        pins={"nvidia-cuda-runtime": "13.0.96"},
        cuda="13.0",
        epoch=None,
    )
    assert file == tree / "demo-1.0.dist-info" / "sboms" / "gpuforge.cdx.json"
    text = file.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    found: dict[str, Any] = json.loads(text)
    return found


def test_grafted_libraries_and_required_distributions_are_in_one_valid_bill(tree):
    found = bill(tree)
    parts = {part["bom-ref"]: part for part in found["components"]}
    assert set(parts) == {
        "demo.libs/libcudart-0a1b2c3d.so.13",
        "demo.libs/libgomp-0a1b2c3d.so.1",
        "pkg:deb/debian/libgomp1@12.2.0-14#0a1b",
        "pkg:pypi/nvidia-cufft",
        "pkg:pypi/nvidia-nccl-cu13",
    }
    cudart = parts["demo.libs/libcudart-0a1b2c3d.so.13"]
    assert (cudart["name"], cudart["purl"]) == ("libcudart.so.13", "pkg:pypi/nvidia-cuda-runtime@13.0.96")
    assert cudart["hashes"][0]["alg"] == "SHA-256"
    cufft = {p["name"]: p["value"] for p in parts["pkg:pypi/nvidia-cufft"]["properties"]}
    assert cufft == {
        "gpuforge:provision": "declared",
        "gpuforge:requires": "nvidia-cufft<13,>=12.0",
        "gpuforge:linked-with": "12.0.0.61",
    }
    depends = {row["ref"]: row.get("dependsOn") for row in found["dependencies"]}
    assert depends["pkg:pypi/demo@1.0"] == sorted(parts)
    names = {path.name for path in (tree / "demo-1.0.dist-info" / "sboms").iterdir()}
    assert names == {"gpuforge.cdx.json", "own.cdx.json"}  # auditwheel's is merged, the project's own stays


def test_the_same_wheel_has_the_same_bill(tree, tmp_path):
    first = bill(tree)
    (tree / "demo-1.0.dist-info" / "sboms" / records.AUDITWHEEL).write_text(json.dumps(AUDITWHEEL))
    moved = tree.rename(tmp_path / "elsewhere")
    assert bill(moved) == first
    assert first["metadata"]["timestamp"].startswith("1980-01-01T00:00:00")
    (moved / "demo.libs" / "libgomp-0a1b2c3d.so.1").unlink()
    assert bill(moved)["serialNumber"] != first["serialNumber"]


GXX = {"family": "g++", "version": "12.2.0"}
OF_HOST = {
    "gpuforge": "0.1",
    "machine": "x86_64",
    "manifest": {"sha256": "5" * 64},
    "toolchains": {"host": GXX},
}
OF_KERNELS = {
    **OF_HOST,
    "toolchains": {"device": {"family": "nvcc", "version": "13.0.88", "host": GXX}},
    "linkage": "pip",
    "toolkit": {"version": "13.0", "provider": "pypi", "packages": {"nvidia-cuda-runtime": "13.0.96"}},
    "archs": ["80", "90a"],
    "ptx": ["120"],
    "narrowed": None,
}
OF_CELL = {
    **OF_KERNELS,
    "toolchains": {"host": GXX, **OF_KERNELS["toolchains"]},  # type: ignore[dict-item]
    "narrowed": {"archs": ["80", "90a", "120"], "ptx": []},
    "axes": {"built": {"torch": "2.11"}, "serves": [{"torch": "2.11"}, {"torch": "2.15"}]},
    "cell": "cp311-cu13.0-torch2.11-x86_64",
    "naming": "suffix",
}


@pytest.mark.parametrize(("name", "record"), [("host", OF_HOST), ("kernels", OF_KERNELS), ("cell", OF_CELL)])
def test_the_file_of_a_record(name, record, tmp_path):
    (tmp_path / "demo-1.0.dist-info").mkdir()
    records.write_record(tmp_path, record, {"requirements": {}, "floors": {}} if name == "cell" else {})
    found = (tmp_path / "demo-1.0.dist-info" / "gpuforge.json").read_text()
    hold(f"build_record/{name}.json", found)
