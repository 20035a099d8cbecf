"""The GPU code of wheels as tables of plain text: by file, and by GPU generation."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from gpuforge.audit.judge import Report
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.reach import Reach, driver_of_container, reach
from gpuforge.binary.facts import DeviceCode, FatbinContainer, FatbinEntry
from gpuforge.cuda.releases import driver_of_ptx
from gpuforge.cuda.releases import generations as all_generations
from gpuforge.cuda.version import minor_of, numbers_of
from gpuforge.grouping import grouped
from gpuforge.runtime.arch import Arch


class Virtual(NamedTuple):
    """PTX of an ISA for one architecture, or LTO-IR, which has no ISA."""

    kind: str
    arch: Arch
    isa: str

    @property
    def text(self) -> str:
        """Its name in nvcc: "compute_90 (8.4)"; "lto-ir compute_90" for LTO-IR."""
        return (
            f"{self.arch.compute} ({self.isa})" if self.kind == "ptx" else f"{self.kind} {self.arch.compute}"
        )

    @property
    def short(self) -> str:
        """Its name after another one of its kind: "90 (8.4)"."""
        return f"{self.arch.number} ({self.isa})" if self.kind == "ptx" else self.text


@dataclass(frozen=True, slots=True)
class Code:
    """Containers with the same images, in one file or in several equal ones."""

    files: tuple[str, ...]
    section: str  # "" for a file that is a container itself
    count: int  # containers, in each of the files
    cubins: tuple[Arch, ...]
    ptx: tuple[Virtual, ...]
    toolkit: str  # "12.4"; several joined by ", "; "" if it is not known
    packing: str  # "lz4", "none, zstd"
    driver: str  # the oldest that runs it: "525.60 for machine code, 550.54 for PTX"
    stored: int  # bytes in one file


def code(wheel: WheelFacts) -> tuple[Code, ...]:
    """List the GPU code of a wheel, files with equal code together, in the order of the wheel."""
    alike = grouped((tuple(sorted(map(_look, each.containers), key=str)), each) for each in wheel.device)
    return tuple(row for group in alike.values() for row in _rows(group))


def _look(container: FatbinContainer) -> tuple[object, ...]:
    return (
        container.section,
        *sorted((e.kind, e.arch, e.isa, e.compression, e.toolkit) for e in container.entries),
    )


def _rows(group: list[DeviceCode]) -> list[Code]:
    files = tuple(file_code.file for file_code in group)
    by_images = grouped(
        ((c.section, *sorted({(e.kind, e.arch, e.isa) for e in c.entries})), c) for c in group[0].containers
    )
    return [_row(files, containers) for containers in by_images.values()]


def _row(files: tuple[str, ...], containers: list[FatbinContainer]) -> Code:
    entries = [e for c in containers for e in c.entries]
    virtual = {Virtual(e.kind, e.arch, e.isa) for e in entries if e.kind != "cubin"}
    return Code(
        files=files,
        section=containers[0].section,
        count=len(containers),
        cubins=tuple(sorted({e.arch for e in entries if e.kind == "cubin"})),
        ptx=tuple(sorted(virtual, key=lambda each: (each.kind != "ptx", each))),
        toolkit=", ".join(sorted({e.toolkit for e in entries if e.toolkit}, key=numbers_of)),
        packing=", ".join(sorted({e.compression for e in entries})),
        driver=driver(entries),
        stored=sum(e.stored for e in entries),
    )


def driver(entries: Sequence[FatbinEntry]) -> str:
    """Return the oldest driver for machine code and for PTX, as "≥525.60, PTX ≥550.54"; "" if nothing is known.

    One number is for both if PTX needs no newer driver.
    """
    cubins = driver_of_container(entries) if any(e.kind == "cubin" for e in entries) else ""
    ptx = max((driver_of_ptx(e.isa) for e in entries if e.kind == "ptx"), key=numbers_of, default="")
    parts = [f"≥{minor_of(cubins)}"] if cubins else []
    if ptx and not (cubins and numbers_of(ptx) <= numbers_of(cubins)):
        parts.append(f"PTX ≥{minor_of(ptx)}")
    return ", ".join(parts)


def generations(report: Report) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the wheels with GPU code, and the GPU generations that some may meet: capability, name, verdicts.

    A verdict is for all files of a wheel together.
    """
    wheels = [w.facts for w in report.wheels if w.facts.device]
    reached = [_reached(wheel) for wheel in wheels]
    rows = [
        (known.capability, known.name, *(_verdict(found.get(known.capability, ())) for found in reached))
        for known in all_generations()
    ]
    return [wheel.name for wheel in wheels], [row for row in rows if any(row[2:])]


def runs_on(wheel: WheelFacts, file: str) -> str:
    """Return the generations on which one file's GPU code runs: "5.0 to 7.0: does not run; 7.5 to 12.1: native"."""
    found = next(
        (reach(file_code, wheel.machine) for file_code in wheel.device if file_code.file == file), ()
    )
    runs = [
        (way, [r.generation.capability for r in group])
        for way, group in groupby(found, lambda r: _verdict((r,)))
    ]
    if not any(way for way, _ in runs):
        return "no kernel in it"
    return "; ".join(f"{c[0]} to {c[-1]}: {way}" if len(c) > 1 else f"{c[0]}: {way}" for way, c in runs)


def _reached(wheel: WheelFacts) -> dict[str, list[Reach]]:
    every = (one for file_code in wheel.device for one in reach(file_code, wheel.machine))
    return grouped((one.generation.capability, one) for one in every)


def _verdict(reaches: Sequence[Reach]) -> str:
    native, jit = sum(r.native for r in reaches), sum(r.jit for r in reaches)
    none = sum(r.none for r in reaches)
    if not native + jit:
        return "does not run" if none else ""
    needed = max((r.driver for r in reaches), key=numbers_of)
    how = f"JIT, driver ≥{minor_of(needed)}" if jit and needed else "JIT" if jit else "native"
    return f"{how}, in {native + jit} of {native + jit + none} containers" if none else how
