"""The objects that meet in one process: of one import, of all imports of a wheel, of all wheels together."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.variants import variant_family
from gpuforge.binary.facts import ElfObject

Scope = Literal["import", "wheel", "environment"]


class Process(NamedTuple):
    """Objects that may be in one process, and the scope of the imports that load them.

    "import": one import or one program loads them all. "wheel": all modules of one wheel are imported. "environment":
    all given wheels are imported; `blamed` says which of them the finding belongs to.
    """

    scope: Scope
    wheel: str  # "" for an environment
    root: str  # the file that is imported or started; "" for the wider scopes
    objects: tuple[ElfObject, ...]

    @property
    def across(self) -> bool:
        """Whether several of the given wheels make it."""
        return self.scope == "environment"

    def blamed(self, wheels: Sequence[str]) -> str:
        """Return the wheel that the finding belongs to: in an environment the last of these."""
        return self.wheel or wheels[-1]


@lru_cache(maxsize=1)  # half a dozen rules call it with one graph
def processes(graph: LinkGraph) -> tuple[Process, ...]:
    """Return every process that the wheels can be in, the surest first.

    Only one of several variants for CUDA versions (libx_cuda118.so, libx_cuda126.so) is loaded, programs start their
    own process, and one user may import all modules of a wheel.
    """
    return tuple(_processes(graph))


def _processes(graph: LinkGraph) -> Iterator[Process]:
    joined: dict[str, dict[tuple[str, str], ElfObject]] = {}
    for load_set in graph.load_sets:
        yield Process("import", load_set.root.wheel, load_set.root.file, load_set.objects)
        if not load_set.root.is_program and not variant_family(load_set.root):
            joined.setdefault(load_set.root.wheel, {}).update(
                {(o.wheel, o.file): o for o in load_set.objects}
            )
    for wheel, objects in joined.items():
        yield Process("wheel", wheel, "", tuple(objects.values()))
    if len(joined) > 1:
        everything = {key: found for objects in joined.values() for key, found in objects.items()}
        yield Process("environment", "", "", tuple(everything.values()))
