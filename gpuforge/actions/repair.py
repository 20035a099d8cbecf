"""The repair of a finished build's wheel, outside a build: what a manifest would say is read from the wheel itself."""

import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpuforge import disk
from gpuforge.actions import value_file, wheel
from gpuforge.actions.provided import FetchProvided, WheelLinks
from gpuforge.actions.provided_search import PackageIndex
from gpuforge.audit.link.installed import cuda_major
from gpuforge.binary.elf.linked_file import LinkedFile
from gpuforge.cache_folder import cache_folder
from gpuforge.cuda import carriers
from gpuforge.cuda.carriers import BuildLibraries, Carried
from gpuforge.cuda.choices import Linkage, Requires
from gpuforge.cuda.suffix import major_of_local, major_of_suffix
from gpuforge.errors import ActionError, UsageError
from gpuforge.package import links, repair
from gpuforge.plan.action import Workdir
from gpuforge.runtime.layout import HOME
from gpuforge.toolkits.providers import system
from gpuforge.wheel import metadata, unpacked
from gpuforge.wheel.filename import WheelName

_PINNED = ("==", "===", "~=")


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the wheel itself does not tell: the options of `gpuforge repair`."""

    linkage: Linkage = "pip"
    requires: Requires = "always"
    cuda: int | None = None  # the major; None: that of the libraries, else of the wheel's name
    toolkit: Path | None = None  # where libraries to bundle are; None: the installed toolkit of that major
    exclude: tuple[str, ...] = ()  # libraries that stay out: "gomp" of libgomp.so.1
    provided_by: tuple[Requirement, ...] = ()  # packages that have libraries: torch==2.11
    library_path: tuple[Path, ...] = ()  # folders with libraries to graft: LD_LIBRARY_PATH


def repair_wheel(source: Path, output: Path, choices: Choices) -> Path:
    """Write the repaired wheel into `output` and return it; the changes and their reasons are printed.

    Raises ActionError for a wheel that cannot be repaired, UsageError if an option is missing, and MissingError if
    the package index is needed and cannot be reached.
    """
    with TemporaryDirectory(prefix="gpuforge-repair-") as folder, disk.errors_at(output):
        scratch = Path(folder)
        tree = scratch / "tree"
        name = WheelName.parse(source.name)
        unpacked.unpack(source, tree)
        files = links.read_tree(tree)
        cuda = _cuda(name, files, choices)
        carried = _carried(tree, files, choices)
        value_file.write(BuildLibraries(carried), scratch / "carried.json")
        provided = None
        if choices.linkage == "pip" and cuda:
            at = Workdir(scratch / "links", scratch)
            machine = platform.machine()
            WheelLinks[Path](wheel=source, cuda=cuda, machine=machine).run(at)
            FetchProvided[Path](links=at.output("links.json"), cuda=cuda, machine=machine).run(at)
            provided = at.output("provided.json")
        step = wheel.PackageWheel[Path](
            wheel=source,
            carried=scratch / "carried.json",
            provided=provided,
            package=_import_package(tree, files, carried),
            cuda=cuda,
            linkage=choices.linkage,
            requires=choices.requires,
            naming="plain",
            exclude=choices.exclude,
            more_requires=_unpinned(choices.provided_by, tree),
        )
        made = wheel.repaired(step, name, scratch, _search_path(cuda, choices), scratch / "made")
        target = output / made.name
        if target.exists() and target.samefile(source):
            raise UsageError.of(
                f"{target} is the wheel to repair, and its repaired one has the same name",
                hint="name another folder with -w",
            )
        with disk.appearing(target) as stream, made.open("rb") as content:
            shutil.copyfileobj(content, stream)
        return target


def _cuda(name: WheelName, files: Mapping[PurePosixPath, LinkedFile], choices: Choices) -> str:
    """Return the CUDA major of the wheel, "" if it needs none of CUDA's libraries; raises UsageError."""
    needed = sorted({soname for elf in files.values() for soname in elf.needed if links.of_toolkit(soname)})
    if not needed:
        return ""
    majors = sorted({found for soname in needed if (found := cuda_major([soname]))})
    if len(majors) > 1 and not choices.cuda:
        several = f"{', '.join(map(str, majors[:-1]))} and {majors[-1]}"
        if choices.linkage != "system":
            raise UsageError.of(
                f"{name} has files for CUDA {several}, and can require or bundle the libraries of one major only",
                hint="--linkage system leaves CUDA's libraries to what the user has, such as torch's",
            )
        print(f"CUDA {several}: it needs {', '.join(needed)}")
        return ""
    named = major_of_suffix(name.distribution) or major_of_local(name.version)
    major = choices.cuda or cuda_major(needed) or named
    if major is None:
        raise UsageError.of(
            f"{name} needs {', '.join(needed)}, which several CUDA majors have, and its name has no CUDA version",
            hint="say which one it was built with: --cuda 12",
        )
    print(f"CUDA {major}: it needs {', '.join(needed)}")
    return str(major)


def _search_path(cuda: str, choices: Choices) -> tuple[Path, ...]:
    """Return the folders where libraries to graft are looked for, besides the system's and those in RUNPATHs."""
    toolkit = choices.toolkit
    if toolkit and not any(folder.is_dir() for folder in wheel.search_path_of(toolkit)):
        raise UsageError.of(
            f"--toolkit {toolkit}: no folder lib64 or lib is there", hint="name the folder above them"
        )
    if choices.linkage == "bundle" and cuda and not toolkit:
        found = (each.root for each in system.installed() if each.version.partition(".")[0] == cuda)
        toolkit = next(found, None)
    return (*choices.library_path, *wheel.search_path_of(toolkit))


def _carried(tree: Path, files: Mapping[PurePosixPath, LinkedFile], choices: Choices) -> tuple[Carried, ...]:
    """Return the packages, besides CUDA's, whose libraries the wheel needs: known ones, and those of --provided-by."""
    own = metadata.requirements(metadata.of_file(unpacked.dist_info(tree) / "METADATA"))
    present = {member.name for member in files}
    needed = {soname for elf in files.values() for soname in elf.needed} - present - repair.allowed()
    given = _by_name(choices.provided_by)
    required = _by_name(own)
    found = dict(_known(needed, {**required, **given}))
    for name, requirement in given.items():
        if name not in found:
            found[name] = _of_index(requirement)
    return tuple(
        Carried(name, _version(name, given, required), module, sonames)
        for name, (module, sonames) in sorted(found.items())
    )


def _unpinned(given: Iterable[Requirement], tree: Path) -> tuple[str, ...]:
    """Return the packages of no certain release that the wheel does not require yet."""
    own = _by_name(metadata.requirements(metadata.of_file(unpacked.dist_info(tree) / "METADATA")))
    return tuple(
        str(each)
        for name, each in _by_name(given).items()
        if name not in own and not _version(name, {name: each})
    )


def _by_name(requirements: Iterable[Requirement]) -> dict[str, Requirement]:
    return {canonicalize_name(each.name): each for each in requirements}


def _known(
    needed: set[str], named: Mapping[str, Requirement]
) -> Iterator[tuple[str, tuple[str, Mapping[str, str]]]]:
    """Yield known packages with libraries that are needed; of several with the same, the required one.

    Raises UsageError for libraries of a framework that the wheel does not require.
    """
    rows = [row for row in carriers.other_libraries() if needed.intersection(row.sonames)]
    linked = {each.package for each in carriers.linked_frameworks()}
    for row in rows:
        if row.package in named:
            sonames = dict.fromkeys(row.sonames, row.folder)
            yield row.package, (row.folder.partition("/")[0], sonames)
        elif row.package in linked:
            some = sorted(needed.intersection(row.sonames))
            raise UsageError.of(
                f"the wheel needs {', '.join(some)} of {row.package}, and does not require {row.package}",
                hint=f"name the release that it was built with: --provided-by '{row.package}==…'",
            )


def _of_index(requirement: Requirement) -> tuple[str, Mapping[str, str]]:
    """Return the libraries of a package by the list of files of its newest fitting wheel; raises ActionError."""
    index = PackageIndex(cache_folder(os.environ) / "linkage", platform.machine())
    name = canonicalize_name(requirement.name)
    fitting = [each for each in index.wheels(name) if requirement.specifier.contains(each.version)]
    members = index.contents(fitting[-1]).libraries if fitting else {}
    folders = {
        soname: str(PurePosixPath(member).parent)
        for soname, member in members.items()
        if soname.startswith("lib")
    }
    if not folders:
        raise ActionError.of(
            f"--provided-by names {requirement}, of which the package index has no wheel with shared libraries",
            hint="correct its name or version, or PIP_INDEX_URL",
        )
    return "", folders


def _version(name: str, *named: Mapping[str, Requirement]) -> str:
    """Return the release that requirements pin a package to, "" if none of them does."""
    clauses = [clause for each in named if name in each for clause in each[name].specifier]
    return next((c.version.removesuffix(".*") for c in clauses if c.operator in _PINNED), "")


def _import_package(
    tree: Path, files: Mapping[PurePosixPath, LinkedFile], carried: tuple[Carried, ...]
) -> str:
    """Return the import package with kernels of gpuforge, else the first one with a file that needs such a library."""
    kernels = next(tree.glob(f"*/{HOME}"), None)
    if kernels:
        return kernels.parent.name
    sonames = {soname for each in carried for soname in each.libraries}
    using = (member for member, elf in files.items() if sonames.intersection(elf.needed))
    return next((member.parts[0].partition(".")[0] for member in using), "")
