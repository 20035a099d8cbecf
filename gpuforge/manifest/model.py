"""The manifest as written: one frozen model per table of `gpuforge.toml`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    Tag,
    model_validator,
)

from gpuforge.cuda.choices import ABOUT_PROVIDER, DriverLibrary, Linkage, Provider, Requires
from gpuforge.cuda.targets import Target, targets
from gpuforge.manifest import forms
from gpuforge.manifest.forms import CommonOrMany, CompilerName, Distinct, OneOrMany, wrong
from gpuforge.manifest.problem import VERSION_KEY
from gpuforge.manifest.sizes import size_in_bytes
from gpuforge.requirements import Release
from gpuforge.toolchain_names import OWN


class Table(BaseModel):
    """A table of the manifest: immutable, and unknown keys are errors.

    Models are built when a manifest is read, all at once; `schema` adds the docstrings below the fields.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def listed(before: str, items: Iterable[str], after: str = "") -> str:
    """Return a description of a field that lists what a table elsewhere has, in lines as long as docstrings'."""
    text = f"{before} {'; '.join(items)}. {after}".strip()
    return textwrap.fill(text, 116, break_long_words=False, break_on_hyphens=False)


class PathSource(Table):
    """A folder or an sdist on this machine."""

    path: forms.Text = Field(examples=["."])
    """Folder with the project's `pyproject.toml`, relative to the manifest's folder. Version control, environments,
    caches and what gpuforge put into an output folder are left out of the build, and so are `build`, `dist` and
    `wheelhouse` at the top of the folder. Or an sdist: a file such as `dist/demo-1.0.tar.gz`."""


class PypiSource(Table):
    """An sdist on PyPI."""

    pypi: forms.PinnedRequirement = Field(examples=["cufinufft==2.5.1"])
    """Name and exact version of the release whose sdist is built."""
    sha256: forms.Sha256 = Field(
        examples=["f12849b91674d049543cb963c94c0ee60e8e34e1bbad5e32fefe12961b0621b4"]
    )
    """The sdist's sha256, as PyPI shows it. A file with another digest is refused."""

    @property
    def release(self) -> Release:
        """The release, named as in the manifest."""
        return Release.of_pin(self.pypi)


class GitSource(Table):
    """A revision of a git repository."""

    git: forms.GitUrl = Field(examples=["https://github.com/flatironinstitute/finufft"])
    """The repository's URL."""
    rev: forms.GitRevision = Field(examples=["v2.5.1"])
    """The commit (full or short) or tag to build."""


def _source_tag(value: Any) -> str | None:
    if isinstance(value, Table):
        return {PathSource: "<path>", PypiSource: "<pypi>", GitSource: "<git>"}[type(value)]
    if not isinstance(value, Mapping):
        return "<path>"
    tags = [f"<{key}>" for key in ("path", "pypi", "git") if key in value]
    return tags[0] if len(tags) == 1 else None


_EXACTLY_ONE = {
    "message": "[package.source] needs exactly one of `path`, `pypi` and `git`",
    "hint": '{ path = "." } · { pypi = "name==1.0", sha256 = "…" } · { git = "https://…", rev = "…" }',
    "at": (),
    "names_subject": True,
}
Source = Annotated[
    Annotated[PathSource, Tag("<path>")]
    | Annotated[PypiSource, Tag("<pypi>")]
    | Annotated[GitSource, Tag("<git>")],
    Discriminator(
        _source_tag,
        custom_error_type="form",
        custom_error_message="{message}",
        custom_error_context=_EXACTLY_ONE,
    ),
]


class Package(Table):
    """What is built, from which sources, and for which Python versions."""

    name: forms.PackageName = Field(examples=["cufinufft"])
    """Name of the distribution; `[wheel] naming` may append the CUDA major to it."""
    source: Source = Field(default=PathSource(path="."), examples=[{"path": "."}])
    """Where the sources come from: exactly one of `path`, `pypi` (with `sha256`) and `git` (with `rev`)."""
    python: Annotated[tuple[forms.PythonVersion, ...], Distinct] = Field(
        default=(), examples=[["3.11", "3.12"]]
    )
    """Python versions to build wheels for, one wheel each; `3.10` is the oldest. With `abi = "abi3"`, give exactly one:
    the lowest version that the wheel supports, which may be older than 3.10. With `abi = "none"`, give at most one: the
    oldest version that may build the wheel. `3.14t` is the free-threaded build of 3.14, whose wheel's test fails if an
    import turns the GIL on. A build looks for `python3.N`, with its headers, on PATH, in `/opt/python`
    and among the versions of pyenv and uv (`uv python install 3.14`); in a container, in the image. If one is missing,
    the other cells are built and the exit status is 3; `--allow-missing` makes it 0."""
    abi: Literal["abi3", "abi3t", "none"] | None = Field(default=None, examples=["abi3"])
    """Set this if one wheel serves many Python versions: `abi3` for extensions of the limited API, `abi3t` if it serves
    free-threaded Pythons, too (from 3.15 on; tag `cp315-abi3.abi3t`), `none` for wheels without extension modules."""
    import_: forms.ImportName = Field(
        default_factory=lambda seen: str(seen.get("name", "")).replace("-", "_"),
        alias="import",
        examples=["cufinufft"],
    )
    """Import package that receives the kernels and the runtime. Default: `name` with `-` replaced by `_`."""
    c_header: bool = Field(default=False, alias="c-header", examples=[True])
    """Put the header `gpuforge_kernels.h` into the wheel, by which programs in C and C++ find and load its kernels
    ([C programs](kernels-c.md))."""


Setting = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[tuple[str, ...], Tag("<array>")],
    Discriminator(lambda value: "<array>" if isinstance(value, list | tuple) else "<text>"),
]


class OverlaySdist(PypiSource):
    """An sdist on PyPI that is unpacked into `{overlay}`."""

    pypi: forms.PinnedRequirement = Field(examples=["ducc0==0.39.1"])
    """Name and exact version of the sdist to unpack."""
    sha256: forms.Sha256 = Field(
        examples=["38eda188733d43c3602726e28bc9928d3117cdc23b5c1e7d89fdc26004a1d847"]
    )
    """The sdist's sha256, as PyPI shows it. A file with another digest is refused."""

    @property
    def folder(self) -> str:
        """The name of its folder in `{overlay}`."""
        return canonicalize_name(self.release.project)


Overlay = Annotated[
    Annotated[forms.RelativePath, Tag("<folder>")] | Annotated[OverlaySdist, Tag("<pypi>")],
    Discriminator(lambda value: "<pypi>" if isinstance(value, Mapping | Table) else "<folder>"),
]


class CompilerCache(Table):
    """A compiler cache for several projects: sources that one has compiled, the others need not compile again.

    One project's build writes into the cache what another's build links. So the manifests must name each other: a
    project whose manifest does not name this one is left out, and a note reports it. A source is found in the cache if
    it lies at the same place in both projects. Compilers write paths into objects, so builds of projects with the same
    `name` run in the same folders, one after another.
    """

    name: forms.Name = Field(examples=["finufft"])
    """The same name in all manifests that share the cache."""
    with_: Annotated[tuple[forms.RelativePath, ...], Distinct] = Field(
        alias="with", examples=[["../cufinufft"]]
    )
    """Folders of the other manifests."""


CpuLevelName = Literal["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]


class Build(Table):
    """The host build: the project's own PEP 517 build, in an environment that gpuforge controls.

    `config-settings`, `env` and `before` may use four placeholders: `{project}` is the source tree, `{overlay}` the
    folder with the content of the overlays, `{toolkit}` the CUDA toolkit, and `{env}` the build's Python environment,
    which is read-only in a container. Any other name in braces is an error; `${name}` stays as it is, and `{{name}}` is
    the text `{name}`. When gpuforge asks the backend for its requirements, `{overlay}` does not exist, and `before` has
    not run.
    """

    config_settings: Mapping[str, Setting] = Field(
        default={}, alias="config-settings", examples=[{"cmake.define.FINUFFT_ARCH_FLAGS": ""}]
    )
    """Settings for the project's build backend, as in `pip install --config-settings`. A list passes a setting several
    times."""
    env: Mapping[forms.Variable, str] = Field(default={}, examples=[{"CPM_SOURCE_CACHE": "{overlay}/cpm"}])
    """Environment variables of the build, in addition to those that gpuforge sets (`CC`, `CXX`, `CUDACXX`, …)."""
    overlay: Annotated[tuple[Overlay, ...], Distinct] = Field(default=(), examples=[["overlay"]])
    """Files that the build would otherwise download. A folder beside the manifest is copied into `{overlay}`. An sdist
    on PyPI, such as `{ pypi = "ducc0==0.39.1", sha256 = "…" }`, is fetched before the build and unpacked into a folder
    of its name: `{overlay}/ducc0`. Shared libraries there that the wheel needs, also those that `before` makes, are
    copied into it."""

    @property
    def overlay_folders(self) -> tuple[tuple[int, str], ...]:
        """The overlays that are folders, with their places in the list."""
        return tuple((n, each) for n, each in enumerate(self.overlay) if isinstance(each, str))

    @property
    def overlay_sdists(self) -> tuple[OverlaySdist, ...]:
        """The overlays that are sdists."""
        return tuple(each for each in self.overlay if isinstance(each, OverlaySdist))

    before: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...] = Field(
        default=(), examples=[[["python", "tools/generate.py"]]]
    )
    """Commands that run in the source tree before the build, in order. Each is a list of words; no shell is
    involved."""
    requires: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["cmake<4"]])
    """Build requirements in addition to the project's own. If the project requires a package too, both ranges apply."""
    build: Annotated[tuple[forms.Text, ...], Distinct] = Field(default=(), examples=[["../cuvec"]])
    """Folders with manifests to build first, for packages that the build requires and that have no wheels on the index.
    `build` builds them for the same Pythons, without their tests; what is in their `dist` may then be installed, for
    the tests, too."""
    constraints: forms.RelativePath | None = Field(default=None, examples=["build-constraints.txt"])
    """A file beside the manifest with one requirement per line, optionally with hashes (`--hash=sha256:…`). It fixes
    the versions of all build requirements, indirect ones included. Options of pip and direct references
    (`name @ https://…`) are refused. Without it, each requirement is fetched once, at its newest version, and the store
    keeps it. The build record of a wheel lists the versions that were used."""
    compiler_cache: CompilerCache | None = Field(
        default=None, alias="compiler-cache", examples=[{"name": "finufft", "with": ["../cufinufft"]}]
    )
    """Projects that share their compiler cache. Default: each project has its own."""
    cpu: CpuLevelName | None = Field(default=None, examples=["x86-64-v2"])
    """Processors that C and C++ code is compiled for, on every machine: the compilers get `-march` with this level, in
    place of `-march=native`. A project's own `-march=haswell` or `-mavx2` for some files stays, and is listed after the
    build. Users with an older processor get an error from the loader, and the audit reports GF505 for levels from v2
    on. Without this key `-march=native` ends the build. Kernels and libraries that gpuforge compiles have keys of their
    own."""
    system: Annotated[tuple[forms.Text, ...], Distinct] | None = Field(
        default=None, examples=[["libopenblas-dev"]]
    )
    """System packages whose headers and libraries the build may use. Another one ends it. Default: any; after the build
    they are listed. The C library, compilers and Python are always allowed. Packages are known on systems with
    dpkg."""
    cuda: StrictBool = Field(default=True, examples=[False])
    """Whether the host build needs a CUDA toolkit. With `false` it gets none, and one build per Python serves the
    wheels of all CUDA versions. Kernels that gpuforge compiles are not affected."""


OpenClDevice = Literal["gpu", "accelerator", "cpu"]


class DeclaredToolchain(Table):
    """A compiler for this package, under a name that the objects refer to."""

    compiler: Annotated[str, CompilerName] = Field(
        examples=["g++"],
        description=listed(
            "The compiler's family, or the name of a [plug-in](toolchains.md):",
            (f"`{name}`{f' ({own.about})' if own.about else ''}" for name, own in OWN.items()),
        ),
    )
    version: forms.VersionRange | None = Field(default=None, examples=[">=11,<15"])
    """Accepted versions. Default: any version that fits the CUDA toolkit. If the usual host compiler does not fit a
    toolkit and `path` is not set, gpuforge uses another installed compiler in this range, or fetches one (on Debian and
    Ubuntu): `g++-11` for CUDA 11.8. With `iree`, this key is required, because the wheel's extra `iree` requires IREE's
    runtime in the same range. Name one release (`>=3.13,<3.14`): modules run only with the release that compiled
    them."""
    path: forms.Text | None = Field(default=None, examples=["/usr/bin/g++-12"])
    """The executable of the host compiler. Default: the one on PATH or in the usual places. Every other toolchain
    refuses this key: nvcc belongs to the toolkit, and a user's compiler is on the user's machine."""
    flags: tuple[str, ...] = Field(default=(), examples=[["-O3"]])
    """Flags for every compilation of kernels by this toolchain."""
    targets: Annotated[tuple[forms.Text, ...], Distinct] = Field(
        default=(), examples=[["compute_80", "compute_50", "cpu"]]
    )
    """Targets of a compiler from PyPI. The runtime uses the first output that the user's machine runs. `halide`
    and `iree` take compute capabilities (`compute_80`), `cpu`, and levels of CPUs (`x86-64-v3`), `iree` also
    `vulkan-spirv`. Default: the compiler's own choice, `compute_50` and `cpu` for `halide`, `compute_60`,
    `vulkan-spirv` and `cpu` for `iree`. Toolchains with other compilers refuse this key."""
    command: tuple[str, ...] = Field(default=(), examples=[["nrnivmodl", "-coreneuron", "{include}"]])
    """The command line (`compiler = "command"`), as a list of words; no shell is involved. Placeholders: `{sources}`
    are the sources, `{include}` is their folder, `{abi}` the C file with the ABI id, which must be linked in,
    `{output}` the library to write, and `{arch}` the GPU's compute capability, such as `90`. A word with `{arch}` is
    dropped if there is no GPU. A word is repeated for each value of its placeholders."""
    product: forms.Pattern | None = Field(default=None, examples=["*/libcorenrnmech.so"])
    """Where the command leaves the library: a pattern in the folder that the command runs in. Default: the command
    writes `{output}`."""
    devices: Annotated[tuple[OpenClDevice, ...], Distinct] = Field(default=(), examples=[["cpu"]])
    """Kinds of OpenCL devices that the package uses (`compiler = "opencl"`). Default: any, GPUs first. Users restrict
    them further with `GPUFORGE_OPENCL`."""
    extensions: Annotated[tuple[forms.OpenClExtension, ...], Distinct] = Field(
        default=(), examples=[["cl_khr_fp64"]]
    )
    """OpenCL extensions that a device must have (`compiler = "opencl"`). On machines without such a device the next
    back end is used."""
    install: forms.Text | None = Field(default=None, examples=["pip install neuron"])
    """How users get this toolchain. If none of an object's toolchains is found, the error shows this text for the last
    one. Default: the packages of the compiler, or the command's program."""

    @property
    def versions(self) -> SpecifierSet:
        """The accepted versions, as a set of specifiers."""
        return SpecifierSet(self.version or "")


MachineType = Literal["x86_64", "aarch64"]


class CudaOfMachine(Table):
    """Architectures for the wheels of one machine type, in place of the toolkit's own `archs` and `ptx`: Jetson and
    Grace are aarch64, and older GPUs are not there."""

    archs: Annotated[tuple[forms.Architecture, ...], Distinct, CommonOrMany] = Field(
        min_length=1, examples=[["90", "100", "110", "121"]]
    )
    """As in `[cuda.<version>]`."""
    ptx: forms.VirtualArchitecture | None = Field(default=None, examples=["121"])
    """As in `[cuda.<version>]`, whose `ptx` does not count here."""


_targets = cache(targets)  # of the same architectures in every cell


class CudaVersion(Table):
    """One CUDA toolkit, and the architectures to build for with it."""

    toolkit: forms.ToolkitVersion = Field(examples=["12.4"])
    """Version of the toolkit, `major.minor`. A table named `[cuda."12.4"]` need not repeat it."""
    provider: Provider | None = Field(
        default=None,
        examples=["pypi"],
        description=listed(
            "Where the toolkit comes from:",
            (f"`{name}` {what}" for name, what in ABOUT_PROVIDER.items()),
            "Default: the first of these, in this order, that has the version; `--dry-run` shows it. "
            "GPUFORGE_DEBIAN_MIRROR and GPUFORGE_REDIST_URL select other servers.",
        ),
    )
    archs: Annotated[tuple[forms.Architecture, ...], Distinct, CommonOrMany] = Field(
        examples=[["80", "90"], "common"]
    )
    """Compute capabilities to compile for. `common` is the smallest set with code for every GPU that the toolkit knows:
    machine code for the lowest of each major, and PTX of the lowest of all ([a table](kernels.md#archs--common)). `90a`
    is architecture-specific and `100f` family-specific code. `+ptx` adds PTX, which the driver compiles for newer GPUs;
    `90a` does not take it, because no other GPU runs its PTX. In the project's build, nvcc gets these if a command has
    no `-arch` or `-gencode`, and a command for others ends with an error, unless `[audit] ignore` accepts GF409 (code
    for others), or GF401 (for some of them alone). The audit checks that the wheel has code for exactly
    these; with `linkage = "static"` it reports missing code only. `[]` means that nothing is compiled for them: the
    package calls CUDA's libraries, compiles at run time, or has kernels of toolchains with `targets`."""
    axes: Mapping[forms.AxisName, forms.AxisValues] = Field(
        default={}, examples=[{"torch": ["2.11", "2.15"]}]
    )
    """For this toolkit, only these values of `[axes]`."""
    ptx: forms.VirtualArchitecture | None = Field(default=None, examples=["90"])
    """Compute capability of the PTX to embed, for GPUs newer than those in `archs`. `90a` is refused: no newer GPU runs
    its PTX."""
    x86_64: CudaOfMachine | None = None
    aarch64: CudaOfMachine | None = None

    def own(self, machine: str) -> CudaOfMachine | None:
        """Return the table for wheels of one machine type, if there is one."""
        return {"x86_64": self.x86_64, "aarch64": self.aarch64}.get(machine)

    def on(self, machine: str) -> CudaVersion:
        """Return it with the architectures for wheels of a machine type."""
        own = self.own(machine)
        return self.model_copy(update={"archs": own.archs, "ptx": own.ptx}) if own else self

    @property
    def targets(self) -> tuple[Target, ...]:
        """`archs` and `ptx` together, once no "common" is in them: first all machine code, then PTX."""
        return _targets(self.archs, self.ptx)


_VERSIONS = "<version>"  # the alias below: how the gathered tables are called in the errors' locations


def _refuse_unquoted(versions: Mapping[str, Any]) -> None:
    """Raise the error for `[cuda.13.0]`, which TOML reads as a table `0` inside `[cuda.13]`."""
    for key, table in versions.items():
        for minor, inner in table.items() if isinstance(table, Mapping) else ():
            if minor.isdecimal() and isinstance(inner, Mapping):
                raise wrong(
                    f"[cuda.{key}.{minor}] without quotes is a table {minor} inside [cuda.{key}]",
                    f'write [cuda."{key}.{minor}"]',
                    (key, minor),
                    names_subject=True,
                )


class Cuda(Table):
    """How the package uses CUDA. Each table `[cuda.<version>]` in it is one toolkit to build with. A package without
    CUDA, such as one for OpenCL alone, leaves it out and has `[build] cuda = false` or `[[objects]]`; its wheels have
    their plain name."""

    linkage: Linkage = Field(default="pip", examples=["pip"])
    """Where CUDA's libraries come from at run time. `pip` declares NVIDIA's wheels as dependencies, `bundle` copies the
    libraries into the wheel, `system` uses those of the machine, `static` links them in. [Linkage](linkage.md) compares
    them."""
    requires: Requires = Field(default="always", examples=["extra"])
    """How the wheel declares NVIDIA's wheels (`linkage = "pip"` only): `always`, or in an `extra` named for the CUDA
    major. With an extra, `pip install name[cuda12]` installs them, and `name[cuda12-local]` uses those of the
    machine."""
    libraries: Annotated[tuple[forms.Library, ...], Distinct] = Field(default=(), examples=[["cufft"]])
    """Toolkit libraries that the build needs in addition to the runtime, for their headers or for linking: `cublas`,
    `cufft`, `cufile`, `cupti`, `curand`, `cusolver`, `cusparse`, `npp`, `nvfatbin`, `nvjitlink`, `nvjpeg`, `nvml`,
    `nvptxcompiler`, `nvrtc`, `nvtx`, `profiler` and others. NVIDIA's libraries outside the toolkits come from their own
    packages on PyPI: `cudnn`, `cudss`, `cusparselt`, `cutensor`, `nccl`, `nvshmem`. An unknown name is an error that
    lists the known ones. Whether an installation, an image or NVIDIA's archives have a library is not known before
    the build."""
    versions: Mapping[str, CudaVersion] = Field(default={}, alias="<version>")
    """The toolkits, by the key of their table: a major (`13`) or major.minor (`"12.4"`)."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        if _VERSIONS in data:
            raise wrong("expected a version", 'write, for example, [cuda.13] or [cuda."12.4"]', (_VERSIONS,))
        versions = {key: data[key] for key in data if re.search(VERSION_KEY, key)}
        own = {key: data[key] for key in data if key not in versions}
        _refuse_unquoted(versions)
        for key, table in versions.items():
            if "." in key and isinstance(table, Mapping):
                versions[key] = {"toolkit": key, **table}
        return {**own, _VERSIONS: versions}


class RoleKeys(NamedTuple):
    """Which keys an object of one role must and may have, besides `name` and `role`."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


ROLE_KEYS: Mapping[str, RoleKeys] = {
    "host-only": RoleKeys(("files",), ("needs",)),
    "gpu": RoleKeys(("files",)),
    "user-compiled": RoleKeys(
        ("sources", "toolchains"), ("headers", "kind", "abi", "flags", "in-host-build")
    ),
    "fallback": RoleKeys(
        ("sources", "toolchain"), ("headers", "kind", "cpu", "abi", "stands-in-for", "flags", "in-host-build")
    ),
}


Role = Literal["host-only", "gpu", "user-compiled", "fallback"]
VersionPart = Literal["major", "major.minor", "exact"]


class Abi(Table):
    """The interface that a library and its callers must share. Another version, or another name or content of a header,
    is a new ABI."""

    version: Annotated[str, forms.AbiVersion] = Field(examples=["1"])
    """A version of your choice. Change it if functions keep their declarations but change their meaning."""
    headers: tuple[forms.Pattern, ...] = Field(min_length=1, examples=[["mod/mechanisms.h"]])
    """Patterns of the header files that declare the library's functions, relative to the manifest's folder. The headers
    of a `user-compiled` object go into the wheel with its sources."""
    packages: Mapping[forms.DistributionName, VersionPart] = Field(
        default={}, examples=[{"neuron": "major.minor"}]
    )
    """Installed Python packages whose version is part of the ABI: `major`, `major.minor` or `exact`. With
    `neuron = "major.minor"`, a library compiled with neuron 9.0.1 is used with 9.0.2, but not with 9.1. The build
    environment must have these packages (`[build] requires`)."""


class Object(Table):
    """A named group of files with one role: where it is compiled, and by whom."""

    name: forms.Name = Field(examples=["default-kernels"])
    """Name of the object, in messages and in the wheel; unique in the manifest."""
    role: Role = Field(examples=["fallback"])
    """`host-only`: files of the wheel without any content of a GPU toolchain, whose only GPU libraries are those in
    `needs`. The audit proves both; libraries that they open at run time (`dlopen`) are not checked.
    `gpu`: files of the wheel that the project's own build compiles for GPUs. The audit proves that they are there, and
    that they have code for the architectures in `[cuda.<version>]`.
    `user-compiled`: sources in the wheel, compiled on the user's machine.
    `fallback`: kernels compiled here, used if the user has not compiled any."""
    files: tuple[forms.PatternInWheel, ...] = Field(default=(), examples=[["**/*.so"]])
    """Patterns of files in the built wheel (`host-only`, `gpu`): programs, libraries, objects and archives of objects.
    Kernels that gpuforge added are not matched."""
    needs: Annotated[tuple[forms.LibraryName, ...], Distinct] = Field(default=(), examples=[["cufft"]])
    """GPU libraries that these host-only files are allowed to NEED, directly or through other libraries of the wheel:
    `cufft` for `libcufft.so.11`, `cuda` for the driver's `libcuda.so.1`. Default: none."""
    sources: tuple[forms.Pattern, ...] = Field(default=(), examples=[["kernels/*.cu"]])
    """Patterns of source files, relative to the manifest's folder (`user-compiled`, `fallback`)."""
    headers: tuple[forms.Pattern, ...] = Field(default=(), examples=[["kernels/*.cuh"]])
    """Patterns of further files that the sources include. After a change in one of them, the sources are compiled again
    (`fallback`), and a user's earlier build is not used (`user-compiled`)."""
    toolchain: forms.Name | None = Field(default=None, examples=["device"])
    """The toolchain in `[toolchains]` that compiles the sources (`fallback`)."""
    toolchains: Annotated[tuple[forms.Name, ...], Distinct] = Field(
        default=(), examples=[["acc", "openacc-gcc", "host"]]
    )
    """The toolchains to try on the user's machine, in this order (`user-compiled`)."""
    kind: Literal["module", "library", "program"] = Field(
        default_factory=lambda seen: "library" if seen.get("role") == "user-compiled" else "module",
        examples=["module"],
    )
    """What the sources become. A `library` is a shared object with a C interface. As a fallback, it is compiled for
    CPUs by the host toolchain or a `command`, or for the GPUs in `archs` by `nvcc`. nvcc links libcudart according to
    `[cuda] linkage`. A `module` is loaded by name. `.cu` files become device images, by `nvcc`, or by `nvrtc` on the
    user's machine. `.cl` files become programs for `opencl`. C++ files become a library for the CPU. In a user-compiled
    set, each toolchain compiles the files of its own language. A `program` is made and found as a library is, and the
    package runs it (`KernelProgram`), in a process of its own. Default: `module` for `fallback`, `library` for
    `user-compiled`."""
    cpu: Annotated[tuple[CpuLevelName, ...], Distinct] = Field(default=(), examples=[["x86-64", "x86-64-v3"]])
    """CPU levels that the host toolchain compiles the library for, one library each. The runtime loads the highest that
    the user's CPU has. Without `x86-64`, older CPUs have no library. Default: one library, for the CPU that the
    compiler and `flags` select (`fallback` with `kind = "library"`)."""
    abi: Abi | None = Field(default=None, examples=[{"version": "1", "headers": ["mod/mechanisms.h"]}])
    """The interface that a compiled library must share with its callers. Its id is compiled into every library, and a
    library with another id is never loaded (`user-compiled`, and `fallback` with `kind = "library"`)."""
    stands_in_for: str | None = Field(default=None, alias="stands-in-for", examples=["mechanisms"])
    """Name of the object that this one replaces (`fallback`). A `library` is used if the user has not compiled the
    object. If it replaces another fallback, it is used if that one does not run on the user's machine. It has the ABI
    of that object. Several fallbacks may replace the same object; among those that run on the user's machine, one with
    code for its GPU is preferred. In a set of modules, device images are used if nothing was compiled, and a library is
    used if no GPU can run the modules."""
    flags: tuple[str, ...] = Field(default=(), examples=[["-use_fast_math"]])
    """Flags for these sources, after those of the toolchain (`user-compiled`, `fallback`)."""
    in_host_build: StrictBool = Field(default=False, alias="in-host-build", examples=[True])
    """Whether the project's own build also reads these sources. It applies to a `path` source. With `false`, the host
    build's source tree contains neither them nor their `headers`, so a changed kernel does not rebuild the host code. A
    file of several objects stays in the tree only if all of them have `true` (`user-compiled`, `fallback`)."""

    @property
    def form(self) -> Literal["module", "library"]:
        """Its kind, where a program is treated as a library is."""
        return "module" if self.kind == "module" else "library"


Naming = Literal["suffix", "local", "variant", "plain"]


class Wheel(Table):
    """Names of the wheels, and the platform that they promise."""

    naming: Annotated[tuple[Naming, ...], Field(min_length=1), Distinct] = Field(
        default=("suffix",), examples=[["suffix"]]
    )
    """How wheels for different CUDA majors are named: `suffix` (`name-cu12`), `local` (version `1.0+cu12`), `variant`
    (wheel variants) or `plain` (all alike). Each entry produces a wheel."""
    label: forms.Text | None = Field(default=None, examples=["cu{cuda-short}torch{torch}"])
    """What the naming `local` appends to the version. `{cuda-short}` is the toolkit without its dot (130) and
    `{cuda-major}` its major; axes stand for their values. Default: `cu{cuda-major}`, then each axis with its value
    (`cu13.torch2.11`)."""
    kernels: Literal["inside", "own"] = Field(default="inside", examples=["own"])
    """Where `fallback` objects that nvcc compiles go: `inside` the wheel, or into a wheel of their `own` for each CUDA
    major, `name-kernels-cu12`. With `own`, the package has one wheel for all CUDA versions under its plain name, and
    `pip install name[cuda12]` also installs the kernels. `own` needs `[build] cuda = false`."""
    front: forms.DistributionName | None = Field(default=None, examples=["cufinufft-cuda"])
    """Name of one more distribution for all CUDA majors. Its wheel has no files; `pip install cufinufft-cuda[cuda12]`
    installs `cufinufft-cu12` of the same version. With `[cuda] requires = "extra"` it also has `[cuda12-local]`, which
    leaves CUDA's libraries to the machine. Without an extra it installs nothing. Needs the naming `suffix`."""
    image: Annotated[tuple[forms.Text, ...], Distinct, OneOrMany] = Field(
        default=(), examples=["manylinux_2_28", ["bookworm", "trixie"]]
    )
    """Container images for the build with `--runner docker`: a manylinux policy, a name from `gpuforge images list`, or
    any image reference. With several, each cell is built in the first image that has its Python and a compiler that
    fits its toolkit; `gpuforge matrix --format json` shows which. Kernels are compiled in the first image with such a
    compiler. A host build without CUDA uses the image with the oldest C library. Builds without containers use no
    image, but report a wheel that needs a newer platform than a policy listed here (`manylinux_2_28`)."""
    machines: Annotated[tuple[MachineType, ...], Field(min_length=1), Distinct] | None = Field(
        default=None, examples=[["x86_64", "aarch64"]]
    )
    """Machine types to build wheels for. Default: that of the building machine. With `--runner docker`, wheels of
    another type are built and tested under emulation ([containers](containers.md#other-machine-types)); local processes
    cannot build them. Kernels that nvcc compiles are the same for all: they are compiled once, on the building
    machine. `gpuforge matrix` gives each wheel a runner of its type."""
    size_limit: forms.Size | None = Field(default=None, alias="size-limit", examples=["100 MB"])
    """Largest size of a wheel. MB is 10⁶ bytes, MiB 2²⁰."""
    exclude: Annotated[tuple[forms.LibraryName, ...], Distinct] = Field(default=(), examples=[["gomp"]])
    """Libraries that are not copied into the wheel although its files need them: `gomp` for `libgomp.so.1`. The user's
    process or machine must have them. Use it for a runtime that users' own builds also load: a copy in the wheel has a
    hashed name, and the process would load both. The audit still reports a library that nothing provides."""

    bundle_from: Annotated[tuple[forms.Text, ...], Distinct] = Field(
        default=(), alias="bundle-from", examples=[["{project}/build/lib", "{env}/lib"]]
    )
    """Folders whose shared libraries are copied into the wheel if its files need them: libraries that the build made or
    brought, such as an ICD loader, a BLAS or an MPI. The placeholders are those of `[build]`; any other path is
    relative to the source tree. The folders are searched after the build, without those below them, before the system's
    and `{overlay}`, which need not be listed."""

    spans: Annotated[tuple[forms.AxisName, ...], Distinct] = Field(default=(), examples=[["torch"]])
    """Axes along which one wheel serves all values. It is built with the first value and tested with each. The
    wheel must keep to a stable ABI of that package ([axes](axes.md))."""
    provided_by: Annotated[tuple[forms.DistributionName, ...], Distinct] = Field(
        default=(), alias="provided-by", examples=[["torch"]]
    )
    """Packages whose libraries the wheel uses at run time. The build environment must have them (`[build] requires`).
    Their libraries are not copied into the wheel. Each file that needs one finds it by its RUNPATH. The wheel requires
    the package in the release series that it was built with (`torch>=2.15,<2.16`), and imports it first. `torch` need
    not be listed."""
    requires: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["torch>=2.11"]])
    """Requirements that the wheel declares in addition to the project's own. A package in `provided-by` is
    then required in this range instead of the release series."""

    @property
    def size_limit_bytes(self) -> int | None:
        """The largest size of a wheel in bytes, or None when there is no limit."""
        return None if self.size_limit is None else size_in_bytes(self.size_limit)


class GpuRunner(Table):
    """A CI runner with a GPU that tests the wheels of a release."""

    runner: Annotated[tuple[forms.Text, ...], OneOrMany, Field(min_length=1)] = Field(
        examples=[["self-hosted", "gpu"]]
    )
    """Its labels; on GitLab one, its tag."""
    driver: forms.Driver | None = Field(default=None, examples=["580"])
    """Version of its driver. Wheels whose CUDA needs a newer one are not tested there."""


class TestMatrix(Table):
    """Further tests of the built wheels, as CI jobs of `gpuforge matrix`; `build` tests with the newest releases.

    There is a test for each of `requirements` and `minors`, without a GPU and on each of `gpu`. A pull request gets the
    first test of a few wheels, and no runner with a GPU, as whoever opens one could run code there.
    """

    __test__ = False

    requirements: Annotated[tuple[Literal["oldest", "newest"], ...], Distinct] = Field(
        default=(), examples=[["oldest", "newest"]]
    )
    """Which releases that the wheel allows of what it declares are installed."""
    minors: Annotated[tuple[forms.ToolkitVersion, ...], Distinct] = Field(
        default=(), examples=[["13.0", "13.1"]]
    )
    """CUDA releases whose libraries are installed from PyPI (`cuda-toolkit==13.1.*`), for the wheels of their major;
    with `[cuda] linkage = "pip"`."""
    gpu: tuple[GpuRunner, ...] = Field(default=(), examples=[[{"runner": "gpu", "driver": "580"}]])


class Test(Table):
    """How each built wheel is tested, in an environment of its own.

    The wheel is installed with its declared dependencies only, then imported, then the command runs. GPUs are hidden
    except with `--gpu`. The machine's CUDA is hidden where the system allows it: toolkits, libraries and variables;
    with `linkage = "system"` the toolkit stays visible. The test fails if a Python process of the environment has
    loaded a CUDA library from elsewhere. A wheel that fails is not copied to `dist/`.
    """

    __test__ = False  # pytest must not take it for a test class

    image: forms.Text | None = Field(default=None, examples=["python:3.13-slim"])
    """Container image for the test with `--runner docker`; like users' machines, it should have neither compilers nor
    CUDA. Default: the test image of the build's image in `gpuforge images list`, or the build's image itself if there
    is none or it lacks the Python. A Python that an image named here lacks is an error."""
    extras: Annotated[tuple[forms.ExtraName, ...], Distinct] = Field(default=(), examples=[["plots"]])
    """Extras of the wheel that are installed for the command. With `[cuda] requires = "extra"`, the CUDA extra is
    always among them. The wheel is also installed and imported without extras, with each extra named for its CUDA major
    (`cuda13`, `cu13`), and with each extra listed here. Without extras, missing CUDA libraries are not a failure if
    such an extra provides them; the result lists them."""
    imports: Annotated[tuple[forms.ImportName, ...], Distinct] = Field(
        default=(), examples=[["pycuda.driver"]]
    )
    """Modules to import after the package, each in a process of its own. Without `--gpu`, libraries of
    drivers are then stand-ins whose functions report that there is no device, so that modules which link with a driver
    can be loaded."""
    drivers: Annotated[tuple[DriverLibrary, ...], Distinct] = Field(default=(), examples=[["OpenCL"]])
    """Drivers' libraries that users have, and that the package needs already for its import: the whole test has
    stand-ins for them, whose functions report that there is no device. Without this, the import must work on a machine
    that has no driver. `--gpu` uses the machine's own."""
    requires: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["pytest"]])
    """Further packages for the command, as wheels. They are installed after the wheel was imported without them."""
    build: Annotated[tuple[forms.Text, ...], Distinct] = Field(default=(), examples=[["../pytools"]])
    """Folders with manifests to build first, for packages that the wheel or the command needs and that have no wheels
    on the index. `build` builds them for the same Pythons, without their tests; what is in their `dist` may then be
    installed."""
    sources: Annotated[tuple[forms.Text, ...], Distinct] = Field(default=(), examples=[["tests"]])
    """Files and folders beside the manifest that are copied into the command's working folder, which is otherwise
    empty. Unlike tests run from `{project}`, tests copied here cannot import the source tree by accident."""
    command: tuple[str, ...] = Field(default=(), examples=[["pytest", "-q", "{project}/tests"]])
    """The command, as a list of words; no shell is involved. `{project}` is a copy of the source tree that the wheel
    was built from. Default: the wheel is only imported."""
    matrix: TestMatrix = Field(default_factory=TestMatrix)


class Ignore(Table):
    """A finding of the audit that is accepted, with the reason."""

    rule: forms.RuleCode = Field(examples=["GF205"])
    """Code of the rule, as the audit prints it."""
    file: forms.Text = Field(default="*", examples=["libexample*.so*"])
    """Pattern of the files in the wheel for which the finding is accepted. `*` also matches `/`."""
    reason: forms.Text = Field(examples=["loaded only by the profiler, never beside libcudart"])
    """Why the finding is accepted; shown in the report."""


class Audit(Table):
    """Settings for the audit of the wheels."""

    beside: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["jax[cuda12]"]])
    """Packages that must work in the same process as this one. `build` resolves each together with the wheel and audits
    both; a second libcudart, or libraries of two CUDA majors, fail it. A package for another CUDA major is compared
    with the wheels of that major alone (`jax[cuda12]`), and is an error if the manifest has none. Name what
    loads libraries: those of a package of libraries alone, as nvidia-cuda-runtime, are in no process by themselves."""
    ignore: tuple[Ignore, ...] = Field(
        default=(), examples=[[{"rule": "GF205", "file": "*", "reason": "why it is accepted"}]]
    )
    """Findings that are accepted."""


def _known_schema(value: object) -> object:
    if type(value) is int and value != 1:
        raise wrong(
            f"this gpuforge reads schema 1, not {value if abs(value) < 10**6 else '…'}",
            "upgrade gpuforge, or write schema = 1",
        )
    if type(value) is not int:
        raise wrong("expected the number of the schema", "write schema = 1")
    return value


class Manifest(Table):
    """A GPU Python package: its sources, toolchains and toolkits, and the content of its wheels."""

    schema_version: Annotated[Literal[1], BeforeValidator(_known_schema)] = Field(
        alias="schema", examples=[1]
    )
    """Version of this format; always 1."""
    package: Package
    axes: Mapping[forms.AxisName, forms.AxisValues] = Field(
        default={}, examples=[{"torch": ["2.11", "2.15"]}]
    )
    """Dimensions of your own, each with its values: `torch = ["2.11", "2.15"]`. Each combination of values gets wheels
    of its own, except along the axes in `[wheel] spans`. `{torch}` is the value, and `{torch-next}` the version after
    it: `"torch>={torch},<{torch-next}"`. They may be used in `[package] name`; `[build] requires`, `constraints`,
    `config-settings`, `env`, `before` and `overlay`; the `flags` of toolchains and objects; `[wheel] requires`,
    `provided-by` and `bundle-from`; `[test] requires`, `command` and `extras`; and `[audit] beside`. With `naming =
    ["local"]` the wheels have the values in their versions: `1.0+cu13.torch2.11`. [Axes](axes.md) has examples."""
    indexes: Mapping[forms.DistributionName, forms.IndexUrl] = Field(
        default={}, examples=[{"torch": "https://download.pytorch.org/whl/cu{cuda-short}"}]
    )
    """Packages that come from an index of their own, and from no other: for the build, the tests, and `[audit] beside`.
    Everything else, also what these packages need, comes from pip's index. `{cuda-short}` is the toolkit without its
    dot (130) and `{cuda-major}` its major; axes stand for their values ([axes](axes.md#torchs-own-index))."""
    build: Build = Field(default_factory=Build)
    toolchains: Mapping[forms.Name, DeclaredToolchain] = {}
    """The compilers that objects name, each under a name of your choice. The host build uses the toolchain
    `host`, otherwise the only C++ toolchain. Without any, it uses g++ or another compiler that fits the toolkit."""
    cuda: Cuda = Field(default_factory=Cuda)
    objects: tuple[Object, ...] = ()
    wheel: Wheel = Field(default_factory=Wheel)
    audit: Audit = Field(default_factory=Audit)
    test: Test = Field(default_factory=Test)

    def on(self, machine: str) -> Manifest:
        """Return the manifest with the architectures for wheels of a machine type."""
        versions = {name: version.on(machine) for name, version in self.cuda.versions.items()}
        if versions == self.cuda.versions:
            return self
        return self.model_copy(update={"cuda": self.cuda.model_copy(update={"versions": versions})})

    @property
    def host_cuda(self) -> bool:
        """Whether the host build gets a CUDA toolkit; without `[cuda]` there is none."""
        return self.build.cuda and bool(self.cuda.versions)

    def toolchain_of(self, item: Object) -> DeclaredToolchain:
        """Return the toolchain of a fallback, which always names one."""
        return self.toolchains[item.toolchain or ""]
