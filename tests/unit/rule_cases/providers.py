"""Cases of the rules: who provides what, and where it is searched for."""

import json

from audit_cases import Case
from audit_samples import CU13, FLAGS_1, LIBS, elf, lib
from document_samples import RECIPE, TOOLCHAIN

from gpuforge.cuda.provided import PackageRelease, Shared

GOMP = "libgomp-a34b3233.so.1.0.0"

RECIPE_FILE = "demo/_gpuforge/sources/m/recipe.json"
FALLBACK = "demo/_gpuforge/kernels/k/k.so"

BY_COMMAND = {**TOOLCHAIN, "argv": ["demo-build", "{sources}"], "by_command": True}


def beside_hashed_openmp(*toolchains: str) -> dict[str, bytes]:
    offered = [{**TOOLCHAIN, "name": name} for name in toolchains]
    return {
        f"demo.libs/{GOMP}": lib(GOMP),
        "demo/ext.so": elf(needed=[GOMP], runpath="$ORIGIN/../demo.libs"),
        RECIPE_FILE: json.dumps({**RECIPE, "toolchains": offered}).encode(),
    }


CUDNN_PARTS = [f"libcudnn_{part}.so.9" for part in ("adv", "cnn", "graph", "ops")]

OLD_NUMPY = (
    b"numpy.core._multiarray_umath\0module compiled against ABI version 0x%x but this version of numpy\0"
)
NEW_NUMPY = b"numpy.corenumpy._core\0" + OLD_NUMPY  # as Rust's crate has them

SITE = "$ORIGIN/../../../../{}/python3.11/site-packages/b"

CASES = {
    "a module is imported before torch, whose import loads what it needs": Case(
        "GF202", {
            "demo/__init__.py": b"import os\nfrom . import ext\nimport torch\n",
            "demo/ext.so": elf(needed=["libc10.so"], strings=["PyInit_ext"]),
        },
        {"demo/__init__.py": b"import os\nimport torch\nfrom . import ext\n"},
        requires=["torch==2.9.1"],
    ),
    "torch is imported and not required": Case(
        "GF217",
        {"demo/__init__.py": b"from . import ops\n", "demo/ops.py": b"import torch.nn\n", "demo/ext.so": elf()},
        {"demo/ops.py": b'"""\nimport torch\n"""\ntry:\n    import torch\nexcept ImportError:\n    torch = None\n'},
        requires=["numpy"],
    ),
    "torch is imported by a module, which is named from the top": Case(
        "GF217",
        {"demo/__init__.py": b"import demo.core as core\n", "demo/core/__init__.py": b"from .a import *\n",
         "demo/core/a.py": b"from torch.nn import Module\n", "demo/ext.so": elf()},
        {"demo/core/a.py": None, "demo/a.py": b"import torch\n"},
    ),
    "torch is imported, and required by an extra": Case(
        "GF217", {"demo/__init__.py": b"from torch import nn\n", "demo/ext.so": elf()},
        {"demo/__init__.py": b"def f():\n    import torch\n", "demo/lazy.py": b"import torch\n"},
        requires=["torch; extra == 'all'"],
    ),
    "modules for NumPy 1": Case(
        "GF219",
        {"demo/ext.so": elf(strings=["PyInit_ext"], sections={".rodata": OLD_NUMPY})},
        {"demo/ext.so": elf(strings=["PyInit_ext"], sections={".rodata": NEW_NUMPY})},
        requires=["numpy>=1.19", "numpy>=2; extra == 'all'"],
    ),
    "a module that is linked with libpython": Case(
        "GF201",
        {"demo/ext.so": elf(strings=["PyInit_ext"], needed=["libpython3.11.so.1.0"])},
        {"demo/ext.so": elf(strings=["PyInit_ext"])},
    ),
    "hashed OpenMP beside sources": Case("GF101", beside_hashed_openmp("host"), {RECIPE_FILE: None}),
    "hashed OpenMP of the fallback that the sources replace, and of another object": Case(
        "GF101",
        {**beside_hashed_openmp("host"), FALLBACK: elf(needed=[GOMP], runpath="$ORIGIN/../../../../demo.libs")},
        {"demo/ext.so": None},
    ),
    "hashed OpenMP beside sources for several toolchains": Case(
        "GF101", beside_hashed_openmp("host", "acc"), {RECIPE_FILE: None},
    ),
    "the driver is needed": Case(
        "GF206", {
            "demo/ext.so": elf(needed=["liba.so"], runpath="$ORIGIN"),
            "demo/liba.so": lib("liba.so", needed=["libcuda.so.1"], undefined=["cuInit"]),
        },
        {"demo/liba.so": lib("liba.so")},
    ),
    "the driver is needed by an import": Case(
        "GF206", {
            "demo/ext.so": elf(needed=["libcuda.so.1"], strings=["PyInit_ext"], undefined=["cuMemAlloc_v2"]),
            "demo/__init__.py": b"import demo.ext\n",
        },
        {"demo/ext.so": elf(strings=["PyInit_ext"])},
    ),
    "the driver is needed by what Python opens": Case(
        "GF206", {
            "demo/libx.so": elf(needed=["libcuda.so.1"]),
            "demo/__init__.py": b"ctypes.CDLL(os.path.join(ROOT, 'libx.so'))\n",
        },
        {"demo/libx.so": elf()},
    ),
    "the driver is needed by what nothing imports": Case(
        "GF206", {
            "demo/libx_gpu.so": elf(needed=["libcuda.so.1"], undefined=["cuInit"]),
            "demo/ext.so": elf(strings=["PyInit_ext"]),
            "demo/__init__.py": b"import demo.ext\n",
        },
        {"demo/libx_gpu.so": elf()},
    ),
    "the driver is needed by an import and by what nothing imports": Case(
        "GF206", {
            "demo/ext.so": elf(needed=["libcuda.so.1"], strings=["PyInit_ext"]),
            "demo/libx_gpu.so": elf(needed=["libcuda.so.1"]), "demo/__init__.py": b"import demo.ext\n",
        },
        {"demo/ext.so": elf(strings=["PyInit_ext"]), "demo/libx_gpu.so": elf()},
    ),
    "build files of another machine": Case(
        "GF306", {
            "demo/x_makefile": b"TOOL = /root/demo/bin/tool\nFLAGS=-O2 -I/project/include\n# see /home/me/notes\n",
            "demo/demo.pc": b"libdir='/__w/1/s/lib'\n",
        },
        {
            "demo/x_makefile": b"TOOL = $(ROOT)/demo/bin/tool\nT=/usr/local/bin/x /opt/nvidia/x\n\tsed s/a/b/c x\n"
            b"U=https://example.org/a/b\n",
            "demo/demo.pc": b"libdir=${prefix}/lib\n",
        },
    ),
    "scripts of another machine": Case(
        "GF306", {
            "demo-1.0.data/scripts/demo-build": b"#!/bin/sh\nexec /usr/local/cuda-11.4/bin/nvcc \"$@\"\n",
            "demo/bin/tool": b"#!/opt/python/cp311-cp311/bin/python\nFLAGS = '-I/tmp/build/demo/include'\n",
            "demo/make.sh": b"make -C /opt/build/demo\n",
            "demo/share/nrnivmodl": b"#!/bin/sh\nexec /root/nrn/build/bin/nrnivmodl-core\n",
        },
        {
            "demo-1.0.data/scripts/demo-build": b"#!/usr/bin/env python3\nexec /usr/local/cuda/bin/nvcc > /tmp/log\n",
            "demo/bin/tool": b"\x7fELF /opt/build/demo\0", "demo/share/nrnivmodl": b"see /root/nrn/build/bin\n",
            "demo/make.sh": b"ls /opt/rocm-6.2/bin /opt/intel/x\n",
        },
    ),
    "a makefile of another machine among the sources that users compile": Case(
        "GF306", {
            RECIPE_FILE: json.dumps(RECIPE).encode(),
            "demo/_gpuforge/sources/m/Makefile": b"CXX = /usr/local/cuda-11.4/bin/nvcc\n",
        },
        {"demo/_gpuforge/sources/m/Makefile": b"CXX = $(CUDA_HOME)/bin/nvcc\n"},
    ),
    "a command for users' builds that calls a makefile of another machine": Case(
        "GF306", {
            RECIPE_FILE: json.dumps({**RECIPE, "toolchains": [BY_COMMAND]}).encode(),
            "demo-1.0.data/scripts/demo-build": b"#!/bin/sh\nmake -f demo.mk\n",
            "demo/demo.mk": b"TOOL = /opt/build/demo/bin/tool\n",
        },
        {"demo/demo.mk": b"TOOL = $(DEMO)/bin/tool\n"},
    ),
    "configurations of another machine": Case(
        "GF306", {
            "demo/_config.py": b"NVCC = '/usr/local/cuda-11.4/bin/nvcc'\nFLAGS = ['-I/opt/build/include']\n",
            "demo/__config__.py": b'{"include": r"/project/build/include"}\n',
        },
        {
            "demo/_config.py": b"URL = '/v1/chat/completions'\n# /opt/build/x\nNVCC = '/usr/local/cuda/bin/nvcc'\n",
            "demo/__config__.py": None, "demo/config.py": b"LOG = '/tmp/demo.log'\n",
            "demo/other.py": b"X = '/opt/build/include'\n",
        },
    ),
    "the driver is grafted": Case(
        "GF207", {"demo.libs/libcuda-0a1b2c3d.so.1": lib("libcuda-0a1b2c3d.so.1")},
        {"demo.libs/libcuda-0a1b2c3d.so.1": None, "demo/lib/stubs/libcuda.so": lib("libcuda.so.1")},
    ),
    "opened by name": Case(
        "GF208", {"demo/ext.so": elf(sections={".rodata": b"x\0libnvrtc.so.12\0libcuda.so.1\0"})},
        {"demo/ext.so": elf(needed=["libnvrtc.so.12"], sections={".rodata": b"x\0libnvrtc.so.12\0"})},
    ),
    "opened by a name of two numbers, or of a short one": Case(
        "GF208",
        {"demo/ext.so": elf(sections={".rodata": b"x\0libcudart.so.11.0\0libnccl.so.2\0libcudart.so.11.0.1\0"})},
        {"demo/ext.so": elf(sections={".rodata": b"x\0libmynccl.so.2\0libcudart.so.11.0 is not there\0"})},
    ),
    "an orphan": Case(
        "GF209", {"demo.libs/libz-0a1b2c3d.so.1": lib("libz-0a1b2c3d.so.1"), "demo/ext.so": elf()},
        {"demo/ext.so": elf(needed=["libz-0a1b2c3d.so.1"], runpath="$ORIGIN/../demo.libs")},
    ),
    "an orphan, and what only it needs": Case(
        "GF209", {
            "demo.libs/libz-0a1b2c3d.so.1": lib("libz-0a1b2c3d.so.1", needed=["liby-0a1b2c3d.so.1"]),
            "demo.libs/liby-0a1b2c3d.so.1": lib("liby-0a1b2c3d.so.1"), "demo/ext.so": elf(),
        },
        {"demo.libs/demo.icd": b"libz-0a1b2c3d.so.1"},
    ),
    "an orphan that a layer of Vulkan does not name": Case(
        "GF209", {
            "demo.libs/libz-0a1b2c3d.so.1": lib("libz-0a1b2c3d.so.1"), "demo/ext.so": elf(),
            "demo/data/x_icd.x86_64.json": b'{"ICD": {"library_path": "libother.so.1"}}',
        },
        {"demo/data/x_icd.x86_64.json": b'{"ICD": {"library_path": "../../demo.libs/libz-0a1b2c3d.so.1"}}'},
    ),
    "a SONAME that was kept": Case(
        "GF210", {
            "demo.libs/libz.0a1b2c3d.so.1": lib("libz.so.1"),
            "demo/ext.so": elf(needed=["libz.0a1b2c3d.so.1"], runpath="$ORIGIN/../demo.libs"),
        },
        {"demo.libs/libz.0a1b2c3d.so.1": lib("libz.0a1b2c3d.so.1")},
    ),
    "stray symbol versions": Case(
        "GF211", {"demo/ext.so": elf(versions={"libx.so.1": ["LIBX_1"], "libc.so.6": ["GLIBC_2.4"]})},
        {"demo/ext.so": elf(needed=["libx.so.1"], versions={"libx.so.1": ["LIBX_1"]})},
    ),
    "symbol versions of a library with its old name": Case(
        "GF211", {
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
        "GF211", {
            "demo/ext.so": elf(versions={"libx.so.1": ["LIBX_1"], "libc.so.6": ["GLIBC_2.4"]}),
            "demo/a.py": b'CDLL("libx.so.1", mode=RTLD_GLOBAL)\n',
        },
        {"demo/ext.so": elf(needed=["libx.so.1"], versions={"libx.so.1": ["LIBX_1"]})},
    ),
    "a program without a path to a package": Case(
        "GF202", {"demo/bin/tool": elf(needed=["libcudart.so.13"], interpreter="/lib64/ld-linux-x86-64.so.2")},
        {"demo/bin/tool": elf(needed=["libc.so.6"], interpreter="/lib64/ld-linux-x86-64.so.2")},
        requires=["nvidia-cuda-runtime>=13,<14"],
    ),
    "what no import loads, without a path to a package": Case(
        "GF202",
        {"demo/hook.so": elf(needed=["libcudart.so.13"]), "demo/__init__.py": b'HOOK = "hook.so"\n'},
        {"demo/hook.so": elf(needed=["libcudart.so.13"], runpath="$ORIGIN/../nvidia/cu13/lib")},
        requires=["nvidia-cuda-runtime>=13,<14"],
    ),
    "what a module needs and does not find, and its own library": Case(
        "GF201", {
            "demo/ext.so": elf(needed=["libx.so"], strings=["PyInit_ext"]), "demo/__init__.py": b"from . import ext\n",
            "demo/lib/libx.so": lib("libx.so", needed=["libgomp.so.1"]),
        },
        {"demo/lib/libx.so": lib("libx.so")},
    ),
    "a plugin of another package's program": Case(
        "GF202", {"plugins/libxy.so": elf(needed=["libx.so", "libhost.so"]), "plugins/libx.so": lib("libx.so")},
        {"plugins/libxy.so": elf(needed=["libx.so", "libhost.so"], runpath="$ORIGIN")},
    ),
    "what a library brings along that must be there before": Case(
        "GF202", {
            "plugins/libxy.so": elf(needed=["libx.so", "libhost.so", "libcudart.so.13"], runpath="$ORIGIN"),
            "plugins/libx.so": lib("libx.so", needed=["libcudart.so.13"], runpath="$ORIGIN/../nvidia/cu13/lib"),
        },
        {"plugins/libxy.so": elf(needed=["libx.so", "libhost.so"], runpath="$ORIGIN")},
        requires=["nvidia-cuda-runtime>=13,<14"],
    ),
    "a framework's part that is not for everybody": Case(
        "GF201", {"demo/demo_torch_ops.so": elf(needed=["libc10.so"])}, {"demo/demo_torch_ops.so": elf()},
    ),
    "a framework's part, of the CUDA that came with it": Case(
        "GF201", {"demo/demo_torch_ops.so": elf(needed=["libcudart.so.10.2"])}, {"demo/demo_torch_ops.so": elf()},
    ),
    "a requirement that may bring it": Case(
        "GF201", {"demo/ext.so": elf(needed=["libcublas.so.12"])}, {"demo/ext.so": elf()}, requires=["libdemo-cu12"],
    ),
    "alternatives for versions of a library": Case(
        "GF201", {
            "demo/_ffmpeg6.so": elf(needed=["libavutil.so.58"], strings=["PyInit__ffmpeg6"]),
            "demo/_ffmpeg7.so": elf(needed=["libavutil.so.59"], strings=["PyInit__ffmpeg7"]),
        },
        {"demo/_ffmpeg6.so": elf(), "demo/_ffmpeg7.so": elf()},
    ),
    "a plug-in that no import loads": Case(
        "GF201", {
            "demo/libdemo_provider.so": elf(needed=["libcublas.so.12"]), "demo/ext.so": elf(strings=["PyInit_ext"]),
            "demo/__init__.py": b"from . import ext\n",
        },
        {"demo/libdemo_provider.so": elf()},
    ),
    "torch of another major, not even required": Case(
        "GF204", {"demo/ext.so": elf(needed=["libcudart.so.12", "libc10_cuda.so"])},
        {"demo/ext.so": elf(needed=["libcudart.so.13", "libc10_cuda.so"])},
        requires=["numpy; extra == 'all'"],
    ),
    "cuDNN without its parts": Case(
        "GF213", {
            "demo.libs/libcudnn-463fd6d5.so.8.9.7": elf(
                soname="libcudnn-463fd6d5.so.8.9.7", runpath="$ORIGIN",
                sections={".rodata": b"\0libcudnn_ops_infer.so.8\0"},
            ),
            "demo/ext.so": elf(needed=["libcudnn-463fd6d5.so.8.9.7"], runpath="$ORIGIN/../demo.libs"),
        },
        {"demo.libs/libcudnn_ops_infer.so.8": elf(soname="libcudnn_ops_infer.so.8")},
    ),
    "cuDNN 9 without its parts, whose versions it adds itself": Case(
        "GF213", {
            "demo.libs/libcudnn-74a4c495.so.9.1.0": elf(
                soname="libcudnn-74a4c495.so.9.1.0", runpath="$ORIGIN", sections={".rodata": b"\0libcudnn_ops.so\0"}
            ),
            "demo/ext.so": elf(needed=["libcudnn-74a4c495.so.9.1.0"], runpath="$ORIGIN/../demo.libs"),
        },
        {"demo.libs/libcudnn_ops.so.9": elf(soname="libcudnn_ops.so.9")},
    ),
    "cuDNN that opens a part of later releases": Case(
        "GF213", {
            "nvidia/cudnn/lib/libcudnn_graph.so.9": lib(
                "libcudnn_graph.so.9", sections={".rodata": b"libcudnn_engines_tensor_ir.so\0"}
            ),
        },
        {"nvidia/cudnn/lib/libcudnn_engines_tensor_ir.so.9": lib("libcudnn_engines_tensor_ir.so.9")},
        name="nvidia_cudnn_cu13-9.20.0.48-py3-none-manylinux_2_27_x86_64.whl",
    ),
    "cuDNN without a path to its parts": Case(
        "GF213", {
            "demo.libs/libcudnn.so.9": elf(soname="libcudnn.so.9"),
            **{f"demo.libs/{name}": lib(name) for name in CUDNN_PARTS},
            "demo/ext.so": elf(needed=["libcudnn.so.9"], runpath=LIBS),
        },
        {"demo.libs/libcudnn.so.9": elf(soname="libcudnn.so.9", rpath="$ORIGIN")},
    ),
    "cuDNN with a path to another folder than that of its parts": Case(
        "GF213", {
            "demo.libs/libcudnn.so.9": elf(
                soname="libcudnn.so.9", runpath="$ORIGIN/../demo/lib",
                sections={".rodata": b"\0libcudnn_graph.so.9\0"},
            ),
            "demo.libs/libcudnn_graph.so.9": lib("libcudnn_graph.so.9"),
            "demo/ext.so": elf(needed=["libcudnn.so.9"], runpath=LIBS),
        },
        {"demo/ext.so": elf(needed=["libcudnn.so.9", "libcudnn_graph.so.9"], runpath=LIBS)},  # it is loaded before,
    ),
    "NVIDIA's own NVRTC without a path to its builtins": Case(
        "GF213", {
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
        "GF213",
        {"demo/cupti/libcupti.so.12": lib("libcupti.so.12"), "demo/cupti/libnvperf_host.so": lib("libnvperf_host.so")},
        {"demo/__init__.py": b"ctypes.CDLL(os.path.join(HERE, 'cupti', 'libnvperf_host.so'))\n"},
    ),
    "a grafted NVRTC with a requirement of its package": Case(
        "GF213", {
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
        "GF213", {
            "demo.libs/libcufft-0a1b2c3d.so.11.3.3": lib(
                "libcufft-0a1b2c3d.so.11.3.3", sections={".rodata": b"\0libnvJitLink.so.12\0libnvrtc.so.12\0"}
            ),
            "demo/ext.so": elf(needed=["libcufft-0a1b2c3d.so.11.3.3"], runpath=LIBS),
        },
        {"demo.libs/libcufft-0a1b2c3d.so.11.3.3": lib("libcufft-0a1b2c3d.so.11.3.3")},  # an older one,
    ),
    "ROCm's library, which no part of the same release has": Case(
        "GF201", {"demo/ext.so": elf(needed=["libamdhip64.so.6"])}, {"demo/ext.so": elf()}, requires=["demo-core==1.0"],
    ),
    "opened by name, declared, and no path": Case(
        "GF208", {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so.12\0"})},
        {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so.12\0"}, runpath="$ORIGIN/../nvidia/cublas/lib")},
        requires=["nvidia-cublas-cu12; extra == 'gpu'"],
    ),
    "opened by name, declared, and loaded by Python code": Case(
        "GF208", {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so.12\0"})},
        {"demo/a.py": b"ctypes.CDLL(os.path.join(SITE, 'nvidia', 'cublas', 'lib', 'libcublas.so.12'))\n"},
        requires=["nvidia-cublas-cu12"],
    ),
    "opened by name, for another major than the one that is declared": Case(
        "GF208", {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so.12\0"})},
        {
            "demo/ext.so": elf(  # one of two that are tried
                sections={".rodata": b"\0libcublas.so.13\0libcublas.so.12\0"}, runpath=CU13
            )
        },
        requires=["nvidia-cublas==13.*"],
    ),
    "opened by a name that only toolkits have": Case(
        "GF208", {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so\0cannot open libcudart.so\0"})},
        {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so\0libcublas.so.%d\0"})},  # the version is added
        requires=["nvidia-cublas==13.*"],
    ),
    "NVRTC without its builtins": Case(
        "GF213", {
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
        "GF202", {
            "demo/lib/libx.so": lib("libx.so"), "demo/p.so": elf(needed=["libx.so", "libelse.so"]),
            "demo/a.py": b"torch.ops.load_library(path)\n",
        },
        {"demo/p.so": elf(needed=["libx.so", "libelse.so"], runpath="$ORIGIN/lib")},
    ),
    "a library whose file is not named as it is NEEDED": Case(
        "GF202", {
            "demo/ext.so": elf(needed=["libx.so.1"], runpath="$ORIGIN"), "demo/include/libx.so": lib("libx.so.1"),
        },
        {
            "demo/ext.so": elf(needed=["libx.so.1"], runpath="$ORIGIN/include"), "demo/include/libx.so": None,
            "demo/include/libx.so.1": lib("libx.so.1"),
        },
    ),
    "a file with a library's name that is none": Case(
        "GF202", {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN"), "demo/libx.so": b"version 1"},
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN"), "demo/libx.so": lib("libx.so")},
    ),
    "one for another machine comes first under a musl tag": Case(
        "GF202", {
            "demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN/a:$ORIGIN"), "demo/libx.so": lib("libx.so"),
            "demo/a/libx.so": elf(soname="libx.so", machine=183),
        },
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN:$ORIGIN/a")},
        name="demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
    ),
    "a program with a library's name": Case(
        "GF202",
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN"), "demo/libx.so": elf(dynamic=[(FLAGS_1, 1 << 27)])},
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN"), "demo/libx.so": elf(dynamic=[(FLAGS_1, 1)])},
    ),
    "a library for the start of programs alone": Case(
        "GF202",
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN"), "demo/libx.so": elf(dynamic=[(FLAGS_1, 0x40)])},
        {
            "demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN", interpreter="/lib64/ld-linux-x86-64.so.2"),
            "demo/libx.so": elf(dynamic=[(FLAGS_1, 0x40)]),
        },
    ),
    "a module for the start of programs alone": Case(
        "GF202", {"demo/ext.so": elf(strings=["PyInit_ext"], dynamic=[(FLAGS_1, 0x40)])},
        {"demo/ext.so": elf(dynamic=[(FLAGS_1, 0x40)])},
    ),
    "without the system's folders": Case(
        "GF202", {"demo/ext.so": elf(needed=["libm.so.6", "libc.so.6"], dynamic=[(FLAGS_1, 0x800)])},
        {"demo/ext.so": elf(needed=["libc.so.6"], dynamic=[(FLAGS_1, 0x800)])},
    ),
    "a path that only some environments have": Case(
        "GF202", {"demo/ext.so": elf(needed=["libx.so"], runpath=SITE.format("lib64")), "b/libx.so": lib("libx.so")},
        {"demo/ext.so": elf(needed=["libx.so"], runpath=SITE.format("lib")), "b/libx.so": lib("libx.so")},
    ),
    "a path through a folder that nothing is installed into": Case(
        "GF202", {
            "demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN/../c/../b"),
            "b/libx.so": lib("libx.so"),
        },
        {
            "demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN/../c/../b"),
            "b/libx.so": lib("libx.so"), "c/d/x.py": b"",
        },
    ),
    "symbols that the program has to bring": Case(
        "GF212", {
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
        "GF212", {"demo/ext.so": elf(undefined=[f"__pgi_{c}" for c in "abcd"], defined=["__pgi_own"])},
        {"demo/ext.so": elf(undefined=["__pgi_a"], needed=["libnvc.so"])},
    ),
    "out of the environment": Case(
        "GF303", {"demo/ext.so": elf(runpath="$ORIGIN/../../../../../lib:$ORIGIN/../../../../lib")},
        {"demo/ext.so": elf(runpath="$ORIGIN/../../../../lib")},
    ),
    "RPATH to other packages": Case(
        "GF304", {"demo/ext.so": elf(needed=["libcudart.so.13"], rpath=CU13)},
        {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)}, requires=["nvidia-cuda-runtime"],
    ),
    "a system folder first": Case(
        "GF305", {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=f"/usr/local/cuda/lib64:{CU13}")},
        {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=f"{CU13}:/usr/local/cuda/lib64")},
        requires=["nvidia-cuda-runtime"],
    ),
    "a package before the wheel's own": Case(
        "GF305", {
            "demo/ext.so": elf(needed=["libcudart.so.13"], runpath=f"{CU13}:$ORIGIN"),
            "demo/libcudart.so.13": lib("libcudart.so.13"),
        },
        {"demo/libcudart.so.13": None}, requires=["nvidia-cuda-runtime"],
    ),
    "a package that is not declared, before the wheel's own": Case(
        "GF305", {
            "demo/ext.so": elf(needed=["libcudart.so.13"], runpath=f"{CU13}:$ORIGIN"),
            "demo/libcudart.so.13": lib("libcudart.so.13"),
        },
        {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=f"$ORIGIN:{CU13}")},
    ),
}  # fmt: skip


RELEASE = PackageRelease(
    "nvidia-curand", "10.4.5.25", "newest", "nvidia_curand-10.4.5.25.whl", "",
    libraries=(Shared("libcurand.so.10", "nvidia/cu13/lib", ("libcudart.so.13", "libm.so.6")),),
)  # fmt: skip
