"""Which projects share one compiler cache (`[build] compiler-cache`): those whose manifests name each other."""

from pathlib import Path
from typing import NamedTuple

from gpuforge.errors import GpuforgeError
from gpuforge.manifest.load import ManifestFile, load


class Sharing(NamedTuple):
    """The name under which a project's builds run, the manifests that share its cache, and why others do not."""

    name: str
    manifests: tuple[Path, ...]  # resolved and sorted, with the project's own
    refused: tuple[str, ...] = ()


def sharing(file: ManifestFile) -> Sharing:
    """Return the manifests that share a project's compiler cache: those that it names and that name it.

    Naming another project alone is not enough, because later builds link what a build writes into the cache.
    """
    own, setting = file.path.resolve(), file.manifest.build.compiler_cache
    if setting is None:
        return Sharing(file.manifest.package.name, (own,))
    manifests, refused = {own}, []
    for folder in setting.with_:
        other = (file.folder / folder).resolve() / own.name
        reason = _reason(other, setting.name, own)
        if reason:
            refused.append(f"the compiler cache is not shared with {folder}: {reason}")
        else:
            manifests.add(other)
    return Sharing(setting.name, tuple(sorted(manifests)), tuple(refused))


def _reason(other: Path, name: str, own: Path) -> str:
    """Return why a project does not share its cache with the manifest `own`; "" if it does."""
    try:
        found = load(other, for_building=False)
    except GpuforgeError as error:
        return str(error).splitlines()[0]
    setting = found.manifest.build.compiler_cache
    if setting is None or setting.name != name:
        return f'its manifest does not have [build] compiler-cache with the name "{name}"'
    if own not in {(found.folder / folder).resolve() / own.name for folder in setting.with_}:
        return "its manifest does not name this project"
    return ""
