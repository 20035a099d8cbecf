"""What is read from binaries: ELF objects, fatbin containers and their images. Data only; readers make them."""

from typing import Literal, NamedTuple

from gpuforge.cuda.arch import Arch


class Entry(NamedTuple):
    """One image in a fatbin container."""

    kind: str  # "cubin", "ptx", "lto-ir"; "kind-N" for one that is not known
    arch: Arch
    isa: str  # the PTX ISA, "8.7"; "" for other kinds
    size: int  # bytes, unpacked
    stored: int  # bytes in the file
    compression: Literal["none", "lz4", "zstd"] = "none"
    toolkit: str = ""  # the CUDA version that wrote it, "13.0"; "" where finding out is not cheap

    @property
    def target(self) -> str:
        """The architecture as nvcc calls it: "sm_90a" for cubins, "compute_90" for PTX and LTO-IR."""
        return self.arch.sm if self.kind == "cubin" else self.arch.compute


class Container(NamedTuple):
    """One fatbin container, wherever it lies in a file."""

    offset: int
    size: int  # bytes, with its header
    entries: tuple[Entry, ...]
    section: str = ""  # the ELF section that holds it; "" for a standalone file
    damaged: bool = False  # its entries do not add up to its size
    empty: bool = False  # its cubins have no machine code: the source has no kernels

    @property
    def cubins(self) -> frozenset[str]:
        """The real architectures it has machine code for."""
        return frozenset(e.target for e in self.entries if e.kind == "cubin")

    @property
    def ptx(self) -> frozenset[str]:
        """The virtual architectures it has PTX for."""
        return frozenset(e.target for e in self.entries if e.kind == "ptx")


class DeviceCode(NamedTuple):
    """The GPU code of one file."""

    file: str
    containers: tuple[Container, ...]


class Section(NamedTuple):
    """An ELF section."""

    name: str
    offset: int
    size: int  # bytes in the file; 0 for what has none (.bss)
    type: int = 0
    flags: int = 0
    link: int = 0  # the number of a section that belongs to it: of a symbol table, its strings


class VersionNeed(NamedTuple):
    """The symbol versions that an object wants from one library (`.gnu.version_r`)."""

    library: str
    versions: tuple[str, ...]


class SymbolNames(NamedTuple):
    """The dynamic symbols of one group: those that other files must define, but for weak ones, and its own."""

    group: str
    undefined: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()


class ElfObject(NamedTuple):
    """What one ELF file says of itself; `file` is its name in `wheel` (the wheel's file name)."""

    wheel: str
    file: str
    size: int
    bits: int
    machine: int
    type: int  # e_type: 1 relocatable, 2 executable, 3 shared object
    dynamic: tuple[tuple[int, int], ...] = ()  # every (tag, value) before DT_NULL
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: str | None = None  # as written, entries joined by ":"
    runpath: str | None = None
    interpreter: str = ""
    version_needs: tuple[VersionNeed, ...] = ()
    version_definitions: tuple[str, ...] = ()
    stack: int | None = None  # p_flags of PT_GNU_STACK; None without one
    relro: bool = False  # it has a PT_GNU_RELRO segment
    isa: str = ""  # "x86-64-v3": what its GNU property says that it needs; "" for the baseline or without one
    build_id: str = ""
    comment: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()  # of a cubin those of all kernels together: one ".text", at no offset
    markers: frozenset[str] = frozenset()  # what its strings show: "static-cudart", "nvhpc", "python-module"
    producers: tuple[str, ...] = ()  # versions of compilers by its debug info and dead paths: "22.1"
    mentions: frozenset[str] = frozenset()  # libraries that its constants name: "libcudnn.so.9"
    symbols: tuple[SymbolNames, ...] = ()  # of the groups that were looked for and that it has
    containers: tuple[Container, ...] = ()

    @property
    def name(self) -> str:
        """The file's own name, without its folder."""
        return self.file.rpartition("/")[2]

    @property
    def links(self) -> bool:
        """True for what the dynamic linker loads: shared objects and dynamic programs."""
        return bool(self.dynamic) and self.type in (2, 3)

    @property
    def program(self) -> bool:
        """True for what is started rather than loaded."""
        return self.type == 2 or bool(self.interpreter)

    def undefined(self, group: str) -> frozenset[str]:
        """Return the symbols of a group that other files must define."""
        return next((s.undefined for s in self.symbols if s.group == group), frozenset())

    def defined(self, group: str) -> frozenset[str]:
        """Return the symbols of a group that it defines."""
        return next((s.defined for s in self.symbols if s.group == group), frozenset())
