"""Why no worker of a cluster can do an action, in words."""

from __future__ import annotations

from collections.abc import Mapping

from gpuforge.execute.remote.abilities import Abilities, Lack, lacking

_LISTED = 3  # workers that a message lists


def unable(needs: Abilities, workers: Mapping[str, Abilities]) -> str:
    """Return what an action with these needs waits for; "" if a present worker can do it."""
    if not workers:
        return "a worker; none is there yet"
    reasons = refused(needs, workers)
    return f"a worker that can do it: {reasons}" if reasons else ""


def refused(needs: Abilities, workers: Mapping[str, Abilities]) -> str:
    """Return what each worker lacks of these needs; "" if one lacks nothing, or there is none."""
    reasons = {name: [*lacking(needs, has)] for name, has in workers.items()}
    if not all(reasons.values()):
        return ""
    listed = "; ".join(
        f"{name} {' and '.join(map(predicate, each))}" for name, each in [*reasons.items()][:_LISTED]
    )
    more = len(reasons) - _LISTED
    return f"{listed}; and {more} more" if more > 0 else listed


def predicate(lack: Lack) -> str:
    """Write a lack as the predicate of a sentence about the worker: "has no GPU"."""
    match lack.ability.kind:
        case "gpuforge":
            return f"has {lack.other.label}" if lack.other else "was started without gpuforge's preload"
        case "machine":
            return (
                f"runs on {lack.other.name if lack.other else 'another machine'}, not on {lack.ability.name}"
            )
        case "containers":
            return "has no container engine"
        case "gpus":
            return "has no GPU"
        case "memory":
            return f"has {lack.has / 1e9:.0f} GB of memory, not {lack.needed / 1e9:.0f}"
        case _:
            return f"lacks {lack.ability.name}"
