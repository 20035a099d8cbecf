"""The kernels in real images, and in damaged ones."""

import time

import pytest
from kernel_samples import CUBIN_13_0, CUBIN_13_0_OF_120, FATBIN_11_8, FATBIN_12_4, SIZES

from gpuforge.binary import fatbin, kernels
from gpuforge.cuda.kernels import Kernel, Parameter
from gpuforge.errors import MalformedError
from gpuforge.runtime import elf


def test_every_toolkits_images_list_the_same_kernels():
    ((old, cubin),) = fatbin.images(FATBIN_11_8)
    assert (old.target, kernels.of_cubin(cubin)) == ("sm_52", SIZES)
    found = {image.target: content for image, content in fatbin.images(FATBIN_12_4)}
    assert list(found) == ["sm_80", "compute_80"]
    assert kernels.of_cubin(found["sm_80"]) == kernels.of_ptx(found["compute_80"]) == SIZES
    assert kernels.of_cubin(CUBIN_13_0) == kernels.of_cubin(CUBIN_13_0_OF_120) == SIZES


def test_names_and_types_come_from_the_symbols():
    assert kernels.with_types(SIZES) == (
        Kernel(
            "_ZN2ns5scaleIfEEvPKT_mPS1_",
            "ns::scale<float>",
            (Parameter("const float *", 8), Parameter("unsigned long", 8), Parameter("float *", 8)),
        ),
        Kernel("plain", "plain", (Parameter("", 8), Parameter("", 4))),
    )


def test_types_that_the_image_contradicts_are_not_known():
    (kernel,) = kernels.with_types({"_Z1fPfi": (8,)})
    assert kernel == Kernel("_Z1fPfi", "f", (Parameter("", 8),))


PTX = b"""
.version 8.7
.target sm_80 // .entry commented(
/* .entry also( .param .u32 a ) */
.visible .entry _Z1fPf(
    .param .u64 .ptr .global .align 4 _Z1fPf_param_0,  // the first, and not the last
    .param .align 16 .b8 _Z1fPf_param_1[36],
    .param .f16x2 p2, .param .pred p3, .param .b8 p4, .param .u64 p5 [2], .param .texref p6
)
.maxntid 256, 1, 1
{ ret; }
.weak .entry none { ret; }
.entry\tlast$1 () { ret; }
.func (.param .b32 r) helper(.param .b32 a) { ret; }
.file 1 ".entry text("
"""


def test_what_ptx_declares():
    assert kernels.of_ptx(PTX) == {"_Z1fPf": (8, 36, 4, 1, 1, 16, 8), "none": (), "last$1": ()}
    assert kernels.of_ptx(b".version 8.7\n.target sm_80\n") == {}
    with pytest.raises(MalformedError, match=r"the PTX declares a parameter as '\.param \.x64 a'"):
        kernels.of_ptx(b".entry f(.param .x64 a) {}")


def test_the_runtime_reads_the_same_sizes_from_machine_code():
    """It has no index for NVRTC's code and its users' own files, and asks no driver until that fails."""
    for cubin in (CUBIN_13_0, CUBIN_13_0_OF_120):
        assert {name: elf.parameter_sizes(cubin, name) for name in SIZES} == SIZES
        assert elf.parameter_sizes(cubin, "none") is None
    assert elf.parameter_sizes(b".version 9.0", "saxpy") is None
    for length in range(0, len(CUBIN_13_0), 40):
        elf.parameter_sizes(CUBIN_13_0[:length], "saxpy")


def test_parameters_that_never_end_are_read_once():
    """Each began a search to the end of the text: 64 KB took seconds. `make fuzz` found it."""
    before = time.process_time()
    assert kernels.of_ptx(b".entry f(" * 20_000) == {"f": ()}
    assert time.process_time() - before < 5
