"""Variant wheels: names, variant.json by the rules of PEP 825 and PEP 850, and the index of a release."""

import json
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from variantlib.constants import VALIDATION_WHEEL_NAME_REGEX
from variantlib.errors import ValidationError
from variantlib.models.variant import VariantProperty
from variantlib.resolver.lib import sort_and_filter_supported_variants
from variantlib.variant_dist_info import VariantDistInfo
from variantlib.variants_json import VariantsJson

from gpuforge.actions.wheel import VariantWheel, _capabilities, variant_gpus
from gpuforge.cli.dist import put_index
from gpuforge.cuda.targets import targets
from gpuforge.errors import ActionError
from gpuforge.package import variants
from gpuforge.plan.action import Workdir
from gpuforge.runtime.arch import EMBEDDED, binary_mismatch, ptx_mismatch
from gpuforge.wheel import unpacked

NAME = "demo-1.0-cp311-cp311-manylinux_2_28_x86_64"
WORD, VALUE = {"pattern": "^[a-z0-9_]+$"}, {"pattern": "^[a-z0-9_.]+$"}
# What PEP 825 demands of variant.json and of the index, and PEP 850 of their `providers`, in JSON Schema.
RULES: dict[str, Any] = {
    "type": "object",
    "required": ["$schema", "default-priorities", "providers", "variants"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"const": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"},
        "default-priorities": {
            "type": "object",
            "required": ["namespace"],
            "additionalProperties": False,
            "properties": {
                "namespace": {"type": "array", "items": WORD, "minItems": 1, "uniqueItems": True},
            },
        },
        "providers": {
            "type": "object",
            "propertyNames": WORD,
            "additionalProperties": {
                "type": "object",
                "oneOf": [{"required": ["requires"]}, {"required": ["builtin"]}],
                "additionalProperties": False,
                "properties": {
                    "builtin": {"type": "string"},
                    "plugin-api": {"type": "string", "pattern": r"^[\w.]+( *: *[\w.]+)?$"},
                    "optional": {"type": "boolean"},
                    "requires": {
                        "type": "array",
                        "items": {"type": "string", "minLength": 1},
                        "minItems": 1,
                        "uniqueItems": True,
                    },
                },
            },
        },
        "variants": {
            "type": "object",
            "minProperties": 1,
            "propertyNames": VALUE,
            "additionalProperties": {
                "type": "object",
                "propertyNames": {"enum": ["nvidia", "abi_dependency"]},
                "additionalProperties": {
                    "type": "object",
                    "propertyNames": WORD,
                    "additionalProperties": {
                        "type": "array",
                        "items": {"type": "string", **VALUE},
                        "minItems": 1,
                        "uniqueItems": True,
                    },
                },
            },
        },
    },
}


def finished(folder: Path) -> Path:
    tree = folder / "tree"
    info = tree / "demo-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    (tree / "demo.py").write_text("")
    unpacked.write(tree, folder / f"{NAME}.whl")
    return folder / f"{NAME}.whl"


def made(folder: Path, cuda: str = "13.0", *gpus: str) -> Path:
    place = Workdir(folder, folder / f"out-{cuda}")
    wanted = gpus or ("80_real", "90a_real", "90_virtual")
    VariantWheel(wheel=finished(folder), cuda=cuda, gpus=wanted).run(place)
    (wheel,) = place.output("wheel").iterdir()
    return wheel


def content(wheel: Path) -> dict[str, Any]:
    with zipfile.ZipFile(wheel) as bundle:
        found: dict[str, Any] = json.loads(bundle.read("demo-1.0.dist-info/variant.json"))
        return found


def test_the_label_is_in_the_name_and_the_properties_in_the_wheel(tmp_path):
    wheel = made(tmp_path)
    assert wheel.name == f"{NAME}-cu13.0.whl"
    found = content(wheel)
    jsonschema.validate(found, RULES)
    assert found["variants"] == {
        "cu13.0": {
            "nvidia": {"cuda_version_lower_bound": ["13.0"], "sm_arch": ["80_real", "90a_real", "90_virtual"]}
        }
    }


def test_variantlib_reads_the_name_and_the_properties(tmp_path):
    wheel = made(tmp_path)
    match = VALIDATION_WHEEL_NAME_REGEX.fullmatch(wheel.name)
    assert match
    assert (match["base_wheel_name"], match["variant_label"]) == (NAME, "cu13.0")
    found = VariantDistInfo(json.dumps(content(wheel)), expected_label="cu13.0")
    assert [p.to_str() for p in found.variant_desc.properties] == [
        "nvidia :: cuda_version_lower_bound :: 13.0",
        "nvidia :: sm_arch :: 80_real",
        "nvidia :: sm_arch :: 90_virtual",
        "nvidia :: sm_arch :: 90a_real",
    ]
    (provider,) = found.providers.items()
    assert provider[0] == "nvidia"
    assert provider[1].requires == ["nvidia-variant-provider"]
    assert provider[1].object_reference == "nvidia_variant_provider.plugin:NvidiaVariantPlugin"


def test_variantlib_chooses_the_wheel_for_the_torch_that_is_there(monkeypatch):
    releases = [(("torch", "2.10"),), (("torch", "2.11"), ("flash-attn", "3"))]
    found = [variants.describe("13.0", ["90_real"], each) for each in releases]
    for each in found:
        jsonschema.validate(each, RULES)
    both = {**found[0], "variants": found[0]["variants"] | found[1]["variants"]}
    listed = VariantsJson(both).variants
    assert set(listed) == {"cu13.0_torch2.10", "cu13.0_torch2.11_flash_attn3"}
    machine = [("cuda_version_lower_bound", "13.0"), ("sm_arch", "90_real")]
    properties = [VariantProperty("nvidia", *each) for each in machine]
    for torch, label in {
        "2.10.1": "cu13.0_torch2.10",
        "2.11": "cu13.0_torch2.11_flash_attn3",
        "2.12": "null",
    }.items():
        monkeypatch.setenv("VARIANT_ABI_DEPENDENCY", f"torch=={torch},flash-attn==3.1")
        chosen = sort_and_filter_supported_variants([*listed.values()], properties, ["nvidia"])
        assert chosen[0].label == label


def test_a_wheel_without_gpu_code_requires_only_a_driver():
    found = variants.describe("13.0", [])
    jsonschema.validate(found, RULES)
    assert found["variants"]["cu13.0"] == {"nvidia": {"cuda_version_lower_bound": ["13.0"]}}


@pytest.mark.parametrize("change", [{}, {"requires": []}, {"plugin-api": "x"}])
def test_variantlib_refuses_a_description_without_provider(tmp_path, change):
    found = content(made(tmp_path))
    found["providers"] = {"nvidia": change} if change else {}
    with pytest.raises(ValidationError):
        VariantDistInfo(json.dumps(found))


def test_a_variant_differs_in_the_description_and_record_only(tmp_path):
    before, after = finished(tmp_path), made(tmp_path)
    with zipfile.ZipFile(before) as old, zipfile.ZipFile(after) as new:
        added = set(new.namelist()) - set(old.namelist())
        assert added == {"demo-1.0.dist-info/variant.json"}
        assert "demo-1.0.dist-info/variant.json,sha256=" in new.read("demo-1.0.dist-info/RECORD").decode()
    again = made(tmp_path / "elsewhere")
    assert again.read_bytes() == after.read_bytes()


def test_the_index_lists_every_variant_of_the_release(tmp_path):
    dist = tmp_path / "dist"
    dist.mkdir()
    for wheel in (made(tmp_path), made(tmp_path, "12.4", "70_real"), finished(tmp_path)):
        wheel.rename(dist / wheel.name)
    (dist / "other-2.0-py3-none-any-cu13.0.whl").write_bytes(b"no release that is asked for")
    put_index(dist, [f"{NAME}-cu13.0.whl", f"{NAME}.whl"])
    (index,) = dist.glob("*.json")
    assert index.name == "demo-1.0-variants.json"
    found = json.loads(index.read_text())
    jsonschema.validate(found, RULES)
    assert list(found["variants"]) == ["cu12.4", "cu13.0"]
    assert found["variants"]["cu12.4"]["nvidia"]["sm_arch"] == ["70_real"]
    assert set(VariantsJson(found).variants) == {"cu12.4", "cu13.0"}


def test_one_label_for_two_sets_of_properties_is_refused(tmp_path):
    made(tmp_path)
    other = made(tmp_path / "other", "13.0", "120_real")
    other.rename(tmp_path / "out-13.0" / "wheel" / other.name.replace("cp311", "cp312"))
    with pytest.raises(
        ActionError, match=r"the label cu13\.0 stands for other properties in another wheel of demo"
    ):
        variants.index(tmp_path / "out-13.0" / "wheel", ["demo-1.0"])


@pytest.mark.parametrize(
    ("name", "release"),
    [
        (f"{NAME}-cu13.0.whl", "demo-1.0"),
        ("demo-1.0-2b-cp311-cp311-linux_x86_64-cu13.0.whl", "demo-1.0"),
        (f"{NAME}.whl", None),
        ("demo-1.0-2b-cp311-cp311-linux_x86_64.whl", None),
        ("demo-1.0.tar.gz", None),
        ("nonsense.whl", None),
        (f"{NAME}-CU13.whl", None),
    ],
)
def test_variant_wheels_are_recognised_by_their_names(name, release):
    assert variants.release_of(name) == release


def test_a_variant_wheel_without_its_description_is_an_error(tmp_path):
    finished(tmp_path).rename(tmp_path / f"{NAME}-cu13.0.whl")
    with pytest.raises(ActionError, match=r"cu13\.0\.whl has no variant\.json that can be read"):
        variants.index(tmp_path, ["demo-1.0"])


@pytest.mark.parametrize(
    ("archs", "ptx", "found"),
    [
        (["80", "90"], None, "80_real 90_real"),
        (["80"], "90", "80_real 90_virtual 100_virtual 110_virtual 120_virtual"),
        (["75", "86+ptx"], None, "75_real 86_real 86_virtual 90_virtual 100_virtual 110_virtual 120_virtual"),
        (["ptx:120"], None, "120_virtual"),
        (["90a"], None, "90a_real 90_real"),  # there is no other GPU of its major
        (["100a"], None, "100a_real"),  # does not run on 10.3, which reports 100_real
        (["100f", "120f"], None, "100f_real 100_real 120f_real 120_real"),
        (["103a", "121a"], None, "103a_real 121a_real 121_real"),
        ([], "100f", "100f_virtual"),
        ([], None, ""),
    ],
)
def test_the_values_of_sm_arch(archs, ptx, found):
    assert " ".join(variant_gpus(targets(archs, ptx))) == found


def reported(gpu: tuple[int, int]) -> set[str]:
    """Return what the provider in uv 0.13.9 reports of a GPU."""
    major, minor = gpu
    return {f"{major}{each}_real" for each in range(minor + 1)} | {f"{major}0_virtual"}


@pytest.mark.parametrize("ptx", [None, "75", "80", "90", "120"])
@pytest.mark.parametrize(
    "archs", [["80"], ["75", "86"], ["90a"], ["100f"], ["100a", "103a"], ["70", "80", "90", "120f"]]
)
def test_a_gpu_that_is_offered_the_wheel_runs_it(archs, ptx):
    wanted = targets(archs, ptx)
    for gpu in _capabilities() - EMBEDDED:
        runs = any(
            (each.real and not binary_mismatch(each.arch, gpu))
            or (each.ptx and not ptx_mismatch(each.arch, gpu))
            for each in wanted
        )
        assert runs or not reported(gpu) & set(variant_gpus(wanted)), gpu
