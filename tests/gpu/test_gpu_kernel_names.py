"""Kernels with C++'s linkage on a real GPU: each kind of symbol is found by its name, and arguments are judged."""

import ctypes
import hashlib
import json
from array import array
from pathlib import Path

import pytest

from gpuforge.binary import kernels
from gpuforge.runtime import KernelSet, UnknownKernel

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]
HIDDEN = "_ZN36_GLOBAL__N__a77d65ec_4_k_cu_97983c1b5scaleEPffm"
KERNELS = {  # those of local linkage, as of static functions and anonymous namespaces, are not visible
    "_ZN2ns5scaleEPffm": "ns::scale",
    "_Z4heatIfEvPffm": "heat<float>",
    "_Z5localPffm": "local",
    HIDDEN: "(anonymous namespace)::scale",
    "plain": "plain",
}
BODY = """
{link} .entry {symbol}(.param .u64 p, .param .f32 f, .param .u64 n) {{
    .reg .b64 %a<3>; .reg .f32 %f<4>;
    ld.param.u64 %a1, [p]; ld.param.f32 %f1, [f]; cvta.to.global.u64 %a2, %a1;
    ld.global.f32 %f2, [%a2]; mul.f32 %f3, %f1, %f2; st.global.f32 [%a2], %f3; ret;
}}
"""


@pytest.fixture
def kernel_set(tmp_path: Path) -> KernelSet:
    """The same kernel under each symbol, in an index as the build writes it."""
    text = ".version 7.0\n.target sm_52\n.address_size 64\n"
    for symbol in KERNELS:
        link = "" if symbol in {HIDDEN, "_Z5localPffm"} else ".visible"
        text += BODY.format(link=link, symbol=symbol)
    found = kernels.with_types(kernels.of_ptx(text.encode()))
    listed = [{**each._asdict(), "parameters": [p._asdict() for p in each.parameters]} for each in found]
    (tmp_path / "m.ptx").write_text(text)
    module = {"name": "m", "source": "m.cu", "file": "m.ptx", "sha256": hashlib.sha256(text.encode()).hexdigest(),
              "images": [{"kind": "ptx", "arch": "compute_52", "isa": "7.0"}], "kernels": listed}  # fmt: skip
    index = {"schema": 1, "name": "ops", "kind": "module", "toolkit": "11.0", "modules": [module],
             "toolchain": {"family": "nvcc", "version": "11.0"}}  # fmt: skip
    (tmp_path / "index.json").write_text(json.dumps(index))
    return KernelSet(tmp_path, env={"GPUFORGE_KERNEL_HOME": str(tmp_path / "home")})


@pytest.mark.parametrize(
    "name", [*KERNELS, *KERNELS.values(), "heat", "ns::scale(float *, float, unsigned long)"]
)
def test_a_kernel_of_each_linkage_is_found_and_launched(kernel_set, name):
    kernel = kernel_set.function(name)
    result = array("f", [0])
    with kernel.upload(array("f", [3])) as memory:
        kernel.launch(1, 1, memory, ctypes.c_float(2), ctypes.c_ulong(1))
        memory.read(result)
    assert result[0] == 6


def test_arguments_that_do_not_fit_are_refused(kernel_set):
    kernel = kernel_set.function("heat")
    signature = r"heat<float>\(float \*, float, unsigned long\)"
    with kernel.upload(array("f", [3])) as memory:
        for arguments, message in (
            ((memory, ctypes.c_float(2)), f"^{signature} takes 3 arguments, and 2 are given$"),
            ((memory, ctypes.c_double(2), ctypes.c_ulong(1)), rf"^argument 1: .* float: .*{signature}$"),
            (
                (memory, ctypes.c_float(2), ctypes.c_long(-1)),
                r"^argument 2: -1 does not fit .* unsigned long",
            ),
            (
                (ctypes.c_ulong(1), ctypes.c_float(2), ctypes.c_ulong(1)),
                r"^argument 0: .* is a pointer, float \*",
            ),
        ):
            with pytest.raises(TypeError, match=message):
                kernel.launch(1, 1, *arguments)
        kernel.launch(1, 1, memory, ctypes.c_float(2), ctypes.c_long(1))


def test_a_wrong_name_is_no_state_of_the_machine(kernel_set):
    with pytest.raises(
        UnknownKernel, match=r"^module m of kernel set .* has no kernel 'sacle'; it has\n  .*scale"
    ):
        kernel_set.function("sacle")
    with pytest.raises(UnknownKernel, match=r"has several kernels 'scale': name one of\n"):
        kernel_set.function("scale")
