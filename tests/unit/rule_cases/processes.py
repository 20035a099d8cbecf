"""Cases of the rules: what meets in one process."""

from audit_cases import Case
from audit_samples import CU12, CU13, STATIC_CUDART, elf, fatbin, lib

STATIC = {".rodata": STATIC_CUDART}

HALIDE = elf(defined=["halide_error", "halide_cuda_device_interface"])

HALIDE_CPU = elf(defined=["halide_error", "halide_error_no_device_interface"])

SETS = "demo/_gpuforge/kernels"

BOTH = ["nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"]

CASES = {
    "a static runtime of CUDA 12 beside a torch for CUDA 13": Case(
        "GF104", {"demo/ext.so": elf(sections={".rodata": STATIC_CUDART, ".nv_fatbin": fatbin("compute_80:8.7")})},
        {"demo/ext.so": elf(sections={".rodata": STATIC_CUDART, ".nv_fatbin": fatbin("compute_80:9.0")})},
        requires=["torch>=2.15"],
    ),
    "a static libstdc++ that is exported beside the shared one": Case(
        "GF107", {
            "demo/a.so": elf(defined=["_ZNSt6locale7classicEv"]),
            "demo/b.so": elf(needed=["libstdc++.so.6"], undefined=["_ZNSt6locale7classicEv"]),
        },
        {"demo/b.so": elf()},  # nothing else needs one,
    ),
    "a static libstdc++ that is exported, and torch": Case(
        "GF107",
        {"demo/a.so": elf(defined=["__cxa_get_globals"])}, {"demo/a.so": elf(undefined=["__cxa_get_globals"])},
        requires=["torch==2.8.0"],
    ),
    "a libstdc++ that was renamed by hand, and torch": Case(
        "GF107", {
            "demo/a.so": elf(needed=["libstdc++-demo.so.6"], runpath="$ORIGIN"),
            "demo/libstdc++-demo.so.6": elf(soname="libstdc++-demo.so.6", defined=["_ZNSt6locale7classicEv"]),
        },
        {"demo/a.so": elf(needed=["libstdc++.so.6"]), "demo/libstdc++-demo.so.6": None},
        requires=["torch==2.8.0"],
    ),
    "a libstdc++ that was renamed by hand, and the system's": Case(
        "GF107", {
            "demo/a.so": elf(needed=["libstdc++-demo.so.6", "libstdc++.so.6"], runpath="$ORIGIN"),
            "demo/libstdc++-demo.so.6": elf(soname="libstdc++-demo.so.6", defined=["_ZNSt6locale7classicEv"]),
        },
        {"demo/a.so": elf(needed=["libstdc++.so.6"])},
    ),
    "Halide's runtime for GPUs in two kernel sets; in one set they are alternatives": Case(
        "GF111", {
            f"{SETS}/blur/libblur-compute_80.so": HALIDE,
            f"{SETS}/blur/libblur-cpu.so": HALIDE_CPU,
            f"{SETS}/sharpen/libsharpen-compute_80.so": HALIDE,
        },
        {f"{SETS}/sharpen/libsharpen-compute_80.so": None},
    ),
    "Halide's runtime for GPUs in two modules; a pipeline compiled with no_runtime needs another's": Case(
        "GF111", {"demo/blur.so": HALIDE, "demo/sharpen.so": HALIDE},
        {"demo/sharpen.so": elf(undefined=["halide_error", "halide_cuda_device_interface"])},
    ),
    "Halide's runtime for CPUs twice": Case(
        "GF111", {"demo/a.so": HALIDE_CPU, "demo/b.so": HALIDE_CPU}, {"demo/b.so": elf()},
    ),
    "static beside shared in one import": Case(
        "GF103", {
            "demo/ext.so": elf(needed=["liba.so", "libcudart.so.13"], runpath=f"$ORIGIN/libs:{CU13}"),
            "demo/libs/liba.so": lib("liba.so", sections=STATIC),
        },
        {"demo/libs/liba.so": lib("liba.so")}, requires=BOTH,
    ),
    "a kernel library's static one beside the shared one of its package": Case(
        "GF103", {
            "demo/ext.so": elf(needed=["libcudart.so.13"], runpath=CU13),
            "demo/_gpuforge/kernels/ops/libops.so": lib("libops.so", sections=STATIC),
        },
        {"demo/_gpuforge/kernels/ops/libops.so": lib("libops.so")}, requires=BOTH,
    ),
    "a kernel library's shared one beside the static one of its package": Case(
        "GF103", {
            "demo/ext.so": elf(sections=STATIC),
            "demo/_gpuforge/kernels/ops/libops.so": lib(
                "libops.so", needed=["libcudart.so.13"], runpath=f"$ORIGIN/../../../../{CU13[11:]}"
            ),
        },
        {"demo/ext.so": elf()}, requires=BOTH,
    ),
    "static in several imports": Case(
        "GF103", {"demo/a.so": elf(sections=STATIC), "demo/b.so": elf(sections=STATIC)},
        {"demo/b.so": elf()},
    ),
    "NVIDIA's own have it by design": Case(
        "GF103", {"demo/a.so": elf(sections=STATIC), "demo/b.so": elf(sections=STATIC)},
        {"demo/b.so": None, "demo/libcufft-0a1b2c3d.so.12": lib("libcufft.so.12", sections=STATIC)},
    ),
    "two majors in one import": Case(
        "GF104", {
            "demo/ext.so": elf(needed=["liba.so", "libcudart.so.13"], runpath=f"$ORIGIN/libs:{CU13}"),
            "demo/libs/liba.so": lib("liba.so", needed=["libcudart.so.12"], runpath=f"$ORIGIN/../{CU12[8:]}"),
        },
        {"demo/libs/liba.so": lib("liba.so")}, requires=BOTH,
    ),
    "two majors in two imports": Case(
        "GF104", {
            "demo/a.so": elf(needed=["libcudart.so.12"], runpath=CU12),
            "demo/b.so": elf(needed=["libcudart.so.13"], runpath=CU13),
        },
        # chosen from by name, so never together; a SONAME of several majors says nothing
        {"demo/a.so": None, "demo/b_cuda12.so": elf(needed=["libcudart.so.12"], runpath=CU12)}, requires=BOTH,
    ),
    "several OpenMP runtimes": Case(
        "GF105", {
            "demo/ext.so": elf(needed=["libgomp-0a1b2c3d.so.1", "libomp.so"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/libgomp-0a1b2c3d.so.1": lib("libgomp-0a1b2c3d.so.1"),
        },
        {"demo/ext.so": elf(needed=["libgomp-0a1b2c3d.so.1"], runpath="$ORIGIN/../demo.libs")},
    ),
    "two HPC SDKs": Case(
        "GF106", {
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
        "GF107", {
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
        "GF107", {
            "demo/ext.so": elf(needed=["libmvec-2-583a17db.28.so"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/libmvec-2-583a17db.28.so": elf(soname="libmvec-2-583a17db.28.so", needed=["libm.so.6"]),
        },
        {"demo/ext.so": elf(needed=["libm.so.6"]), "demo.libs/libmvec-2-583a17db.28.so": None},
    ),
    "two C++ libraries": Case(
        "GF107", {
            "demo/ext.so": elf(needed=["libstdc++-0a1b2c3d.so.6", "libstdc++.so.6"], runpath="$ORIGIN"),
            "demo/libstdc++-0a1b2c3d.so.6": lib("libstdc++-0a1b2c3d.so.6"),
        },
        {"demo/ext.so": elf(needed=["libstdc++.so.6"], runpath="$ORIGIN")},
    ),
    "two C++ libraries under a musl tag": Case(
        "GF107", {
            "demo/ext.so": elf(needed=["libstdc++-0a1b2c3d.so.6", "libstdc++.so.6"], runpath="$ORIGIN"),
            "demo/libstdc++-0a1b2c3d.so.6": lib("libstdc++-0a1b2c3d.so.6"),
        },
        {"demo/ext.so": elf(needed=["libstdc++-0a1b2c3d.so.6"], runpath="$ORIGIN")},
        name="demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
    ),
    "a library twice, by its major and by its file's name": Case(
        "GF108", {
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
        "GF108", {
            "demo/x.so": elf(needed=["liba.so"], runpath="$ORIGIN"), "demo/liba.so": lib("liba.so.1"),
            "demo/y.so": elf(needed=["liba-0a1b2c3d.so.1.2"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/liba-0a1b2c3d.so.1.2": lib("liba-0a1b2c3d.so.1.2"),
        },
        {"demo/liba.so": lib("liba.so.2")},
    ),
    "a library twice": Case(
        "GF108", {
            "demo/x.so": elf(needed=["liba.so"], runpath="$ORIGIN"), "demo/liba.so": lib("liba.so"),
            "demo/y.so": elf(needed=["liba-0a1b2c3d.so"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/liba-0a1b2c3d.so": lib("liba-0a1b2c3d.so"),
        },
        {"demo/y.so": elf(needed=["liba.so"], runpath="$ORIGIN")},
    ),
    "a library twice, the grafted copy behind the other": Case(
        "GF108", {
            "demo/x.so": elf(needed=["liba.so", "libb.so"], runpath="$ORIGIN"), "demo/liba.so": lib("liba.so"),
            "demo/libb.so": lib("libb.so", needed=["liba-0a1b2c3d.so"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/liba-0a1b2c3d.so": lib("liba-0a1b2c3d.so"),
        },
        {"demo/libb.so": lib("libb.so", needed=["liba.so"], runpath="$ORIGIN")},
    ),
    "a grafted CUDA library beside the package's": Case(
        "GF109", {
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
        "GF109", {
            "demo/ext.so": elf(needed=["libcublas-0a1b2c3d.so.13", "libtorch.so"], runpath="$ORIGIN/../demo.libs"),
            "demo.libs/libcublas-0a1b2c3d.so.13": lib("libcublas-0a1b2c3d.so.13"),
        },
        {"demo/ext.so": elf(needed=["libcublas.so.13", "libtorch.so"])}, requires=["torch>=2.14"],
    ),
    "two grafted copies of a CUDA library": Case(
        "GF109", {
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
        "GF109", {
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
        "GF102", {
            "demo/a.so": elf(needed=["libcudart.so.13"], runpath="$ORIGIN/libs"),
            "demo/b.so": elf(needed=["libcudart.so.13"], runpath=CU13),
            "demo/libs/libcudart.so.13": lib("libcudart.so.13"),
        },
        {"demo/a.so": elf()}, requires=["nvidia-cuda-runtime"],
    ),
    "one name in two places, opened by its path": Case(
        "GF102", {
            "demo/a.so": elf(needed=["libcudart.so.13"], runpath="$ORIGIN/libs"),
            "demo/b.so": elf(needed=["libcudart.so.13"], runpath=CU13),
            "demo/libs/libcudart.so.13": lib("libcudart.so.13"),
            "demo/load.py": b"CDLL(join(dirname(__file__), 'libs', 'libcudart.so.13'))",
        },
        {"demo/a.so": elf()}, requires=["nvidia-cuda-runtime"],
    ),
    "one OpenMP runtime's name in two places": Case(
        "GF105", {
            "demo/a.so": elf(needed=["libgomp.so.1"], runpath="$ORIGIN/libs"),
            "demo/b.so": elf(needed=["libgomp.so.1"], runpath="$ORIGIN/../more"),
            "demo/libs/libgomp.so.1": lib("libgomp.so.1"),
            "more/libgomp.so.1": lib("libgomp.so.1"),
        },
        {"demo/b.so": elf()},
    ),
    "one libstdc++'s name in two places": Case(
        "GF107", {
            "demo/a.so": elf(needed=["libstdc++.so.6"], runpath="$ORIGIN/libs"),
            "demo/b.so": elf(needed=["libstdc++.so.6"]),
            "demo/libs/libstdc++.so.6": lib("libstdc++.so.6"),
        },
        {"demo/b.so": elf()},
    ),
}  # fmt: skip


HASHED = "libnvomp-fb1a2b9f.so"


HOST = elf(soname="libhost.so", needed=[HASHED, "libc.so.6"], runpath="$ORIGIN/../demo.libs")


MODULE = elf(needed=["libhost.so"], runpath="$ORIGIN/lib")


USERS_BUILD = {"demo/ext.so": MODULE, "demo/lib/libhost.so": HOST, f"demo.libs/{HASHED}": elf(soname=HASHED)}
