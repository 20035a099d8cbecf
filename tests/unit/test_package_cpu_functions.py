"""A set's library for the CPU must have a function for each kernel of the set."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import elf

from gpuforge.cuda.kernels import Kernel, KernelImage
from gpuforge.errors import ActionError
from gpuforge.package import embed, kernel_set
from gpuforge.package.contents import (
    CompiledBy,
    CompiledLibrary,
    CompiledModule,
    LibrarySet,
    ModuleSet,
    SourceSet,
)
from gpuforge.runtime.values import CpuLevel

KERNELS = (
    Kernel("_Z5scalePf", "scale", ()),
    Kernel("plain", "plain", ()),
    Kernel("_ZN2ns4heatEv", "ns::heat", ()),
)


def packed(folder: Path, *functions: str, by_recipe: bool = False, other: str = "") -> list[Path]:
    (folder / "k.cu").write_text("")
    (folder / "cpu.so").write_bytes(elf(defined=functions))
    sets = folder / "packed"
    cpu = "" if by_recipe else other or "ops-cpu"
    made = ModuleSet(name="ops", toolkit="13.0", toolchain=CompiledBy("nvcc", "13.0"), cpu=cpu)
    module = CompiledModule("k.cu", folder / "k.cu", (KernelImage.parse("cubin", "80"),), kernels=KERNELS)
    kernel_set.pack_modules(sets, made, [module], folder)
    of_cpu = LibrarySet(name="ops-cpu", toolkit="", toolchain=CompiledBy("g++", "12"), abi="")
    library = CompiledLibrary(folder / "cpu.so", (KernelImage("library", CpuLevel()),))
    kernel_set.pack_libraries(sets, of_cpu, [library])
    if by_recipe:
        kernel_set.pack_sources(
            sets, SourceSet(name="own", toolkit="13.0", sources=("k.cu",), kind="module",
                            fallbacks=("ops",), cpu="ops-cpu"), folder,
        )  # fmt: skip
    return [sets]


@pytest.mark.parametrize("by_recipe", [False, True])
def test_a_function_has_the_symbol_or_the_name_of_its_kernel(tmp_path: Path, by_recipe: bool) -> None:
    functions = ("scale", "plain", "_ZN2ns4heatEv", "gpuforge_abi_id", "helper")
    embed.check_cpu_functions(packed(tmp_path, *functions, by_recipe=by_recipe))


@pytest.mark.parametrize("by_recipe", [False, True])
def test_kernels_without_a_function_are_named(tmp_path: Path, by_recipe: bool) -> None:
    with pytest.raises(ActionError) as error:
        embed.check_cpu_functions(packed(tmp_path, "_Z5scalePd", "plain", by_recipe=by_recipe))
    assert str(error.value) == (
        "libops-cpu.so does the work of kernel set 'ops' on the CPU, and has no function ns::heat, scale\n"
        '  hint: define one for each kernel, as extern "C" or with the parameters of the kernel'
    )


def test_a_library_of_another_set_is_not_compared(tmp_path: Path) -> None:
    embed.check_cpu_functions(packed(tmp_path, "helper", other="others-cpu"))
