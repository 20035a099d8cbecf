"""The manifest as written: one frozen model per table of `gpuforge.toml`.

The JSON schema and `docs/manifest.md` are generated from these classes and the docstrings under their fields.
What one key demands of another is in `relations.py`, which reads the raw data: so all errors come at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
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

from gpuforge.manifest import forms
from gpuforge.manifest.forms import Distinct, OneOrMany

Role = Literal["host-only", "user-compiled", "fallback"]
Compiler = Literal["g++", "clang++", "nvcc", "nvc++", "nvrtc", "opencl", "halide", "iree", "command"]
Linkage = Literal["pip", "bundle", "system", "static"]
Requires = Literal["always", "extra"]
Provider = Literal["image", "system", "pypi", "debian", "redist"]
Naming = Literal["suffix", "local", "variant", "plain"]
VersionPart = Literal["major", "major.minor", "exact"]
CpuLevel = Literal["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]


class Table(BaseModel):
    """A table of the manifest: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class PathSource(Table):
    """The sources are a folder of this machine."""

    path: forms.Text = Field(examples=["."])
    """Folder with the project's `pyproject.toml`, relative to the manifest's folder. What is no source is left out of
    the build: version control, environments and caches, and `build`, `dist` and `wheelhouse` at its top."""


class PypiSource(Table):
    """The sources are an sdist on PyPI."""

    pypi: forms.PinnedRequirement = Field(examples=["cufinufft==2.5.1"])
    """Name and exact version of the release whose sdist is built."""
    sha256: forms.Sha256 = Field(
        examples=["f12849b91674d049543cb963c94c0ee60e8e34e1bbad5e32fefe12961b0621b4"]
    )
    """The sdist's sha256, as PyPI shows it; a file with any other digest is refused."""

    @property
    def name(self) -> str:
        """The distribution's name."""
        return Requirement(self.pypi).name

    @property
    def version(self) -> str:
        """The release's version."""
        return self.pypi.partition("==")[2]


class GitSource(Table):
    """The sources are a revision of a git repository."""

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
    "message": "[package.source] must say exactly one of `path`, `pypi` and `git`",
    "hint": '{ path = "." } · { pypi = "name==1.0", sha256 = "…" } · { git = "https://…", rev = "…" }',
    "at": (),
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
Setting = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[tuple[str, ...], Tag("<array>")],
    Discriminator(lambda value: "<array>" if isinstance(value, list | tuple) else "<text>"),
]


class Package(Table):
    """What is built, from which sources, and for which Python versions."""

    name: forms.DistributionName = Field(examples=["cufinufft"])
    """Name of the distribution; `[wheel] naming` may append the CUDA major to it."""
    source: Source = Field(default=PathSource(path="."), examples=[{"path": "."}])
    """Where the sources come from: exactly one of `path`, `pypi` (with `sha256`) and `git` (with `rev`)."""
    python: Annotated[tuple[forms.PythonVersion, ...], Distinct] = Field(
        default=(), examples=[["3.11", "3.12"]]
    )
    """Python versions to build wheels for, one wheel each, `3.10` or newer. With `abi = "abi3"` exactly one, the
    lowest that the wheel supports, which may be an older one; with `abi = "none"` at most one, the oldest that may
    build it."""
    abi: Literal["abi3", "none"] | None = Field(default=None, examples=["abi3"])
    """Set when one wheel serves many Python versions: `abi3` for extensions of the limited API, `none` for
    wheels without extension modules."""
    import_: forms.ImportName = Field(
        default_factory=lambda seen: str(seen.get("name", "")).replace("-", "_"),
        alias="import",
        examples=["cufinufft"],
    )
    """Import package into which the kernels and the runtime are put. Default: `name` with `-` replaced by
    `_`."""


class Build(Table):
    """The host build: the project's own PEP 517 build, in an environment that gpuforge controls.

    In `config-settings`, `env` and `before`, `{project}` stands for the source tree, `{overlay}` for the folder that
    holds what is in the overlays, `{toolkit}` for the CUDA toolkit and `{env}` for the build's Python environment (in
    a container it can only be read). Any other name in braces is an error, but `${name}` stays as it is; `{{name}}`
    is the text `{name}`. When the backend is asked for its requirements there is only `{project}`, and neither `env`
    nor `before`.
    """

    config_settings: Mapping[str, Setting] = Field(
        default={}, alias="config-settings", examples=[{"cmake.define.FINUFFT_ARCH_FLAGS": ""}]
    )
    """Settings for the project's build backend, as after `pip install --config-settings`; a list gives a
    setting several times."""
    env: Mapping[forms.Variable, str] = Field(default={}, examples=[{"CPM_SOURCE_CACHE": "{overlay}/cpm"}])
    """Environment variables of the build, on top of those that gpuforge sets (`CC`, `CXX`, `CUDACXX`, …)."""
    overlay: Annotated[tuple[forms.RelativePath, ...], Distinct] = Field(default=(), examples=[["overlay"]])
    """Folders beside the manifest that are laid into the build environment: what the build would otherwise
    download."""
    before: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...] = Field(
        default=(), examples=[[["python", "tools/generate.py"]]]
    )
    """Commands run in the source tree before the build, in order; each is a list of words, and no shell
    reads it."""
    requires: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["cmake<4"]])
    """Build requirements added to the project's own; a range restricts what the project asks for."""
    constraints: forms.RelativePath | None = Field(default=None, examples=["build-constraints.txt"])
    """A file beside the manifest with a requirement a line, and its hashes, if you like (`--hash=sha256:…`): the
    versions that build requirements get, also those of requirements' own. Options of pip and direct references
    (`name @ https://…`) are refused. Left out, they are the newest of the day on which they are first fetched; the
    store keeps them. The build record of a wheel names those that it was built with."""
    cuda: StrictBool = Field(default=True, examples=[False])
    """Whether the host build needs a CUDA toolkit. `false`: it is given none, and one build per Python serves the
    wheels of all CUDA versions. Kernels that gpuforge compiles have nothing to do with it."""


class Toolchain(Table):
    """A compiler that this package is built with, under a name that the objects refer to."""

    compiler: Compiler = Field(examples=["g++"])
    """The compiler's family. `command` is any program, called as `command` says: on the user's machine, and for a
    fallback in the build environment. `nvrtc` (CUDA's runtime compiler, from PyPI) and `opencl` (through pyopencl)
    compile user-compiled objects of kind `module`.
    `halide` and `iree` are names for later: `gpuforge build` refuses them."""
    version: forms.VersionRange | None = Field(default=None, examples=[">=11,<15"])
    """Versions that may be used. Left out, any version that fits the CUDA toolkit. Where the usual host compiler does
    not fit a toolkit, and `path` names none, another installed one in this range that does is used, or one that is
    fetched (on Debian and Ubuntu): `g++-11` for CUDA 11.8."""
    path: forms.Text | None = Field(default=None, examples=["/usr/bin/g++-12"])
    """The executable of the host compiler. Left out, it is looked for on PATH and in the usual places. Refused for
    every other toolchain: nvcc is the toolkit's, and a user's compiler is on the user's machine."""
    flags: tuple[str, ...] = Field(default=(), examples=[["-O3"]])
    """Flags added whenever this toolchain compiles kernels."""
    command: tuple[str, ...] = Field(default=(), examples=[["nrnivmodl", "-coreneuron", "{include}"]])
    """The command line (`compiler = "command"`), as a list of words; no shell reads them. `{sources}` stands for the
    sources, `{include}` for the folder that they lie in, `{abi}` for the C file with the ABI id, which must be linked
    in, `{output}` for the library to write and `{arch}` for the GPU's compute capability, such as `90`: a word with
    `{arch}` is left out where there is no GPU. A word is repeated for each source, and may hold one placeholder."""
    product: forms.Pattern | None = Field(default=None, examples=["*/libcorenrnmech.so"])
    """Where the command leaves the library, as a pattern in the folder that it runs in. Left out, it writes
    `{output}`."""
    install: forms.Text | None = Field(default=None, examples=["pip install neuron"])
    """How a user gets this toolchain, for the message that nothing was found, which says it of the last one tried. Left
    out, the compiler's packages are named, or the command's program."""

    @property
    def versions(self) -> SpecifierSet:
        """The versions that may be used, as a set that says whether it contains one."""
        return SpecifierSet(self.version or "")


class CudaVersion(Table):
    """One CUDA toolkit, and the architectures to build for with it."""

    toolkit: forms.ToolkitVersion = Field(examples=["12.4"])
    """Version of the toolkit, `major.minor`. A table named `[cuda."12.4"]` need not repeat it."""
    provider: Provider | None = Field(default=None, examples=["pypi"])
    """Where the toolkit comes from: the container `image`; NVIDIA's wheels on `pypi` (CUDA 13 on); the `system`, an
    installation of exactly this version; `debian`, its compiler with NVIDIA's wheels (11.8 and 12.4);
    NVIDIA's `redist` archives (11.4 to 13.0). Left out, the first in this order that has it; `gpuforge build --dry-run`
    says which. GPUFORGE_DEBIAN_MIRROR and GPUFORGE_REDIST_URL name other servers."""
    archs: Annotated[tuple[forms.Architecture, ...], Distinct, forms.CommonOrMany] = Field(
        examples=[["80", "90"], "common"]
    )
    """Compute capabilities to compile for. `common` stands for the least that every GPU of the toolkit runs: machine
    code for the lowest of each major, and PTX of the lowest of all ([a table](kernels.md#archs--common)). `90a` and
    `100f` are architecture- and family-specific; `+ptx` adds an image that newer GPUs can compile for themselves, but
    not to `90a`, which only that architecture runs. The wheel must have code for exactly these, or the audit says so;
    with `linkage = "static"` only of what is missing. `[]`: the package has no GPU code of its own, it only calls
    CUDA's libraries or compiles at run time."""
    ptx: forms.VirtualArchitecture | None = Field(default=None, examples=["90"])
    """Compute capability of the PTX to embed, for GPUs newer than any in `archs`; `90a` is refused, as no newer
    GPU runs it."""


_VERSIONS = "<version>"  # the alias below: how the gathered tables are called in the errors' locations


def _refuse_unquoted(versions: Mapping[str, Any]) -> None:
    """Raise the error for `[cuda.13.0]`, which TOML reads as a table `0` inside `[cuda.13]`."""
    for key, table in versions.items():
        for minor, inner in table.items() if isinstance(table, Mapping) else ():
            if minor.isdecimal() and isinstance(inner, Mapping):
                raise forms.wrong(
                    f"[cuda.{key}.{minor}] without quotes is a table {minor} inside [cuda.{key}]",
                    f'write [cuda."{key}.{minor}"]',
                    (key, minor),
                )


class Cuda(Table):
    """How the package meets CUDA; each table `[cuda.<version>]` in it is one toolkit to build with."""

    linkage: Linkage = Field(default="pip", examples=["pip"])
    """Where CUDA's libraries come from at run time: `pip` declares NVIDIA's wheels as dependencies,
    `bundle` copies the libraries into the wheel, `system` uses what the machine has, `static` links them
    in. [Linkage](linkage.md) compares them."""
    requires: Requires = Field(default="always", examples=["extra"])
    """How the wheel declares NVIDIA's wheels (`linkage = "pip"` only): `always`, or by an `extra` named for the CUDA
    major. Then `pip install name[cuda12]` brings them, and `name[cuda12-local]` says that the machine has them."""
    libraries: Annotated[tuple[forms.Library, ...], Distinct] = Field(default=(), examples=[["cufft"]])
    """Toolkit libraries that the build needs besides the runtime, for their headers or to link with: `cublas`, `cufft`,
    `cufile`, `cupti`, `curand`, `cusolver`, `cusparse`, `npp`, `nvfatbin`, `nvjitlink`, `nvjpeg`, `nvml`,
    `nvptxcompiler`, `nvrtc`, `nvtx`, `profiler` and others. A name that is not known of the toolkit is an error that
    lists the known ones; of an installation, an image and NVIDIA's archives it is not known beforehand."""
    versions: Mapping[str, CudaVersion] = Field(default={}, alias="<version>")
    """The toolkits, by the key of their table: a major (`13`) or major.minor (`"12.4"`)."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        if _VERSIONS in data:
            raise forms.wrong(
                "a version is wanted here", 'write, for example, [cuda.13] or [cuda."12.4"]', (_VERSIONS,)
            )
        versions = {key: data[key] for key in data if re.search(forms.VERSION_KEY, key)}
        own = {key: data[key] for key in data if key not in versions}
        _refuse_unquoted(versions)
        for key, table in versions.items():
            if "." in key and isinstance(table, Mapping):
                versions[key] = {"toolkit": key, **table}
        return {**own, _VERSIONS: versions}


class Abi(Table):
    """What a library and the code that calls it must agree on. A change of the version, or of a header's name or
    content, is a new ABI."""

    version: Annotated[str, forms.AbiVersion] = Field(examples=["1"])
    """A version of your choice. Change it when functions keep their declarations and change their meaning."""
    headers: tuple[forms.Pattern, ...] = Field(min_length=1, examples=[["mod/mechanisms.h"]])
    """Patterns of the header files that declare the library's functions, relative to the manifest's folder. Those of a
    `user-compiled` object go into the wheel with its sources."""
    packages: Mapping[forms.DistributionName, VersionPart] = Field(
        default={}, examples=[{"neuron": "major.minor"}]
    )
    """Installed Python packages whose version is part of the ABI: `major`, `major.minor` or `exact`. With
    `neuron = "major.minor"` a library that was compiled beside neuron 9.0.1 serves 9.0.2, and not 9.1. The build
    environment must have them (`[build] requires`)."""


class Object(Table):
    """A named group of files with one role: where it is compiled, and by whom."""

    name: forms.Name = Field(examples=["default-kernels"])
    """Name of the object, for messages and in the wheel; unique in the manifest."""
    role: Role = Field(examples=["fallback"])
    """`host-only`: files of the wheel that may hold nothing of a GPU toolchain, nor NEED a library of one but for
    `needs`, which the audit proves; what they open while they run (`dlopen`) is not judged.
    `user-compiled`: sources in the wheel, compiled on the user's machine.
    `fallback`: kernels compiled here, used where the user has compiled nothing."""
    files: tuple[forms.Pattern, ...] = Field(default=(), examples=[["**/*.so"]])
    """Patterns of files in the built wheel (`host-only`): programs, libraries, objects and archives of objects. Kernels
    that gpuforge put there are not meant."""
    needs: Annotated[tuple[forms.LibraryName, ...], Distinct] = Field(default=(), examples=[["cufft"]])
    """Libraries of a GPU stack that the files may NEED all the same, themselves or through other libraries of the
    wheel (`host-only`): `cufft` of `libcufft.so.11`, `cuda` of the driver's `libcuda.so.1`. Left out, none."""
    sources: tuple[forms.Pattern, ...] = Field(default=(), examples=[["kernels/*.cu"]])
    """Patterns of source files, relative to the manifest's folder (`user-compiled`, `fallback`)."""
    headers: tuple[forms.Pattern, ...] = Field(default=(), examples=[["kernels/*.cuh"]])
    """Patterns of further files that the sources include. After a change in one of them the sources are compiled again
    (`fallback`), and a user's earlier build is not used (`user-compiled`)."""
    toolchain: forms.Name | None = Field(default=None, examples=["device"])
    """The toolchain, of those in `[toolchains]`, that compiles the sources (`fallback`)."""
    toolchains: Annotated[tuple[forms.Name, ...], Distinct] = Field(
        default=(), examples=[["acc", "openacc-gcc", "host"]]
    )
    """The toolchains to try, in this order, on the user's machine (`user-compiled`)."""
    kind: Literal["module", "library"] = Field(
        default_factory=lambda seen: "library" if seen.get("role") == "user-compiled" else "module",
        examples=["module"],
    )
    """What is made of the sources. A `library` is a shared object with a C interface; a fallback one is made by the
    host toolchain or a `command`, for CPUs, or by `nvcc`, for the GPUs in `archs`, with libcudart as `[cuda] linkage`
    says. A `module` is loaded by name: of `.cu` files, device images for the driver, made by `nvcc` or, on the user's
    machine, by `nvrtc`; of `.cl` files, programs for `opencl`; of C++ files, a library for the CPU. Each toolchain of a
    user-compiled set compiles the files that are its own. Default: `module` for `fallback`, `library` for
    `user-compiled`."""
    cpu: Annotated[tuple[CpuLevel, ...], Distinct] = Field(default=(), examples=[["x86-64", "x86-64-v3"]])
    """Levels of CPUs that the host toolchain compiles the library for, each as a library of its own. The runtime takes
    the highest that the user's CPU has. Without `x86-64`, the lowest, there is none for an older CPU. Left out, there
    is one library, for what the compiler and `flags` choose (`fallback` with `kind = "library"`)."""
    abi: Abi | None = Field(default=None, examples=[{"version": "1", "headers": ["mod/mechanisms.h"]}])
    """What a compiled library must agree on with the code that calls it. Its id is compiled into every library, and a
    library with another one is never loaded (`user-compiled`, and `fallback` with `kind = "library"`)."""
    stands_in_for: str | None = Field(default=None, alias="stands-in-for", examples=["mechanisms"])
    """Name of the object whose place this one takes (`fallback`). Of a `library`: a user-compiled one, where the user
    has compiled nothing, or another fallback, where that does not run; the fallback is a library too, and has that
    object's ABI. Several may be named so: of those that run on the user's machine, one with code for its GPU is used.
    Of a set of modules: device images are used where nothing was compiled, and a library does the set's work on the
    CPU, where no GPU can."""
    flags: tuple[str, ...] = Field(default=(), examples=[["-use_fast_math"]])
    """Flags for these sources, after the toolchain's own (`user-compiled`, `fallback`)."""
    in_host_build: StrictBool = Field(default=False, alias="in-host-build", examples=[True])
    """Whether the project's own build reads these sources too, where the source is a folder (`path`). Otherwise they
    and their `headers` are left out of the host build's source tree, so that a changed kernel does not rebuild it;
    what several objects share stays in only if all of them say `true` (`user-compiled`, `fallback`)."""


class Wheel(Table):
    """What the wheels are called and which platform they promise."""

    naming: Annotated[tuple[Naming, ...], Field(min_length=1), Distinct] = Field(
        default=("suffix",), examples=[["suffix"]]
    )
    """How wheels for different CUDA majors are told apart: `suffix` (`name-cu12`), `local` (version `1.0+cu12`),
    `variant` (wheel variants) or `plain` (not at all). Each one listed gives a wheel."""
    kernels: Literal["inside", "own"] = Field(default="inside", examples=["own"])
    """Where the `fallback` objects that nvcc compiles go: `inside` the wheel, or into a wheel of their `own` for each
    CUDA major, `name-kernels-cu12`. Then the package's wheel is one for all CUDA versions and keeps its name, and
    `pip install name[cuda12]` brings the kernels with it. `own` needs `[build] cuda = false`."""
    image: Annotated[tuple[forms.Text, ...], Distinct, OneOrMany] = Field(
        default=(), examples=["manylinux_2_28", ["bookworm", "trixie"]]
    )
    """Container images of the build, for `--runner docker`: a manylinux policy, one of `gpuforge images list`, or any
    image's reference. Of several, each cell is built in the first that has its Python and a compiler that its toolkit
    takes, and `gpuforge matrix --format json` names that one; kernels are compiled in the first with such a compiler,
    and a host build without CUDA runs where the C library is the oldest. A build in local processes is not bound by
    it, and says so when its wheel needs a newer platform than a policy named here (`manylinux_2_28`) promises."""
    size_limit: forms.Size | None = Field(default=None, alias="size-limit", examples=["100 MB"])
    """Largest size a wheel may have; MB is 10⁶ bytes, MiB 2²⁰."""
    exclude: Annotated[tuple[forms.LibraryName, ...], Distinct] = Field(default=(), examples=[["gomp"]])
    """Libraries that are not put into the wheel although its files need them: `gomp` of `libgomp.so.1`. The process
    that loads the wheel's files has them, or the user's machine: a runtime that users' own builds bring, too, would be
    in the process twice under a hashed name. The audit still reports a library that nothing provides."""

    @property
    def size_limit_bytes(self) -> int | None:
        """The largest size of a wheel in bytes, or None when there is no limit."""
        return None if self.size_limit is None else forms.size_in_bytes(self.size_limit)


class Ignore(Table):
    """A finding of the audit that is accepted, with the reason."""

    rule: forms.RuleCode = Field(examples=["GF205"])
    """Code of the rule, as the audit prints it."""
    file: forms.Text = Field(default="*", examples=["libexample*.so*"])
    """Pattern of the files in the wheel for which the finding is accepted; `*` crosses folders."""
    reason: forms.Text = Field(examples=["loaded only by the profiler, never beside libcudart"])
    """Why it is accepted; the report repeats it."""


class Audit(Table):
    """What the audit of the wheels takes into account."""

    beside: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["jax[cuda12]"]])
    """Packages that must be able to live in the same process as this one. `build` resolves each together with the
    wheel, and audits both together; what names another CUDA major (`jax[cuda12]` beside a wheel for 13) is left out."""
    ignore: tuple[Ignore, ...] = Field(
        default=(), examples=[[{"rule": "GF205", "file": "*", "reason": "why it is accepted"}]]
    )
    """Findings that are accepted."""


class Test(Table):
    """How each built wheel is tested, in an environment of its own.

    The wheel is installed there with what it declares and nothing else, and imported where no GPU is to be seen (but
    with `--gpu`), and no CUDA of the machine but, with `linkage = "system"`, the toolkit: toolkits, libraries and
    variables are hidden where the system allows it, and a CUDA library from elsewhere that a Python of the environment
    has loaded when it ends fails the test everywhere. Then the command is run. A wheel that fails is kept back."""

    __test__ = False  # no test class, whatever pytest thinks of its name

    image: forms.Text | None = Field(default=None, examples=["python:3.13-slim"])
    """Container image of the test, for `--runner docker`: one without compilers and CUDA, as users have. Left out, the
    test image that `gpuforge images list` has beside the image of the build, or else that image itself."""
    extras: Annotated[tuple[forms.ExtraName, ...], Distinct] = Field(default=(), examples=[["plots"]])
    """Extras of the wheel that are installed with it for the command. Where `[cuda] requires` is `extra`, the CUDA
    extra is too. The wheel is also installed and imported bare, with each extra named for its CUDA major (`cuda13`,
    `cu13`), and with each of these. Bare, it may lack CUDA libraries that such an extra brings; the result says so."""
    requires: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["pytest"]])
    """Packages that the command needs besides, as wheels; they come after the wheel was imported without them."""
    sources: Annotated[tuple[forms.Text, ...], Distinct] = Field(default=(), examples=[["tests"]])
    """Files and folders beside the manifest that are copied into the folder that the command runs in. Left out,
    that folder is empty. So the tests do not import the source tree, as those in `{project}` may."""
    command: tuple[str, ...] = Field(default=(), examples=[["pytest", "-q", "{project}/tests"]])
    """The command, as a list of words; no shell reads them. `{project}` is a copy of the source tree that the wheel
    was built from. Left out, the wheel is imported and nothing more."""


def _known_schema(value: object) -> object:
    if type(value) is int and value != 1:
        raise forms.wrong(
            f"this gpuforge reads schema 1, not {value if abs(value) < 10**6 else '…'}",
            "upgrade gpuforge, or write schema = 1",
        )
    if type(value) is not int:
        raise forms.wrong("the number of the schema is wanted", "write schema = 1")
    return value


class Manifest(Table):
    """A GPU Python package: from which sources, with which toolchains and toolkits, and what goes into its
    wheels."""

    schema_version: Annotated[Literal[1], BeforeValidator(_known_schema)] = Field(
        alias="schema", examples=[1]
    )
    """Version of this format; always 1."""
    package: Package
    build: Build = Build()
    toolchains: Mapping[forms.Name, Toolchain] = {}
    """The compilers, by a name of your choice: every one that an object names. The host build uses the one called
    `host`, else the only one for C++; with none declared, g++ or another that the toolkit takes."""
    cuda: Cuda
    objects: tuple[Object, ...] = ()
    wheel: Wheel = Wheel()
    audit: Audit = Audit()
    test: Test = Test()
