"""Values that readers of binaries return: ELF objects, fatbin containers and their images."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from gpuforge.binary.elf.header import DF_1_PIE, DT_FLAGS_1, MACHINES, PROGRAM, is_program
from gpuforge.binary.hip import HipBundle
from gpuforge.runtime.arch import Arch

_DF_1_NOOPEN, _DF_1_NODEFLIB = 0x40, 0x800
_DT_RELR = 36
PYTHON_MODULE, STATIC_CUDART = "python-module", "static-cudart"  # markers
_OF_32_BITS, _BIG_ENDIAN = ("i686", "armv7l"), ("s390x",)
_ABI_VERSIONS = {0: 0, 3: 1}  # System V, GNU: the highest version of each that every glibc knows


class FatbinEntry(NamedTuple):
    """One image in a fatbin container."""

    kind: str  # "cubin", "ptx", "lto-ir"; "kind-N" for unknown ones
    arch: Arch
    isa: str  # the PTX ISA, "8.7"; "" for other kinds
    size: int  # bytes, unpacked
    stored: int  # bytes in the file
    compression: Literal["none", "lz4", "zstd"] = "none"
    toolkit: str = ""  # the CUDA version that wrote it, "13.0"; "" if reading it would take long

    @property
    def target(self) -> str:
        """nvcc's name of the architecture: "sm_90a" for cubins, "compute_90" for PTX and LTO-IR."""
        return self.arch.of_image(self.kind)


class FatbinContainer(NamedTuple):
    """One fatbin container in a file."""

    offset: int
    size: int  # bytes, with its header
    entries: tuple[FatbinEntry, ...]
    section: str = ""  # the ELF section that holds it; "" for a standalone file
    damaged: bool = False  # its entries do not add up to its size
    # its cubins have no machine code, as the source has no kernels; None if this was not checked
    empty: bool | None = False

    @property
    def is_ptx(self) -> bool:
        """Whether it is a PTX text outside of a container, as in `.ptx` files and in Halide's libraries."""
        return (
            len(self.entries) == 1 and self.entries[0].kind == "ptx" and self.size == self.entries[0].stored
        )

    @property
    def cubins(self) -> frozenset[Arch]:
        """The architectures of its machine code."""
        return frozenset(e.arch for e in self.entries if e.kind == "cubin")

    @property
    def ptx(self) -> frozenset[Arch]:
        """The architectures of its PTX."""
        return frozenset(e.arch for e in self.entries if e.kind == "ptx")


class DeviceCode(NamedTuple):
    """The GPU code of one file."""

    file: str
    containers: tuple[FatbinContainer, ...]


class Section(NamedTuple):
    """An ELF section."""

    name: str
    offset: int
    size: int  # bytes in the file; 0 for sections without bytes (.bss)
    type: int = 0
    flags: int = 0
    link: int = 0  # the number of a related section: of a symbol table, its strings
    address: int = 0  # in memory, if it is loaded
    memory: int = 0  # bytes in memory


class VersionNeed(NamedTuple):
    """The symbol versions that an object needs from one library (`.gnu.version_r`)."""

    library: str
    versions: tuple[str, ...]


class SymbolNames(NamedTuple):
    """The dynamic symbols of one group in a file.

    `undefined` are those that another file must define, `optional` those that it may define: weak ones.
    """

    group: str
    undefined: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


class Bindings(NamedTuple):
    """The dynamic symbols by which an object is bound to others.

    `imports` are the symbols that others must define, by the library that has their version ("" for those without one)
    and their kind: "function", "variable", "thread-local variable", "" if the linker did not know it. A name has its
    version behind it: "foo@X_2".
    `exports` are the hashes of the symbols that it defines, 32-bit numbers with the lowest bit set
    (`symbols.export_hash`), and of these with their versions, without that bit (`symbols.hash_at`). `kinds` has
    those that are no functions.
    """

    imports: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType({})
    exports: bytes = b""
    versions: tuple[str, ...] = ()  # that it defines; its symbols may have none
    kinds: Mapping[str, bytes] = MappingProxyType({})
    all_followed: bool = True  # False if its hash table is so large that it may not lead to its symbols


class BrokenSegment(NamedTuple):
    """An error in the segments of an ELF file."""

    part: str  # "PT_LOAD 1", "the table of strings"
    kind: str  # the problem: a key of `segments.SENTENCES`
    facts: Mapping[str, int] = MappingProxyType({})
    loads: bool = False  # the dynamic linker does not check it, but other tools read something else


class ElfObject(NamedTuple):
    """The facts of one ELF file; `wheel` and `file` are labels from the caller."""

    wheel: str
    file: str
    size: int
    bits: int
    machine: int
    type: int  # e_type: 1 relocatable, 2 executable, 3 shared object
    dynamic: tuple[tuple[int, int], ...] = ()  # every (tag, value) before DT_NULL
    soname: str = ""
    needed: tuple[str, ...] = ()
    auxiliary: tuple[str, ...] = ()  # libraries that are loaded, too, if they are there
    rpath: tuple[str, ...] | None = None  # entries as written
    runpath: tuple[str, ...] | None = None
    interpreter: str = ""
    version_needs: tuple[VersionNeed, ...] = ()
    stack: int | None = None  # p_flags of PT_GNU_STACK; None without one
    page: int = 0  # the alignment of its loaded segments in bytes, the smallest; 0 without one
    relro: bool = False  # it has a PT_GNU_RELRO segment
    isa: str = ""  # the level that its GNU property needs, "x86-64-v3"; "" for the baseline
    isa_used: str = (
        ""  # the highest level of its instructions by that property; "" for the baseline, or without one
    )
    lse: bool = False  # its code has atomic instructions of Armv8.1, and none for older processors
    system: str = ""  # that its ABI note demands: "Linux 4.11.0"
    build_id: str = ""
    comment: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()  # for a cubin, one for all kernels: ".text" at offset 0
    markers: frozenset[str] = frozenset()  # names of patterns in its strings: "nvhpc", "python-module"
    producers: tuple[str, ...] = ()  # versions of compilers in its debug info and in paths: "22.1"
    # libraries that are named in its constants: "libcudnn.so.9", "libcublas.so", "libcublas.so.%d"
    mentions: frozenset[str] = frozenset()
    release: str = ""  # of a program that is a tool of the CUDA toolkit: "12.8"
    numpy: int = 0  # the major of the NumPy whose C API it was compiled for: 1 or 2; 0 if it uses none
    # whether all its constants were searched for names of libraries and PTX texts; parts of large files are not
    all_searched: bool = True
    # by group, for the groups that the caller requested; None if they cannot be searched
    symbols: tuple[SymbolNames, ...] | None = ()
    bindings: Bindings | None = Bindings()  # None if they cannot be read
    static_tls: int = 0  # bytes that it takes from the space that glibc keeps free for such objects
    tls_align: int = 0  # the alignment of its thread-local variables in bytes
    containers: tuple[FatbinContainer, ...] = ()
    broken: tuple[BrokenSegment, ...] = ()  # if there are any, the dynamic section may be unknown
    order: str = "<"  # its byte order, as for `struct`
    os_abi: int = 0
    abi_version: int = 0
    hip: tuple[HipBundle, ...] = ()
    behind: int = 0  # bytes behind the end of all that its headers name

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.file.rpartition("/")[2]

    @property
    def is_debug(self) -> bool:
        """Whether it is separate debug information: it has the headers of an object, but no content."""
        return self.file.endswith((".debug", ".dbg"))

    @property
    def is_python_module(self) -> bool:
        """Whether Python can import it."""
        return PYTHON_MODULE in self.markers

    @property
    def mentioned_sonames(self) -> frozenset[str]:
        """The libraries with a version that are named in its constants."""
        return frozenset(name for name in self.mentions if name[-1].isdigit())

    @property
    def has_static_cudart(self) -> bool:
        """Whether a CUDA runtime is linked into it statically."""
        return STATIC_CUDART in self.markers

    @property
    def links(self) -> bool:
        """Whether the dynamic linker loads it: shared objects and dynamic programs."""
        return bool(self.dynamic) and self.type in (2, 3)

    @property
    def processor(self) -> str:
        """The processor that it is for, by its name in platform tags; "" for others.

        glibc refuses an object of another class, byte order or ABI than its own: then the difference is in the name.
        """
        name = MACHINES.get(self.machine, "")
        order = ">" if name in _BIG_ENDIAN else "<"
        differences = []
        if self.bits == 32 and name not in _OF_32_BITS:
            differences.append("32 bits")
        if self.order != order:
            differences.append("big-endian" if self.order == ">" else "little-endian")
        if self.os_abi not in _ABI_VERSIONS:
            differences.append(f"OS ABI {self.os_abi}")
        elif not self.has_known_abi:
            differences.append(f"ABI version {self.abi_version}")
        return f"{name} ({', '.join(differences)})" if name and differences else name

    @property
    def has_known_abi(self) -> bool:
        """Whether every glibc knows its OS ABI and the version of that (sysdeps/gnu/ldsodefs.h, libc-abis)."""
        return self.abi_version <= _ABI_VERSIONS.get(self.os_abi, -1)

    @property
    def has_relr(self) -> bool:
        """Whether it has relative relocations in the packed form of DT_RELR (gABI, "Relocation")."""
        return any(tag == _DT_RELR for tag, _ in self.dynamic)

    @property
    def is_program(self) -> bool:
        """Whether it is a program, not a library."""
        return is_program(self.type, dict(self.dynamic), interpreter=bool(self.interpreter))

    @property
    def is_refused(self) -> bool:
        """Whether the dynamic linker refuses to load it as a library."""
        return self.type == PROGRAM or bool(self._flags_1 & DF_1_PIE)

    @property
    def no_dlopen(self) -> bool:
        """Whether it can be loaded only when a program starts (`-z nodlopen`)."""
        return bool(self._flags_1 & _DF_1_NOOPEN)

    @property
    def no_default_folders(self) -> bool:
        """Whether its libraries are not looked for in the system's folders (`-z nodefaultlib`)."""
        return bool(self._flags_1 & _DF_1_NODEFLIB)

    @property
    def _flags_1(self) -> int:
        return dict(self.dynamic).get(DT_FLAGS_1, 0)

    def undefined(self, group: str) -> frozenset[str]:
        """Return the symbols of a group that other files must define."""
        return next((s.undefined for s in self.symbols or () if s.group == group), frozenset())

    def optional(self, group: str) -> frozenset[str]:
        """Return the symbols of a group that other files may define."""
        return next((s.optional for s in self.symbols or () if s.group == group), frozenset())

    def defined(self, group: str) -> frozenset[str]:
        """Return the symbols of a group that it defines."""
        return next((s.defined for s in self.symbols or () if s.group == group), frozenset())
