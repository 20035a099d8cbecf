"""A place that has, or should have, a build of a kernel set."""

from __future__ import annotations

from typing import NamedTuple

from .image import Build, Image, Origin
from .index import Index, Module, Refused
from .reason import Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .sources import Sources


class BuildPlace(NamedTuple):
    """One place with a build of a set: its contents, or one file for any module, or its problem.

    `image` describes the file. `sources` has the options if the contents are sources to compile.
    """

    origin: Origin
    path: str
    contents: Index | None = None
    file: str = ""
    image: Image = Image("unread")
    problem: Reason | None = None
    wheel: str = ""  # the kernels wheel that it is in, such as "saxpy-kernels-cu13"
    sources: Sources | None = None

    @property
    def images(self) -> tuple[Image, ...]:
        """The images of all modules."""
        if self.contents is None:
            return (self.image,) if self.file else ()
        return tuple(
            image for files in self.contents.modules.values() for file in files for image in file.images
        )

    def files(self, name: str) -> tuple[Module, ...]:
        """Return the files of the module with a name, none if this place has none; a named file is for any module."""
        if self.file:
            return (Module(name, "", self.file, "", (self.image,)),)
        return self.contents.modules.get(name, ()) if self.contents else ()

    def builds(self, name: str, *, read: bool = False) -> tuple[Build, ...]:
        """Return the builds of a module for `resolve`; with `read` each file is read and compared with the index."""
        if self.problem or (self.contents is None and not self.file):
            return (Build(self.origin, self.path, problem=self.problem, wheel=self.wheel),)
        files = self.files(name)
        if not files:
            known = ", ".join(sorted(self.contents.modules if self.contents else ())) or "none"
            facts = {"set": self.path, "name": name, "known": known}
            return (Build(self.origin, self.path, problem=Reason("no-module", facts), wheel=self.wheel),)
        return tuple(
            Build(
                self.origin,
                file.file,
                file.images,
                problem=_trouble(file) if read else None,
                wheel=self.wheel,
            )
            for file in files
        )


def _trouble(module: Module) -> Reason | None:
    """Return the problem of a file, None if it can be read and is as in the index."""
    try:
        module.read()
    except Refused as refused:
        return refused.reason
    return None
