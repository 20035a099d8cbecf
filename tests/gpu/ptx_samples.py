"""Kernels as PTX, and sets of them: they run on every GPU from Maxwell on."""

import hashlib
import json
from pathlib import Path

from gpuforge.runtime import KernelSet

HEAD = ".version 7.0\n.target sm_52\n.address_size 64\n"
# out[0] = value * 1000 + NUMBER
ENTRY = """
.visible .entry k{number}(.param .u64 out, .param .u32 value)
{{
    .reg .u64 %rd<3>;
    .reg .u32 %r<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %rd2, %rd1;
    mad.lo.u32 %r2, %r1, 1000, {number};
    st.global.u32 [%rd2], %r2;
    ret;
}}
"""
# y[i] += x[i] for the threads of one block, after `delay` turns of nothing
ADD = """
.visible .entry add(.param .u64 x, .param .u64 y, .param .u32 delay)
{
    .reg .u64 %rd<7>;
    .reg .u32 %r<4>;
    .reg .f32 %f<4>;
    .reg .pred %p;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u32 %r1, [delay];
again:
    setp.eq.u32 %p, %r1, 0;
    @%p bra done;
    membar.gl;
    sub.u32 %r1, %r1, 1;
    bra again;
done:
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd3, %r2, 4;
    cvta.to.global.u64 %rd4, %rd1;
    cvta.to.global.u64 %rd5, %rd2;
    add.u64 %rd4, %rd4, %rd3;
    add.u64 %rd5, %rd5, %rd3;
    ld.global.f32 %f1, [%rd4];
    ld.global.f32 %f2, [%rd5];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd5], %f3;
    ret;
}
"""


LISTED_ADD = {
    "symbol": "add",
    "name": "add",
    "parameters": [{"type": "", "size": 8}, {"type": "", "size": 8}, {"type": "", "size": 4}],
}


def kernel_set(folder: Path, ptx: str, *kernels: object) -> KernelSet:
    """Write a set of one module, whose index lists `kernels`, or none as an index of a user's own files."""
    folder.mkdir()
    (folder / "m.fatbin").write_text(ptx)
    module = {"name": "m", "source": "m.cu", "digest": "", "file": "m.fatbin",
              "sha256": hashlib.sha256(ptx.encode()).hexdigest(),
              "images": [{"kind": "ptx", "arch": "compute_52", "isa": "7.0"}], "kernels": kernels}  # fmt: skip
    index = {"schema": 1, "name": folder.name, "kind": "module", "toolkit": "11.0", "modules": [module],
             "toolchain": {"family": "nvcc", "version": "11.0"}}  # fmt: skip
    (folder / "index.json").write_text(json.dumps(index))
    return KernelSet(folder)
