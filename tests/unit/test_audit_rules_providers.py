"""Rules about who provides what, and where it is searched for: the cases beyond the plainest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from audit_cases import Case, hold
from audit_samples import CU13, FLAGS_1, LIBS, elf, lib, wheel
from document_samples import RECIPE, TOOLCHAIN

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines
from gpuforge.cuda.provided import PackageRelease, Provided, Shared

GOMP = "libgomp-a34b3233.so.1.0.0"
RECIPE_FILE = "demo/_gpuforge/sources/m/recipe.json"


def beside_hashed_openmp(*toolchains: str) -> dict[str, bytes]:
    offered = [{**TOOLCHAIN, "name": name} for name in toolchains]
    return {
        f"demo.libs/{GOMP}": lib(GOMP),
        "demo/ext.so": elf(needed=[GOMP], runpath="$ORIGIN/../demo.libs"),
        RECIPE_FILE: json.dumps({**RECIPE, "toolchains": offered}).encode(),
    }


CUDNN_PARTS = [f"libcudnn_{part}.so.9" for part in ("adv", "cnn", "graph", "ops")]
RUNTIME = "$ORIGIN/../nvidia/cuda_runtime/lib"
SITE = "$ORIGIN/../../../../{}/python3.11/site-packages/b"
CASES = {
    "torch is imported and not required": Case(
        "GF217", "warning", ("demo/ops.py: torch",),
        {"demo/__init__.py": b"from . import ops\n", "demo/ops.py": b"import torch.nn\n", "demo/ext.so": elf()},
        {"demo/ops.py": b'"""\nimport torch\n"""\ntry:\n    import torch\nexcept ImportError:\n    torch = None\n'},
        requires=["numpy"],
    ),
    "torch is imported, and required by an extra": Case(
        "GF217", "warning", ("demo/__init__.py: torch",),
        {"demo/__init__.py": b"from torch import nn\n", "demo/ext.so": elf()},
        {"demo/__init__.py": b"def f():\n    import torch\n", "demo/lazy.py": b"import torch\n"},
        requires=["torch; extra == 'all'"],
    ),
    "hashed OpenMP beside sources": Case(
        "GF101", "error",
        (f"demo.libs/{GOMP} (OpenMP of GCC, the toolchain host of m brings libgomp.so.1), loaded by ext.so",),
        beside_hashed_openmp("host"), {RECIPE_FILE: None},
    ),
    "hashed OpenMP beside sources for several toolchains": Case(
        "GF101", "error",
        (f"demo.libs/{GOMP} (OpenMP of GCC, the toolchains host, acc of m bring libgomp.so.1), loaded by ext.so",),
        beside_hashed_openmp("host", "acc"), {RECIPE_FILE: None},
    ),
    "the driver is needed": Case(
        "GF206", "warning", ("libcuda.so.1 (without it, demo/ext.so cannot be imported), NEEDED by demo/liba.so",),
        {
            "demo/ext.so": elf(needed=["liba.so"], runpath="$ORIGIN"),
            "demo/liba.so": lib("liba.so", needed=["libcuda.so.1"], undefined=["cuInit"]),
        },
        {"demo/liba.so": lib("liba.so")},
    ),
    "the driver is needed by an import": Case(
        "GF206", "warning", ("libcuda.so.1, NEEDED by demo/ext.so",),
        {
            "demo/ext.so": elf(needed=["libcuda.so.1"], strings=["PyInit_ext"], undefined=["cuMemAlloc_v2"]),
            "demo/__init__.py": b"import demo.ext\n",
        },
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
            "demo/libx_gpu.so": elf(needed=["libcuda.so.1"], undefined=["cuInit"]),
            "demo/ext.so": elf(strings=["PyInit_ext"]),
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
    "an orphan, and what only it needs": Case(
        "GF209", "info", ("demo.libs/libz-0a1b2c3d.so.1: 0 KiB", "demo.libs/liby-0a1b2c3d.so.1: 0 KiB"),
        {
            "demo.libs/libz-0a1b2c3d.so.1": lib("libz-0a1b2c3d.so.1", needed=["liby-0a1b2c3d.so.1"]),
            "demo.libs/liby-0a1b2c3d.so.1": lib("liby-0a1b2c3d.so.1"), "demo/ext.so": elf(),
        },
        {"demo.libs/demo.icd": b"libz-0a1b2c3d.so.1"},
    ),
    "an orphan that a layer of Vulkan does not name": Case(
        "GF209", "info", ("demo.libs/libz-0a1b2c3d.so.1: 0 KiB",),
        {
            "demo.libs/libz-0a1b2c3d.so.1": lib("libz-0a1b2c3d.so.1"), "demo/ext.so": elf(),
            "demo/data/x_icd.x86_64.json": b'{"ICD": {"library_path": "libother.so.1"}}',
        },
        {"demo/data/x_icd.x86_64.json": b'{"ICD": {"library_path": "../../demo.libs/libz-0a1b2c3d.so.1"}}'},
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
    "symbol versions of a library with its old name": Case(
        "GF211", "error", ("demo/ext.so: versions of libx.so.1: LIBX_1",),
        {
            "demo/ext.so": elf(needed=["libx-0a1b2c3d.so.1"], versions={"libx.so.1": ["LIBX_1"]}, runpath="$ORIGIN"),
            "demo/libx-0a1b2c3d.so.1": lib("libx-0a1b2c3d.so.1"),
        },
        {
            "demo/ext.so": elf(
                needed=["libx-0a1b2c3d.so.1"], versions={"libx-0a1b2c3d.so.1": ["LIBX_1"]}, runpath="$ORIGIN"
            ),
        },
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
    "alternatives for versions of a library": Case(
        "GF201", "warning",
        ("libavutil.so.58, NEEDED by demo/_ffmpeg6.so", "libavutil.so.59, NEEDED by demo/_ffmpeg7.so"),
        {
            "demo/_ffmpeg6.so": elf(needed=["libavutil.so.58"], strings=["PyInit__ffmpeg6"]),
            "demo/_ffmpeg7.so": elf(needed=["libavutil.so.59"], strings=["PyInit__ffmpeg7"]),
        },
        {"demo/_ffmpeg6.so": elf(), "demo/_ffmpeg7.so": elf()},
    ),
    "a plug-in that no import loads": Case(
        "GF201", "error", ("libcublas.so.12 (nvidia-cublas-cu12), NEEDED by demo/libdemo_provider.so",),
        {
            "demo/libdemo_provider.so": elf(needed=["libcublas.so.12"]), "demo/ext.so": elf(strings=["PyInit_ext"]),
            "demo/__init__.py": b"from . import ext\n",
        },
        {"demo/libdemo_provider.so": elf()},
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
                soname="libcudnn-463fd6d5.so.8.9.7", runpath="$ORIGIN",
                sections={".rodata": b"\0libcudnn_ops_infer.so.8\0"},
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
                soname="libcudnn-74a4c495.so.9.1.0", runpath="$ORIGIN", sections={".rodata": b"\0libcudnn_ops.so\0"}
            ),
            "demo/ext.so": elf(needed=["libcudnn-74a4c495.so.9.1.0"], runpath="$ORIGIN/../demo.libs"),
        },
        {"demo.libs/libcudnn_ops.so.9": elf(soname="libcudnn_ops.so.9")},
    ),
    "cuDNN without a path to its parts": Case(
        "GF213", "warning",
        (f"demo.libs/libcudnn.so.9: opens {', '.join(CUDNN_PARTS)}",),
        {
            "demo.libs/libcudnn.so.9": elf(soname="libcudnn.so.9"),
            **{f"demo.libs/{name}": lib(name) for name in CUDNN_PARTS},
            "demo/ext.so": elf(needed=["libcudnn.so.9"], runpath=LIBS),
        },
        {"demo.libs/libcudnn.so.9": elf(soname="libcudnn.so.9", rpath="$ORIGIN")},
    ),
    "cuDNN with a path to another folder than that of its parts": Case(
        "GF213", "warning", ("demo.libs/libcudnn.so.9: opens libcudnn_graph.so.9",),
        {
            "demo.libs/libcudnn.so.9": elf(
                soname="libcudnn.so.9", runpath="$ORIGIN/../demo/lib",
                sections={".rodata": b"\0libcudnn_graph.so.9\0"},
            ),
            "demo.libs/libcudnn_graph.so.9": lib("libcudnn_graph.so.9"),
            "demo/ext.so": elf(needed=["libcudnn.so.9"], runpath=LIBS),
        },
        {"demo/ext.so": elf(needed=["libcudnn.so.9", "libcudnn_graph.so.9"], runpath=LIBS)},  # it is loaded before
    ),
    "NVIDIA's own NVRTC without a path to its builtins": Case(
        "GF213", "warning", ("nvidia/cu13/lib/libnvrtc.so.13: opens libnvrtc-builtins.so.13.0",),
        {
            "nvidia/cu13/lib/libnvrtc.so.13": elf(
                soname="libnvrtc.so.13", sections={".rodata": b"\0libnvrtc-builtins.so.13.0\0"}
            ),
            "nvidia/cu13/lib/libnvrtc-builtins.so.13.0": lib("libnvrtc-builtins.so.13.0"),
        },
        {
            "nvidia/cu13/lib/libnvrtc.so.13": elf(
                soname="libnvrtc.so.13", runpath="$ORIGIN", sections={".rodata": b"\0libnvrtc-builtins.so.13.0\0"}
            )
        },
        name="nvidia_cuda_nvrtc-13.0.48-py3-none-manylinux_2_17_x86_64.whl",
    ),
    "CUPTI without a path to its part": Case(
        "GF213", "warning", ("demo/cupti/libcupti.so.12: opens libnvperf_host.so",),
        {"demo/cupti/libcupti.so.12": lib("libcupti.so.12"), "demo/cupti/libnvperf_host.so": lib("libnvperf_host.so")},
        {"demo/__init__.py": b"ctypes.CDLL(os.path.join(HERE, 'cupti', 'libnvperf_host.so'))\n"},
    ),
    "a grafted NVRTC with a requirement of its package": Case(
        "GF213", "warning", ("demo.libs/libnvrtc-d540eb83.so.12.1.55: opens libnvrtc-builtins.so.12.1",),
        {
            "demo.libs/libnvrtc-d540eb83.so.12.1.55": lib("libnvrtc-d540eb83.so.12.1.55"),
            "demo/ext.so": elf(needed=["libnvrtc-d540eb83.so.12.1.55"], runpath=LIBS),
        },
        {
            "demo.libs/libnvrtc-d540eb83.so.12.1.55": lib(
                "libnvrtc-d540eb83.so.12.1.55", runpath="$ORIGIN/../nvidia/cuda_nvrtc/lib"
            )
        },
        requires=["nvidia-cuda-nvrtc-cu12==12.1.105"],
    ),
    "cuFFT without the library that its package requires": Case(
        "GF213", "warning", ("demo.libs/libcufft-0a1b2c3d.so.11.3.3: opens libnvJitLink.so.12",),
        {
            "demo.libs/libcufft-0a1b2c3d.so.11.3.3": lib(
                "libcufft-0a1b2c3d.so.11.3.3", sections={".rodata": b"\0libnvJitLink.so.12\0libnvrtc.so.12\0"}
            ),
            "demo/ext.so": elf(needed=["libcufft-0a1b2c3d.so.11.3.3"], runpath=LIBS),
        },
        {"demo.libs/libcufft-0a1b2c3d.so.11.3.3": lib("libcufft-0a1b2c3d.so.11.3.3")},  # an older one
    ),
    "ROCm's library, which no part of the same release has": Case(
        "GF201", "warning", ("libamdhip64.so.6, NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libamdhip64.so.6"])}, {"demo/ext.so": elf()}, requires=["demo-core==1.0"],
    ),
    "opened by name, declared, and no path": Case(
        "GF208", "warning", ("demo/ext.so: libcublas.so.12 (nvidia-cublas-cu12)",),
        {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so.12\0"})},
        {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so.12\0"}, runpath="$ORIGIN/../nvidia/cublas/lib")},
        requires=["nvidia-cublas-cu12; extra == 'gpu'"],
    ),
    "opened by name, declared, and loaded by Python code": Case(
        "GF208", "warning", ("demo/ext.so: libcublas.so.12 (nvidia-cublas-cu12)",),
        {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so.12\0"})},
        {"demo/a.py": b"ctypes.CDLL(os.path.join(SITE, 'nvidia', 'cublas', 'lib', 'libcublas.so.12'))\n"},
        requires=["nvidia-cublas-cu12"],
    ),
    "opened by name, for another major than the one that is declared": Case(
        "GF208", "warning", ("demo/ext.so: libcublas.so.12 (nvidia-cublas-cu12)",),
        {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so.12\0"})},
        {
            "demo/ext.so": elf(  # one of two that are tried
                sections={".rodata": b"\0libcublas.so.13\0libcublas.so.12\0"}, runpath=CU13
            )
        },
        requires=["nvidia-cublas==13.*"],
    ),
    "opened by a name that only toolkits have": Case(
        "GF208", "warning", ("demo/ext.so: libcublas.so",),
        {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so\0cannot open libcudart.so\0"})},
        {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so\0libcublas.so.%d\0"})},  # the version is added
        requires=["nvidia-cublas==13.*"],
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
    "a file with a library's name that is none": Case(
        "GF202", "error", ("libx.so (demo/libx.so), NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN"), "demo/libx.so": b"version 1"},
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN"), "demo/libx.so": lib("libx.so")},
    ),
    "one for another machine comes first under a musl tag": Case(
        "GF202", "error", ("libx.so (demo/a/libx.so), NEEDED by demo/ext.so",),
        {
            "demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN/a:$ORIGIN"), "demo/libx.so": lib("libx.so"),
            "demo/a/libx.so": elf(soname="libx.so", machine=183),
        },
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN:$ORIGIN/a")},
        name="demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
    ),
    "a program with a library's name": Case(
        "GF202", "error", ("libx.so (demo/libx.so), NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN"), "demo/libx.so": elf(dynamic=[(FLAGS_1, 1 << 27)])},
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN"), "demo/libx.so": elf(dynamic=[(FLAGS_1, 1)])},
    ),
    "a library for the start of programs alone": Case(
        "GF202", "error", ("libx.so (demo/libx.so), NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN"), "demo/libx.so": elf(dynamic=[(FLAGS_1, 0x40)])},
        {
            "demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN", interpreter="/lib64/ld-linux-x86-64.so.2"),
            "demo/libx.so": elf(dynamic=[(FLAGS_1, 0x40)]),
        },
    ),
    "without the system's folders": Case(
        "GF202", "warning", ("libm.so.6, NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libm.so.6", "libc.so.6"], dynamic=[(FLAGS_1, 0x800)])},
        {"demo/ext.so": elf(needed=["libc.so.6"], dynamic=[(FLAGS_1, 0x800)])},
    ),
    "a path that only some environments have": Case(
        "GF202", "info", ("libx.so (lib64/python3.11), NEEDED by demo/ext.so",),
        {"demo/ext.so": elf(needed=["libx.so"], runpath=SITE.format("lib64")), "b/libx.so": lib("libx.so")},
        {"demo/ext.so": elf(needed=["libx.so"], runpath=SITE.format("lib")), "b/libx.so": lib("libx.so")},
    ),
    "a path through a folder that nothing is installed into": Case(
        "GF202", "warning", ("libx.so (site-packages/c), NEEDED by demo/ext.so",),
        {
            "demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN/../c/../b"),
            "b/libx.so": lib("libx.so"),
        },
        {
            "demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN/../c/../b"),
            "b/libx.so": lib("libx.so"), "c/d/x.py": b"",
        },
    ),
    "symbols that the program has to bring": Case(
        "GF212", "warning", ("demo.libs/libnvomp.so: libacchost.so defines __pgi_uacc_enter",),
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
            "demo/ext.so: nothing in the wheel defines __pgi_a, __pgi_b, __pgi_c, __pgi_d",
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
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_rule_speaks_where_it_must_and_nowhere_else(tmp_path: Path, case: Case) -> None:
    hold(case, tmp_path)


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
        "libnvc.so comes beside it when users link against libcore.so",
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


@pytest.mark.parametrize(
    ("code", "alone"),
    [
        (b"from . import ext\n", "No import loads these objects"),
        (b"ctypes.CDLL(os.path.join(HERE, 'libprovider.so'))\n", "The import fails"),
        (b"ctypes.CDLL(os.path.join(HERE, name))\n", "The import fails"),
    ],
)
def test_the_import_fails_only_where_it_loads_the_object(tmp_path: Path, code: bytes, alone: str) -> None:
    files = {
        "demo/__init__.py": code,
        "demo/ext.so": elf(strings=["PyInit_ext"]),
        "demo/libprovider.so": elf(needed=["libnone.so.1"]),
    }
    (found,) = (f for f in audit([wheel(tmp_path, files)]).findings if f.code == "GF201")
    assert alone in found.message


@pytest.mark.parametrize(("needed", "alternatives"), [("libavutil.so.59", True), ("libswscale.so.8", False)])
def test_alternatives_need_versions_of_one_library(tmp_path: Path, needed: str, alternatives: bool) -> None:
    names = {"demo/_f6.so": "libavutil.so.58", "demo/_f7.so": needed}
    files = {file: elf(needed=[name], strings=["PyInit__f"]) for file, name in names.items()}
    (found,) = (f for f in audit([wheel(tmp_path, files)]).findings if f.code == "GF201")
    assert ("alternatives" in found.message) == alternatives


def test_a_guess_proves_no_tag(tmp_path: Path) -> None:
    for needed, requires, proved in (
        ("libhidden.so", ["demo-core==1.0"], False),  # a part of the same release may have it
        ("libcudart.so.12", ["nvidia-cuda-runtime-cu12"], True),
    ):
        files = {"demo/ext.so": elf(needed=[needed], versions={"libc.so.6": ["GLIBC_2.4"]}, runpath=RUNTIME)}
        (found,) = audit([wheel(tmp_path, files, requires=requires)]).wheels
        assert any(proof.topic == "platform" for proof in found.proofs) is proved


@pytest.mark.parametrize(
    ("code", "lost"),
    [
        (b"", True),
        (b"ctypes.CDLL('libcufft.so.12', mode=ctypes.RTLD_GLOBAL)\n", False),
        (b"ctypes.CDLL('libcublas.so.13', mode=ctypes.RTLD_GLOBAL)\n", True),
    ],
)
def test_functions_of_a_library_that_python_code_opens_are_found(
    tmp_path: Path, code: bytes, lost: bool
) -> None:
    files = {"demo/__init__.py": code, "demo/libx.so": elf(undefined=["cufftExecC2C"])}
    assert lost == any(f.code == "GF215" for f in audit([wheel(tmp_path, files)]).findings)


@pytest.mark.parametrize("requires", ["torch>=2.8", "torchvision"])
def test_a_requirement_brings_the_framework(tmp_path: Path, requires: str) -> None:
    files = {"demo/__init__.py": b"import torch\n", "demo/ext.so": elf()}
    report = audit([wheel(tmp_path, files, requires=[requires])])
    assert "GF217" not in {finding.code for finding in report.findings}
