"""GF215 over real extensions: what g++ links when nothing defines a function of CUDA, and what looks like it."""

import shutil
import sysconfig
from pathlib import Path

import pytest
from wheel_making import compile_library, pack

from gpuforge.audit import audit
from gpuforge.audit.findings import Finding
from gpuforge.audit.report.sentences import lines

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
MODULE = """
#include <Python.h>
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "ext"};
extern "C" { %s
PyMODINIT_FUNC PyInit_ext() { %s return PyModule_Create(&module); } }
"""
CALL = "int cuInit(unsigned); int cublasCreate_v2(void **);"
BODY = "cuInit(0); void *h; cublasCreate_v2(&h);"
STRICT = ("-Wl,--no-as-needed",)


def compiled(output: Path, source: str, *flags: str | Path) -> Path:
    return compile_library(output, source, f"-I{sysconfig.get_path('include')}", *flags)


def stub(folder: Path, soname: str, source: str) -> Path:
    return compile_library(folder / soname, f'extern "C" {{ {source} }}')


def findings_of(root: Path, *requires: str) -> list[Finding]:
    """Pack what lies in `root/tree` into a wheel and audit that."""
    tree = root / "tree"
    files = {file.relative_to(tree).as_posix(): file for file in tree.rglob("*.so*") if file.suffix != ".cpp"}
    return [f for f in audit([pack(root, files, requires=requires)]).findings if f.code == "GF215"]


def test_functions_that_nothing_defines_are_an_error(tmp_path):
    compiled(tmp_path / "tree/demo/ext.so", MODULE % (CALL, BODY))
    (finding,) = findings_of(tmp_path)
    assert (finding.severity, finding.files) == ("error", ("demo/ext.so",))
    assert lines(finding) == (
        "demo/ext.so: does not NEED libcublas.so, and calls cublasCreate_v2",
        "demo/ext.so: does not NEED libcuda.so, and calls cuInit",
    )


def test_a_stub_that_lacks_them_is_dropped_by_the_linker_and_found(tmp_path):
    empty = stub(tmp_path / "stubs", "libcuda.so.1", "int nothing() { return 0; }")
    compiled(tmp_path / "tree/demo/ext.so", MODULE % (CALL, "cuInit(0);"), "-Wl,--as-needed", empty)
    (finding,) = findings_of(tmp_path)
    assert lines(finding) == ("demo/ext.so: does not NEED libcuda.so, and calls cuInit",)


def test_what_nothing_in_the_wheel_loads_first_is_a_warning(tmp_path):
    compiled(
        tmp_path / "tree/demo/libplugin.so", f'extern "C" {{ {CALL} int run() {{ return cuInit(0); }} }}'
    )
    (finding,) = findings_of(tmp_path)
    assert finding.severity == "warning"


def test_weak_ones_and_its_own_are_no_finding(tmp_path):
    weak = "int __attribute__((weak)) cuInit(unsigned); int cudaMalloc(void **, unsigned long) { return 0; }"
    compiled(tmp_path / "tree/demo/ext.so", MODULE % (weak, "if (cuInit) cuInit(0); cudaMalloc(0, 1);"))
    assert findings_of(tmp_path) == []


def test_trampolines_of_another_library_of_the_wheel_are_no_finding(tmp_path):
    own = stub(tmp_path / "tree/demo", "libtramp.so", "int cuInit(unsigned) { return 0; }")
    compiled(tmp_path / "tree/demo/ext.so", MODULE % (CALL, "cuInit(0);"), *STRICT, own, "-Wl,-rpath,$ORIGIN")
    assert findings_of(tmp_path) == []


def test_a_needed_library_of_that_name_is_no_finding(tmp_path):
    cuda = stub(tmp_path / "stubs", "libcuda.so.1", "int cuInit(unsigned) { return 0; }")
    cublas = stub(tmp_path / "stubs", "libcublas.so.12", "int cublasCreate_v2(void **) { return 0; }")
    compiled(tmp_path / "tree/demo/ext.so", MODULE % (CALL, BODY), cuda, cublas)
    assert findings_of(tmp_path) == []


def test_an_extension_of_torch_finds_them_in_the_process(tmp_path):
    compiled(tmp_path / "tree/demo/ext.so", MODULE % (CALL, BODY))
    assert findings_of(tmp_path, "torch>=2.8") == []
    assert len(findings_of(tmp_path, "numpy")) == 1


def test_what_an_unknown_library_may_define_is_no_finding(tmp_path):
    host = stub(tmp_path / "stubs", "libhost.so", "int cuInit(unsigned) { return 0; }")
    compiled(tmp_path / "tree/demo/ext.so", MODULE % (CALL, "cuInit(0);"), host)
    assert findings_of(tmp_path) == []
