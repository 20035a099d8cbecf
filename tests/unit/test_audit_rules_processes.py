"""Rules about what meets in one process, and about who provides what: the cases beyond the plainest."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_cases import Case, hold
from audit_samples import STATIC_CUDART, elf, fatbin, wheel

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines
from gpuforge.cuda.provided import PackageRelease, Provided, Shared

STATIC = {".rodata": STATIC_CUDART}
HALIDE = elf(defined=["halide_error", "halide_cuda_device_interface"])
HALIDE_CPU = elf(defined=["halide_error", "halide_error_no_device_interface"])
SETS = "demo/_gpuforge/kernels"
CU12, CU13 = "$ORIGIN/../nvidia/cuda_runtime/lib", "$ORIGIN/../nvidia/cu13/lib"
BOTH = ["nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"]
CUDART = "demo.libs/libcudart-0a1b2c3d.so.13.0.96"


def lib(file: str, **keys: object) -> bytes:
    return elf(soname=file.rpartition("/")[2], **keys)  # type: ignore[arg-type]


CASES = {
    "Halide's runtime for GPUs in two kernel sets; in one set they are alternatives": Case(
        "GF111", "error", (f"{SETS}/blur/libblur-compute_80.so", f"{SETS}/sharpen/libsharpen-compute_80.so"),
        {
            f"{SETS}/blur/libblur-compute_80.so": HALIDE,
            f"{SETS}/blur/libblur-cpu.so": HALIDE_CPU,
            f"{SETS}/sharpen/libsharpen-compute_80.so": HALIDE,
        },
        {f"{SETS}/sharpen/libsharpen-compute_80.so": None},
    ),
    "Halide's runtime for GPUs in two modules; a pipeline compiled with no_runtime needs another's": Case(
        "GF111", "error", ("demo/blur.so", "demo/sharpen.so"),
        {"demo/blur.so": HALIDE, "demo/sharpen.so": HALIDE},
        {"demo/sharpen.so": elf(undefined=["halide_error", "halide_cuda_device_interface"])},
    ),
    "Halide's runtime for CPUs twice": Case(
        "GF111", "info", ("demo/a.so", "demo/b.so"),
        {"demo/a.so": HALIDE_CPU, "demo/b.so": HALIDE_CPU}, {"demo/b.so": elf()},
    ),
    "static beside shared in one import": Case(
        "GF103", "warning",
        ("demo/libs/liba.so: static", "libcudart.so.13 (nvidia-cuda-runtime), loaded by demo/ext.so"),
        {
            "demo/ext.so": elf(needed=["liba.so", "libcudart.so.13"], runpath=f"$ORIGIN/libs:{CU13}"),
            "demo/libs/liba.so": lib("liba.so", sections=STATIC),
        },
        {"demo/libs/liba.so": lib("liba.so")}, requires=BOTH,
    ),
    "a kernel library's static one beside the shared one of its package": Case(
        "GF103", "warning",
        (
            "demo/_gpuforge/kernels/ops/libops.so: static",
            "libcudart.so.13 (nvidia-cuda-runtime), loaded by demo/ext.so",
        ),
        {
            "demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13),
            "demo/_gpuforge/kernels/ops/libops.so": lib("libops.so", sections=STATIC),
        },
        {"demo/_gpuforge/kernels/ops/libops.so": lib("libops.so")}, requires=BOTH,
    ),
    "a kernel library's shared one beside the static one of its package": Case(
        "GF103", "warning",
        (
            "demo/ext.so: static",
            "libcudart.so.13 (nvidia-cuda-runtime), loaded by demo/_gpuforge/kernels/ops/libops.so",
        ),
        {
            "demo/ext.so": elf(sections=STATIC),
            "demo/_gpuforge/kernels/ops/libops.so": lib(
                "libops.so", needed=["libcudart.so.13"], runpath=f"$ORIGIN/../../../../{CU13[11:]}"
            ),
        },
        {"demo/ext.so": elf()}, requires=BOTH,
    ),
    "static in several imports": Case(
        "GF103", "info", ("demo/a.so: static", "demo/b.so: static"),
        {"demo/a.so": elf(sections=STATIC), "demo/b.so": elf(sections=STATIC)},
        {"demo/b.so": elf()},
    ),
    "NVIDIA's own have it by design": Case(
        "GF103", "info", ("demo/a.so: static", "demo/b.so: static"),
        {"demo/a.so": elf(sections=STATIC), "demo/b.so": elf(sections=STATIC)},
        {"demo/b.so": None, "demo/libcufft-0a1b2c3d.so.12": lib("libcufft.so.12", sections=STATIC)},
    ),
    "two majors in one import": Case(
        "GF104", "error",
        ("CUDA 12: libcudart.so.12, loaded by demo/libs/liba.so", "CUDA 13: libcudart.so.13, loaded by demo/ext.so"),
        {
            "demo/ext.so": elf(needed=["liba.so", "libcudart.so.13"], runpath=f"$ORIGIN/libs:{CU13}"),
            "demo/libs/liba.so": lib("liba.so", needed=["libcudart.so.12"], runpath=f"$ORIGIN/../{CU12[8:]}"),
        },
        {"demo/libs/liba.so": lib("liba.so")}, requires=BOTH,
    ),
    "two majors in two imports": Case(
        "GF104", "warning",
        ("CUDA 12: libcudart.so.12, loaded by demo/a.so", "CUDA 13: libcudart.so.13, loaded by demo/b.so"),
        {
            "demo/a.so": elf(needed=["libcudart.so.12"], runpath=CU12),
            "demo/b.so": elf(needed=["libcudart.so.13"], runpath=CU13),
        },
        # chosen from by name, so never together; a SONAME of several majors says nothing
        {"demo/a.so": None, "demo/b_cuda12.so": elf(needed=["libcudart.so.12"], runpath=CU12)}, requires=BOTH,
    ),
    "several OpenMP runtimes": Case(
        "GF105", "warning",
        (
            "demo.libs/libgomp-0a1b2c3d.so.1, loaded by demo/ext.so",
            "libomp.so (the system), loaded by demo/ext.so",
        ),
        {
            "demo/ext.so": elf(needed=["libgomp-0a1b2c3d.so.1", "libomp.so"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/libgomp-0a1b2c3d.so.1": lib("libgomp-0a1b2c3d.so.1"),
        },
        {"demo/ext.so": elf(needed=["libgomp-0a1b2c3d.so.1"], runpath="$ORIGIN/../demo.libs")},
    ),
    "two HPC SDKs": Case(
        "GF106", "warning", ("demo/ext.so: NVIDIA HPC SDK 22.1", "demo/liba.so: NVIDIA HPC SDK 23.7"),
        {
            "demo/ext.so": elf(
                needed=["liba.so"], runpath="$ORIGIN", strings=["/opt/nvidia/hpc_sdk/Linux_x86_64/22.1/compilers/lib"]
            ),
            "demo/liba.so": lib(
                "liba.so", strings=["__pgi_x"], sections={".debug_str": b"NVC++ 23.7-0\0", ".debug_info": b"x"}
            ),
        },
        {"demo/liba.so": lib("liba.so")},
    ),
    "the loader grafted": Case(
        "GF107", "warning", ("demo.libs/ld-linux-aarch64.5cbc5e90.so.1, loaded by demo.libs/libz-0a1b2c3d.so.1",),
        {
            "demo/ext.so": elf(needed=["libz-0a1b2c3d.so.1", "libc.so.6"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/libz-0a1b2c3d.so.1": elf(
                soname="libz-0a1b2c3d.so.1", needed=["ld-linux-aarch64.5cbc5e90.so.1"], runpath="$ORIGIN"
            ),
            "demo.libs/ld-linux-aarch64.5cbc5e90.so.1": elf(soname="ld-linux-aarch64.so.1"),
        },
        {
            "demo.libs/libz-0a1b2c3d.so.1": elf(soname="libz-0a1b2c3d.so.1", needed=["ld-linux-aarch64.so.1"]),
            "demo.libs/ld-linux-aarch64.5cbc5e90.so.1": None,
        },
        name="demo-1.0-cp311-cp311-manylinux_2_17_aarch64.whl",
    ),
    "another part of the C library grafted": Case(
        "GF107", "warning", ("demo.libs/libmvec-2-583a17db.28.so, loaded by demo/ext.so",),
        {
            "demo/ext.so": elf(needed=["libmvec-2-583a17db.28.so"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/libmvec-2-583a17db.28.so": elf(soname="libmvec-2-583a17db.28.so", needed=["libm.so.6"]),
        },
        {"demo/ext.so": elf(needed=["libm.so.6"]), "demo.libs/libmvec-2-583a17db.28.so": None},
    ),
    "two C++ libraries": Case(
        "GF107", "warning",
        (
            "demo/libstdc++-0a1b2c3d.so.6, loaded by demo/ext.so",
            "libstdc++.so.6 (the system), loaded by demo/ext.so",
        ),
        {
            "demo/ext.so": elf(needed=["libstdc++-0a1b2c3d.so.6", "libstdc++.so.6"], runpath="$ORIGIN"),
            "demo/libstdc++-0a1b2c3d.so.6": lib("libstdc++-0a1b2c3d.so.6"),
        },
        {"demo/ext.so": elf(needed=["libstdc++.so.6"], runpath="$ORIGIN")},
    ),
    "a library twice, by its major and by its file's name": Case(
        "GF108", "error",
        ("demo/liba.so.26, loaded by x.so", "demo.libs/liba-0a1b2c3d.so.26.10.00, loaded by y.so"),
        {
            "demo/x.so": elf(needed=["liba.so.26"], runpath="$ORIGIN"), "demo/liba.so.26": lib("liba.so.26"),
            "demo/y.so": elf(needed=["liba-0a1b2c3d.so.26.10.00"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/liba-0a1b2c3d.so.26.10.00": lib("liba-0a1b2c3d.so.26.10.00"),
        },
        {  # of another major: it may be another library's own
            "demo/y.so": elf(needed=["liba-0a1b2c3d.so.2"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/liba-0a1b2c3d.so.26.10.00": None,
            "demo.libs/liba-0a1b2c3d.so.2": lib("liba-0a1b2c3d.so.2"),
        },
    ),
    "a library twice, by its SONAME and by its file's name": Case(
        "GF108", "error", ("demo/liba.so, loaded by x.so", "demo.libs/liba-0a1b2c3d.so.1.2, loaded by y.so"),
        {
            "demo/x.so": elf(needed=["liba.so"], runpath="$ORIGIN"), "demo/liba.so": lib("liba.so.1"),
            "demo/y.so": elf(needed=["liba-0a1b2c3d.so.1.2"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/liba-0a1b2c3d.so.1.2": lib("liba-0a1b2c3d.so.1.2"),
        },
        {"demo/liba.so": lib("liba.so.2")},
    ),
    "a library twice": Case(
        "GF108", "error", ("demo/liba.so, loaded by x.so", "demo.libs/liba-0a1b2c3d.so, loaded by y.so"),
        {
            "demo/x.so": elf(needed=["liba.so"], runpath="$ORIGIN"), "demo/liba.so": lib("liba.so"),
            "demo/y.so": elf(needed=["liba-0a1b2c3d.so"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/liba-0a1b2c3d.so": lib("liba-0a1b2c3d.so"),
        },
        {"demo/y.so": elf(needed=["liba.so"], runpath="$ORIGIN")},
    ),
    "the driver is needed": Case(
        "GF206", "warning", ("libcuda.so.1 (without it, demo/ext.so cannot be imported), NEEDED by demo/liba.so",),
        {
            "demo/ext.so": elf(needed=["liba.so"], runpath="$ORIGIN"),
            "demo/liba.so": lib("liba.so", needed=["libcuda.so.1"]),
        },
        {"demo/liba.so": lib("liba.so")},
    ),
    "the driver is needed by an import": Case(
        "GF206", "warning", ("libcuda.so.1, NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libcuda.so.1"], strings=["PyInit_ext"]), "demo/__init__.py": b"import demo.ext\n"},
        {"demo/ext.so": elf(strings=["PyInit_ext"])},
    ),
    "the driver is needed by what Python opens": Case(
        "GF206", "warning", ("libcuda.so.1, NEEDED by demo/libx.so",),
        {
            "demo/libx.so": elf(needed=["libcuda.so.1"]),
            "demo/__init__.py": b"ctypes.CDLL(os.path.join(ROOT, 'libx.so'))\n",
        },
        {"demo/libx.so": elf()},
    ),
    "the driver is needed by what nothing imports": Case(
        "GF206", "info", ("libcuda.so.1, NEEDED by demo/libx_gpu.so",),
        {
            "demo/libx_gpu.so": elf(needed=["libcuda.so.1"]), "demo/ext.so": elf(strings=["PyInit_ext"]),
            "demo/__init__.py": b"import demo.ext\n",
        },
        {"demo/libx_gpu.so": elf()},
    ),
    "the driver is needed by an import and by what nothing imports": Case(
        "GF206", "warning", ("libcuda.so.1, NEEDED by demo/ext.so, demo/libx_gpu.so",),
        {
            "demo/ext.so": elf(needed=["libcuda.so.1"], strings=["PyInit_ext"]),
            "demo/libx_gpu.so": elf(needed=["libcuda.so.1"]), "demo/__init__.py": b"import demo.ext\n",
        },
        {"demo/ext.so": elf(strings=["PyInit_ext"]), "demo/libx_gpu.so": elf()},
    ),
    "build files of another machine": Case(
        "GF306", "warning",
        ("demo/x_makefile: /root/demo/bin/tool", "demo/x_makefile: /project/include", "demo/demo.pc: /__w/1/s/lib"),
        {
            "demo/x_makefile": b"TOOL = /root/demo/bin/tool\nFLAGS=-O2 -I/project/include\n# see /home/me/notes\n",
            "demo/demo.pc": b"libdir='/__w/1/s/lib'\n",
        },
        {
            "demo/x_makefile": b"TOOL = $(ROOT)/demo/bin/tool\nT=/usr/local/bin/x /opt/nvidia/x\n\tsed s/a/b/c x\n"
            b"U=https://example.org/a/b\n",
            "demo/demo.pc": b"libdir=${prefix}/lib\n",
        },
    ),
    "the driver is grafted": Case(
        "GF207", "error", ("demo.libs/libcuda-0a1b2c3d.so.1",),
        {"demo.libs/libcuda-0a1b2c3d.so.1": lib("libcuda-0a1b2c3d.so.1")},
        {"demo.libs/libcuda-0a1b2c3d.so.1": None, "demo/lib/stubs/libcuda.so": lib("libcuda.so.1")},
    ),
    "opened by name": Case(
        "GF208", "warning", ("demo/ext.so: libnvrtc.so.12 (nvidia-cuda-nvrtc-cu12)",),
        {"demo/ext.so": elf(sections={".rodata": b"x\0libnvrtc.so.12\0libcuda.so.1\0"})},
        {"demo/ext.so": elf(needed=["libnvrtc.so.12"], sections={".rodata": b"x\0libnvrtc.so.12\0"})},
    ),
    "opened by a name of two numbers, or of a short one": Case(
        "GF208", "warning",
        ("demo/ext.so: libcudart.so.11.0 (nvidia-cuda-runtime-cu11)", "demo/ext.so: libnccl.so.2 (nvidia-nccl-cu11 or "
         "nvidia-nccl-cu12 or nvidia-nccl-cu13)"),
        {"demo/ext.so": elf(sections={".rodata": b"x\0libcudart.so.11.0\0libnccl.so.2\0libcudart.so.11.0.1\0"})},
        {"demo/ext.so": elf(sections={".rodata": b"x\0libmynccl.so.2\0libcudart.so.11.0 is not there\0"})},
    ),
    "an orphan": Case(
        "GF209", "info", ("demo.libs/libz-0a1b2c3d.so.1: 0 KiB",),
        {"demo.libs/libz-0a1b2c3d.so.1": lib("libz-0a1b2c3d.so.1"), "demo/ext.so": elf()},
        {"demo/ext.so": elf(needed=["libz-0a1b2c3d.so.1"], runpath="$ORIGIN/../demo.libs")},
    ),
    "a SONAME that was kept": Case(
        "GF210", "error", ("demo.libs/libz.0a1b2c3d.so.1: SONAME libz.so.1, loaded by ext.so",),
        {
            "demo.libs/libz.0a1b2c3d.so.1": lib("libz.so.1"),
            "demo/ext.so": elf(needed=["libz.0a1b2c3d.so.1"], runpath="$ORIGIN/../demo.libs"),
        },
        {"demo.libs/libz.0a1b2c3d.so.1": lib("libz.0a1b2c3d.so.1")},
    ),
    "stray symbol versions": Case(
        "GF211", "error", ("demo/ext.so: versions of libx.so.1: LIBX_1",),
        {"demo/ext.so": elf(versions={"libx.so.1": ["LIBX_1"], "libc.so.6": ["GLIBC_2.4"]})},
        {"demo/ext.so": elf(needed=["libx.so.1"], versions={"libx.so.1": ["LIBX_1"]})},
    ),
    "stray symbol versions of what Python code opens": Case(
        "GF211", "warning", ("demo/ext.so: versions of libx.so.1: LIBX_1",),
        {
            "demo/ext.so": elf(versions={"libx.so.1": ["LIBX_1"], "libc.so.6": ["GLIBC_2.4"]}),
            "demo/a.py": b'CDLL("libx.so.1", mode=RTLD_GLOBAL)\n',
        },
        {"demo/ext.so": elf(needed=["libx.so.1"], versions={"libx.so.1": ["LIBX_1"]})},
    ),
    "a plugin of another package's program": Case(
        "GF202", "warning", ("libx.so (plugins/libx.so), NEEDED by plugins/libxy.so",),
        {"plugins/libxy.so": elf(needed=["libx.so", "libhost.so"]), "plugins/libx.so": lib("libx.so")},
        {"plugins/libxy.so": elf(needed=["libx.so", "libhost.so"], runpath="$ORIGIN")},
    ),
    "what a library brings along that must be there before": Case(
        "GF202", "warning", ("libcudart.so.13 (nvidia-cuda-runtime), NEEDED by plugins/libxy.so",),
        {
            "plugins/libxy.so": elf(needed=["libx.so", "libhost.so", "libcudart.so.13"], runpath="$ORIGIN"),
            "plugins/libx.so": lib("libx.so", needed=["libcudart.so.13"], runpath="$ORIGIN/../nvidia/cu13/lib"),
        },
        {"plugins/libxy.so": elf(needed=["libx.so", "libhost.so"], runpath="$ORIGIN")},
        requires=["nvidia-cuda-runtime>=13,<14"],
    ),
    "a framework's part that is not for everybody": Case(
        "GF201", "warning", ("libc10.so (torch), NEEDED by demo/demo_torch_ops.so",),
        {"demo/demo_torch_ops.so": elf(needed=["libc10.so"])}, {"demo/demo_torch_ops.so": elf()},
    ),
    "a framework's part, of the CUDA that came with it": Case(
        "GF201", "warning", ("libcudart.so.10.2, NEEDED by demo/demo_torch_ops.so",),
        {"demo/demo_torch_ops.so": elf(needed=["libcudart.so.10.2"])}, {"demo/demo_torch_ops.so": elf()},
    ),
    "a requirement that may bring it": Case(
        "GF201", "warning", ("libcublas.so.12 (nvidia-cublas-cu12), NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libcublas.so.12"])}, {"demo/ext.so": elf()}, requires=["libdemo-cu12"],
    ),
    "torch of another major, not even required": Case(
        "GF204", "error", ("libcudart.so.12 ('torch' brings nvidia-cuda-runtime), NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libcudart.so.12", "libc10_cuda.so"])},
        {"demo/ext.so": elf(needed=["libcudart.so.13", "libc10_cuda.so"])},
        requires=["numpy; extra == 'all'"],
    ),
    "cuDNN without its parts": Case(
        "GF213", "warning", ("demo.libs/libcudnn-463fd6d5.so.8.9.7: opens libcudnn_ops_infer.so.8",),
        {
            "demo.libs/libcudnn-463fd6d5.so.8.9.7": elf(
                soname="libcudnn-463fd6d5.so.8.9.7", sections={".rodata": b"\0libcudnn_ops_infer.so.8\0"}
            ),
            "demo/ext.so": elf(needed=["libcudnn-463fd6d5.so.8.9.7"], runpath="$ORIGIN/../demo.libs"),
        },
        {"demo.libs/libcudnn_ops_infer.so.8": elf(soname="libcudnn_ops_infer.so.8")},
    ),
    "cuDNN 9 without its parts, whose versions it adds itself": Case(
        "GF213", "warning",
        (
            "demo.libs/libcudnn-74a4c495.so.9.1.0: opens libcudnn_adv.so.9, libcudnn_cnn.so.9, "
            "libcudnn_graph.so.9, libcudnn_ops.so.9",
        ),
        {
            "demo.libs/libcudnn-74a4c495.so.9.1.0": elf(
                soname="libcudnn-74a4c495.so.9.1.0", sections={".rodata": b"\0libcudnn_ops.so\0"}
            ),
            "demo/ext.so": elf(needed=["libcudnn-74a4c495.so.9.1.0"], runpath="$ORIGIN/../demo.libs"),
        },
        {"demo.libs/libcudnn_ops.so.9": elf(soname="libcudnn_ops.so.9")},
    ),
    "NVRTC without its builtins": Case(
        "GF213", "warning", ("demo.libs/libnvrtc-d540eb83.so.12.1.55: opens libnvrtc-builtins.so.12.1",),
        {
            "demo.libs/libnvrtc-d540eb83.so.12.1.55": elf(soname="libnvrtc-d540eb83.so.12.1.55"),
            "demo/ext.so": elf(needed=["libnvrtc-d540eb83.so.12.1.55"], runpath="$ORIGIN/../demo.libs"),
        },
        {
            "demo.libs/libnvrtc-builtins-8cb4db2d.so.12.1.55": elf(soname="libnvrtc-builtins-8cb4db2d.so.12.1.55"),
            "demo/ext.so": elf(
                needed=["libnvrtc-d540eb83.so.12.1.55", "libnvrtc-builtins-8cb4db2d.so.12.1.55"],
                runpath="$ORIGIN/../demo.libs",
            ),
        },
    ),
    "Python code opens plugins": Case(
        "GF202", "warning", ("libx.so (demo/lib/libx.so), NEEDED by demo/p.so",),
        {
            "demo/lib/libx.so": lib("libx.so"), "demo/p.so": elf(needed=["libx.so", "libelse.so"]),
            "demo/a.py": b"torch.ops.load_library(path)\n",
        },
        {"demo/p.so": elf(needed=["libx.so", "libelse.so"], runpath="$ORIGIN/lib")},
    ),
    "symbols that the program has to bring": Case(
        "GF212", "warning", ("demo.libs/libnvomp.so: wants __pgi_uacc_enter, which libacchost.so defines",),
        {
            "demo.libs/libnvomp.so": elf(soname="libnvomp.so", undefined=["__pgi_uacc_enter"]),
            "demo.libs/libacchost.so": elf(soname="libacchost.so", defined=["__pgi_uacc_enter"]),
        },
        {
            "demo.libs/libnvomp.so": elf(
                soname="libnvomp.so", undefined=["__pgi_uacc_enter"], needed=["libacchost.so"], runpath="$ORIGIN"
            )
        },
    ),
    "symbols that nothing gives": Case(
        "GF212", "warning",
        (
            "demo/ext.so: wants __pgi_a, __pgi_b, __pgi_c and 1 more, which nothing in the wheel defines",
        ),
        {"demo/ext.so": elf(undefined=[f"__pgi_{c}" for c in "abcd"], defined=["__pgi_own"])},
        {"demo/ext.so": elf(undefined=["__pgi_a"], needed=["libnvc.so"])},
    ),
    "out of the environment": Case(
        "GF303", "warning", ("demo/ext.so: RUNPATH $ORIGIN/../../../../../lib",),
        {"demo/ext.so": elf(runpath="$ORIGIN/../../../../../lib:$ORIGIN/../../../../lib")},
        {"demo/ext.so": elf(runpath="$ORIGIN/../../../../lib")},
    ),
    "RPATH to other packages": Case(
        "GF304", "info", (f"demo/ext.so: RPATH {CU13}",),
        {"demo/ext.so": elf(needed=["libcudart.so.13"], rpath=CU13)},
        {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)}, requires=["nvidia-cuda-runtime"],
    ),
    "a system folder first": Case(
        "GF305", "warning",
        (
            "demo/ext.so: libcudart.so.13 (nvidia-cuda-runtime, RUNPATH /usr/local/cuda/lib64 before "
            "RUNPATH $ORIGIN/../nvidia/cu13/lib)",
        ),
        {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=f"/usr/local/cuda/lib64:{CU13}")},
        {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=f"{CU13}:/usr/local/cuda/lib64")},
        requires=["nvidia-cuda-runtime"],
    ),
    "a package before the wheel's own": Case(
        "GF305", "warning",
        (
            "demo/ext.so: libcudart.so.13 (nvidia-cuda-runtime, RUNPATH $ORIGIN/../nvidia/cu13/lib "
            "before RUNPATH $ORIGIN)",
        ),
        {
            "demo/ext.so": elf(needed=["libcudart.so.13"], runpath=f"{CU13}:$ORIGIN"),
            "demo/libcudart.so.13": lib("libcudart.so.13"),
        },
        {"demo/libcudart.so.13": None}, requires=["nvidia-cuda-runtime"],
    ),
    "a package that is not declared, before the wheel's own": Case(
        "GF305", "warning",
        ("demo/ext.so: libcudart.so.13 (RUNPATH $ORIGIN/../nvidia/cu13/lib before RUNPATH $ORIGIN)",),
        {
            "demo/ext.so": elf(needed=["libcudart.so.13"], runpath=f"{CU13}:$ORIGIN"),
            "demo/libcudart.so.13": lib("libcudart.so.13"),
        },
        {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=f"$ORIGIN:{CU13}")},
    ),
    "a grafted CUDA library beside the package's": Case(
        "GF109", "warning",
        (
            "libnccl.so.2: demo.libs/libnccl-0a1b2c3d.so.2, loaded by demo/ext.so",
            "libnccl.so.2 (nvidia-nccl-cu13), loaded by demo/ext.so",
        ),
        {
            "demo/ext.so": elf(
                needed=["libnccl-0a1b2c3d.so.2", "libnccl.so.2"],
                runpath="$ORIGIN/../demo.libs:$ORIGIN/../nvidia/nccl/lib",
            ),
            "demo.libs/libnccl-0a1b2c3d.so.2": lib("libnccl-0a1b2c3d.so.2"),
        },
        {"demo/ext.so": elf(needed=["libnccl-0a1b2c3d.so.2"], runpath="$ORIGIN/../demo.libs")},
        requires=["nvidia-nccl-cu13"],
    ),
    "a grafted CUDA library beside torch's": Case(
        "GF109", "warning",
        (
            "libcublas.so.13: demo.libs/libcublas-0a1b2c3d.so.13, loaded by demo/ext.so",
            "libcublas.so.13 (nvidia-cublas), loaded by import torch",
        ),
        {
            "demo/ext.so": elf(needed=["libcublas-0a1b2c3d.so.13", "libtorch.so"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/libcublas-0a1b2c3d.so.13": lib("libcublas-0a1b2c3d.so.13"),
        },
        {"demo/ext.so": elf(needed=["libcublas.so.13", "libtorch.so"])}, requires=["torch>=2.14"],
    ),
    "two grafted copies of a CUDA library": Case(
        "GF109", "warning",
        (
            "libnccl.so.2: demo.libs/libnccl-0a1b2c3d.so.2, loaded by demo/ext.so",
            "libnccl.so.2: demo.libs/libnccl-4e5f6a7b.so.2, loaded by demo/ext.so",
        ),
        {
            "demo/ext.so": elf(
                needed=["libnccl-0a1b2c3d.so.2", "libnccl-4e5f6a7b.so.2"], runpath="$ORIGIN/../demo.libs"
            ),
            "demo.libs/libnccl-0a1b2c3d.so.2": lib("libnccl-0a1b2c3d.so.2"),
            "demo.libs/libnccl-4e5f6a7b.so.2": lib("libnccl-4e5f6a7b.so.2"),
        },
        {  # which is GF108's
            "demo/ext.so": elf(needed=["libnccl-0a1b2c3d.so.2", "libnccl.so.2"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/libnccl.so.2": lib("libnccl.so.2"),
        },
    ),
    "two images of a CUDA library in two imports": Case(
        "GF109", "info",
        (
            "libcufft.so.12: demo.libs/libcufft-0a1b2c3d.so.12, loaded by demo/a.so",
            "libcufft.so.12 (nvidia-cufft), loaded by demo/b.so",
        ),
        {
            "demo/a.so": elf(needed=["libcufft-0a1b2c3d.so.12"], runpath="$ORIGIN/../demo.libs"),
            "demo/b.so": elf(needed=["libcufft.so.12"], runpath=CU13),
            "demo.libs/libcufft-0a1b2c3d.so.12": lib("libcufft-0a1b2c3d.so.12"),
        },
        {
            "demo/a.so": elf(needed=["libnvrtc-0a1b2c3d.so.13"], runpath="$ORIGIN/../demo.libs"),
            "demo/b.so": elf(needed=["libnvrtc.so.13"], runpath=CU13),
            "demo.libs/libnvrtc-0a1b2c3d.so.13": lib("libnvrtc-0a1b2c3d.so.13"),
        },
        requires=["nvidia-cufft", "nvidia-cuda-nvrtc"],
    ),
    "one name in two places": Case(
        "GF102", "warning",
        (
            "demo/libs/libcudart.so.13, loaded by demo/a.so",
            "libcudart.so.13 (nvidia-cuda-runtime), loaded by demo/b.so",
        ),
        {
            "demo/a.so": elf(needed=["libcudart.so.13"], runpath="$ORIGIN/libs"),
            "demo/b.so": elf(needed=["libcudart.so.13"], runpath=CU13),
            "demo/libs/libcudart.so.13": lib("libcudart.so.13"),
        },
        {"demo/a.so": elf()}, requires=["nvidia-cuda-runtime"],
    ),
    "one name in two places, opened by its path": Case(
        "GF102", "error",
        (
            "demo/libs/libcudart.so.13, loaded by demo/a.so",
            "libcudart.so.13 (nvidia-cuda-runtime), loaded by demo/b.so",
        ),
        {
            "demo/a.so": elf(needed=["libcudart.so.13"], runpath="$ORIGIN/libs"),
            "demo/b.so": elf(needed=["libcudart.so.13"], runpath=CU13),
            "demo/libs/libcudart.so.13": lib("libcudart.so.13"),
            "demo/load.py": b"CDLL(join(dirname(__file__), 'libs', 'libcudart.so.13'))",
        },
        {"demo/a.so": elf()}, requires=["nvidia-cuda-runtime"],
    ),
    "one OpenMP runtime's name in two places": Case(
        "GF105", "info",
        ("demo/libs/libgomp.so.1, loaded by demo/a.so", "more/libgomp.so.1, loaded by demo/b.so"),
        {
            "demo/a.so": elf(needed=["libgomp.so.1"], runpath="$ORIGIN/libs"),
            "demo/b.so": elf(needed=["libgomp.so.1"], runpath="$ORIGIN/../more"),
            "demo/libs/libgomp.so.1": lib("libgomp.so.1"),
            "more/libgomp.so.1": lib("libgomp.so.1"),
        },
        {"demo/b.so": elf()},
    ),
    "one libstdc++'s name in two places": Case(
        "GF107", "info",
        (
            "demo/libs/libstdc++.so.6, loaded by demo/a.so",
            "libstdc++.so.6 (the system), loaded by demo/b.so",
        ),
        {
            "demo/a.so": elf(needed=["libstdc++.so.6"], runpath="$ORIGIN/libs"),
            "demo/b.so": elf(needed=["libstdc++.so.6"]),
            "demo/libs/libstdc++.so.6": lib("libstdc++.so.6"),
        },
        {"demo/b.so": elf()},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_rule_speaks_where_it_must_and_nowhere_else(tmp_path: Path, case: Case) -> None:
    hold(case, tmp_path)


def test_wheels_given_together_are_one_environment(tmp_path: Path) -> None:
    one = wheel(tmp_path, {"a/a.so": elf(needed=["libcudart.so.12"], runpath=CU12)}, requires=BOTH)
    two = wheel(
        tmp_path,
        {"b/b.so": elf(needed=["libcudart.so.13"], runpath=CU13)},
        name="other-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
        requires=BOTH,
    )
    assert "GF104" not in {f.code for path in (one, two) for f in audit([path]).findings}
    found = [f for f in audit([one, two]).findings if f.code == "GF104"]
    assert [(f.severity, f.wheel) for f in found] == [("warning", two.name)]


def test_of_what_two_wheels_bring_together_a_third_is_not_told(tmp_path: Path) -> None:
    paths = [
        wheel(
            tmp_path,
            {
                f"{name}/x.so": elf(
                    needed=[f"libgomp-0000000{name}.so.1", *sorted(cuda)],
                    runpath=f"$ORIGIN/../{name}.libs:{CU12}:{CU13}",
                ),
                f"{name}.libs/libgomp-0000000{name}.so.1": lib(f"libgomp-0000000{name}.so.1"),
            }
            if cuda
            else {f"{name}/x.so": elf()},
            name=f"{name}-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
            requires=BOTH,
        )
        for name, cuda in (("a", {"libcudart.so.12"}), ("b", {"libcudart.so.13"}), ("c", set[str]()))
    ]
    found = {f.code: f.wheel for f in audit(paths).findings}
    assert (found["GF104"], found["GF105"]) == (paths[1].name, paths[1].name)


def test_a_library_without_a_version_in_its_soname_is_not_the_original_of_one_with(tmp_path: Path) -> None:
    files = {
        "demo/x.so": elf(needed=["libz.so"], runpath="$ORIGIN"), "demo/libz.so": lib("libz.so"),
        "demo/y.so": elf(needed=["libz-0a1b2c3d.so.1.2.11"], runpath="$ORIGIN/../demo.libs"),
        "demo.libs/libz-0a1b2c3d.so.1.2.11": lib("libz-0a1b2c3d.so.1.2.11"),
    }  # fmt: skip
    assert "GF108" not in [f.code for f in audit([wheel(tmp_path, files)]).findings]


@pytest.mark.parametrize(("through", "codes"), [(["libx-0a1b2c3d.so"], []), ([], ["GF108"])])
def test_what_links_with_a_grafted_library_of_its_name_is_no_copy_of_it(
    through: list[str], codes: list[str], tmp_path: Path
) -> None:
    path = "$ORIGIN:$ORIGIN/../demo.libs"
    files = {
        "demo/a.so": elf(needed=["libx.so", "libx-0a1b2c3d.so"], runpath=path),
        "demo/libx.so": elf(soname="libx.so", needed=through, runpath=path),
        "demo.libs/libx-0a1b2c3d.so": lib("libx-0a1b2c3d.so"),
    }
    found = audit([wheel(tmp_path, files)]).findings
    assert [f.code for f in found if f.severity == "error"] == codes


def test_a_grafted_cudart_is_recognised_by_its_bytes(tmp_path: Path) -> None:
    cudart = lib("libcudart.so.13", sections={".nv_fatbin": fatbin("sm_80")})
    own = wheel(
        tmp_path,
        {
            "demo/ext.so": elf(needed=[Path(CUDART).name, "libtorch.so"], runpath="$ORIGIN/../demo.libs"),
            CUDART: cudart,
        },
        requires=["torch"],
    )
    runtime = wheel(
        tmp_path,
        {"nvidia/cu13/lib/libcudart.so.13": cudart},
        name="nvidia_cuda_runtime-13.0.96-py3-none-manylinux_2_17_x86_64.whl",
    )
    found = {f.code: f for f in audit([own, runtime]).findings if f.wheel == own.name}
    assert lines(found["GF102"])[0] == (
        f"{CUDART} (byte for byte nvidia/cu13/lib/libcudart.so.13 of {runtime.name}), loaded by demo/ext.so"
    )
    assert found["GF108"].severity == "warning"


def test_makefiles_and_dead_paths_name_the_sdk(tmp_path: Path) -> None:
    sdk = "/opt/nvidia/hpc_sdk/Linux_x86_64/22.1/compilers"
    files = {
        "demo.libs/libnvc-0a1b2c3d.so": lib("libnvc-0a1b2c3d.so"),
        "demo/libcore.so": elf(
            needed=["libnvc-0a1b2c3d.so"], runpath="$ORIGIN/../demo.libs", strings=[f"{sdk}/lib"]
        ),
        "demo/demo_makefile": f"CXX = {sdk}/bin/nvc++\nLD = -cuda -gpu=cuda11.5,cc80\n".encode(),
    }
    (found,) = [f for f in audit([wheel(tmp_path, files)]).findings if f.code == "GF101"]
    assert lines(found) == (
        "libnvc-0a1b2c3d.so (NVIDIA HPC SDK 22.1), loaded by libcore.so; "
        "libnvc.so comes beside it in a link with libcore.so",
        "demo/demo_makefile: asks for nvc++ of the NVIDIA HPC SDK 22.1",
        "demo/demo_makefile: asks for -gpu=cuda11.5,cc80",
    )


RELEASE = PackageRelease(
    "nvidia-curand", "10.4.5.25", "newest", "nvidia_curand-10.4.5.25.whl", "",
    libraries=(Shared("libcurand.so.10", "nvidia/cu13/lib", ("libcudart.so.13", "libm.so.6")),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("requires", "release", "found"),
    [
        (["nvidia-curand"], RELEASE, 1),
        (["nvidia-curand", "nvidia-cuda-runtime>=13.0,<14"], RELEASE, 0),
        (["cuda-toolkit[cudart,curand]==13.*"], RELEASE, 0),
        (["nvidia-curand"], RELEASE._replace(requires=("nvidia-cuda-runtime",)), 0),
        (["nvidia-curand", "nvidia-cuda-runtime-cu12"], RELEASE, 1),
    ],
)
def test_gf214_a_required_package_needs_what_nothing_installs(
    tmp_path: Path, requires: list[str], release: PackageRelease, found: int
) -> None:
    files = {"demo/ext.so": elf(needed=["libcurand.so.10"], runpath=CU13)}
    report = audit([wheel(tmp_path, files, requires=requires)], brought=Provided(releases=(release,)))
    findings = [f for f in report.findings if f.code == "GF214"]
    assert len(findings) == found
    for finding in findings:
        assert (finding.severity, finding.files) == ("error", ("demo/ext.so",))
        assert lines(finding) == ("libcudart.so.13 (for libcurand.so.10 of nvidia-curand 10.4.5.25, newest)",)
