"""The values that the audit is about: objects, device code, wheels, findings. Data only; readers make them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from gpuforge.errors import ActionError

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
Form = Literal["wheel", "nested", "unpacked", "installed", "folder", "file"]  # what was given to read


class MalformedError(ActionError):
    """Bytes that are not what their header says: the only error that the audit's readers raise."""


class CorruptError(MalformedError):
    """A file that cannot be unpacked from its archive: no installer can do it either."""


class Entry(NamedTuple):
    """One image in a fatbin container."""

    kind: str  # "cubin", "ptx", "lto-ir"; "kind-N" for one that is not known
    arch: str  # "sm_90a" for cubins, "compute_90" for PTX and LTO-IR
    isa: str  # the PTX ISA, "8.7"; "" for other kinds
    size: int  # bytes, unpacked
    stored: int  # bytes in the file
    compression: Literal["none", "lz4", "zstd"] = "none"
    toolkit: str = ""  # the CUDA version that wrote it, "13.0"; "" where finding out is not cheap


class Container(NamedTuple):
    """One fatbin container, wherever it lies in a file."""

    offset: int
    size: int  # bytes, with its header
    entries: tuple[Entry, ...]
    section: str = ""  # the ELF section that holds it; "" for a standalone file
    damaged: bool = False  # its entries do not add up to its size
    hollow: bool = False  # its cubins have no machine code, as of a source without kernels

    @property
    def cubins(self) -> frozenset[str]:
        """The real architectures it has machine code for."""
        return frozenset(e.arch for e in self.entries if e.kind == "cubin")

    @property
    def ptx(self) -> frozenset[str]:
        """The virtual architectures it has PTX for."""
        return frozenset(e.arch for e in self.entries if e.kind == "ptx")


class DeviceCode(NamedTuple):
    """The GPU code of one file."""

    file: str
    containers: tuple[Container, ...]


class Section(NamedTuple):
    """An ELF section."""

    name: str
    offset: int
    size: int  # bytes in the file; 0 for what has none (.bss)


class VersionNeed(NamedTuple):
    """The symbol versions that an object wants from one library (`.gnu.version_r`)."""

    library: str
    versions: tuple[str, ...]


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
    markers: frozenset[str] = frozenset()  # "static-cudart", "nvhpc", "python-module"
    producers: tuple[str, ...] = ()  # the compilers of the HPC SDK by its debug info and dead paths: "22.1"
    mentions: frozenset[str] = frozenset()  # libraries of GPU toolkits that its strings name: "libcudnn.so.9"
    # what it wants of Python's C API, for modules of the stable ABI alone
    python: frozenset[str] = frozenset()
    wants: frozenset[str] = frozenset()  # symbols of the HPC SDK's runtimes that it must find elsewhere
    gives: frozenset[str] = frozenset()  # those that it defines
    calls: frozenset[str] = frozenset()  # functions of CUDA's libraries that it must find elsewhere
    offers: frozenset[str] = frozenset()  # those that it defines
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


class KernelSet(NamedTuple):
    """A set of compiled kernels in the wheel, with its index as read; `problem` says why it could not be."""

    folder: str
    listing: Mapping[str, object]
    digests: Mapping[str, str]  # sha256 of each file in the folder, by its name there
    problem: str = ""


class SourceSet(NamedTuple):
    """The sources and the recipe of a user-compiled object in the wheel."""

    folder: str
    recipe: Mapping[str, object]
    digests: Mapping[str, str]
    problem: str = ""
    # file -> what it includes by absolute path
    absolute: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Preload(NamedTuple):
    """A Python file of the wheel that loads shared libraries by itself."""

    file: str
    pathfinder: bool  # through cuda-pathfinder
    everything: bool  # it loads into the global scope what a list elsewhere names
    names: frozenset[str]  # the libraries and words it speaks of, without "lib" and ".so"
    folders: bool = False  # it lists folders, and may load all that lies there
    bare: bool = False  # by bare names: it loads only what the linker finds anyway
    # for a framework that it hands them to (torch.ops.load_library), and that loads no others
    ops: bool = False
    fixed: bool = False  # each by a name that is written there, none by a variable
    # it starts programs, and speaks of LD_LIBRARY_PATH; one that loads nothing is bare, too
    starts: bool = False
    # CUDA's words in the Python files and lists beside it; with pathfinder in all Python files
    listed: frozenset[str] = frozenset()


class Pin(NamedTuple):
    """A toolchain that a build file of the wheel asks its users for."""

    file: str
    what: str  # "the NVIDIA HPC SDK 22.1", "-gpu=cuda11.5,cc60,cc70,cc80"


class Record(NamedTuple):
    """What is kept of a RECORD: of most files it says what the archive says, too."""

    unlisted: tuple[str, ...]  # files of the wheel that it does not list
    digests: Mapping[str, str]  # "sha256=..." of the libraries that are in the wheel
    # hash and size in rows of no file, of another size, or without a hash
    odd: Mapping[str, tuple[str, int | None]]
    more: int = 0  # further rows of no file of the wheel


class Identity(NamedTuple):
    """The name and the version that some part of the wheel gives it, as written; "" for what it does not say."""

    place: str  # "METADATA", "the .dist-info folder"
    name: str
    version: str


class WheelFacts(NamedTuple):
    """Everything read from one wheel; rules see nothing else of it."""

    name: str  # the wheel's file name
    size: int
    project: str  # normalized; "" when the file name does not say
    version: str
    file_tags: tuple[str, ...]  # "cp311-cp311-manylinux_2_17_x86_64", expanded and sorted
    wheel_tags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    python: str = ""  # Requires-Python: ">=3.11,<3.15"
    members: Mapping[str, int] = MappingProxyType({})  # name -> size in bytes
    checksums: Mapping[str, int] = MappingProxyType({})  # name -> CRC-32, as the archive's directory has it
    purelib: bool = False  # WHEEL says Root-Is-Purelib
    pins: tuple[Pin, ...] = ()
    record: Record | None = None  # None without a RECORD
    objects: tuple[ElfObject, ...] = ()
    device: tuple[DeviceCode, ...] = ()  # every file with GPU code, ELF or not
    kernels: tuple[KernelSet, ...] = ()
    sources: tuple[SourceSet, ...] = ()
    kernels_wheels: Mapping[str, object] = MappingProxyType(
        {}
    )  # its list of kernels wheels; empty without one
    kernels_wheel: Mapping[str, object] = MappingProxyType({})  # what a kernels wheel says of itself
    preloads: tuple[Preload, ...] = ()
    metadata_problems: tuple[str, ...] = ()
    identities: tuple[Identity, ...] = ()
    damaged: Mapping[str, str] = MappingProxyType({})  # member -> why it cannot be read
    corrupt: frozenset[str] = frozenset()  # those of them that cannot even be unpacked
    form: Form = "wheel"
    # symbolic links made after installation, by their member names
    links: Mapping[str, str] = MappingProxyType({})

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platform tags of the file name."""
        return tuple(dict.fromkeys(tag.rpartition("-")[2] for tag in self.file_tags))


NEEDED_BY = ", NEEDED by "


class Finding(NamedTuple):
    """One cause, and everything it is true of. `message` is the cause; what differs by file is in `subject`.

    Subjects that differ only in what follows NEEDED_BY become one line when findings are joined.
    """

    code: str
    severity: Severity
    wheel: str
    files: tuple[str, ...]
    subject: tuple[str, ...]  # one line each: the thing, and what there is to say of it
    message: str
    remedy: str

    @property
    def file(self) -> str:
        """The first of its files; "" when it is about the wheel as a whole."""
        return self.files[0] if self.files else ""


class Ignored(NamedTuple):
    """A finding that was accepted, and why."""

    finding: Finding
    reason: str


class Proof(NamedTuple):
    """Something that was looked at and holds."""

    topic: str
    text: str
