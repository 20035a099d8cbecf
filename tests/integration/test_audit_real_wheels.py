"""The audit on wheels from PyPI: what it must say of them, what it must not, and versions and sections."""

import io
import json
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from builds import GPUFORGE, run
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from gpuforge.audit import audit
from gpuforge.audit.elf_patterns import patterns
from gpuforge.audit.judge import Report
from gpuforge.audit.read.wheel import read
from gpuforge.audit.report.sentences import lines
from gpuforge.runtime.arch import Arch

pytestmark = pytest.mark.network

Wheel = Callable[[str], Path]
Said = Callable[[str], dict[tuple[str, str], tuple[str, ...]]]


@pytest.fixture(scope="session")
def report(wheel: Wheel) -> Callable[[str], Report]:
    return cache(lambda requirement: audit([wheel(requirement)]))


@pytest.fixture(scope="session")
def said(report: Callable[[str], Report]) -> Said:
    """Return the subjects of each finding by (code, severity)."""
    return lambda requirement: {(f.code, f.severity): lines(f) for f in report(requirement).findings}


NVHPC = """
    libnvhpcatm-406400d8 libnvomp-fb1a2b9f libnvc-ca879ffd libnvcpumath-avx2-91375214 libacchost-c31344de
    libacccuda-43e350a6 libaccdevaux-f0c679c6 libcudadevice-5901c3a2 libcudanvhpc-8257c6fc
""".split()  # noqa: SIM905


def test_neuron_gpu_names_each_runtime_and_who_loads_it(said):
    found = said("neuron-gpu==8.2.2")
    assert {code for code, severity in found if severity == "error"} == {"GF101", "GF108", "GF301", "GF503"}
    pins = [line for line in found["GF101", "error"] if " asks for " in line]
    assert any(line.endswith("nvc++ of the NVIDIA HPC SDK 22.1") for line in pins)
    lines = {line.partition(" ")[0]: line for line in found["GF101", "error"] if line not in pins}
    assert lines.keys() == {*(f"{name}.so" for name in NVHPC), "libcudart-4554289f.so.11.5.117"}
    assert lines["libcudart-4554289f.so.11.5.117"].endswith("loaded by nrniv-core, mod2c_core")
    assert "(NVIDIA HPC SDK 22.1)" in lines["libnvc-ca879ffd.so"]  # its own runtimes were built by 21.11
    assert "libacchost.so comes beside it when users link against" in lines["libacchost-c31344de.so"]
    assert [line.partition(",")[0] for line in found["GF108", "error"]] == [
        "neuron/.data/lib/libnrniv.so",
        "NEURON_gpu.libs/libnrniv-b13f8654.so",
    ]
    assert any("libnvcpumath-avx2-91375214.so (for avx2)" in line for line in found["GF505", "warning"])
    loose = {Path(line.partition(": ")[0]).name: line for line in found["GF212", "warning"]}
    assert loose.keys() == {f"{name}.so" for name in NVHPC if name.startswith(("libnvomp", "libacc"))}
    assert len(loose["libnvomp-fb1a2b9f.so"].partition(" define ")[2].split(", ")) == 36  # by readelf
    for loader in ("libnrniv.so", "libnrnpython3.so", "librxdmath.so", "libcorenrnmpi_ompi.so", "nrniv-core"):
        assert loader in lines["libnvomp-fb1a2b9f.so"]
    assert len(found["GF301", "error"]) == 9
    assert {Path(file).name for file in found["GF503", "error"]} == {
        "libnvomp-fb1a2b9f.so",
        "libnvcpumath-avx2-91375214.so",
        "libaccdevaux-f0c679c6.so",
        "nrniv-core",
        "mod2c_core",
    }


def test_neuron_gpu_against_its_users_sdk_lists_what_would_be_there_twice_and_through_what(wheel):
    """Issue 2446, seen before a release: a user of nvc++ 22.1 links a model against this wheel."""
    path, options = wheel("neuron-gpu==8.2.2"), ("--against", "nvhpc@22.1", "--format", "json")
    done = run(GPUFORGE, "audit", path, *options)
    assert done.returncode == 1
    (finding,) = [each for each in json.loads(done.stdout)["findings"] if each["code"] == "GF110"]
    parts = [line.partition(": loaded through ") for line in finding["subject"]]
    through = {file.rpartition("/")[2]: rest.partition("; nvhpc 22.1 brings ") for file, _, rest in parts}
    assert through.keys() == {*(f"{name}.so" for name in NVHPC), "libcudart-4554289f.so.11.5.117"}
    assert through["libnvomp-fb1a2b9f.so"][::2] == (
        "libnrniv.so, libnrnpython3.so, librxdmath.so and 8 more",
        "libnvomp.so",
    )
    assert through["libacccuda-43e350a6.so"][::2] == ("nrniv-core, mod2c_core", "libacccuda.so")
    assert through["libacchost-c31344de.so"][0] == (
        "libcorenrnmpi_mpt.so, libcorenrnmpi_ompi.so, libcorenrnmpi_mpich.so"
    )


def test_neuron_without_gpu_has_no_toolchain_runtime(said):
    found = said("neuron==9.0.2")
    assert not any(code.startswith("GF1") for code, _ in found)
    # its demo program was left with the build machine's RUNPATH, and cannot start
    assert found["GF202", "error"] == (
        "libnrniv.so (neuron/.data/lib/libnrniv.so), "
        "NEEDED by neuron/.data/share/nrn/demo/release/x86_64/special",
    )
    assert {code for code, severity in found if severity == "error"} == {"GF202", "GF302"}


def test_cufinufft_has_no_providers(said, report):
    said_of = dict(said("cufinufft==2.5.1"))
    assert said_of.pop(("GF708", "info"))[1].startswith("sections: __nv_relfatbin 98 MiB, .nv_fatbin 65 MiB")
    assert said_of == {
        ("GF201", "error"): (
            "libcudart.so.12 (nvidia-cuda-runtime-cu12), NEEDED by cufinufft/libcufinufft.so",
            "libcufft.so.11 (nvidia-cufft-cu12), NEEDED by cufinufft/libcufinufft.so",
        ),
        ("GF407", "warning"): ("cufinufft/libcufinufft.so: 97 of 167 MiB",),
        ("GF408", "info"): (
            "cufinufft/libcufinufft.so: 10.0, 12.0 with driver 570.26 or newer; "
            "10.3 with driver 575.51.03 or newer",
        ),
    }
    (found,) = report("cufinufft==2.5.1").objects
    linked, inputs = (
        [c for c in found.containers if c.section == section] for section in (".nv_fatbin", "__nv_relfatbin")
    )
    assert (len(linked), len(inputs)) == (1, 14)
    assert all(len(c.cubins) == 14 for c in found.containers)
    assert [c.ptx for c in inputs] == [{Arch(9, 0)}] * 14


def test_cupy_is_wrong_in_its_tag_alone(said, report):
    found = said("cupy-cuda12x==14.2.0")
    assert {key for key in found if key[1] != "info"} == {("GF501", "error"), ("GF502", "warning")}
    assert {"GF103", "GF205"} <= {code for code, severity in found if severity == "info"}
    assert any("GLIBCXX_3.4.21" in line for line in found["GF501", "error"])
    assert any("CXXABI_1.3.9" in line for line in found["GF501", "error"])
    static = {o.name.partition(".")[0] for o in report("cupy-cuda12x==14.2.0").objects if o.has_static_cudart}
    assert static == {"cub", "jitify", "thrust", "_generator_api", "runtime"}


def test_torchvision_meets_torchs_cudart(said):
    found = said("torchvision==0.29.2")
    assert {key for key in found if key[1] == "error"} == {("GF102", "error"), ("GF210", "error")}
    assert len(found["GF210", "error"]) == 7
    assert any("libcudart.3eda8113.so.13" in line for line in found["GF102", "error"])
    assert "/__w/_temp/conda_environment_40679574592/lib" in found["GF302", "warning"][0]
    assert ("GF502", "warning") in found


def test_xformers_wants_another_major_than_torch_brings(said):
    assert said("xformers==0.0.35").keys() == {("GF204", "error"), ("GF408", "info")}


def test_a_library_that_is_no_module_of_python_is_for_every_python(said):
    """torchao's `_C_mxfp8.cpython-310-….so` has no PyInit_: torch loads it."""
    assert "GF504" not in {code for code, _ in said("torchao==0.18.0")}


def test_rapids_finds_its_libraries_through_its_requirements(said):
    assert not {code for code, severity in said("rmm-cu12==26.10.0") if severity != "info"}


def test_an_older_ctranslate2_cannot_be_loaded_by_new_systems(said):
    found = said("ctranslate2==3.24.0")
    assert {key for key in found if key[1] == "error"} == {("GF301", "error"), ("GF503", "error")}
    assert "libcudnn_ops_infer.so.8" in found["GF213", "warning"][0]


def test_faiss_and_torchvision_together_are_of_two_majors(wheel):
    given = [wheel("faiss-gpu-cu12==1.14.1.post1"), wheel("torchvision==0.29.2")]
    found = {f.code: f for f in audit(given).findings}
    assert (found["GF104"].severity, found["GF104"].wheel) == ("warning", given[1].name)
    loaded = "CUDA 12: libcudart.so.12, loaded by faiss/_swigfaiss.so of faiss-gpu-cu12 1.14.1.post1"
    assert loaded in lines(found["GF104"])


# What was found by hand, with readelf, METADATA and imports on a machine without CUDA. The answers on a few of
# these (tensorflow-text, tilelang, pennylane, sherpa-onnx, ctranslate2, qiskit-aer-gpu) changed a rule.
@pytest.mark.parametrize(
    ("requirement", "errors"),
    [
        ("torchvision==0.16.2", {"GF102", "GF210", "GF501"}),
        ("torchaudio==2.11.0", {"GF201"}),  # it is linked with torch and CUDA, and requires nothing
        ("torchcodec==0.17.0", {"GF201"}),
        ("torchao==0.18.0", {"GF201"}),
        ("dgl==2.1.0", {"GF501"}),
        ("bitsandbytes==0.50.2", {"GF501"}),
        ("decord==0.6.0", set()),
        ("faiss-gpu-cu12==1.14.1.post1", {"GF403"}),  # nothing for Hopper and Blackwell
        ("ctranslate2==4.8.5", set()),
        ("xformers==0.0.28", set()),
        ("spconv-cu118==2.3.8", set()),
        ("qiskit-aer-gpu==0.18.2", set()),
        ("pennylane-lightning-gpu==0.45.0", set()),
        ("jax-cuda13-plugin==0.10.2", set()),
        ("cuda-bindings==13.5.0", set()),
        ("scikit-learn==1.9.1", set()),
        ("lightgbm==4.7.0", set()),
        ("sherpa-onnx==2.0.1", set()),
        ("tensorflow-text==2.21.1", set()),
        ("tilelang==0.1.15", set()),
        ("torch-tensorrt==2.14.0", {"GF202"}),  # its programs, which import nothing
        ("intel-extension-for-pytorch==2.8.0", {"GF201", "GF202"}),
        ("xfastertransformer==2.1.2", {"GF501"}),  # "any", for Linux on x86_64 alone
        ("mediapipe==1.2.2", set()),
        ("PyQt5==5.15.10", set()),
    ],
)
def test_errors_are_those_found_by_hand(said, requirement, errors):
    assert {code for code, severity in said(requirement) if severity == "error"} == errors


@pytest.mark.parametrize(
    "requirement",
    [
        "cuml-cu13==26.10.0",
        "cuvs-cu12==26.10.0",
        "pylibcugraph-cu12==26.10.0",
        "ucxx-cu12==0.52.0",
        "librmm-cu13==26.10.0",
    ],
)
def test_rapids_has_no_warnings(said, requirement):
    assert not {code for code, severity in said(requirement) if severity != "info"}


def test_torchvision_beside_torch_says_what_it_says_alone(wheel):
    given = [wheel("torchvision==0.29.2"), wheel("torch==2.15.0")]
    (found,) = [f for f in audit(given).findings if f.code == "GF102"]
    assert found.wheel == given[0].name
    assert any(line.endswith("loaded by torchvision/image_stable.so") for line in lines(found))
    assert any("(nvidia-cuda-runtime), loaded by " in line for line in lines(found))


@pytest.mark.parametrize(
    "requirement",
    [
        "nvidia-cuda-runtime-cu12==12.9.79",
        "psutil==7.2.2",
        "tokenizers==0.23.3",
        "cryptography==50.0.2",
        "pandas==3.1.1",
        "pyopencl==2026.1.4",
        "cuda-core==1.2.2",
    ],
)
def test_sound_wheels_are_clean(said, requirement):
    assert said(requirement) == {}


def test_of_a_sound_wheel_the_record_of_its_build_is_information(said):
    ((rule, places),) = said("numpy==2.4.6").items()
    assert rule == ("GF306", "info")
    assert {place.partition(": ")[0].rpartition("/")[2] for place in places} == {
        "__config__.py",
    }


@pytest.mark.parametrize(
    "requirement",
    [
        "neuron-gpu==8.2.2",
        "torchvision==0.29.2",
        "cupy-cuda12x==14.2.0",
        "numpy==2.4.6",
        "tokenizers==0.23.3",
    ],
)
def test_versions_and_sections_are_what_pyelftools_reads(wheel, requirement):
    path = wheel(requirement)
    objects = {found.file: found for found in read(path, patterns()).objects}
    seen = 0
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as stream:
                if stream.read(4) != b"\x7fELF":
                    continue
            peer = ELFFile(io.BytesIO(archive.read(name)))
            found = objects[name]
            seen += 1
            needs = peer.get_section_by_name(".gnu.version_r")
            if isinstance(needs, GNUVerNeedSection):
                assert [(n.library, list(n.versions)) for n in found.version_needs] == [
                    (need.name, [aux.name for aux in names]) for need, names in needs.iter_versions()
                ], name
            assert [s.name for s in found.sections] == [s.name for s in peer.iter_sections()], name
    assert seen == len(objects)
