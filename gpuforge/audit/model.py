"""The values of the audit, which its readers make: objects, device code, wheels, findings."""

from collections.abc import Iterable, Mapping, Set
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Literal, NamedTuple, Self, get_args

from packaging.tags import Tag
from packaging.utils import canonicalize_name

from gpuforge.audit import layout
from gpuforge.audit.embedded import KernelSet, KernelsWheels, SourceSet, Unusable
from gpuforge.binary.elf.header import MACHINES
from gpuforge.binary.facts import DeviceCode, ElfObject
from gpuforge.binary.pe import PeFile
from gpuforge.cuda import sonames
from gpuforge.wheel import filename
from gpuforge.wheel.checks import Refusal
from gpuforge.wheel.dist_info import Identity, MetadataProblem
from gpuforge.wheel.record import Record

Form = Literal["wheel", "nested", "unpacked", "installed", "folder", "file"]

EVERY_INPUT: frozenset[Form] = frozenset(get_args(Form))
SEVERAL_FILES = EVERY_INPUT - {"file"}  # not a single binary
PACKAGES = SEVERAL_FILES - {"folder"}  # with metadata; binaries alone declare nothing
AS_BUILT = PACKAGES - {"installed"}  # with the tags and the RECORD of the wheel: installers rewrite RECORD
ARCHIVES = AS_BUILT - {"unpacked"}  # one file, as it is uploaded
FOLDERS = SEVERAL_FILES - ARCHIVES


class OpenedByName(NamedTuple):
    """A call in Python code that opens a library by a bare name, which is found only where the linker looks.

    `names` are the possible names, "{}" in them is not known. `raises`: a failure ends the code around it, and
    `imported`: already the import of its file.
    """

    names: tuple[str, ...]
    raises: bool
    imported: bool


class Uncalled(NamedTuple):
    """Functions that load libraries and that nothing in their wheel calls, and the strings that only they lead to."""

    functions: tuple[str, ...]
    strings: tuple[str, ...]
    names: frozenset[str] = frozenset()  # the libraries and words in these strings


class Preload(NamedTuple):
    """A Python file of the wheel that loads shared libraries by itself."""

    file: str
    pathfinder: bool  # through cuda-pathfinder
    everything: bool  # it loads all libraries of a list elsewhere into the global scope
    names: frozenset[str]  # the libraries and words in it, without "lib" and ".so"; see `may_open`
    by_path: frozenset[str] = frozenset()  # those of them that it opens by a path; see `opens`
    folders: bool = False  # it lists folders, and may load every library in them
    bare: bool = False  # by bare names: it loads only libraries that the linker finds anyway
    # it passes them to a framework (torch.ops.load_library), and loads no others
    ops: bool = False
    fixed: bool = False  # each name is a constant, not a variable
    # CUDA's words in the Python files and lists beside it; with pathfinder in all Python files
    listed: frozenset[str] = frozenset()
    uncalled: Uncalled | None = None  # if all that it loads is left to users
    by_name: tuple[OpenedByName, ...] = ()
    sonames: frozenset[str] = frozenset()  # the libraries in it with their versions: "libcublas.so.12"
    imported_before: frozenset[str] = frozenset()  # modules that it imports before it opens anything: "_core"

    def opens(self, *names: str) -> bool:
        """Return whether it opens a library of one of these names by a path, and so brings it into the process.

        By its bare name it opens only what the linker finds anyway. Callers leave out what a framework opens (`ops`),
        or what users must call (`uncalled`), where others have to find the library afterwards.
        """
        known = {*names, *map(sonames.bare, names)}
        return not known.isdisjoint(self.by_path)

    def is_late_for(self, root: ElfObject) -> bool:
        """Return whether it opens libraries only after it has imported a module."""
        module, part = root.name.partition(".")[0], root.file.partition("/")[0]
        return root.is_python_module and module in self.imported_before and self.file.startswith(f"{part}/")

    def may_open(self, *names: str) -> bool:
        """Return whether it names a library that it opens in any way: by its file, its SONAME, or without "lib"."""
        return not self.names.isdisjoint({*names, *map(sonames.bare, names)})


class Launcher(NamedTuple):
    """A Python file that starts programs and mentions LD_LIBRARY_PATH, or a script or entry point that does so."""

    file: str
    programs: frozenset[str] = frozenset()  # the programs of a script or entry point


class Compilers(NamedTuple):
    """The demand of a build file on users: compilers of a version, or an option of theirs."""

    kind: Literal["HPC SDK", "nvcc", "option"]
    version: str  # "22.1"; the option as it is: "-gpu=cuda11.5,cc60,cc70,cc80"
    tools: tuple[str, ...] = ()  # of the HPC SDK: "nvc++", "nvfortran"


class BuildFileCompilers(NamedTuple):
    """The compilers that a build file of the wheel demands of its users."""

    file: str
    compilers: Compilers


PathKind = Literal["build file", "script", "configuration"]


class BuildPath(NamedTuple):
    """A path of the machine that built the wheel, in one of its text files.

    "build file": a makefile, CMake or pkg-config file; "script": a program; "configuration": a Python file that records
    how the package was built.
    """

    file: str
    path: str
    kind: PathKind = "build file"


class Openings(NamedTuple):
    """What the Python code of a wheel opens: each library with a file that does, and the files that may open others."""

    names: Mapping[str, str] = MappingProxyType({})
    unfollowed: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()  # that run code which they make at run time, and tests that may open others
    users: tuple[str, ...] = ()  # with functions that open what their callers name
    imported: tuple[str, ...] = ()  # names of packages outside of the wheel and of Python


class Contents(NamedTuple):
    """What the files of a wheel hold that are no binaries, as far as their bytes tell it."""

    # file -> code in it that is not judged
    code: Mapping[str, Literal["ELF", "GPU code"]] = MappingProxyType({})
    unknown: tuple[str, ...] = ()  # of no format that is known, or too large to be read
    packed: tuple[str, ...] = ()  # that could not be unpacked
    data: tuple[str, ...] = ()  # images, arrays and others, which may have anything inside


class WheelFacts(NamedTuple):
    """Everything read from one wheel; the rules see nothing else of it."""

    name: str  # the wheel's file name
    size: int
    project: str  # normalized; "" if the file name does not have it
    version: str
    file_tags: tuple[Tag, ...]  # expanded and sorted
    wheel_tags: tuple[Tag | str, ...] = ()  # a line of WHEEL that is not a tag is text
    requires: tuple[str, ...] = ()
    extras: frozenset[str] = frozenset()  # Provides-Extra, normalized
    python: str = ""  # Requires-Python: ">=3.11,<3.15"
    members: Mapping[str, int] = MappingProxyType({})  # name -> size in bytes
    checksums: Mapping[str, int] = MappingProxyType({})  # name -> CRC-32 from the central directory
    purelib_lines: tuple[str, ...] = ()  # the values of the Root-Is-Purelib lines in WHEEL
    build_compilers: tuple[BuildFileCompilers, ...] = ()
    build_paths: tuple[BuildPath, ...] = ()
    loader_files: frozenset[str] = frozenset()  # libraries that files name for OpenCL's and Vulkan's loaders
    cuda_release: str = ""  # from its version.py: "13.2" for torch
    record: Record | None = None  # None without a RECORD
    objects: tuple[ElfObject, ...] = ()
    pe: tuple[PeFile, ...] = ()  # of a wheel for Windows
    loads_dlls: bool = False  # whether its Python code adds folders of DLLs, or loads DLLs by itself
    device: tuple[DeviceCode, ...] = ()  # every file with GPU code, ELF or not
    kernels: tuple[KernelSet, ...] = ()
    sources: tuple[SourceSet, ...] = ()
    kernels_listing: KernelsWheels | Unusable | None = None  # its list of kernels wheels
    kernels_description: KernelsWheels | Unusable | None = None  # a kernels wheel's description of itself
    preloads: tuple[Preload, ...] = ()  # of a wheel with linked objects
    openers: tuple[Preload, ...] = ()  # of one without binaries that requires CUDA's runtime
    launchers: tuple[Launcher, ...] = ()
    # a framework (torch) -> the Python files that raise an error if built with another CUDA release than it
    compares_cuda: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    imports: Mapping[str, str] = MappingProxyType({})  # framework -> the file that imports it with a package
    imported_first: frozenset[str] = frozenset()  # modules that are imported before any other package
    nvidia_modules: frozenset[str] = frozenset()  # of NVIDIA's packages, that its code imports: "nvidia.nccl"
    metadata_problems: tuple[MetadataProblem, ...] = ()
    identities: tuple[Identity, ...] = ()
    damaged: Mapping[str, str] = MappingProxyType({})  # member -> why it cannot be read
    corrupt: frozenset[str] = frozenset()  # those of them that cannot even be unpacked
    contents: Contents = Contents()  # of a wheel with binaries
    form: Form = "wheel"
    neighbour: bool = False  # read only for the libraries that it brings into one process with the others
    # symbolic links made after installation, by their member names
    links: Mapping[str, str] = MappingProxyType({})
    rehashed: tuple[str, ...] = ()  # files with another hash than in RECORD, if the hashes were compared
    refusals: tuple[Refusal, ...] = ()  # what indexes and installers refuse, or what surprises users
    too_large: str = ""  # why it was not judged; then nothing else of it is read
    machine: str = ""  # the processor that it is for, see `machine_of`

    def unjudged(self, reason: str) -> Self:
        """Return the facts that are kept of a wheel that is too large to judge."""
        form, neighbour, machine = self.form, self.neighbour, self.machine
        return type(self)(*self[:5], form=form, neighbour=neighbour, too_large=reason, machine=machine)

    @property
    def purelib(self) -> bool:
        """Whether its files are installed into purelib: pip takes the first line."""
        return bool(self.purelib_lines) and self.purelib_lines[0].lower() == "true"

    @property
    def unread(self) -> Mapping[str, str | int]:
        """Its files that cannot be read, each with the problem, or the number of its damaged fatbin containers.

        Separate debug information is not an object, although it has the headers of one (objcopy).
        """
        damaged: dict[str, str | int] = dict(self.damaged)
        for code in self.device:
            if broken := sum(container.damaged for container in code.containers):
                damaged.setdefault(code.file, broken)
        return {
            file: problem
            for file, problem in damaged.items()
            if file in self.corrupt or not file.endswith(".debug")
        }

    @property
    def linked(self) -> tuple[ElfObject, ...]:
        """Its objects that the dynamic linker loads."""
        return tuple(o for o in self.objects if o.links)

    @property
    def modules(self) -> Mapping[str, str]:
        """The names that Python can import from it, each with its file."""
        binaries = {each.file for each in self.objects if each.is_python_module}
        found = {}
        for file in self.members:
            *folders, name = layout.Folder.of(layout.install_path(file)).path.split("/")
            parts = [*folders, name.partition(".")[0]]
            if (file.endswith(".py") or file in binaries) and all(map(str.isidentifier, parts)):
                found[".".join(parts).removesuffix(".__init__")] = file
        return found

    @property
    def architectures(self) -> Set[str]:
        """The GPU architectures that it has code for, as nvcc names them: sm_90, compute_90."""
        containers = (container for code in self.device for container in code.containers)
        return {entry.target for container in containers for entry in container.entries}

    @property
    def complete(self) -> bool:
        """Whether all of its binaries were read, and the dynamic linker can load them."""
        broken = [o for o in self.objects if o.broken and not o.is_debug]
        # of an object that does not link only the headers could be read, or there is nothing to load
        refused = any(not (o.links and all(each.loads for each in o.broken)) for o in broken)
        return not (self.too_large or self.unread or refused)

    @property
    def title(self) -> str:
        """Its name in a line of text: "cupy-cuda12x 14.2.0"."""
        return f"{self.project} {self.version}" if self.project else self.name

    @property
    def known_as(self) -> str:
        """Its project; of files and folders without one, the name in the form of a project."""
        return self.project or project_of(self.name)

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platform tags of the file name."""
        return tuple(dict.fromkeys(tag.platform for tag in self.file_tags))


def project_of(label: str) -> str:
    """Return the project in a wheel's name in reports; of other names, the name in the form of a project."""
    name = PurePosixPath(label).name
    return filename.project(name) or canonicalize_name(name)


# its names of processors, in platform tags
_OF_WINDOWS = {"win32": "i686", "win_amd64": "x86_64", "win_arm64": "aarch64"}


def machine_of(tags: Iterable[Tag], objects: Iterable[ElfObject]) -> str:
    """Return the processor that a wheel is for, by its tags or else by its objects; "" for any."""
    tags = tuple(tags)
    tagged = {name for tag in tags for name in MACHINES.values() if tag.platform.endswith(f"_{name}")}
    tagged |= {_OF_WINDOWS[tag.platform] for tag in tags if tag.platform in _OF_WINDOWS}
    machines = tagged or {MACHINES.get(o.machine, "") for o in objects if o.links}
    return machines.pop() if len(machines) == 1 else ""
