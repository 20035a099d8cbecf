"""What was proved, as lines of text: each kind, whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from audit_samples import elf, fatbin, wheel

from gpuforge.audit import audit
from gpuforge.audit.against import Against
from gpuforge.audit.findings import Topic
from gpuforge.cuda.provided import Floor, PackageRelease, Provided
from gpuforge.expectation import Expectation, HostOnly
from gpuforge.requirements import Release
from gpuforge.runtime.arch import Arch

EXT = "demo/ext.cpython-311-x86_64-linux-gnu.so"
CUFFT = Floor(
    "nvidia-cufft", "12.0.0.15", "12.0", "13.0", symbols={"libcufft.so.12": 14}, refused=("11.4.1.4",)
)
OLDEST = PackageRelease("nvidia-cufft", "12.0.0.15", "oldest", "", "")
FORGOTTEN = Floor("cutensor", "2.1", "2.1", forgotten_by=(Release("nvidia-curand", "10.4"),))


def proved(
    topic: Topic,
    folder: Path,
    files: Mapping[str, bytes],
    requires: tuple[str, ...] = (),
    name: str = "demo-1.0-cp311-cp311-manylinux_2_28_x86_64.manylinux_2_34_x86_64.whl",
    **options: Any,
) -> list[str]:
    (report,) = audit([wheel(folder, files, name=name, requires=requires)], **options).wheels
    return [proof.text for proof in report.proofs if proof.topic == topic]


CASES: dict[str, tuple[Topic, dict[str, Any], list[str]]] = {
    "nothing needed": (
        "providers",
        {"files": {EXT: elf(needed=[])}},
        ["every NEEDED library is found: none is needed"],
    ),
    "in several places": (
        "providers",
        {
            "files": {EXT: elf(needed=["libx.so", "libcufft.so.12", "libcuda.so.1"], runpath="$ORIGIN"),
                      "demo/libx.so": elf(soname="libx.so", needed=[])},
            "expectation": Expectation(linkage="system"),
        },
        [
            'every NEEDED library is found: 1 in the wheel, 1 from the CUDA of the machine (linkage = "system"), '
            "1 from the driver"
        ],
    ),
    "once imported": (
        "providers",
        {"files": {EXT: elf(needed=["libc10.so"])}, "requires": ("torch==2.9.1",)},
        [
            "every NEEDED library is found, once torch is imported: 1 from other packages",
            "libc10.so ← torch, once torch is imported",
        ],
    ),
    "by an extra": (
        "providers",
        {
            "files": {EXT: elf(needed=["libcufft.so.12"], runpath="$ORIGIN/../nvidia/cu13/lib")},
            "requires": ('nvidia-cufft<13,>=12.0; extra == "gpu"',),
        },
        [
            "every NEEDED library is found: 1 from other packages",
            "libcufft.so.12 ← nvidia-cufft (extra gpu), by RUNPATH $ORIGIN/../nvidia/cu13/lib",
        ],
    ),
    "floors": (
        "requirements",
        {
            "files": {EXT: elf(needed=[])},
            "requires": ("nvidia-cufft", "cutensor"),
            "brought": Provided((CUFFT, FORGOTTEN), (OLDEST, OLDEST._replace(version="12.1"))),
        },
        [
            "nvidia-cufft: floor 13.0: all 14 symbols of libcufft are in nvidia-cufft 12.0.0.15, and not in 11.4.1.4",
            "cutensor: floor 2.1: its library is in cutensor 2.1",
            "cutensor is for nvidia-curand 10.4, which needs it and does not declare it",
            "no undeclared CUDA library is needed by nvidia-cufft 12.0.0.15, nvidia-cufft 12.1",
        ],
    ),
    "as declared": (
        "GPU code",
        {
            "files": {EXT: elf(sections={".nv_fatbin": fatbin("sm_80", "sm_90", "compute_90:8.7") * 2})},
            "expectation": Expectation(cubins=(Arch.parse("80"), Arch.parse("90")), ptx=(Arch.parse("90"),)),
        },
        ["fatbin containers as declared: 2 of sm_80 sm_90 + compute_90 (PTX 8.7)"],
    ),
    "cubins": ("GPU code", {"files": {"demo/k.cubin": fatbin("sm_90")}}, ["cubin files: 1 of sm_90, no PTX"]),
    "tags": (
        "platform",
        {"files": {EXT: elf(versions={"libc.so.6": ["GLIBC_2.28"]})}},
        [
            "manylinux_2_28_x86_64, manylinux_2_34_x86_64 hold; highest required: GLIBC 2.28 "
            "(ext.cpython-311-x86_64-linux-gnu.so)"
        ],
    ),
    "no policy": (
        "platform",
        {
            "files": {"demo/x.so": elf(versions={"libc.so.6": ["GLIBC_2.99"]})},
            "name": "demo-1.0-cp311-cp311-linux_x86_64.whl",
        },
        ["linux_x86_64 promises nothing; no manylinux policy has it all; highest required: GLIBC 2.99 (x.so)"],
    ),
    "opens": (
        "host-only",
        {
            "files": {f"demo/{n}.so": elf(strings=["libcuda.so.1"]) for n in "abcd"},
            "expectation": Expectation(host_only=(HostOnly("core", ("demo/*.so",), ("OpenCL",)),)),
        },
        [
            "core: 4 objects read completely (a.so, b.so, c.so …): no GPU code in a known format (packed data was not "
            "unpacked), no trace of a GPU compiler, no library of a GPU stack NEEDED but OpenCL; named in strings, so "
            "that code may open them: libcuda.so.1"
        ],
    ),
    "unstable functions": (
        "stable ABI",
        {"files": {EXT: elf()}, "expectation": Expectation(spans=("torch",))},
        ["torch: none of its functions that change with each release is used"],
    ),
    "second copies": (
        "against",
        {"files": {EXT: elf()}, "against": Against("the folder /x", frozenset({"liba.so"}))},
        ["the folder /x: the wheel loads no second copy of its 1 library"],
    ),
    "second copies of a compiler": (
        "against",
        {"files": {EXT: elf()}, "against": Against("nvhpc", frozenset({"liba.so", "libb.so"}), "", "nvhpc")},
        ["nvhpc: the wheel loads no second copy of the 2 libraries that releases of nvhpc have"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_kind_of_proof_has_its_lines(case: str, tmp_path: Path) -> None:
    topic, options, expected = CASES[case]
    assert proved(topic, tmp_path, **options) == expected
