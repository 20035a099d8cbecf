"""The reader of HIP's bundles: plain and packed, across chunks, and damaged."""

import random

import pytest
from audit_samples import elf, wheel
from hip_samples import bundle

from gpuforge.audit import audit
from gpuforge.binary import hip
from gpuforge.binary.window import Budget


def read(data: bytes, *, chunk: int = 1 << 20, before: int = 0) -> list[hip.HipBundle]:
    whole = b"x" * before + data + b"__CLANG_OFFLOAD_BUNDLE__ behind the section"
    chunks = (whole[at : at + chunk] for at in range(0, len(whole), chunk))
    return list(hip.bundles(chunks, before, len(data), Budget(len(whole))))


@pytest.mark.parametrize("packed", [0, 1, 2, 3])
@pytest.mark.parametrize("method", [0, 1])
@pytest.mark.parametrize("chunk", [1000, 1 << 20])
def test_the_gpus_of_each_bundle(packed, method, chunk):
    noise = random.Random(1).randbytes(300_000)  # noqa: S311  not for secrets
    first = bundle("gfx90a", "gfx942:sramecc+:xnack-", packed=packed, method=method, content=noise)
    second = bundle("gfx1100", packed=packed, method=method)
    found = read(first + bytes(4096) + second + bytes(100), chunk=chunk, before=700)
    assert found == [hip.HipBundle(("gfx90a", "gfx942:sramecc+:xnack-")), hip.HipBundle(("gfx1100",))]


def test_names_before_rocm_4_1_have_one_hyphen():
    code = bundle("gfx803", "gfx906").replace(
        b"hipv4-amdgcn-amd-amdhsa--gfx", b"hipv04-amdgcn-amd-amdhsa-gfx"
    )
    assert read(code) == [hip.HipBundle(("gfx803", "gfx906"))]


def test_damaged_bundles_are_named_as_such():
    plain, packed = bundle("gfx90a"), bundle("gfx90a", packed=2)
    assert read(plain[:60]) == [hip.HipBundle((), damaged=True)]
    assert read(plain[:24] + b"\xff" * 8 + plain[32:]) == [hip.HipBundle((), damaged=True)]
    assert read(packed[:40] + b"\xff" * (len(packed) - 40)) == [hip.HipBundle((), damaged=True)]
    assert read(b"") == []


def test_the_report_lists_the_gpus(tmp_path):
    code = bundle("gfx90a", "gfx942") + bundle("gfx90a", "gfx942", packed=3)
    found = audit([wheel(tmp_path, {"demo/a.so": elf(sections={".hip_fatbin": code})})]).wheels[0]
    assert "HIP bundles: 2 of gfx90a gfx942" in [proof.text for proof in found.proofs]


def test_a_damaged_bundle_withholds_the_proof(tmp_path):
    code = bundle("gfx90a")[:60]
    found = audit([wheel(tmp_path, {"demo/a.so": elf(sections={".hip_fatbin": code})})]).wheels[0]
    assert [each.text for each in found.withheld if each.topic == "GPU code"] == [
        "HIP bundles in a.so cannot be read"
    ]
