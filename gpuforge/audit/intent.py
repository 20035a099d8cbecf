"""What the manifest promises of a wheel, in the words of the audit; the rules see this and no manifest."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from gpuforge.audit.model import WheelFacts
from gpuforge.cuda.arch import Target, targets
from gpuforge.errors import UsageError

if TYPE_CHECKING:  # loading pydantic takes longer than auditing a small wheel
    from collections.abc import Sequence

    from gpuforge.manifest.load import ManifestFile
    from gpuforge.manifest.model.manifest import Manifest
    from gpuforge.manifest.model.object import Object


class HostOnly(NamedTuple):
    """A host-only object: its name and the patterns of its files in the wheel."""

    name: str
    patterns: tuple[str, ...]
    needs: tuple[str, ...] = ()  # libraries of a GPU stack that it may NEED: "cufft"


class Intent(NamedTuple):
    """What a wheel should be, by its manifest."""

    cubins: tuple[
        str, ...
    ]  # "sm_80"; empty when it cannot be known which toolkit built it, or with `no_code`
    ptx: tuple[str, ...]  # "compute_120"
    host_only: tuple[HostOnly, ...]
    kernel_sets: tuple[str, ...]  # the fallback objects of kind "module", by name
    source_sets: tuple[str, ...]  # the user-compiled objects, by name
    linkage: str = "pip"
    no_code: bool = False  # the manifest says that the package has no GPU code of its own
    exact: bool = False  # GPU code beyond `cubins` and `ptx` is a finding: a manifest lists all of it
    python: tuple[
        str, ...
    ] = ()  # the Pythons that each get a wheel of their own; empty where one wheel serves many
    library_sets: tuple[str, ...] = ()  # the fallback objects of kind "library", by name
    kernels_wheels: Mapping[
        str, "Intent"
    ] = {}  # by project: what the kernels wheels should be; the rest is the host's


def of(source: "ManifestFile", cuda: str | None = None) -> Intent:
    """Read a manifest's promises for the toolkit `cuda` (the key of its table).

    Without a key the manifest's only toolkit counts; where it has several, nothing is said of architectures.
    Raises UsageError for a key that it does not have.
    """
    manifest = source.manifest
    versions = manifest.cuda.versions
    if cuda is not None and cuda not in versions:
        raise UsageError.of(
            f"the manifest has no CUDA version {cuda}",
            hint=f"it has {', '.join(versions) or 'none'}",
            place=source.place("cuda"),
        )
    from gpuforge.manifest import kernels_wheels  # noqa: PLC0415  whoever has a manifest has loaded pydantic

    if kernels_wheels.is_split(manifest):
        return _split(manifest)
    key = cuda or (next(iter(versions)) if len(versions) == 1 else None)
    return _intent(manifest, key, manifest.objects)


def _split(manifest: "Manifest") -> Intent:
    """Return what the package's own wheel should be, which is for no CUDA version, and what each kernels wheel."""
    from gpuforge.manifest import kernels_wheels  # noqa: PLC0415

    def part(key: str | None) -> Intent:
        objects = [
            o for o in manifest.objects if kernels_wheels.in_kernels_wheel(manifest, o) is (key is not None)
        ]
        return _intent(manifest, key, objects)

    found = {
        kernels_wheels.distribution(manifest, version.toolkit): part(key)._replace(python=())
        for key, version in manifest.cuda.versions.items()
    }
    return part(None)._replace(kernels_wheels=found)


def _intent(manifest: "Manifest", key: str | None, objects: "Sequence[Object]") -> Intent:
    versions = manifest.cuda.versions
    cubins: list[str] = []
    ptx: list[str] = []
    if key is not None:
        table = versions[key]
        wanted = targets(table.archs, table.ptx)
        cubins = [target.arch.sm for target in wanted if target.real]
        ptx = [target.arch.compute for target in wanted if target.ptx]
    return Intent(
        cubins=tuple(cubins),
        ptx=tuple(dict.fromkeys(ptx)),
        host_only=tuple(HostOnly(o.name, o.files, o.needs) for o in objects if o.role == "host-only"),
        kernel_sets=tuple(o.name for o in objects if o.role == "fallback" and o.kind == "module"),
        source_sets=tuple(o.name for o in objects if o.role == "user-compiled"),
        linkage=manifest.cuda.linkage,
        no_code=key is not None and not versions[key].archs,
        exact=key is not None and manifest.cuda.linkage != "static",
        python=() if manifest.package.abi else manifest.package.python,
        library_sets=tuple(o.name for o in objects if o.role == "fallback" and o.kind == "library"),
    )


def expecting(text: str) -> Intent:
    """Read the architectures that somebody expects of a wheel without a manifest: "80,90a,120+ptx".

    An architecture with "+ptx" is expected as PTX too; "ptx:90" as PTX alone. Raises UsageError for anything else.
    """
    cubins: list[str] = []
    ptx: list[str] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        try:
            target = Target.parse(word)
        except ValueError:
            raise UsageError.of(
                f"no architecture: {word!r}",
                hint="write them as in '80,90a,120+ptx', and PTX alone as 'ptx:90'",
            ) from None
        cubins += [target.arch.sm] if target.real else []
        ptx += [target.arch.compute] if target.ptx else []
    if not cubins and not ptx:
        raise UsageError.of("no architecture is expected", hint="write them as in '80,90a,120+ptx'")
    return Intent(cubins=tuple(cubins), ptx=tuple(ptx), host_only=(), kernel_sets=(), source_sets=())


def matches(pattern: str, file: str) -> bool:
    """Match a file of a wheel against a pattern, in which `**` crosses folders, and `*` and `?` do not."""
    regex = ""
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", pattern):
        match part:
            case "**/":
                regex += "(?:.*/)?"
            case "**":
                regex += ".*"
            case "*":
                regex += "[^/]*"
            case "?":
                regex += "[^/]"
            case _ if part.startswith("[") and len(part) > 1:
                regex += "[" + part[1:-1].replace("!", "^", 1) + "]" if part[1] == "!" else part
            case _:
                regex += re.escape(part)
    return re.fullmatch(regex, file) is not None


def files_of(promised: HostOnly, wheel: WheelFacts) -> set[str]:
    """Return the files of a wheel that a host-only object's patterns name, but for kernel sets."""
    return {
        member
        for member in wheel.members
        if "/_gpuforge/" not in f"/{member}" and any(matches(p, member) for p in promised.patterns)
    }
