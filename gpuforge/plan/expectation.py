"""What the wheels of a manifest should be, for the audit, which reads no manifest."""

import platform
from collections.abc import Sequence
from dataclasses import replace

from packaging.utils import canonicalize_name

from gpuforge.errors import UsageError
from gpuforge.expectation import Accepted, Expectation, GpuFiles, HostOnly
from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import Manifest, Object
from gpuforge.plan.recipe import packaged_images
from gpuforge.toolchain_names import compiles_for


def expectation(
    file: ManifestFile, cuda: str | None = None, machine: str = platform.machine()
) -> Expectation:
    """Return what a wheel should be that was built with the toolkit `cuda` (the key of its table), for a machine type.

    Without a key it is the manifest's only toolkit; where there are several, no architecture is expected.
    Raises UsageError for a key that the manifest does not have.
    """
    manifest = file.manifest.on(machine)
    versions = manifest.cuda.versions
    if cuda is not None and cuda not in versions:
        raise UsageError.of(
            f"the manifest has no CUDA version {cuda}",
            hint=f"it has {', '.join(versions) or 'none'}",
            place=file.place("cuda"),
        )
    if kernels_wheels.is_split(manifest):
        return _split(manifest, machine)
    key = cuda or (next(iter(versions)) if len(versions) == 1 else None)
    return _expectation(manifest, machine, key, manifest.objects)


def _split(manifest: Manifest, machine: str) -> Expectation:
    """Return what the package's own wheel and each kernels wheel should be; the former is for no CUDA version."""

    def part(key: str | None) -> Expectation:
        own = key is not None
        objects = [o for o in manifest.objects if kernels_wheels.in_kernels_wheel(manifest, o) is own]
        return _expectation(manifest, machine, key, objects)

    found = {
        kernels_wheels.distribution(manifest, version.toolkit): replace(part(key), python=())
        for key, version in manifest.cuda.versions.items()
    }
    return replace(part(None), kernels_wheels=found)


def _expectation(manifest: Manifest, machine: str, key: str | None, objects: Sequence[Object]) -> Expectation:
    table = manifest.cuda.versions[key] if key is not None else None
    without = not manifest.cuda.versions  # a package without CUDA
    targets = table.targets if table else ()
    return Expectation(
        cubins=tuple(target.arch for target in targets if target.real),
        ptx=tuple(target.arch for target in targets if target.ptx),
        host_only=tuple(HostOnly(o.name, o.files, o.needs) for o in objects if o.role == "host-only"),
        gpu=tuple(GpuFiles(o.name, o.files) for o in objects if o.role == "gpu"),
        kernel_sets=tuple(o.name for o in objects if o.role == "fallback" and o.kind == "module"),
        source_sets=tuple(o.name for o in objects if o.role == "user-compiled"),
        library_sets=tuple(o.name for o in objects if o.role == "fallback" and o.form == "library"),
        targets={
            o.name: packaged_images(manifest, o, machine)
            for o in objects
            if o.role == "fallback" and compiles_for(manifest.toolchain_of(o).compiler) == "targets"
        },
        linkage=manifest.cuda.linkage,
        no_code=without or (table is not None and not table.archs),
        exact=(without or table is not None) and manifest.cuda.linkage != "static",
        python=() if manifest.package.abi else manifest.package.python,
        spans=tuple(manifest.wheel.spans),
        indexes=tuple(map(canonicalize_name, manifest.indexes)),
        accepted=tuple(Accepted(i.rule, i.reason, i.file) for i in manifest.audit.ignore),
    )
