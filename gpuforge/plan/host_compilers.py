"""The compilers of host code: the one of the host build, and one for each toolkit, installed or fetched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuforge.cuda import releases
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import MissingError, UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import DeclaredToolchain
from gpuforge.plan.site import Site
from gpuforge.toolchains import registry
from gpuforge.toolchains.toolchain import Compiler
from gpuforge.toolkits.compilers import Offer


def host_compiler(file: ManifestFile, site: Site) -> Compiler:
    """Return the compiler of the host build: the toolchain named "host", else the only C++ one, else g++.

    If it is not installed, it is fetched where possible.
    """
    name, toolchain = host_toolchain(file)
    try:
        return site.detect(toolchain.compiler, path=toolchain.path, specifier=toolchain.version)
    except MissingError as error:
        offer = None if toolchain.path else site.offered(toolchain.compiler, toolchain.version or "")
        if offer and not offer.lacking:
            return offer.compiler
        place = file.place("toolchains", name) if name in file.manifest.toolchains else None
        hint = "name an image that has one (gpuforge images list)" if site.image else ""
        hint = hint or (to_install(offer) if offer and toolchain.version else "")
        raise MissingError.all_of(
            [Diagnostic(d.message, place, hint or d.hint) for d in error.diagnostics]
        ) from error


def host_compilers(
    file: ManifestFile, cudas: Iterable[str], site: Site, usual: Compiler
) -> dict[str, Compiler]:
    """Return the compiler of host code for each `[cuda.<name>]`: the usual one unless its toolkit refuses it.

    If the toolkit refuses it, another installed one is taken that fits the toolkit and the manifest's version range
    (g++-11 where g++ is too new), or one to fetch. If there is none, the usual one stays and `survey.impossible`
    reports the conflict.
    """
    return {name: _fitting(file, name, usual, site) or usual for name in cudas}


def _fitting(file: ManifestFile, cuda: str, usual: Compiler, site: Site) -> Compiler | None:
    """Return the first compiler that the toolkit takes, of the families that the manifest allows."""
    accepted_families = accepted(file, cuda, usual.family)
    low, high = _majors(file, cuda).get(usual.family, (1, 0))
    if low <= usual.version.major <= high:
        return usual
    for family, versions in accepted_families.items():
        try:
            return site.detect(family, path=None, specifier=versions)
        except MissingError:
            continue
    offers = (site.offered(family, versions) for family, versions in accepted_families.items())
    return next((offer.compiler for offer in offers if offer and not offer.lacking), None)


def accepted(file: ManifestFile, cuda: str, usual: str) -> dict[str, str]:
    """Return the version range of each compiler family that a toolkit and the manifest take, the usual one first.

    Empty when the manifest names a compiler by its path: no other is tried.
    """
    name, toolchain = host_toolchain(file)
    if toolchain.path is not None:
        return {}
    majors = _majors(file, cuda)
    families = [usual] if name in file.manifest.toolchains else [usual, *majors]
    of_manifest = [toolchain.version] if toolchain.version else []
    ranges = {family: [*of_manifest, f">={low}", f"<{high + 1}"] for family, (low, high) in majors.items()}
    return {family: ",".join(ranges[family]) for family in dict.fromkeys(families) if family in ranges}


def _majors(file: ManifestFile, cuda: str) -> Mapping[str, tuple[int, int]]:
    """Return the first and last major of each compiler family that the toolkit of `[cuda.<cuda>]` takes."""
    toolkit = file.manifest.cuda.versions[cuda].toolkit if cuda else ""
    return next((r.hosts for r in releases.releases() if r.version == toolkit), {})


def to_install(offer: Offer) -> str:
    """Return why a compiler is not fetched, and the command that installs it."""
    compiler = offer.compiler
    major = compiler.version.major
    return (
        f"gpuforge fetches {compiler.family} {compiler.version} for Debian and Ubuntu with a g++ of their own; "
        f"this machine lacks {', '.join(offer.lacking)}. Install one: "
        f"apt-get install {compiler.path.name}, or dnf install gcc-toolset-{major}-gcc-c++"
    )


def host_toolchain(file: ManifestFile) -> tuple[str, DeclaredToolchain]:
    """Return the manifest's host toolchain by the rule of `host_compiler`; raises UsageError when it is unclear."""
    declared = file.manifest.toolchains
    if "host" in declared:
        return "host", declared["host"]
    found = [(name, t) for name, t in declared.items() if "host build" in registry.toolchain(t.compiler).uses]
    if len(found) > 1:
        raise UsageError.of(
            f"which toolchain builds the host code: {', '.join(name for name, _ in found)}?",
            hint="name it [toolchains.host]",
            place=file.place("toolchains"),
        )
    return found[0] if found else ("host", DeclaredToolchain(compiler="g++"))


def host_keys(file: ManifestFile) -> tuple[str, str]:
    """Return the keys of the host toolchain's table in the manifest."""
    return "toolchains", host_toolchain(file)[0]


def host_place(file: ManifestFile) -> Place:
    """Return the place of that table."""
    return file.place(*host_keys(file))
