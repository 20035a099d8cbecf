"""A report made by hand, with everything in it that a renderer must cope with; and golden files."""

import json
from pathlib import Path
from typing import Any

import golden
from packaging.tags import Tag

from gpuforge.audit.findings import Finding, Ignored, Subject
from gpuforge.audit.judge import Report, WheelReport
from gpuforge.audit.link import graph as link
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.proofs import Proof
from gpuforge.audit.report import data
from gpuforge.binary.facts import DeviceCode, ElfObject, FatbinContainer, FatbinEntry
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.runtime.arch import Arch

BAD = "bad-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
GOOD = "good-2.0-py3-none-manylinux_2_17_x86_64.whl"


def elf(wheel: str, file: str, *needed: str, **more: object) -> ElfObject:
    more = {"soname": "", "runpath": None, **more}
    return ElfObject(wheel, file, 4096, 64, 62, 3, dynamic=((1, 1),), needed=needed, **more)  # type: ignore[arg-type]


def container(*entries: FatbinEntry, section: str = ".nv_fatbin") -> FatbinContainer:
    return FatbinContainer(0, sum(e.stored for e in entries) + 16, entries, section)


def entry(arch: str, isa: str = "", toolkit: str = "") -> FatbinEntry:
    kind = "ptx" if arch.startswith("compute") else "cubin"
    return FatbinEntry(kind, Arch.parse(arch), isa, 9000, 4_000_000, "lz4", toolkit)


def sample() -> Report:
    """Two wheels and a file that could not be read."""
    bad = WheelFacts(
        BAD,
        5_000_000,
        "bad",
        "1.0",
        (Tag("cp311", "cp311", "manylinux_2_17_x86_64"),),
        members={"bad/a|b.so": 4096},
        objects=(
            elf(BAD, "bad/a|b.so", "libcore-0badcafe.so", "libcufft.so.11", "libcuda.so.1", "libfar.so.1",
                "libm.so.6", "libc.so.6", runpath=("$ORIGIN/../bad.libs",)),
            elf(BAD, "bad.libs/libcore-0badcafe.so", "libgomp-11223344.so.1", "libc.so.6",
                soname="libcore-0badcafe.so", runpath=("$ORIGIN",)),
            elf(BAD, "bad.libs/libgomp-11223344.so.1", "libc.so.6", soname="libgomp-11223344.so.1"),
            elf(BAD, "bad/plain_1.so", "libc.so.6"),
            elf(BAD, "bad/plain_2.so", "libc.so.6"),
        ),
        device=(
            DeviceCode(
                "bad/a|b.so",
                (
                    *(container(entry("sm_80", toolkit="12.4"), entry("sm_90a"), entry("compute_90", "8.4")),) * 3,
                    container(entry("sm_80"), section="__nv_relfatbin"),
                ),
            ),
        ),
        machine="x86_64",
    )  # fmt: skip
    tag = Tag("py3", "none", "manylinux_2_17_x86_64")
    good = WheelFacts(GOOD, 10_000, "good", "2.0", (tag,), machine="x86_64")
    findings = (
        Finding(
            "GF301",
            "error",
            BAD,
            ("bad.libs/libnvomp-fb1a2b9f.so", "bad/a|b.so"),
            (
                Subject("bad.libs/libnvomp-fb1a2b9f.so"),
                Subject("bad/a|b.so", detail="<b>'$ORIGIN' & `ticks`</b> *stars* $ORIGIN/x"),
            ),
            "RPATH has the entry 'bad.libs' & <more>",
            "",
            "remove it (`patchelf --set-rpath`)",
        ),
        Finding(
            "GF502",
            "warning",
            BAD,
            (),
            (Subject(detail="the tag | in WHEEL"),),
            "the tags are not those",
            "",
            "rename it",
        ),
        Finding(
            "GF503",
            "info",
            BAD,
            ("bad/x.so",),
            (Subject("bad/x.so \x1b[31m"),),
            "it asks for it",
            "",
            "do not",
        ),
    )
    ignored = Ignored(
        Finding(
            "GF101",
            "error",
            BAD,
            ("bad.libs/libnvc-ca879ffd.so",),
            (Subject(library="libnvc"),),
            "twice",
            "",
            "not",
        ),
        "known <since> 1.0",
    )
    proof = Proof("platform", "manylinux_2_17_x86_64 holds; highest required: GLIBC 2.14 (x.so)")
    wheels = (
        WheelReport(bad, findings, (ignored,), (proof,)),
        WheelReport(good, (), (), ()),
    )
    problem = Diagnostic("it is not a wheel: not even a zip file", Place("dist/text.whl"), "build it again")
    return Report(wheels, (problem,), link.build([bad, good]))


def hold(name: str, found: str) -> None:
    """Compare with the golden file."""
    golden.hold(f"audit/{name}", found)


SCHEMA: dict[str, Any] = json.loads(Path(data.__file__).with_name("report.schema.json").read_bytes())
