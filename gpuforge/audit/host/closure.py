"""What a file loads from its own wheel, and by way of which libraries."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import stack


class Dependency(NamedTuple):
    """A library of the wheel that a file loads, itself or by way of others."""

    object: ElfObject
    chain: tuple[str, ...]  # the libraries from the file to this one, this one included


def closure(
    graph: LinkGraph, wheel: WheelFacts, file: str, needed: Iterable[str], allowed: Iterable[str] = ()
) -> Iterator[Dependency]:
    """Yield everything of its own wheel that a file loads, the nearest first.

    `needed` is what it NEEDs by its own bytes: the graph does not have files that are named like sources. What
    libraries of a GPU stack load that are `allowed` is their own business.
    """
    names = {name.casefold() for name in allowed}
    own = next((o for o in wheel.objects if o.file == file), None)
    queue = [Dependency(o, (o.name,)) for o in (_provided(graph, own) if own else _by_name(wheel, needed))]
    seen = {file}
    for loaded in queue:
        if loaded.object.file in seen:
            continue
        seen.add(loaded.object.file)
        yield loaded
        if (stack.member(loaded.object.name) or "").casefold() not in names:
            queue += [Dependency(o, (*loaded.chain, o.name)) for o in _provided(graph, loaded.object)]


def _provided(graph: LinkGraph, found: ElfObject) -> list[ElfObject]:
    """Return the objects of its own wheel that an object NEEDs."""
    targets = (edge.provider.object for edge in graph.from_object(found))
    return [target for target in targets if target is not None and target.wheel == found.wheel]


def _by_name(wheel: WheelFacts, needed: Iterable[str]) -> list[ElfObject]:
    names = set(needed)
    return [o for o in wheel.objects if o.name in names or o.soname in names]
