"""Cases of the rules: GPU code."""

import struct

from audit_cases import Case
from audit_samples import elf, fatbin, image

ARM = "demo-1.0-cp311-cp311-manylinux_2_28_aarch64.whl"
NV, REL = ".nv_fatbin", "__nv_relfatbin"


def so(*containers: tuple[str, ...]) -> bytes:
    return elf(sections={NV: b"".join(fatbin(*archs) for archs in containers)})


def empty_ptx() -> bytes:
    entries = image("sm_80", size=4096) + image("compute_80:8.4", size=64)
    return elf(
        sections={NV: b"\x50\xed\x55\xba\x01\x00\x10\x00" + len(entries).to_bytes(8, "little") + entries}
    )


def written_by(*releases: str, ptx: str = "") -> bytes:
    """A library with machine code of these releases of ptxas, a container each, and PTX of an ISA."""
    found = []
    for release in releases:
        note = b"ptxas\0Cuda compilation tools, release %s, V%s.1\0.text.k\0" % ((release.encode(),) * 2)
        header = bytearray(b"\x7fELF\x02\x01\x01\x33\x07".ljust(64, b"\0"))
        struct.pack_into("<Q", header, 40, 64 + len(note))
        struct.pack_into("<HH", header, 58, 64, 1)
        row = struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, 64, len(note), 0, 0, 4, 0)
        entries = image("sm_80", content=bytes(header) + note + row) + (
            image(f"compute_80:{ptx}") if ptx else b""
        )
        found.append(b"\x50\xed\x55\xba\x01\x00\x10\x00" + len(entries).to_bytes(8, "little") + entries)
    return elf(sections={NV: b"".join(found)})


MIB = 1 << 20


def big() -> bytes:
    images = [image("sm_80", size=33 * MIB), image("sm_80", size=64)]
    return b"".join(b"\x50\xed\x55\xba\x01\x00\x10\x00" + len(e).to_bytes(8, "little") + e for e in images)


def packed_with_zstd(arch: str) -> bytes:
    entry = bytearray(image(arch, compressed=100))
    struct.pack_into("<Q", entry, 40, 0x8011)
    return b"\x50\xed\x55\xba\x01\x00\x10\x00" + struct.pack("<Q", len(entry)) + entry


def ptxas(release: str) -> bytes:
    text = f"\0Cuda compilation tools, release {release}, V{release}.93\0".encode()
    return elf(interpreter="/lib64/ld-linux-x86-64.so.2", sections={".rodata": text})


CASES = {
    "a compiler that does not know the GPUs of today": Case(
        "GF410", {"demo/bin/ptxas": ptxas("12.8")}, {"demo/bin/ptxas": ptxas("13.0")},
    ),
    "a compiler beside one that knows the GPUs of today": Case(
        "GF410", {"demo/bin/ptxas": ptxas("12.8")}, {"demo/bin/ptxas-blackwell": ptxas("12.9")},
    ),
    "zstd in code for CUDA 12": Case(
        "GF411", {
            "demo/ext.so": elf(
                needed=["libcudart.so.12"], sections={NV: packed_with_zstd("sm_80") + fatbin("sm_90")}
            )
        },
        {"demo/ext.so": elf(needed=["libcudart.so.13"], sections={NV: packed_with_zstd("sm_80")})},
    ),
    "nothing for DGX Spark": Case(
        "GF412", {"demo/ext.so": so(("sm_90", "sm_100", "sm_120a"), ("sm_90", "sm_100"), ("compute_90:8.4",))},
        {"demo/ext.so": so(("sm_90", "sm_120f"), ("sm_90", "sm_120"), ("sm_90", "sm_121"), ("compute_90:8.4",))},
        name=ARM,
    ),
    "nothing for DGX Spark, which no other machine has": Case(
        "GF412", {"demo/ext.so": so(("sm_90", "sm_100"))}, {"demo/ext.so": so(("sm_90", "compute_100:8.8"))}, name=ARM,
    ),
    "nothing for some newer GPUs": Case(
        "GF403", {"demo/ext.so": so(("sm_80", "sm_90", "sm_120"))},
        {"demo/ext.so": so(("sm_80", "sm_90", "sm_100", "sm_120", "compute_120:8.8"))},
    ),
    "nothing for a generation, and another file for it": Case(
        "GF403", {"demo/ext.so": so(("sm_80", "sm_90")), "demo/b.so": so(("sm_100a",))},
        {"demo/ext.so": so(("sm_80", "compute_90:8.4"))},
    ),
    "nothing for newer GPUs": Case(
        "GF403", {"demo/ext.so": so(("sm_80", "sm_90"))}, {"demo/ext.so": so(("sm_80", "compute_90:8.4"))},
    ),
    "PTX that is newer than GPUs without machine code": Case(
        "GF403", {"demo/ext.so": so(("sm_80", "compute_120:8.8"))},
        {"demo/ext.so": so(("sm_80", "compute_80:8.8", "compute_120:8.8"))},
    ),
    "some kernels with such PTX": Case(
        "GF403", {"demo/ext.so": so(("sm_80", "compute_120:8.8"), ("compute_80:8.8",))},
        {"demo/ext.so": so(("sm_120", "compute_120:8.8"), ("compute_80:8.8",))},
    ),
    "a framework's own code": Case(
        "GF403", {"torch/lib/libtorch_cuda.so": so(("sm_90",))},
        {"torch/lib/libtorch_cuda.so": so(("sm_90", "compute_90:8.4"))},
    ),
    "nothing for later GPUs": Case(
        "GF403", {"demo/ext.so": so(("sm_90", "sm_100", "sm_120"))},
        {
            "demo.libs/libcufft-0a1b2c3d.so.12": so(("sm_90",)), "demo/ext.so": elf(),
            "demo.libs/libcuda-dcdf334a.so.580.178.04": so(("sm_90",)),
        },
    ),
    "some kernels only": Case(
        "GF403", {"demo/ext.so": so(("sm_90",), ("sm_90", "compute_90:8.4"))},
        {"demo/ext.so": so(("sm_90", "compute_90:8.4"), ("sm_90", "compute_90:8.4"))},
    ),
    "one architecture alone": Case(
        "GF404", {"demo/ext.so": so(("sm_90a", "compute_90a:8.4"), ("sm_90a", "sm_80"))},
        {"demo/ext.so": so(("sm_90a", "sm_80"))},
    ),
    "empty PTX": Case("GF405", {"demo/ext.so": empty_ptx()}, {"demo/ext.so": so(("sm_80", "compute_80:8.4"))}),
    "several toolkits": Case(
        "GF406", {"demo/ext.so": so(("sm_80", "compute_80:8.4"), ("sm_80", "compute_80:8.5"))},
        {"demo/ext.so": so(("sm_80", "compute_80:8.5"), ("sm_80", "compute_80:8.5"))},
    ),
    "two releases of ptxas": Case(
        "GF406", {"demo/ext.so": written_by("13.0", "13.2", "13.0")},
        {"demo/ext.so": written_by("13.0", "13.0", ptx="8.4")},  # as clang does,
    ),
    "relocatable code is left in": Case(
        "GF407", {"demo/ext.so": lambda: elf(sections={NV: fatbin("sm_80"), REL: big()})},
        {"demo/ext.so": lambda: elf(sections={REL: big()})},  # there is no result beside them,
    ),
    "only by JIT": Case(
        "GF408", {"demo/ext.so": so(("sm_80", "compute_80:8.4"))},
        {"demo/ext.so": so(("sm_80", "sm_90", "sm_100", "sm_120", "compute_120:8.8"))},
    ),
}  # fmt: skip
