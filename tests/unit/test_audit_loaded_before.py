"""What required packages have loaded before a module, by their releases, and where torch is one of them."""

import pytest
from audit_samples import TAGS, elf, said, torch, wheel

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines


def test_torch_is_imported_before_what_is_linked_with_it(tmp_path):
    files = {
        "demo/ext.so": elf(
            needed=["libcudart.0a1b2c3d.so.12", "libc10.so", "libgomp.so.1"], runpath="$ORIGIN/../demo.libs"
        ),
        "demo.libs/libcudart.0a1b2c3d.so.12": elf(soname="libcudart.so.12"),
    }
    own = wheel(tmp_path, files, requires=["torch==2.4.1"])
    for report in (audit([own]), audit([own, torch(tmp_path)])):
        mine = [f for f in report.findings if f.wheel == own.name]
        assert {f.code for f in mine if f.severity != "info"} == {"GF102", "GF210"}
        (found,) = said(report, "GF102")
        assert lines(found)[0].startswith("demo.libs/libcudart.0a1b2c3d.so.12, loaded by demo/ext.so")
        assert lines(found)[1].startswith("libcudart.so.12 (nvidia-cuda-runtime-cu12), loaded by ")
    assert "loaded by torch/lib/libc10.so" in lines(found)[1]


def test_a_package_called_like_a_library_brings_it(tmp_path):
    files = {"demo/ext.so": elf(needed=["libqdb_ffi.so"])}
    assert audit([wheel(tmp_path, files, requires=["apache-qdb-ffi>=0.1"])]).worst() == "info"
    assert audit([wheel(tmp_path, files, requires=["apache-qdb"])]).worst() == "warning"


def test_the_library_of_tvm_ffi_is_there_once_it_is_imported(tmp_path):
    """As in xgrammar 0.2.8, which has no search path."""
    files = {"demo/ext.so": elf(needed=["libtvm_ffi.so"])}
    assert audit([wheel(tmp_path, files, requires=["apache-tvm-ffi>=0.1"])]).worst() is None
    (finding,) = said(audit([wheel(tmp_path, files)]), "GF201")
    assert finding.severity == "error"


@pytest.mark.parametrize(
    ("file", "runpath", "requires", "route"),
    [
        ("demo/ext.so", "$ORIGIN/../libcue/lib64", ["cue-cu13", "libcue-cu13"], ("libcue-cu13", "RUNPATH")),
        ("demo/ext.so", "", ["cue-cu13", "libcue-cu13"], ("libcue-cu13", "import")),
        ("demo/ext.so", "$ORIGIN/../cue", ["cue-cu13"], ("cue-cu13", "RUNPATH")),
        ("cue/ext.so", "$ORIGIN", ["cue-cu13"], ("cue-cu13", "import")),
    ],
)
def test_a_path_into_a_package_called_like_a_library_may_lead_to_it(tmp_path, file, runpath, requires, route):
    report = audit([wheel(tmp_path, {file: elf(needed=["libcue.so"], runpath=runpath)}, requires=requires)])
    (edge,) = report.graph.edges
    assert (edge.provider.package, edge.route and edge.route.kind) == route
    (finding,) = report.findings  # nobody here knows what the package has
    assert (finding.code, finding.severity) == ("GF201", "info")
    assert not [each for each in report.wheels[0].proofs if each.topic == "providers"]


@pytest.mark.parametrize("needed", ["libcuvs.so", "libcuvs_c.so"])
def test_a_package_of_libraries_is_imported_first_also_when_it_is_given(tmp_path, needed):
    own = wheel(
        tmp_path,
        {"cuvs/ext.so": elf(needed=[needed])},
        name=f"cuvs_cu13-1.0-{TAGS}.whl",
        requires=["libcuvs-cu13"],
    )
    theirs = wheel(
        tmp_path, {f"libcuvs/lib64/{needed}": elf(soname=needed)}, name=f"libcuvs_cu13-26.10-{TAGS}.whl"
    )
    assert audit([own]).worst() is audit([own, theirs]).worst() is None


def test_what_a_module_has_loaded_is_there_for_what_is_opened_later(tmp_path):
    runpath = "$ORIGIN/../nvidia/cuda_runtime/lib"
    plugin = {"demo/libplugin.so": elf(needed=["libcudart.so.12"])}
    module = {"demo/ext.so": elf(needed=["libcudart.so.12"], runpath=runpath, strings=["PyInit_ext"])}
    requires = ["nvidia-cuda-runtime-cu12"]
    assert said(audit([wheel(tmp_path, plugin, requires=requires)]), "GF202")[0].severity == "error"
    both = wheel(tmp_path, plugin | module, requires=requires)
    assert said(audit([both]), "GF202")[0].severity == "warning"
    program = {
        "demo/libplugin.so": elf(needed=["libcudart.so.12"], interpreter="/lib64/ld-linux-x86-64.so.2")
    }
    assert said(audit([wheel(tmp_path, program | module, requires=requires)]), "GF202")[0].severity == "error"


@pytest.mark.parametrize(
    ("machine", "requires", "lost"),
    [
        (
            "aarch64",
            "torch==2.8.0",
            {"libtorch_cuda.so (torch)", "libcudart.so.12 (nvidia-cuda-runtime-cu12)"},
        ),
        ("x86_64", "torch==2.8.0", set()),
    ],
)
def test_torch_had_no_cuda_for_arm(tmp_path, machine, requires, lost):
    name = f"demo-1.0-cp311-cp311-manylinux_2_17_{machine}.whl"
    files = {"demo/ext.so": elf(needed=["libtorch_cpu.so", "libtorch_cuda.so", "libcudart.so.12"])}
    found = said(audit([wheel(tmp_path, files, name=name, requires=[requires])]), "GF201")
    assert {s.partition(",")[0] for f in found for s in lines(f)} == lost


@pytest.mark.parametrize(("needed", "codes"), [("librmm.so", []), ("libz.so.1", ["GF202"])])
def test_an_extra_that_is_linked_with_is_imported(tmp_path, needed, codes):
    files = {"demo/ext.so": elf(needed=[needed, "librapids_logger.so"])}
    one = wheel(tmp_path, files, requires=["rmm-cu13; extra == 'gpu'"])
    assert [f.code for f in audit([one]).findings] == codes


@pytest.mark.parametrize(
    ("requires", "found"),
    [("torchvision (>=0.4)", []), ("torchvision==0.15.2", ["GF201"])],  # of which nobody here knows the torch
)
def test_torchvision_brings_torch(tmp_path, requires, found):
    files = {"demo/ext.so": elf(needed=["libc10.so", "libtorch_cuda.so", "libcudart.so.13"])}
    report = audit([wheel(tmp_path, files, requires=[requires])])
    assert [f.code for f in report.findings if f.severity == "error"] == found


@pytest.mark.parametrize(
    ("requires", "needed", "found"),
    [
        ("torch==1.8.1", ["libc10.so", "libtorch_cpu.so", "libcudart.so.10.2"], []),
        ("torch==1.4.0", ["libc10.so", "libtorch.so", "libcudart.so.10.1"], []),
        ("torch==1.1.0", ["libc10.so", "libcaffe2.so", "libcudart.so.9.0"], []),
        ("torch==1.8.1", ["libc10.so", "libcudart.so.10.1"], ["GF201"]),  # of another release
        ("tensorflow==1.15.5", ["libtensorflow_framework.so.1"], []),
        ("tensorflow (<1.14.0,>=1.13.0)", ["libtensorflow_framework.so"], []),
        ("tensorflow>=1.13", ["libtensorflow_framework.so"], ["GF201"]),
        ("tensorflow>=1.15", ["libtensorflow_framework.so.1"], ["GF201"]),
    ],
)
def test_old_frameworks_have_loaded_themselves_too(tmp_path, requires, needed, found):
    report = audit([wheel(tmp_path, {"demo/ext.so": elf(needed=needed)}, requires=[requires])])
    assert [f.code for f in report.findings] == found


def test_a_package_may_bring_those_that_are_named_after_it(tmp_path):
    files = {"demo/ext.so": elf(needed=["libnvinfer.so.10"])}
    (found,) = audit([wheel(tmp_path, files, requires=["tensorrt<10.1"])]).findings
    assert (found.code, found.severity) == ("GF201", "info")
    assert "tensorrt, which the wheel requires, may bring tensorrt-cu12-libs" in found.message


@pytest.mark.parametrize(
    ("needed", "codes"), [(["libcudart.so.13"], ["GF202"]), (["libcudart.so.13", "libtorch.so"], [])]
)
def test_who_does_not_link_with_the_torch_of_an_extra_does_not_import_it(tmp_path, needed, codes):
    report = audit(
        [wheel(tmp_path, {"demo/ext.so": elf(needed=needed)}, requires=["torch>=2.11; extra == 'torch'"])]
    )
    assert [f.code for f in report.findings] == codes


@pytest.mark.parametrize(
    ("requires", "expected"),
    [(["pytest; extra == 'dev'"], True), (["kernels"], False), (["torch==2.8.0"], False)],
)
def test_who_needs_torch_gets_the_newest_where_nothing_is_required(tmp_path, requires, expected):
    files = {"demo/ext.so": elf(needed=["libtorch.so", "libcudart.so.12"])}
    assert bool(said(audit([wheel(tmp_path, files, requires=requires)]), "GF204")) == expected


def test_libraries_of_one_torch_alone_come_with_that_torch(tmp_path):
    files = {"demo/ext.so": elf(needed=["libtorch_cuda_cu.so"])}
    assert audit([wheel(tmp_path, files, requires=["torch==1.13.1"])]).findings == ()
    assert said(audit([wheel(tmp_path, files, requires=["torch>=1.13"])]), "GF201") != []


def test_what_one_module_loads_before_is_not_there_if_another_is_the_first(tmp_path):
    files = {
        "demo/one.cpython-311-x86_64-linux-gnu.so": elf(needed=["libx.so.1", "liby.so"], runpath="$ORIGIN"),
        "demo/two.cpython-311-x86_64-linux-gnu.so": elf(needed=["liby.so"], runpath="$ORIGIN"),
        "demo/liby.so": elf(soname="liby.so", needed=["libx.so.1"]),
        "demo/libx.so.1": elf(soname="libx.so.1"),
    }
    (found,) = said(audit([wheel(tmp_path, files)]), "GF202")
    assert (found.severity, found.files) == ("warning", ("demo/liby.so",))
    assert "demo/two.cpython-311-x86_64-linux-gnu.so is loaded first" in found.what
    del files["demo/two.cpython-311-x86_64-linux-gnu.so"]
    assert said(audit([wheel(tmp_path, files)]), "GF202") == []


def test_a_library_that_is_loaded_before_brings_what_it_needs(tmp_path):
    text = b"os.environ['DEMO_DYNLIBS'] = str(Path(found) / 'libcustatevec.so.1')\n"
    files = {
        "demo/sim.so": elf(needed=["libcustatevec.so.1", "libcublas.so.11"]),
        "demo/other.so": elf(needed=["libcublasLt.so.11"]),
        "demo/a.py": b"from pathlib import Path\n" + text,
    }
    report = audit([wheel(tmp_path, files, requires=["custatevec-cu11", "nvidia-cublas-cu11"])])
    assert [(f.severity, f.files) for f in said(report, "GF202")] == [
        ("error", ("demo/other.so",)), ("warning", ("demo/sim.so",))
    ]  # fmt: skip


def test_cuquantum_for_python_brings_its_libraries(tmp_path):
    text = b"from pathlib import Path\nos.environ['DEMO_DYNLIBS'] = str(Path(found) / 'libcustatevec.so.1')\n"
    files = {"demo/sim.so": elf(needed=["libcustatevec.so.1", "libcublas.so.12"]), "demo/a.py": text}
    requires = ["cuquantum-python-cu12>=24.11", "nvidia-cublas-cu12~=12.0"]
    assert audit([wheel(tmp_path, files, requires=requires)]).worst() == "warning"
    assert audit([wheel(tmp_path, files, requires=requires[1:])]).worst() == "error"


@pytest.mark.parametrize(
    ("release", "codes"), [("==25.10.*", []), ("<26.10", []), ("==26.10.*", ["GF203"]), ("", ["GF203"])]
)
def test_what_a_carrier_brings_is_that_of_the_release(tmp_path, release, codes):
    files = {"demo/libx.so": elf(needed=["libnccl.so.2"], runpath="$ORIGIN/../nvidia/nccl/lib")}
    one = wheel(tmp_path, files, requires=[f"libraft-cu12{release}"])
    assert [f.code for f in audit([one]).findings] == codes


def test_a_release_between_those_that_are_known_is_taken(tmp_path):
    files = {"demo/libx.so": elf(needed=["libucp.so.0"])}
    one = wheel(tmp_path, files, requires=["libucx-cu12<1.19,>=1.15.0"])
    assert audit([one]).worst() is None


def test_a_library_that_one_release_of_a_carrier_has(tmp_path):
    path = "$ORIGIN/../libkvikio/lib64"
    files = {"demo/libx.so": elf(needed=["libkvikio.so", "libnvcomp.so.4"], runpath=path)}
    assert audit([wheel(tmp_path, files, requires=["libkvikio-cu12==25.6.*"])]).worst() is None
    (found,) = audit([wheel(tmp_path, files, requires=["libkvikio-cu12==26.10.*"])]).findings
    assert (found.code, lines(found)) == (
        "GF201",
        ("libnvcomp.so.4 (nvidia-nvcomp-cu12), NEEDED by demo/libx.so",),
    )


def test_ops_for_tensorflow_are_opened_after_it(tmp_path):
    files = {"demo/ops.so": elf(needed=["libtensorflow_framework.so.2"])}
    assert audit([wheel(tmp_path, files, requires=["tensorflow<2.22,>=2.21.0"])]).worst() is None
    assert audit([wheel(tmp_path, files, requires=["tensorflow-cpu"])]).worst() is None
    assert audit([wheel(tmp_path, files)]).worst() == "error"
