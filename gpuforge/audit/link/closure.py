"""The libraries that a file loads from its own wheel, and the chain that leads to each."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuforge.audit import policy
from gpuforge.audit.evidence import Evidence
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import stack


class Dependency(NamedTuple):
    """A library of the wheel that a file loads, directly or through others."""

    object: ElfObject
    chain: tuple[str, ...]  # the libraries from the file to this one, this one included


def closure(
    graph: LinkGraph, wheel: WheelFacts, file: str, needed: Iterable[str], allowed: Iterable[str] = ()
) -> Iterator[Dependency]:
    """Yield the libraries of its own wheel that a file loads, the nearest first.

    `needed` is what it NEEDs by its own bytes: the graph does not have files that are named like sources. Libraries
    that `allowed` ones of a GPU stack load are not followed.
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


def others(graph: LinkGraph, wheel: WheelFacts, evidence: Evidence, allowed: Iterable[str]) -> Iterator[str]:
    """Yield the libraries outside of wheel, system and GPU stacks that a file and its closure NEED."""
    needed = {name for part in evidence.parts for name in part.needs}
    loaded = [each.object for each in closure(graph, wheel, evidence.file, needed, allowed)]
    here = {name for each in loaded for name in (each.name, each.soname)}
    for each in loaded:
        needed.update(() if stack.member(each.name) else each.needed)
    for name in needed - here:
        if not (policy.is_system(name) or policy.is_system(name, musl=True) or stack.member(name)):
            yield name


def _provided(graph: LinkGraph, binary: ElfObject) -> list[ElfObject]:
    """Return the objects of its own wheel that an object NEEDs."""
    targets = (edge.provider.object for edge in graph.from_object(binary))
    return [target for target in targets if target is not None and target.wheel == binary.wheel]


def _by_name(wheel: WheelFacts, needed: Iterable[str]) -> list[ElfObject]:
    names = set(needed)
    return [o for o in wheel.objects if o.name in names or o.soname in names]
