"""Names of kernels in a set are found without a GPU; a wrong one is never the same as a machine without a GPU."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from gpuforge.runtime import KernelSet, KernelUnavailable, UnknownKernel

MANGLED = "_Z5saxpymfPKfPf"
SAXPY = {
    "symbol": MANGLED,
    "name": "saxpy",
    "parameters": [
        {"type": "unsigned long", "size": 8},
        {"type": "float", "size": 4},
        {"type": "const float *", "size": 8},
        {"type": "float *", "size": 8},
    ],
}
HEAT = [
    {
        "symbol": f"_Z4heatI{code}EvPT_",
        "name": f"heat<{type_}>",
        "parameters": [{"type": f"{type_} *", "size": 8}],
    }
    for code, type_ in (("f", "float"), ("d", "double"))
]
NO_GPU = {"GPUFORGE_DISABLE_GPU": "1"}


def kernel_set(
    folder: Path, stub: str = "libnothing.so", *, env: dict[str, str] | None = None, **modules: list[Any]
) -> KernelSet:
    """A set of modules with these kernels, or with ones that are not listed."""
    folder.mkdir(parents=True)
    fatbin = b"a fatbin"
    listed = []
    for name, kernels in modules.items():
        (folder / f"{name}.fatbin").write_bytes(fatbin)
        listed.append(
            {
                "name": name,
                "source": f"{name}.cu",
                "digest": "00",
                "file": f"{name}.fatbin",
                "sha256": hashlib.sha256(fatbin).hexdigest(),
                "images": [{"kind": "cubin", "arch": "sm_90"}],
                "kernels": kernels,
            }
        )
    index = {"schema": 1, "name": folder.name, "kind": "module", "toolkit": "13.0", "modules": listed,
             "toolchain": {"family": "nvcc", "version": "13.0.88"}}  # fmt: skip
    (folder / "index.json").write_text(json.dumps(index))
    return KernelSet(folder, package="pkg", env=env or {}, driver=stub)


def test_a_kernel_with_cs_linkage_and_with_cpps_has_the_name_of_its_source(stub, tmp_path):
    for name, module in (("saxpy", None), ("saxpy", "ops"), (MANGLED, None)):
        kernels = kernel_set(tmp_path / str(module) / name, stub, ops=[SAXPY])
        assert kernels.function(name, module=module).backend == "cuda"
    signature = "saxpy(unsigned long, float, const float *, float *)"
    assert kernel_set(tmp_path / "types", stub, ops=[SAXPY]).function(signature).backend == "cuda"


@pytest.mark.parametrize("env", [{}, NO_GPU])
def test_a_name_that_the_wheel_has_not_is_an_error_on_every_machine(tmp_path, env):
    kernels = kernel_set(tmp_path / "ops", env=env, heat=HEAT, saxpy=[SAXPY])
    with pytest.raises(UnknownKernel) as error:
        kernels.function("sxapy")
    assert str(error.value) == (
        "kernel set ops has no kernel 'sxapy'; it has\n"
        "  saxpy(unsigned long, float, const float *, float *)\n"
        "  heat<float>(float *)\n"
        "  heat<double>(double *)"
    )
    assert isinstance(error.value, LookupError)
    with pytest.raises(
        UnknownKernel, match=r"^module heat of kernel set ops has no kernel 'saxpy'; it has\n  he"
    ):
        kernels.function("saxpy", module="heat")
    with pytest.raises(UnknownKernel, match=r"^kernel set ops has no module 'haet'; it has: heat, saxpy$"):
        kernels.function("saxpy", module="haet")
    with pytest.raises(KernelUnavailable):  # the name is right, and the machine has no GPU
        kernels.function("saxpy")


def test_an_ambiguous_name_lists_what_it_may_mean(tmp_path):
    kernels = kernel_set(tmp_path / "ops", heat=HEAT, more=[SAXPY], saxpy=[SAXPY])
    with pytest.raises(UnknownKernel) as error:
        kernels.function("heat")
    assert str(error.value) == (
        "kernel set ops has several kernels 'heat': name one of\n  heat<float>(float *)\n  heat<double>(double *)"
    )
    with pytest.raises(UnknownKernel, match=r"^kernel set ops has the kernel 'saxpy' in several modules: name one of "
                       r"more, saxpy$"):  # fmt: skip
        kernels.function("saxpy")
    with pytest.raises(KernelUnavailable):
        kernels.function("saxpy", module="more")
    with pytest.raises(KernelUnavailable):
        kernels.function("heat<float>")


def test_modules_without_a_list_are_looked_in_by_the_driver(stub, tmp_path):
    alone = kernel_set(tmp_path / "alone", stub, ops=[])
    assert alone.function("saxpy").backend == "cuda"
    with pytest.raises(
        UnknownKernel, match=r"^module ops of kernel set alone has no kernel 'daxpy'\ncubin sm_90: has"
    ):
        alone.function("daxpy")
    with pytest.raises(KernelUnavailable):  # without a GPU nobody has looked
        kernel_set(tmp_path / "unseen", ops=[]).function("daxpy")
    several = kernel_set(tmp_path / "several", stub, ops=[], more=[], heat=HEAT)
    with pytest.raises(
        UnknownKernel, match=r"^kernel set several has several modules: name one of more, ops$"
    ):
        several.function("saxpy")
    assert several.function("saxpy", module="ops").backend == "cuda"


def test_a_file_of_the_environment_may_have_kernels_that_the_wheel_has_not(stub, tmp_path):
    mine = tmp_path / "mine.cubin"
    mine.write_bytes(b"a fatbin")
    env = {"GPUFORGE_KERNELS_PKG_OPS": str(mine)}
    kernels = kernel_set(tmp_path / "ops", stub, env=env, heat=HEAT)
    assert kernels.function("saxpy").backend == "cuda"
    with pytest.raises(
        UnknownKernel, match=r"^module heat of kernel set ops has no kernel 'daxpy'; it has\n  heat"
    ):
        kernels.function("daxpy")
    off = kernel_set(tmp_path / "off" / "ops", stub, env={**env, **NO_GPU}, heat=HEAT)
    with pytest.raises(KernelUnavailable):  # it may have the kernel
        off.function("daxpy")


def test_a_file_of_the_environment_is_looked_in_by_the_symbol_and_by_the_name(stub, tmp_path):
    """It was compiled of the package's source, with C++'s linkage, or it is another one, with C's."""
    mine = tmp_path / "mine.cubin"
    mine.write_bytes(b"a fatbin")
    env = {"GPUFORGE_KERNELS_PKG_OPS": str(mine)}
    other = {**SAXPY, "symbol": "_Z5saxpyother"}  # which the driver's image does not have
    for entry in (SAXPY, other):
        folder = tmp_path / entry["symbol"] / "ops"
        assert kernel_set(folder, stub, env=env, ops=[entry]).function("saxpy").backend == "cuda"
    with pytest.raises(KernelUnavailable, match="has no kernel saxpy"):  # a listed one has its symbol alone
        kernel_set(tmp_path / "listed" / "ops", stub, ops=[other]).function("saxpy")


def test_explain_shows_the_kernels(tmp_path):
    text = kernel_set(tmp_path / "ops", ops=[SAXPY]).explain()
    assert (
        "  module ops, from ops.cu\n    kernel   saxpy(unsigned long, float, const float *, float *)\n"
        in text
    )


def test_a_set_that_the_wheel_has_not(tmp_path):
    for name in ("mechanisms", "ops"):
        kernel_set(tmp_path / "kernels" / name, ops=[SAXPY])
    with pytest.raises(
        UnknownKernel, match=r"^this wheel has no kernel set 'opps'; it has: ops, mechanisms$"
    ):
        KernelSet(tmp_path / "kernels" / "opps").function("saxpy")
    with pytest.raises(UnknownKernel, match=r"^this wheel has no kernel set 'ops'; it has: none$"):
        KernelSet(tmp_path / "nothing" / "kernels" / "ops").function("saxpy")
