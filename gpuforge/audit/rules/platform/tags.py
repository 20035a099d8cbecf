"""The tags that a wheel should have, by its objects: the same for every finding about tags."""

from __future__ import annotations

from packaging.tags import Tag

from gpuforge.audit import policy
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts


def tags_that_hold(graph: LinkGraph, wheel: WheelFacts) -> tuple[Tag, ...]:
    """Return the tags of the file name if they hold; else with the oldest platform that its objects allow.

    Return none if the wheel has objects for several machines, or for no platform.
    """
    objects = [o for o in wheel.objects if o.links]
    machines = {o.processor for o in objects}
    if not objects:
        return wheel.file_tags
    if len(machines) > 1:
        return ()
    machine = machines.pop()
    needed = {e.needed for e in graph.of(wheel) if e.provider.source == "system"}
    promised = [found for tag in wheel.platforms if (found := policy.of_tag(tag)[0])]
    tagged = {policy.of_tag(tag)[1] for tag in wheel.platforms} == {machine}
    if tagged and not any(p.lacking(needed) or any(p.missing(o, machine) for o in objects) for p in promised):
        return wheel.file_tags
    fitting = policy.fitting(objects, machine, needed)
    if fitting is None:
        return ()
    return tuple(Tag(t.interpreter, t.abi, f"{fitting.name}_{machine}") for t in wheel.file_tags)
