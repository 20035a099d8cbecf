"""The places of a user's own builds, and the one in use.

<root>/<package>/<object>-<recipe>/active.json     names the build that is in use
                                   <build>/        one library
                                   work-*/         a compilation under way
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from . import document, layout
from .layout import BuildUnusable, guard, guard_place
from .values import Reason, built_for, changed, other_schema, unreadable

SCHEMA = 1
ACTIVE = "active.json"
_DIGITS = 16  # of a recipe's digest, in the name of a place
_TOUCH_EVERY = 86400.0  # seconds; the precision of the time when a build was last looked up


@dataclass(frozen=True)
class UserBuild:
    """A library that the user compiled, with its compiler and sources.

    `home` is the runtime's folder in the package that it was made for, and `release` that package's name and version.
    """

    file: Path
    sha256: str  # of the library, or of a set's index, which has the digests of its images
    toolchain: str  # its name in the manifest
    compiler: str  # "g++ 12.2.0"
    arch: str  # "sm_90"; "" if the compiler got no GPU
    sources: tuple[str, ...]  # the sources that the user added
    home: str = ""
    release: str = ""  # "membrane 1.2"; "" if no version was known
    # the user's choice of the toolchain: "", its name, or "NAME=PATH"
    requested: str = ""
    images: tuple[str, ...] = ()  # NVIDIA's images in a library: "sm_90", "compute_90"


class BuildsFolder:
    """The place of one object's builds, of one wheel; other sources or toolchains have another place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def active(self) -> UserBuild | None:
        """Return the build in use, None if there is none; raises BuildUnusable."""
        file = self.folder / ACTIVE
        try:
            data = document.read(str(file))
            schema = document.whole(data, "schema")
            if schema != SCHEMA:
                raise BuildUnusable(other_schema(str(file), schema, SCHEMA))
            library = self.folder / document.file_name(data, "build") / document.file_name(data, "file")
            build = UserBuild(
                library,
                document.text(data, "sha256"),
                document.text(data, "toolchain"),
                document.text(data, "compiler"),
                document.text(data, "arch"),
                document.texts(data, "sources"),
                document.text(data, "home", ""),
                document.text(data, "release", ""),
                document.text(data, "requested", ""),
                document.texts(data, "images") if "images" in data else (),
            )
            for image in build.images:
                built_for("GPU", image)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BuildUnusable(unreadable(str(file), error)) from error
        except document.Damaged as error:
            facts = {
                "file": str(file),
                "problem": str(error),
                "again": compile_again(self.folder.parent.name),
            }
            raise BuildUnusable(Reason("build-damaged", facts)) from error
        guard_place(self.folder)
        index = library / layout.INDEX  # of a set: it has the digests of the images
        for path in (file, library.parent, library, index):
            guard(path)
        return build

    def changed(self, build: UserBuild) -> Reason | None:
        """Return why a build is not what `compile` made."""
        file = str(build.file)
        file = layout.index(file) if os.path.isdir(file) else file
        try:
            found = digest_of(file)
        except OSError as error:
            return unreadable(file, error)
        again = compile_again(self.folder.parent.name)
        return None if found == build.sha256 else changed(file, found, build.sha256, again)

    def replaced(self, build: UserBuild) -> bool:
        """Return whether `compile` has put another build in use since this one was read."""
        try:
            return self.active() != build
        except BuildUnusable:
            return True

    def used(self) -> float:
        """Return the day when a build of this place was last looked up, as a time; raises OSError if there is none."""
        return (self.folder / ACTIVE).stat().st_mtime

    def touch(self) -> None:
        """Note that the build is in use."""
        with contextlib.suppress(OSError):
            if time.time() - self.used() > _TOUCH_EVERY:
                os.utime(self.folder / ACTIVE)


def compile_again(package: str) -> str:
    return f"compile it again: python -m {package}._gpuforge compile"


def place_in(folder: str, recipe: str) -> BuildsFolder:
    """Return the place of an object's builds: `folder` with a digest of its recipe file; raises OSError."""
    return BuildsFolder(Path(f"{folder}-{digest_of(recipe)[:_DIGITS]}").absolute())


def digest_of(file: str) -> str:
    """Return the sha256 of a file, which is read once per process unless it changes; raises OSError."""
    seen = os.stat(file)
    return _digest(file, seen.st_ino, seen.st_size, seen.st_mtime_ns)


@lru_cache(maxsize=64)
def _digest(file: str, *_: int) -> str:
    digest = hashlib.sha256()
    with document.open_file(file) as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def former(place: BuildsFolder, home: str) -> tuple[BuildsFolder, UserBuild] | None:
    """Return the user's last build of an object for another release that was in the same folder; None without one."""
    own = recorded(os.path.realpath(home))
    found = []
    for other in places(place.folder.parent):
        if other.folder != place.folder and object_of(other) == object_of(place):
            with contextlib.suppress(BuildUnusable, OSError):
                build = other.active()
                if build and build.home == own:
                    found.append((other.used(), other, build))
    return max(found, key=lambda each: each[0])[1:] if found else None


def places(folder: Path) -> list[BuildsFolder]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [BuildsFolder(entry) for entry in entries if re.fullmatch(f".+-[0-9a-f]{{{_DIGITS}}}", entry.name)]


def object_of(place: BuildsFolder) -> str:
    return place.folder.name.rpartition("-")[0]


def recorded(path: str) -> str:
    """Return a path in the form of a record: control characters, and bytes that are not text, are escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(c if c >= " " and c != "\x7f" else f"\\x{ord(c):02x}" for c in text)
