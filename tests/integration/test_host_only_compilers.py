"""What real compilers make, held against host-only: of GPU compilers refused, of host compilers proved."""

import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import requests
from host_only_samples import MANIFEST

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines
from gpuforge.manifest.load import load
from gpuforge.plan.expectation import expectation
from gpuforge.toolkits import debian_parts
from gpuforge.toolkits.providers.debian import provision_debian
from gpuforge.toolkits.select import select

pytestmark = [
    pytest.mark.xdist_group("host-only"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]

HOST = """
#include <stdexcept>
#include <vector>
double sum(const std::vector<double> &all) {
    double s = 0;
#pragma omp parallel for reduction(+ : s)
    for (unsigned long i = 0; i < all.size(); i++) s += all[i];
    if (s < 0) throw std::runtime_error("negative");
    return s;
}
"""
OPENACC = """
extern "C" void scale(double *x, int n) {
#pragma acc parallel loop copy(x[0 : n])
    for (int i = 0; i < n; i++) x[i] *= 2;
}
"""
TARGET = OPENACC.replace(
    "#pragma acc parallel loop copy(x[0 : n])",
    "#pragma omp target teams distribute parallel for map(x[0 : n])",
)
CUDA = """
__global__ void k(float *p) { p[threadIdx.x] *= 2; }
extern "C" void run(float *p) { k<<<1, 32>>>(p); }
"""
# clang needs no headers of the toolkit for this, which each of its versions wants of another toolkit
BARE = """
#define __global__ __attribute__((global))
struct dim3 {
    unsigned x, y, z;
    __attribute__((host, device)) dim3(unsigned a, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
extern "C" int cudaConfigureCall(dim3, dim3, unsigned long = 0, void * = nullptr);
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, unsigned long = 0, void * = nullptr);
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
__global__ void k(float *p) { p[0] *= 2; }
extern "C" void run(float *p) { k<<<1, 32>>>(p); }
"""
OFFLOAD = ("-foffload=nvptx-none", "-foffload-options=nvptx-none=-misa=sm_80")

Judge = Callable[..., tuple[set[str], list[str]]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Return the codes of the findings about roles, and what is proved, of a wheel with some files."""

    def of(files: Mapping[str, Path]) -> tuple[set[str], list[str]]:
        (tmp_path / "gpuforge.toml").write_text(MANIFEST)
        path = tmp_path / "demo-1.0-cp311-cp311-linux_x86_64.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
            for name, file in files.items():
                archive.write(file, name)
        (held,) = audit([path], expectation=expectation(load(tmp_path))).wheels
        codes = {f.code for f in held.findings if f.code.startswith("GF6")}
        return codes, [p.text for p in held.proofs if p.topic == "host-only"]

    return of


def compiled(folder: Path, source: str, *argv: str | Path, suffix: str = ".cpp") -> Path:
    """Compile a source to an object or, with -shared, to a library."""
    out = folder / ("x.so" if "-shared" in argv else "x.o")
    (folder / f"x{suffix}").write_text(source)
    done = subprocess.run(
        [*argv, f"x{suffix}", "-o", out.name], cwd=folder, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return out


def forms(out: Path) -> Iterator[tuple[str, dict[str, Path]]]:
    """Yield the files of wheels that have an object or a library: as it is, stripped, in archives."""
    yield "as it is", {f"demo/{out.name}": out}
    for how in ("-g", "--strip-unneeded", "-s") if out.suffix == ".so" else ("-g", "--strip-unneeded"):
        stripped = out.with_name(f"stripped{out.suffix}")
        subprocess.run(["strip", how, out, "-o", stripped], check=True)
        yield f"strip {how}", {f"demo/{out.name}": stripped}
    if out.suffix == ".so":
        return
    for kind, thin in (("rcs", False), ("rcsT", True)):
        out.with_name("libx.a").unlink(missing_ok=True)
        subprocess.run(["ar", kind, "libx.a", out.name], cwd=out.parent, check=True, capture_output=True)
        archive = {"demo/libx.a": out.with_name("libx.a")}
        yield f"ar {kind}", {**archive, "demo/x.o": out} if thin else archive


def verdicts(judge: Judge, out: Path) -> set[tuple[frozenset[str], bool]]:
    """Return the codes of findings and whether something is proved, of all forms of an object or a library."""
    found = {form: judge(files) for form, files in forms(out)}
    return {(frozenset(codes), bool(proved)) for codes, proved in found.values()}


PROVED = {(frozenset[str](), True)}
REFUSED = {(frozenset({"GF601"}), False)}


def refused(judge: Judge, files: Mapping[str, Path]) -> set[str]:
    codes, proved = judge(files)
    assert proved == []
    return codes


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("-g", "-gz"),
        ("-fopenmp",),
        ("-flto", "-ffat-lto-objects"),
        ("-O3", "-fno-asynchronous-unwind-tables"),
        ("-shared",),
        ("-shared", "-fopenmp"),
        ("-shared", "-static-libstdc++", "-static-libgcc"),
    ],
    ids=" ".join,
)
def test_what_gxx_makes_of_host_code_is_proved(judge, tmp_path, flags):
    kind = () if "-shared" in flags else ("-c",)
    assert verdicts(judge, compiled(tmp_path, HOST, "g++", "-O2", "-fPIC", *kind, *flags)) == PROVED


@pytest.mark.parametrize("flags", [("-flto",), ("-fno-ident",)])
def test_what_does_not_show_its_compiler_is_not_proved(judge, tmp_path, flags):
    out = compiled(tmp_path, HOST, "g++", "-O2", "-fPIC", "-c", *flags)
    assert refused(judge, {"demo/x.o": out}) == {"GF604"}


@pytest.fixture
def offload() -> None:
    """Skip where g++ cannot compile for a GPU."""
    done = subprocess.run(
        ["g++", "-print-prog-name=accel/nvptx-none/mkoffload"], capture_output=True, text=True, check=False
    )
    if not Path(done.stdout.strip()).is_absolute():
        pytest.skip("g++ has no compiler for nvptx: apt-get install gcc-12-offload-nvptx")


@pytest.mark.usefixtures("offload")
@pytest.mark.parametrize(
    "flags",
    [
        ("-c", *OFFLOAD),
        ("-c", "-flto", *OFFLOAD),
        ("-c", "-flto", "-ffat-lto-objects", *OFFLOAD),
        ("-shared", *OFFLOAD),
        ("-shared", "-foffload=disable"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(
    ("source", "what"), [(OPENACC, "-fopenacc"), (TARGET, "-fopenmp")], ids=["acc", "omp"]
)
def test_what_gccs_offloading_makes_is_refused(judge, tmp_path, source, what, flags):
    assert verdicts(judge, compiled(tmp_path, source, "g++", "-O2", "-fPIC", what, *flags)) == REFUSED


@pytest.mark.network
@pytest.mark.toolkit
@pytest.mark.parametrize(
    "flags",
    [("-c",), ("-dc",), ("-dlto", "-dc"), ("-shared", "-cudart", "static"), ("-shared", "-cudart", "shared")],
    ids=" ".join,
)
def test_what_nvcc_makes_is_refused(judge, nvcc, tmp_path, flags):
    out = compiled(tmp_path, CUDA, nvcc, "-arch=sm_80", "-Xcompiler", "-fPIC", *flags, suffix=".cu")
    assert verdicts(judge, out) == REFUSED


@pytest.mark.network
@pytest.mark.toolkit
def test_host_code_that_nvcc_hands_on_is_proved(judge, nvcc, tmp_path):
    assert verdicts(judge, compiled(tmp_path, HOST, nvcc, "-c", "-Xcompiler", "-fPIC")) == PROVED


@pytest.fixture(scope="module")
def clang() -> str:
    """Some clang++ of the machine."""
    found = next(
        filter(None, map(shutil.which, ("clang++", *(f"clang++-{n}" for n in range(22, 12, -1))))), None
    )
    return found or pytest.skip("needs clang++: apt-get install clang")


@pytest.fixture(scope="module")
def cuda_12(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CUDA 12.4 of Debian's compiler: newer ones' fatbinary is not called as clang 14 calls it."""
    mirror = debian_parts.mirror()
    try:
        requests.head(mirror, timeout=20).close()
    except requests.RequestException as error:
        pytest.skip(f"{mirror} cannot be reached: {error}")
    root = tmp_path_factory.mktemp("toolkit") / "cuda"
    chosen = select("12.4", provider="debian", libraries=[], machine=platform.machine())
    provision_debian(chosen.source.parts, chosen.source.pins, root)
    return root


@pytest.mark.network
@pytest.mark.toolkit
@pytest.mark.parametrize("flags", [(), ("-fgpu-rdc",), ("--cuda-host-only",)], ids=" ".join)
def test_an_object_of_clang_for_cuda_is_refused(judge, clang, cuda_12, tmp_path, flags):
    argv = [clang, "-c", "-O2", "-fPIC", "-x", "cuda", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_75"]
    argv += [f"--cuda-path={cuda_12}", "-Wno-unknown-cuda-version", *flags]
    assert verdicts(judge, compiled(tmp_path, BARE, *argv, suffix=".cu")) == REFUSED


def test_what_clang_makes_of_host_code_is_proved(judge, clang, tmp_path):
    assert verdicts(judge, compiled(tmp_path, HOST, clang, "-O2", "-fPIC", "-c", "-g")) == PROVED


def test_bitcode_of_clang_is_not_proved(judge, clang, tmp_path):
    out = compiled(tmp_path, HOST, clang, "-O2", "-fPIC", "-c", "-flto")
    assert refused(judge, {"demo/x.o": out}) == {"GF604"}


@pytest.fixture(scope="module")
def neuron(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of libraries of NEURON_gpu 8.2.2, which nvc++ 22.1 compiled."""
    folder = tmp_path_factory.mktemp("neuron")
    options = ["--no-deps", "--only-binary=:all:", "--python-version=3.10", "--platform=manylinux2014_x86_64"]
    argv = [sys.executable, "-m", "pip", "download", "-q", *options, "-d", str(folder), "NEURON-gpu==8.2.2"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"PyPI cannot be reached: {done.stderr.strip().splitlines()[-1]}")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        for name in archive.namelist():
            if name.startswith("neuron/.data/lib/") and name.endswith((".a", ".so")):
                archive.extract(name, folder)
    return folder / "neuron" / ".data" / "lib"


@pytest.mark.network
@pytest.mark.parametrize(
    "how", [(), ("-g",), ("--strip-unneeded",), ("-s",), ("-s", "-R", ".eh_frame")], ids=" ".join
)
@pytest.mark.parametrize(
    "name", ["libinterviews.a", "libunidraw.a", "libscopmath.a", "librxdmath.so", "libnrnmpi_ompi.so"]
)
def test_what_nvcxx_made_is_refused_stripped_or_not(judge, neuron, tmp_path, name, how):
    shutil.copy(neuron / name, tmp_path)
    if how:
        subprocess.run(["strip", *how, name], cwd=tmp_path, check=True, capture_output=True)
    assert refused(judge, {f"demo/{name}": tmp_path / name})


@pytest.mark.network
def test_each_of_the_members_is_named(judge, neuron, tmp_path):
    (tmp_path / "gpuforge.toml").write_text(MANIFEST)
    assert refused(judge, {f"demo/{n}": neuron / n for n in ("libinterviews.a", "libunidraw.a")}) == {"GF601"}
    (wheel,) = tmp_path.glob("*.whl")
    report = audit([wheel], expectation=expectation(load(tmp_path)))
    (found,) = (f for f in report.findings if f.code == "GF601")
    assert [" ".join(line.split(" (")[0].split()[:7]) for line in lines(found)] == [
        "demo/libinterviews.a: made by the NVIDIA HPC compilers",
        "demo/libunidraw.a: made by the NVIDIA HPC compilers",
    ]
    assert ["170 of 170 members" in lines(found)[0], "94 of 94 members" in lines(found)[1]] == [True, True]
