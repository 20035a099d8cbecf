"""recipes/iree, built for real: the compiler from PyPI, a module for each back end, run with IREE's runtime."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import builds
import pytest

pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("recipes")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, store: Path) -> tuple[Path, dict[str, Any]]:
    """Build the recipe; return its wheel, and what the build says."""
    work = tmp_path_factory.mktemp("iree")
    recipe = builds.copy_recipe("iree", work)
    result = builds.build(recipe, "-o", work / "dist", cache=store)
    (wheel,) = (work / "dist").glob("*.whl")
    return wheel, result


def test_the_wheel_is_proved_and_tested(built):
    wheel, result = built
    assert wheel.name == "rowsoftmax-0.1.0-py3-none-any.whl"
    (proved,) = result["wheels"]
    assert proved["findings"] == []
    (test,) = result["tests"]
    assert (test["state"], test["counts"].get("failed", 0)) == ("passed", 0)
    with zipfile.ZipFile(wheel) as archive:
        index = json.loads(archive.read("rowsoftmax/_gpuforge/kernels/kernels/index.json"))
        metadata = archive.read("rowsoftmax-0.1.0.dist-info/METADATA").decode()
    assert [(m["file"], m["images"]) for m in index["modules"]] == [
        ("softmax-compute_60.vmfb", [{"kind": "iree-cuda", "arch": "compute_60", "isa": "7.6"}]),
        ("softmax-vulkan-spirv.vmfb", [{"kind": "iree-vulkan", "arch": ""}]),
        ("softmax-x86-64-v3.vmfb", [{"kind": "iree-cpu", "arch": "x86-64-v3"}]),
        ("softmax-x86-64.vmfb", [{"kind": "iree-cpu", "arch": "x86-64"}]),
    ]
    assert index["toolchain"]["version"].startswith("3.13.")
    assert "Provides-Extra: iree\n" in metadata
    assert 'Requires-Dist: iree-base-runtime>=3.13,<3.14; extra == "iree"\n' in metadata


def test_without_the_runtime_of_iree_numpy_computes(built, tmp_path):
    python = builds.environment(tmp_path / "bare", built[0])
    done = builds.run(python, "-m", "rowsoftmax", cwd=tmp_path)
    assert "no iree.runtime: pip install" in done.stdout
    assert done.stdout.endswith("1000 rows on numpy: right\n")


def test_a_runtime_of_another_release_is_named_and_not_used(built, tmp_path):
    python = builds.environment(tmp_path / "other", built[0], "iree-base-runtime==3.12.*")
    done = builds.run(python, "-m", "rowsoftmax", cwd=tmp_path)
    assert "iree-base-runtime 3.12.0 is installed, and IREE 3.13.0 compiled the module" in done.stdout
    assert done.stdout.endswith("1000 rows on numpy: right\n")


def test_the_runtime_of_iree_opens_cuda_and_nccl_by_name_only(tmp_path):
    """Neither is NEEDED, so the runtime starts on a machine without them: the audit follows its libraries."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", tmp_path]
    subprocess.run([*pip, "iree-base-runtime==3.13.*"], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    found = builds.audit(wheel)
    needed = {entry["name"] for each in found["objects"] for entry in each["needed"]}
    assert needed, "the report lists what each library needs"
    assert not any("cuda" in name or "nccl" in name or "vulkan" in name for name in needed)
    with zipfile.ZipFile(wheel) as archive:
        (file,) = (name for name in archive.namelist() if name.startswith("iree/_runtime_libs/_runtime."))
        library = archive.read(file)
    named = set(re.findall(rb"\0(lib(?:cuda|nccl|vulkan)[\w.-]*)(?=\0)", library))
    assert named >= {b"libcuda.so", b"libnccl.so"}, "they are opened by these names"


SIDE_BY_SIDE = """
import numpy as np, pyopencl
from rowsoftmax import softmax, backend
x = np.random.default_rng(1).normal(size=(64, 100)).astype("f4")
first = softmax(x)
context = pyopencl.create_some_context(interactive=False)
queue = pyopencl.CommandQueue(context)
program = pyopencl.Program(context, "kernel void twice(global float *a) { a[get_global_id(0)] *= 2; }").build()
buffer = pyopencl.Buffer(context, pyopencl.mem_flags.COPY_HOST_PTR, hostbuf=first)
program.twice(queue, (first.size,), None, buffer)
doubled = np.empty_like(first)
pyopencl.enqueue_copy(queue, doubled, buffer)
assert np.array_equal(doubled, 2 * first)
assert np.array_equal(softmax(x), first)
print(backend(), context.devices[0].platform.name)
"""


@pytest.mark.usefixtures("pocl")
def test_iree_and_opencl_work_in_one_process(built, tmp_path):
    wanted = ("iree-base-runtime==3.13.*", "pyopencl", "pocl-binary-distribution")
    python = builds.environment(tmp_path / "both", built[0], *wanted)
    done = builds.run(python, "-c", SIDE_BY_SIDE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "local-task Portable Computing Language\n"
