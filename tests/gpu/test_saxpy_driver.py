"""The runtime against the real driver: PTX that the driver compiles, and images that it will not take."""

import hashlib
import json
from array import array
from pathlib import Path

import pytest

from gpuforge.runtime import KernelSet, KernelUnavailable, UnknownKernel

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

PTX = """
.version 7.0
.target sm_52
.address_size 64

.visible .entry answer(.param .u64 out)
{
    .reg .u64 %rd<3>;
    .reg .f32 %f<2>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd2, %rd1;
    mov.f32 %f1, 0f42280000;
    st.global.f32 [%rd2], %f1;
    ret;
}
"""


def kernel_set(folder: Path, image: bytes) -> KernelSet:
    (folder / "answer.fatbin").write_bytes(image)
    module = {
        "name": "answer",
        "source": "answer.cu",
        "digest": "00",
        "file": "answer.fatbin",
        "sha256": hashlib.sha256(image).hexdigest(),
        "images": [{"kind": "ptx", "arch": "compute_52", "isa": "7.0"}],
        "kernels": [],
    }
    index = {
        "schema": 1,
        "name": "answers",
        "kind": "module",
        "toolchain": {"family": "nvcc", "version": "11.0"},
        "toolkit": "11.0",
        "modules": [module],
    }
    (folder / "index.json").write_text(json.dumps(index))
    return KernelSet(folder)


def test_the_driver_compiles_ptx(tmp_path):
    kernels = kernel_set(tmp_path, PTX.encode())
    kernel = kernels.function("answer", module="answer")
    out = array("f", [0.0])
    with kernel.memory(4) as memory:
        kernel.launch(1, 1, memory)
        memory.read(out)
    assert list(out) == [42.0]
    assert "    used     PTX compute_52  " in kernels.explain()


@pytest.mark.parametrize(
    ("image", "codes"),
    [
        pytest.param(PTX.replace("7.0", "99.0", 1).encode(), (218, 222), id="ptx-too-new-for-the-driver"),
        pytest.param(PTX.replace("mov.f32", "mov.nonsense").encode(), (218,), id="ptx-that-does-not-compile"),
        pytest.param(b"\x50\xed\x55\xba" + bytes(60), (200, 201, 209, 222), id="a-fatbin-of-nothing"),
    ],
)
def test_what_the_driver_will_not_take_is_a_reason(tmp_path, image, codes):
    kernels = kernel_set(tmp_path, image)
    with pytest.raises(KernelUnavailable) as error:
        kernels.function("answer", module="answer")
    (reason,) = error.value.reasons
    assert reason.startswith("PTX compute_52: kernel answer: cu"), reason
    assert any(f"({code})" in reason for code in codes), reason
    assert "    refused  PTX compute_52  kernel answer: cu" in kernels.explain()


def test_a_kernel_that_is_not_there_is_a_reason(tmp_path):
    kernels = kernel_set(tmp_path, PTX.encode())
    with pytest.raises(UnknownKernel, match=r"failed: CUDA_ERROR_NOT_FOUND \(500\)"):
        kernels.function("question", module="answer")


def test_memory_is_copied_both_ways(tmp_path):
    kernel = kernel_set(tmp_path, PTX.encode()).function("answer", module="answer")
    source, target = array("d", range(1000)), array("d", bytes(8000))
    with kernel.memory(8000) as memory:
        memory.write(source)
        memory.read(target)
    assert target == source
