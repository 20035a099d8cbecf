"""Names and types of kernels in what real compilers make: nvcc 13.0 of PyPI, 12.4 and 11.8 of Debian."""

import platform
import subprocess
from pathlib import Path

import pytest

from gpuforge.actions.module_images import kernels_of
from gpuforge.errors import ActionError, MissingError
from gpuforge.package.contents import CompiledModule
from gpuforge.runtime.signature import Entry, Parameter
from gpuforge.toolkits.providers.debian import provision_debian
from gpuforge.toolkits.select import select

pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("build")]
ARCHS = {"11.8": ("52", "80", "90"), "12.4": ("52", "90a"), "13.0": ("75", "90", "120")}
SOURCE = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
struct Particle { float x, y, z; int id; };
struct Large { char bytes[3000]; };
enum class Mode : int { A, B };
extern "C" __global__ void plain(const float *x, double d, char c, Particle p) { if (p.id) *(float *)x = d + c; }
namespace ns {
template <typename T> struct Wide { T v[4]; };
__global__ void scale(float *x, float f, unsigned long long n) { x[0] = f * n; }
__global__ void wide(Wide<double> w, Wide<double> *out) { *out = w; }
}
__global__ void scale(float *x, float f, size_t n) { x[0] = f * n; }
__global__ void scale(double *x, double f, size_t n) { x[0] = f * n; }
namespace { __global__ void hidden(float *x) { *x = 1; } }
static __global__ void local(float *x) { *x = 1; }
void host() { hidden<<<1, 1>>>(nullptr), local<<<1, 1>>>(nullptr); }
template <typename T, Mode M, int N> __global__ void heat(T *x, int n) { x[0] = x[n]; }
template __global__ void heat<float, Mode::B, -4>(float *, int);
template __global__ void heat<__half, Mode::A, 4>(__half *, int);
template <typename... T> __global__ void pack(float *o, T... a) { *o = sizeof...(a); }
template __global__ void pack<short, double>(float *, short, double);
__global__ void large(Large l, const __nv_bfloat16 *b, bool flag, float4 v, void (*f)(int), float (*rows)[3], Mode m)
{ if (flag) *(char *)b = l.bytes[m == Mode::A]; }
__global__ void none() {}
"""
SIGNATURES = [
    "(anonymous namespace)::hidden(float *)",
    "heat<__half, (Mode)0, 4>(__half *, int)",
    "heat<float, (Mode)1, -4>(float *, int)",
    "local(float *)",
    "large(Large, const __nv_bfloat16 *, bool, float4, void (*)(int), float (*)[3], Mode)",
    "none()",
    "ns::scale(float *, float, unsigned long long)",
    "ns::wide(ns::Wide<double>, ns::Wide<double> *)",
    "pack<short, double>(float *, short, double)",
    "plain(8 bytes, 8 bytes, 1 byte, 16 bytes)",
    "scale(double *, double, unsigned long)",
    "scale(float *, float, unsigned long)",
]
SIZES = {"large": [3000, 8, 1, 16, 8, 8, 4], "ns::wide": [32, 8], "none": []}


@pytest.fixture(scope="module")
def compilers(nvcc: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each toolkit's nvcc, fetched when it is first needed."""
    found = {"13.0": nvcc}
    for version in ("11.8", "12.4"):
        try:
            chosen = select(version, provider="debian", libraries=[], machine=platform.machine())
            root = tmp_path_factory.mktemp(f"cuda-{version}") / "cuda"
            provision_debian(chosen.source.parts, chosen.source.pins, root)
            found[version] = root / "bin" / "nvcc"
        except MissingError:
            continue
    return found


def module(compiler: Path, folder: Path, source: str, *archs: str) -> CompiledModule[Path]:
    (folder / "k.cu").write_text(source)
    codes = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in archs]
    codes += [f"-gencode=arch=compute_{archs[0]},code=compute_{archs[0]}"]
    options = ("-std=c++17", "-allow-unsupported-compiler", "-Wno-deprecated-gpu-targets")
    command = [compiler, "-fatbin", *options, *codes, "k.cu", "-o", "k.fatbin"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return CompiledModule("kernels/k.cu", folder / "k.fatbin")


@pytest.mark.parametrize("toolkit", list(ARCHS))
def test_the_kernels_of_all_images(compilers, toolkit, tmp_path):
    if toolkit not in compilers:
        pytest.skip(f"CUDA {toolkit} of Debian cannot be fetched")
    found = kernels_of(module(compilers[toolkit], tmp_path, SOURCE, *ARCHS[toolkit]))
    entries = [Entry(k.symbol, k.name, tuple(map(Parameter._make, k.parameters))) for k in found]
    assert sorted(entry.signature for entry in entries) == sorted(SIGNATURES)
    sizes = {k.name: [parameter.size for parameter in k.parameters] for k in found}
    assert {name: sizes[name] for name in SIZES} == SIZES


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            'extern "C" void host() {}\n__device__ float f(float x) { return x; }\n',
            "this module has no kernel",
        ),
        ("template <typename T> __global__ void f(T *x) { *x = 1; }\n", "this module has no kernel"),
        (
            "__global__ void f(float *x) { *x = 1; }\n"
            "#if __CUDA_ARCH__ >= 900\n__global__ void g(float *x) { *x = 1; }\n#endif\n",
            "have different kernels: g",
        ),
    ],
)
def test_what_is_not_a_module(nvcc, tmp_path, source, message):
    with pytest.raises(ActionError) as error:
        kernels_of(module(nvcc, tmp_path, source, "75", "90"))
    (problem,) = error.value.diagnostics
    assert str(problem.place) == "kernels/k.cu"
    assert message in problem.message
    assert problem.hint
