"""Cases of the rules: the plainest of each group."""

import json
from hashlib import sha256
from pathlib import Path

import document_samples
from audit_cases import Case
from audit_samples import CUDART, EXEC_STACK, KERNEL, LIBS, NVOMP, SET, elf, fatbin, grafted, index, user_of
from document_samples import LIBRARIES, recipe

GOMP = "demo.libs/libgomp-a34b3233.so.1.0.0"

CU13 = "$ORIGIN/../nvidia/cu13/lib"

VMFB = b"IREE\0//\n.version 7.6\n.target sm_80\n.visible .entry k() { ret; }\0more"


def for_iree(arch: str) -> bytes:
    image = {"kind": "iree-cuda", "arch": arch, "isa": "7.6"}
    return index(file="k.vmfb", sha256=sha256(VMFB).hexdigest(), images=[image])


LIBRARY = elf()


def library_index(abi: str) -> bytes:
    library = {**document_samples.LIBRARY, "sha256": sha256(LIBRARY).hexdigest()}
    return json.dumps({**LIBRARIES, "abi": abi, "libraries": [library]}).encode()


SOURCES = "demo/_gpuforge/sources/m/"

CASES = {
    "hashed runtime beside an archive": Case(
        "GF101", {
            NVOMP: grafted(NVOMP), "demo/libcore.so": user_of(NVOMP), "demo/ext.so": user_of(NVOMP),
            "demo/x.a": b"!<arch>\n",
        },
        {"demo/x.a": None},
    ),
    "hashed cudart beside a makefile": Case(
        "GF101", {CUDART: grafted(CUDART), "demo/ext.so": user_of(CUDART), "demo/nrnmech_makefile": b"all:\n"},
        {"demo/nrnmech_makefile": None},
    ),
    "hashed OpenMP is milder": Case(
        "GF101", {GOMP: grafted(GOMP), "demo/ext.so": user_of(GOMP), "demo/demoConfig.cmake": b"\n"},
        {"demo/demoConfig.cmake": None},
    ),
    "hashed OpenMP beside a left-over archive": Case(
        "GF101", {GOMP: grafted(GOMP), "demo/ext.so": user_of(GOMP), "demo/libdemo.a": b"!<arch>\n"},
        {"demo/libdemo.a": None},
    ),
    "grafted and torch's cudart": Case(
        "GF102",
        {CUDART: grafted(CUDART), "demo/ext.so": elf(needed=[Path(CUDART).name, "libtorch.so"], runpath=LIBS)},
        {"demo/ext.so": user_of(CUDART)},
        requires=["torch>=2.12"],
    ),
    "nobody provides": Case("GF201", {"demo/ext.so": elf(needed=["libcudart.so.12"])}, {"demo/ext.so": elf()}),
    "nobody provides, and nothing is required": Case(
        "GF201", {
            "demo/ext.so": elf(needed=["libc10.so", "libc10_cuda.so", "libnvrtc.so.12", "libcudart.so.12"]),
            "demo/a.py": b"CDLL(os.path.join(ROOT, 'libcudart.so.12'))\n",
        },
        {"demo/ext.so": elf()},
    ),
    "a library of the machine": Case(
        "GF201", {"demo/ext.so": elf(needed=["libnuma.so.1"])},
        {"demo/ext.so": elf(needed=["libz.so.1", "libGL.so.1", "ld-linux-x86-64.so.2"])},
    ),
    "a CUDA library that no package has": Case(
        "GF201", {"demo/ext.so": elf(needed=["libcudart.so.10.1", "libcudnn.so.7"])},
        {"demo/ext.so": elf(needed=["libcudnn.so.7"], runpath="$ORIGIN"), "demo/libcudnn.so.7": elf()},
    ),
    "declared and not reachable": Case(
        "GF202", {"demo/ext.so": elf(needed=["libcudart.so.13"])},
        {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)},
        requires=["nvidia-cuda-runtime>=13,<14"],
    ),
    "inside and not reachable": Case(
        "GF202", {"demo/lib/libx.so": elf(soname="libx.so"), "demo/ext.so": elf(needed=["libx.so"])},
        {"demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN/lib")},
    ),
    "inside, and another object has it loaded": Case(
        "GF202", {
            "demo/lib/libx.so": elf(soname="libx.so"), "demo/plugin.so": elf(needed=["libx.so"]),
            "demo/ext.so": elf(needed=["libx.so"], runpath="$ORIGIN/lib"),
        },
        {"demo/plugin.so": elf(needed=["libx.so"], runpath="$ORIGIN/lib")},
    ),
    "reachable and not declared": Case(
        "GF203", {"demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13)},
        {"demo/ext.so": elf(runpath=CU13)},
    ),
    "torch of another major": Case(
        "GF204", {"demo/ext.so": elf(needed=["libcudart.so.12"])},
        {"demo/ext.so": elf(needed=["libcudart.so.13"])},
        requires=["torch>=2.10"],
    ),
    "loaded by Python": Case(
        "GF205", {"demo/ext.so": elf(needed=["libcublas.so.12"]), "demo/a.py": b"load_nvidia_dynamic_lib('cublas')\n"},
        {"demo/ext.so": elf(needed=["libcublas.so.12"], runpath="$ORIGIN/../nvidia/cublas/lib")},
        requires=["nvidia-cublas-cu12; extra == 'ctk'"],
    ),
    "loaded by Python from wherever": Case(
        "GF205", {"demo/ext.so": elf(needed=["libcublas.so.12"]), "demo/a.py": b"CDLL(find('cublas'))\n"},
        {"demo/a.py": b"CDLL(find('cufft'))\n"},
    ),
    "loaded by Python that users have to call": Case(
        "GF205", {
            "demo/ext.so": elf(needed=["libcublas.so.12"]),
            "demo/a.py": b"def preload():\n    CDLL(os.path.join(ROOT, 'libcublas.so.12'))\n",
        },
        {"demo/ext.so": elf(needed=["libcublas.so.12"], runpath="$ORIGIN/../nvidia/cublas/lib")},
        requires=["nvidia-cublas-cu12"],
    ),
    "inside, and imported by Python": Case(
        "GF202", {"demo/libx.so": elf(strings=["PyInit_libx"]), "demo/plugins/p.so": elf(needed=["libx.so"])},
        {"demo/plugins/p.so": elf(needed=["libx.so"], runpath="$ORIGIN/..")},
    ),
    "one of several variants, and none fits": Case(
        "GF204", {"demo/libx_cuda118.so": elf(needed=["libcublas.so.11"])},
        {"demo/libx_cuda130.so": elf(needed=["libcublas.so.13"])},
        requires=["torch"],
    ),
    "a relative search path": Case(
        "GF301", {"demo/ext.so": elf(rpath="demo.libs:$ORIGIN/x")},
        {"demo/ext.so": elf(rpath="${ORIGIN}/x")},
    ),
    "an empty search path entry": Case(
        "GF301", {"demo/ext.so": elf(runpath="$ORIGIN:")},
        {"demo/ext.so": elf(runpath="")},
    ),
    "the build machine's folder, and import torch loads the library": Case(
        "GF302", {"demo/ext.so": elf(rpath="/build/lib", needed=["libc10.so"])},
        {"demo/ext.so": elf(rpath="$ORIGIN", needed=["libc10.so"])},
        requires=["torch"],
    ),
    "a folder of the system before the one of a package": Case(
        "GF302", {"demo/ext.so": elf(runpath=f"/usr/local/cuda/lib64:{CU13}", needed=["libcudart.so.13"])},
        {"demo/ext.so": elf(runpath=CU13, needed=["libcudart.so.13"])},
        requires=["nvidia-cuda-runtime>=13"],
    ),
    "a folder of the system behind it": Case(
        "GF302", {"demo/ext.so": elf(runpath=f"{CU13}:/usr/local/cuda/lib64", needed=["libcudart.so.13"])},
        {"demo/ext.so": elf(runpath=CU13, needed=["libcudart.so.13"])},
        requires=["nvidia-cuda-runtime>=13"],
    ),
    "a folder of the system, the only place of a library": Case(
        "GF302", {"demo/ext.so": elf(runpath="$ORIGIN/../rocm/lib:/opt/rocm/lib", needed=["libamdhip64.so.7"])},
        {"demo/ext.so": elf(runpath="$ORIGIN/../rocm/lib", needed=["libamdhip64.so.7"])},
    ),
    "a folder of the system behind a folder without the wheel's own library": Case(
        "GF302", {
            "demo/ext.so": elf(runpath="$ORIGIN:/opt/rocm/lib", needed=["libamdhip64.so.7", "librccl.so.1"]),
            "demo/include/librccl.so": elf(soname="librccl.so.1"),
        },
        {
            "demo/ext.so": elf(runpath="$ORIGIN", needed=["libamdhip64.so.7", "librccl.so.1"]),
            "demo/include/librccl.so": elf(soname="librccl.so.1"),
        },
    ),
    "a folder of a Python of the build machine": Case(
        "GF302",
        {"demo/ext.so": elf(runpath="/usr/local/lib/python3.9/dist-packages/rocm/lib", needed=["libamdhip64.so.7"])},
        {"demo/ext.so": elf(needed=["libamdhip64.so.7"])},
    ),
    "the build machine's folder, dead": Case(
        "GF302", {"demo/ext.so": elf(runpath="/build/lib")},
        {"demo/ext.so": elf(runpath="$ORIGIN")},
    ),
    "a higher symbol version than the tag": Case(
        "GF501",
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.28", "GLIBC_2.4"], "libstdc++.so.6": ["GLIBCXX_3.4.21"]})},
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.17"], "libx.so.1": ["GLIBC_2.99", "OMP_9"]})},
    ),
    "another machine": Case("GF501", {"demo/ext.so": elf(machine=183)}, {"demo/ext.so": elf()}),
    "a wheel for anywhere": Case(
        "GF501", {"demo/ext.so": elf()}, {"demo/ext.so": None}, name="demo-1.0-py3-none-any.whl",
    ),
    "a wheel for anywhere that has something for others too": Case(
        "GF501", {"demo/ext.so": elf(), "demo/macos/tool": b"\xcf\xfa\xed\xfe", "demo/windows/a.py": b"\n"},
        {"demo/ext.so": None}, name="demo-1.0-py3-none-any.whl",
    ),
    "symbols that glibc keeps for itself": Case(
        "GF501", {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_PRIVATE", "GLIBC_2.17"]})},
        {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.17"]})},
    ),
    "a folder that everybody can make": Case(
        "GF302", {"demo/ext.so": elf(runpath="$ORIGIN:/tmp/build/lib")},
        {"demo/ext.so": elf(runpath="$ORIGIN")},
    ),
    "tags that disagree": Case("GF502", {"demo/ext.so": elf()}, {}, tags=["cp311-cp311-linux_x86_64"]),
    "a tag with two parts": Case("GF502", {"demo/ext.so": elf()}, {}, tags=["cp311-manylinux_2_17_x86_64"]),
    "an executable stack": Case("GF503", {"demo/ext.so": elf(stack=EXEC_STACK)}, {"demo/ext.so": elf()}),
    "a kernel set with another file": Case(
        "GF701", {f"{SET}index.json": index(), f"{SET}k.fatbin": fatbin("sm_80")}, {f"{SET}k.fatbin": KERNEL},
    ),
    "a module of IREE's with PTX for another GPU": Case(
        "GF701", {f"{SET}index.json": for_iree("compute_60"), f"{SET}k.vmfb": VMFB},
        {f"{SET}index.json": for_iree("compute_80")},
    ),
    "a kernel set without an image": Case(
        "GF701", {
            f"{SET}index.json": index(
                images=[{"kind": "cubin", "arch": "sm_90"}, {"kind": "ptx", "arch": "compute_90", "isa": "8.7"}]
            ),
            f"{SET}k.fatbin": KERNEL,
        },
        {f"{SET}index.json": index()},
    ),
    "a kernel set with a file too many": Case(
        "GF701",
        {f"{SET}index.json": index(), f"{SET}k.fatbin": KERNEL, f"{SET}old.fatbin": KERNEL}, {f"{SET}old.fatbin": None},
    ),
    "an index that is none": Case(
        "GF701", {f"{SET}index.json": b'{"schema": 9}', f"{SET}k.fatbin": KERNEL}, {f"{SET}index.json": index()},
    ),
    "sources whose fallback is not there": Case(
        "GF701", {f"{SOURCES}recipe.json": recipe(fallbacks=["k"]), f"{SOURCES}a.cpp": b"// a\n"},
        {f"{SET}index.json": index(), f"{SET}k.fatbin": KERNEL},
    ),
    "a fallback library with another ABI": Case(
        "GF701", {
            f"{SOURCES}recipe.json": recipe(fallbacks=["k"], abi="1-0a"), f"{SOURCES}a.cpp": b"// a\n",
            f"{SET}index.json": library_index("2-0b"), f"{SET}libk.so": LIBRARY,
        },
        {f"{SET}index.json": library_index("1-0a")},
    ),
    "sources that changed": Case(
        "GF702", {f"{SOURCES}recipe.json": recipe(), f"{SOURCES}a.cpp": b"// b\n"}, {f"{SOURCES}a.cpp": b"// a\n"},
    ),
    "sources that are not there": Case("GF702", {f"{SOURCES}recipe.json": recipe()}, {f"{SOURCES}a.cpp": b"// a\n"}),
    "a file that RECORD does not list": Case(
        "GF703", {"demo/ext.so": elf()}, {},
        record={"demo/ext.so": "", "demo/gone.py": "demo/gone.py,sha256=x,3"},
    ),
    "a requirement that is none": Case("GF704", {"demo/ext.so": elf()}, {}, requires=["numpy >>1"]),
    "a damaged binary": Case("GF705", {"demo/ext.so": elf()[:30]}, {"demo/ext.so": elf()}),
}  # fmt: skip
