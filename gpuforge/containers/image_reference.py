"""Image references: those that may be pulled, and those of this machine's images."""

import difflib
import re
from collections.abc import Sequence

from gpuforge.errors import MissingError

LOCAL = "localhost"
OWN = "gpuforge"
# Docker Hub in Docker and Podman; a name without a registry is looked for there.
# https://github.com/distribution/reference/blob/main/normalize.go
_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_ID = re.compile(r"sha256:[0-9a-f]+|[0-9a-f]{64}")


def split(reference: str) -> tuple[str, str]:
    """Return an image's repository and its tag, "" if it has none; a digest is in neither."""
    name = reference.partition("@")[0]
    tag = name.rpartition("/")[2].partition(":")[2]
    return name.removesuffix(f":{tag}"), tag


def local(identity: str) -> str:
    """Return the reference of an image that gpuforge makes ("gpuforge/bookworm:0123456789ab").

    An engine without it would look for a registry on this machine, and not on the network. Podman gives the images that
    it builds the same name.
    """
    return f"{LOCAL}/{identity}"


def refuse_pull(reference: str, names: Sequence[str] = ()) -> None:
    """Raise MissingError for a reference that may not be pulled; `names` are those of the catalog.

    These are images that gpuforge makes (under their present names, or as `gpuforge/…`, a name on Docker Hub that
    gpuforge's authors do not own), image IDs, and single words: a misspelt `bookworm` must not be fetched.
    """
    if _ID.fullmatch(reference):
        raise MissingError.of(
            f"the engine has no image {reference}",
            hint="`docker images --no-trunc` lists the IDs that it has",
        )
    refuse_name(reference, names)
    if _made_here(reference)[0] == LOCAL:
        raise MissingError.of(
            f"image {reference} is not here, and no registry has it: its name says that this machine made it",
            hint="build it, or name a registry's image",
        )


def refuse_name(reference: str, names: Sequence[str] = ()) -> None:
    """Raise MissingError for a name of gpuforge's images, or a single word, as no registry has either."""
    if _ID.fullmatch(reference):
        return
    _, made = _made_here(reference)
    if made:
        raise MissingError.of(
            f"image {reference} is not here. It is never pulled: gpuforge makes its images on each machine",
            hint=f"call it {made!r}, and make it: gpuforge images build {made}"
            if made in names
            else "`gpuforge images list` shows those it makes",
        )
    if not re.search(r"[/:@]", reference):
        near = difflib.get_close_matches(reference, names, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise MissingError.of(
            f"image {reference} is not here, and gpuforge knows none of this name",
            hint=f"{guess}`gpuforge images list` shows what it knows; "
            f"for Docker Hub's image write docker.io/library/{reference}",
        )


def _made_here(reference: str) -> tuple[str, str]:
    """Return a reference's host and, if it is a name of gpuforge, the image's own ("bookworm"); "" for neither."""
    *folders, last = split(reference)[0].split("/")
    host = folders.pop(0) if folders and folders[0] in {LOCAL, *_HUB} else ""
    return host, last if folders[:1] == [OWN] else ""
