"""One architecture, every spelling of it; and the one answer to what runs where."""

from pathlib import Path

import pytest

from gpuforge.audit.reach import reach
from gpuforge.binary.facts import DeviceCode, FatbinContainer, FatbinEntry
from gpuforge.cuda import releases
from gpuforge.cuda.targets import Target, targets
from gpuforge.runtime import arch as runtime_arch
from gpuforge.runtime.arch import PTX_ISA, Arch, Version, driver_for_binary
from gpuforge.runtime.decide import resolve
from gpuforge.runtime.driver import Device, Probe
from gpuforge.runtime.values import Build, Image, Origin

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("text", ["90a", "sm_90a", "compute_90a", "lto_90a", "9.0a"])
def test_every_spelling_is_the_same_architecture(text):
    assert Arch.parse(text) == Arch(9, 0, "a")


def test_an_architecture_is_written_for_each_tool():
    arch = Arch.parse("120f")
    assert (arch.number, arch.dotted, arch.sm, arch.compute) == ("120f", "12.0f", "sm_120f", "compute_120f")
    both = Target.parse("90+ptx")
    assert both.gencode == (
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_90,code=compute_90",
    )
    assert (both.cmake, both.torch) == (("90-real", "90-virtual"), "9.0+PTX")
    assert Target.parse("ptx:9.0").cmake == ("90-virtual",)


def test_architectures_are_ordered_by_number_then_variant():
    texts = ["100", "90a", "9.0", "sm_86", "90f", "120"]
    assert [arch.number for arch in sorted(map(Arch.parse, texts))] == [
        "86",
        "90",
        "90a",
        "90f",
        "100",
        "120",
    ]


@pytest.mark.parametrize(
    "text", ["", "9", "sm_", "sm_9", "sm_9.0", "9.", ".9", "9.00", "90x", "a", "gfx90a", "9²", "+ptx", "-90"]
)
def test_anything_else_is_no_architecture(text):
    with pytest.raises(ValueError, match=r"is not a GPU architecture$"):
        Arch.parse(text)


@pytest.mark.parametrize("text", ["ptx:90+ptx", "ptx:", "90+PTX+ptx"])
def test_anything_else_is_no_target(text):
    with pytest.raises(ValueError, match=r"is not a GPU architecture$"):
        Target.parse(text)


def test_a_manifest_wants_each_ptx_once_and_after_the_machine_code():
    wanted = targets(["80", "90a+ptx"], "90a")
    assert [item for target in wanted for item in target.cmake] == ["80-real", "90a-real", "90a-virtual"]


def test_the_isas_are_those_of_the_toolkits():
    first: dict[Version, Version] = {}
    for known in (*releases.former(), *releases.releases()):
        isa, release = (tuple(map(int, text.split("."))) for text in (known.ptx, known.version))
        first.setdefault(isa, release)  # type: ignore[arg-type]
    missing = {isa: cuda for isa, cuda in PTX_ISA.items() if isa not in first}
    assert missing == {(8, 6): (12, 7)}, "the one ISA that no toolkit of its own wrote"
    assert {isa: cuda for isa, cuda in PTX_ISA.items() if isa in first} == first


ARCHS = ["50", "53", "60", "62", "70", "72", "75", "80", "86", "87", "89", "90", "90a", "100", "100a", "100f",
         "101", "101f", "103", "103f", "110", "110f", "120", "120a", "120f", "121"]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["cubin", "ptx"])
def test_the_audit_and_the_runtime_agree_on_every_pair(kind):
    """Both on all architectures and all GPUs that there are, Jetson among them."""
    wrong = []
    for number in ARCHS:
        arch = Arch.parse(number)
        entry = FatbinEntry(kind, arch, "8.0" if kind == "ptx" else "", 1000, 1000)
        for gpu in reach(DeviceCode("x.so", (FatbinContainer(0, 0, (entry,)),))):
            machine = Probe((13, 9), (Device(0, "", gpu.generation.number),))
            image = Image(kind, runtime_arch.Arch(*arch), (12, 0), (8, 0) if kind == "ptx" else None)
            runs = resolve([Build(Origin.SHIPPED, "", (image,))], machine, {})[0].image is image
            if runs != (gpu.way != "none"):
                wrong.append((arch, gpu.generation.capability, runs, gpu.way))
    assert wrong == []


def test_code_from_before_cuda_11_needs_the_driver_of_its_own_release():
    assert driver_for_binary((10, 2)) == (10, 2)
    assert driver_for_binary((12, 9)) == (12, 0)
