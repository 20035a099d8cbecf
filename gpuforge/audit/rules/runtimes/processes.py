"""What meets in one process: the objects of one import, of all imports of a wheel, of all wheels together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.variants import variant_family
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries

OF_SYSTEM = " of the system"

Scope = Literal["import", "wheel", "environment"]


class Process(NamedTuple):
    """Objects that come into one process, and how sure that is.

    "import": one import or one program loads them all. "wheel": somebody imports everything of one wheel.
    "environment": somebody imports all the wheels given; `blamed` says which of them is told.
    """

    scope: Scope
    wheel: str  # "" for an environment
    root: str  # the file that is imported or started; "" for the wider scopes
    objects: tuple[ElfObject, ...]

    def blamed(self, wheels: Sequence[str]) -> str:
        """Return the wheel that is told what these bring together: in an environment the last of them."""
        return self.wheel or wheels[-1]


class Image(NamedTuple):
    """A library as it would be mapped: two of one library are two images."""

    name: str  # the file in its wheel, or "the one of <package>"
    soname: str  # what it was asked for as, not mangled
    wheel: str  # whose object asked for it
    loader: str  # the file that asked
    asked: str = ""  # the name it was asked for by
    opened: bool = False  # Python code of that wheel speaks of opening it


@lru_cache(maxsize=1)  # half a dozen rules ask of one graph
def processes(graph: LinkGraph) -> tuple[Process, ...]:
    """Return every process that the wheels can be in, the surest first.

    Variants for several CUDA versions (libx_cuda118.so, libx_cuda126.so) are chosen from, programs start their own
    process, and the imports of a wheel may all be made by one user.
    """
    return tuple(_processes(graph))


def _processes(graph: LinkGraph) -> Iterator[Process]:
    joined: dict[str, dict[tuple[str, str], ElfObject]] = {}
    for held in graph.load_sets:
        yield Process("import", held.root.wheel, held.root.file, held.objects)
        if not held.root.program and not variant_family(held.root):
            joined.setdefault(held.root.wheel, {}).update({(o.wheel, o.file): o for o in held.objects})
    for wheel, objects in joined.items():
        yield Process("wheel", wheel, "", tuple(objects.values()))
    if len(joined) > 1:
        everything = {key: found for objects in joined.values() for key, found in objects.items()}
        yield Process("environment", "", "", tuple(everything.values()))


def images(graph: LinkGraph, objects: Iterable[ElfObject], wanted: Callable[[str], bool]) -> list[Image]:
    """List the images of the libraries whose plain SONAME is `wanted`, a function of a module, that these objects load.

    Those of one plain name in several places may become one image: `one_of_them` says so.
    """
    found: dict[str, Image] = {}
    edges = graph.edges_where(_needs(wanted))
    for held in objects if edges else ():
        for edge in edges.get((held.wheel, held.file), ()):
            name = _plain(edge.needed)
            if image := _image(graph, edge, name):
                key = image.name if name == edge.needed else edge.needed
                first = found.setdefault(key, image)
                found[key] = first._replace(opened=first.opened or image.opened)
    return list(_files(found.values()))


@cache
def _needs(wanted: Callable[[str], bool]) -> Callable[[Edge], bool]:
    return lambda edge: wanted(_plain(edge.needed))


def _files(found: Iterable[Image]) -> Iterator[Image]:
    """Yield images without those that are a file of the system by another of its names: libx.so.1.0 is libx.so.1.

    By the one name it is a link to the other, and the linker knows a file by its inode (glibc, elf/dl-load.c).
    """
    held = list(found)
    system = [i.asked for i in held if i.name.endswith(OF_SYSTEM)]
    for image in held:
        if not (
            image.name.endswith(OF_SYSTEM) and any(image.asked.startswith(f"{name}.") for name in system)
        ):
            yield image


_plain = cache(libraries.plain_name)


def _image(graph: LinkGraph, edge: Edge, soname: str) -> Image | None:
    target = edge.provider.object
    if target is not None:
        found = target.file if edge.route or edge.preload else ""
    elif edge.provider.source == "package":
        known = edge.provider.declared is not None or edge.preload is not None
        found = f"the one of {edge.provider.package}" if known else ""
    else:
        found = f"{soname}{OF_SYSTEM}"
    if not found:
        return None
    opened = edge.preload is not None or _opens(graph, edge)
    return Image(found, soname, edge.loader.wheel, edge.loader.file, edge.needed, opened)


def _opens(graph: LinkGraph, edge: Edge) -> bool:
    """Say whether Python code of a wheel names a library among those that it opens, as by their paths."""
    wheel = next(w for w in graph.wheels if w.name == edge.loader.wheel)
    stem = edge.needed.partition(".so")[0].removeprefix("lib")
    return any({stem, edge.needed} & p.names for p in wheel.preloads if not p.bare)


def one_of_them(found: Iterable[Image]) -> bool:
    """Say whether a process gets one of these libraries, whichever is asked for first.

    The linker takes a name that is NEEDED again for what it has loaded by it, from whatever place (glibc,
    elf/dl-load.c, _dl_map_object). What is opened by a path is another image all the same.
    """
    held = list(found)
    return len({i.asked for i in held}) == 1 and not any(i.opened for i in held)


FIRST_WINS = (
    "several places have a library of one name: the linker gives to all what is asked for first, so what is imported "
    "first decides which one it is; only who opens another by its path has two images"
)
