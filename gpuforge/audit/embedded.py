"""Files that gpuforge itself puts into wheels, as read: kernel sets, sources with a recipe, lists of kernels wheels."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from gpuforge.cuda.kernels import KernelImage
from gpuforge.runtime.recipe import UserToolchain


class Unusable(NamedTuple):
    """Why a document cannot be used: it is not a JSON object of a usual size, or does not fit its schema."""

    kind: Literal["unreadable", "schema"]
    problem: str  # as the runtime's reader words it


class ListedFile(NamedTuple):
    """An entry of an index or a recipe."""

    file: str
    sha256: str
    images: tuple[KernelImage, ...] = ()


class Index(NamedTuple):
    """The index of a kernel set."""

    kind: Literal["module", "library"]
    files: tuple[ListedFile, ...]
    abi: str = ""  # of a library


class KernelSet(NamedTuple):
    """A set of compiled kernels in the wheel."""

    folder: str
    listing: Index | Unusable
    digests: Mapping[str, str]  # sha256 of each file in the folder, by its name there

    @property
    def name(self) -> str:
        """The object that it was made of."""
        return self.folder.rpartition("/")[2]

    @property
    def images(self) -> tuple[KernelImage, ...]:
        """All images that its index lists; empty if the index cannot be used."""
        files = self.listing.files if isinstance(self.listing, Index) else ()
        return tuple(image for listed in files for image in listed.images)


class Recipe(NamedTuple):
    """How users compile an object."""

    files: tuple[ListedFile, ...]  # the sources, and what they include
    toolchains: tuple[UserToolchain, ...]
    fallbacks: tuple[str, ...]  # the kernel sets that are used if nothing was compiled
    cpu: str  # the one for CPUs that is used after them; "" for none
    abi: str
    # all texts in it, except the locations of users' compilers and how to install them
    texts: tuple[str, ...]


class SourceSet(NamedTuple):
    """The sources and the recipe of a user-compiled object in the wheel."""

    folder: str
    recipe: Recipe | Unusable
    digests: Mapping[str, str]
    # file -> the files that it includes by absolute path
    absolute: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    @property
    def name(self) -> str:
        """The object that the sources are of."""
        return self.folder.rpartition("/")[2]


class KernelsWheels(NamedTuple):
    """A package's list of its kernels wheels, or a kernels wheel's description of itself."""

    version: str
    sets: Mapping[str, str]  # kernel set -> its interface
    distributions: frozenset[str] = frozenset()  # of the package's kernels wheels
