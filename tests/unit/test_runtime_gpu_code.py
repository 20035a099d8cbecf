"""GPU code of users' builds: what each compiler leaves, beside what it leaves where there is none."""

import shutil
import struct
import subprocess

import pytest
from audit_samples import elf, image

from gpuforge.binary.cubin import embedded
from gpuforge.runtime.arch import Arch
from gpuforge.runtime.userbuild.check import _require_gpu_code as require
from gpuforge.runtime.userbuild.execute import Stopped
from gpuforge.runtime.userbuild.gpu_code import gpu_code

KERNEL = b"\0.text._Z1kPf\0"


def container(*images: bytes) -> bytes:
    return b"\x50\xed\x55\xba\x01\x00\x10\x00" + struct.pack("<Q", len(b"".join(images))) + b"".join(images)


def cubin(content: bytes = KERNEL, abi: int = 7, flags: int = 90) -> bytes:
    head = (b"\x7fELF\x02\x01\x01A" + bytes([abi])).ljust(18, b"\0") + b"\xbe\x00"
    return head.ljust(40, b"\0") + struct.pack("<QI6xHHH", 64 + len(content), flags, 0, 0, 0) + content


def packaged(content: bytes) -> bytes:
    entry = struct.pack("<HHIQQQQ", 2, 1, 0, 0, 0, 72, len(content))
    head = b"\x10\xff\x10\xad" + struct.pack("<IQQQ", 1, 72 + len(content), 32, len(entry))
    return head + entry + content


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (container(image("sm_90", content=KERNEL)), ["sm_90"]),
        (container(image("sm_90", content=KERNEL), image("compute_80:8.7", content=b".entry k")),
         ["sm_90", "compute_80"]),
        (container(image("sm_90a", compressed=900)), ["sm_90a"]),
        (container(image("lto_80")), ["compute_80"]),
        (container(image("sm_90"), image("compute_90:9.0", compressed=72)), []),  # of nvcc, without a kernel
        (container(image("sm_80", compressed=464)), []),  # of nvc++, without a function
        (container(), []),
        (cubin(), ["sm_90"]),  # of clang++'s offloading
        (cubin(flags=0x85A), ["sm_90a"]),
        (cubin(abi=8, flags=100 << 8), ["sm_100"]),  # of CUDA 13
        (cubin(flags=0), ["cubin"]),
        (cubin(b"\0.symtab\0"), []),
        (b"__CLANG_OFFLOAD_BUNDLE__\x02" + bytes(7), ["clang offload bundle"]),
        (b"\x10\xff\x10\xad\x01\0\0\0", ["LLVM offload binary"]),
        (packaged(cubin()), ["sm_90"]),  # of clang++ 16's
        (packaged(cubin(b"\0.symtab\0")), []),
        (packaged(b"BC\xc0\xde"), ["LLVM offload binary"]),
        (b".version 8.7\n.target sm_80\n", ["PTX"]),
        (b"words of no compiler", []),
        (b"\x50\xed\x55\xba\x01\x00\x10\x00", []),  # cut off
    ],
)  # fmt: skip
def test_each_form_is_found_and_what_is_empty_is_not(tmp_path, data, found):
    library = tmp_path / "libx.so"
    library.write_bytes(elf(sections={".rodata": data}))
    assert [image.label for image in gpu_code(library)] == found


@pytest.mark.parametrize(
    ("images", "gpu", "problem"),
    [
        (["sm_90"], Arch(9, 0), ""),
        (["sm_80"], Arch(8, 6), ""),
        (["compute_80:8.7"], Arch(9, 0), ""),
        (["sm_80", "sm_86"], Arch(9, 0), "does not run on sm_90: it has GPU code for sm_80, sm_86"),
        (["compute_90:8.7"], Arch(8, 0), "does not run on sm_80: it has GPU code for compute_90"),
        ([], Arch(9, 0), "no GPU code: the compiler made none for sm_90"),
    ],
)
def test_code_for_another_gpu_is_refused(tmp_path, images, gpu, problem):
    library = tmp_path / "libx.so"
    content = KERNEL + b".entry k"
    library.write_bytes(elf(sections={".r": container(*(image(each, content=content) for each in images))}))
    if problem:
        with pytest.raises(Stopped, match=problem):
            require(library, gpu.sm, gpu)
    else:
        require(library, gpu.sm, gpu)


def test_offloaded_code_for_another_gpu_is_refused(tmp_path):
    library = tmp_path / "libx.so"
    library.write_bytes(elf(sections={".rodata": packaged(cubin(flags=75))}))
    with pytest.raises(Stopped, match="does not run on sm_90: it has GPU code for sm_75"):
        require(library, "sm_90", Arch(9, 0))


@pytest.mark.parametrize(
    ("runtime", "abi", "refused"),
    [
        ("libomptarget.so.19.1", 8, True),
        ("libomptarget.so.16", 8, True),
        ("libomptarget.so.19.1", 7, False),  # of CUDA 12
        ("libomptarget.so.21.1", 8, False),
        ("libcudart.so.13", 8, False),
    ],
)
def test_machine_code_that_llvms_openmp_does_not_load(tmp_path, runtime, abi, refused):
    library = tmp_path / "libx.so"
    library.write_bytes(
        elf(
            needed=[runtime],
            sections={".rodata": packaged(cubin(abi=abi, flags=90 << 8 if abi >= 8 else 90))},
        )
    )
    if refused:
        with pytest.raises(Stopped, match=f"{runtime} does not load: use a toolkit of CUDA 12"):
            require(library, "sm_90", Arch(9, 0))
    else:
        require(library, "sm_90", Arch(9, 0))


NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
SOURCES = {
    "cuda": '__global__ void k(float *x) { *x *= 2; } extern "C" void f(float *x) { k<<<1, 1>>>(x); }',
    "acc": 'extern "C" void f(int n, float *x) {\n#pragma acc parallel loop copy(x[0:n])\n'
    "for (int i = 0; i < n; i++) x[i] *= 2; }",
    "omp": 'extern "C" void f(int n, float *x) {\n#pragma omp target teams distribute parallel for map(x[0:n])\n'
    "for (int i = 0; i < n; i++) x[i] *= 2; }",
    "none": 'extern "C" void f(int n, float *x) { for (int i = 0; i < n; i++) x[i] *= 2; }',
}
OFFLOAD = ["g++", "-fopenacc", "-foffload-options=nvptx-none=-Wa,--no-verify"]
CLANG = [
    *("clang++", "-fopenmp", "-fopenmp-targets=nvptx64-nvidia-cuda", "--cuda-path=/usr/local/cuda"),
    *("-Xopenmp-target", "-march=sm_75"),
]


def _offloads() -> bool:
    part = "accel/nvptx-none/mkoffload"  # g++ answers the same where it is missing
    asked = subprocess.run(["g++", f"-print-prog-name={part}"], capture_output=True, text=True, check=True)
    return asked.stdout.strip() != part


@pytest.mark.thorough
@pytest.mark.toolkit
@pytest.mark.parametrize(
    ("argv", "source", "found"),
    [
        ([NVCC, "-arch=sm_75", "-Xcompiler", "-fPIC"], "cuda", ["sm_75", "compute_75"]),
        ([NVCC, "-arch=sm_75", "-Xcompiler", "-fPIC", "-cudart=shared"], "none", []),
        ([NVCC, "-arch=sm_75", "-Xcompiler", "-fPIC"], "none", []),  # with libcudart inside
        ([*OFFLOAD, "-fPIC"], "acc", ["GCC offloading", "PTX"]),
        ([*OFFLOAD, "-fPIC"], "none", []),
        ([*CLANG, "-fPIC"], "omp", ["sm_75"]),
        ([*CLANG, "-fPIC"], "none", []),
    ],
)
def test_real_compilers(tmp_path, argv, source, found):
    if not shutil.which(argv[0]):
        pytest.skip(f"{argv[0]} is not installed")
    if argv[0] == "g++" and not _offloads():
        pytest.skip("g++ has no offload compiler: apt-get install gcc-12-offload-nvptx")
    file = tmp_path / ("x.cu" if argv[0] == NVCC else "x.cpp")
    file.write_text(SOURCES[source])
    library = tmp_path / "libx.so"
    made = subprocess.run(
        [*argv, "-O2", "-shared", str(file), "-o", str(library)], capture_output=True, text=True, check=False
    )
    if made.returncode and argv[0] != NVCC:
        pytest.skip(f"{argv[0]} cannot offload here: {made.stderr.splitlines()[-1]}")
    assert made.returncode == 0, made.stderr
    assert [image.label for image in gpu_code(library)] == found
    packaged = embedded(library.read_bytes())
    assert [entry.target for each in packaged for entry in each.entries] == (
        ["sm_75"] if found in (["sm_75"], ["sm_75", "compute_75"]) else []
    )
