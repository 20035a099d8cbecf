"""The output of `explain`: the machine, and every place that was looked in, as data and as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .decide import listed, named, resolve
from .driver import Device, Probe
from .values import KINDS, Candidate, Origin, Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .kernelset import KernelSet
    from .signature import Entry


class ModuleVerdict(NamedTuple):
    """The candidates for a module on devices that are alike; `devices` is empty without a GPU."""

    devices: tuple[int, ...]
    candidates: tuple[Candidate, ...]


class ModuleFacts(NamedTuple):
    name: str
    source: str
    kernels: tuple[Entry, ...]
    verdicts: tuple[ModuleVerdict, ...]


class SetFacts(NamedTuple):
    name: str
    made_by: str  # "nvcc 13.0.88 with CUDA 13.0"; "" if the wheel has only sources
    machine: Probe
    modules: tuple[ModuleFacts, ...]
    problem: str = ""


def facts_of(kernels: KernelSet) -> SetFacts:
    machine = kernels.probe()
    indexes = [place.contents for place in kernels.places() if place.contents]
    if not indexes:
        problems = (str(place.problem) for place in kernels.places() if place.problem)
        return SetFacts(kernels.name, "", machine, (), "\n".join(problems))
    shipped = [p.contents for p in kernels.places() if p.origin is Origin.SHIPPED and p.contents]
    if not shipped and not any(place.sources for place in kernels.places()):
        shipped = indexes[:1]
    made_by = [
        f"{each.compiler.label} with CUDA {each.toolkit}" if each.toolkit else each.compiler.label
        for each in shipped
    ]
    names = {name: files[0].source for index in reversed(indexes) for name, files in index.modules.items()}
    known = listed(kernels.places())
    modules = tuple(
        ModuleFacts(name, source, known[name], _verdicts(kernels, name, machine))
        for name, source in names.items()
    )
    return SetFacts(kernels.name, " and ".join(made_by), machine, modules)


def _verdicts(kernels: KernelSet, module: str, machine: Probe) -> tuple[ModuleVerdict, ...]:
    builds = [
        build._replace(failure=kernels.failure(module, build.place))
        for place in kernels.places()
        for build in place.builds(module, read=True)
    ]
    groups: dict[tuple[int, int], list[Device]] = {}
    for device in machine.devices:
        groups.setdefault(device.capability, []).append(device)
    return tuple(
        ModuleVerdict(
            tuple(device.ordinal for device in devices),
            resolve(builds, machine, kernels.env, device=devices[0].ordinal if devices else 0),
        )
        for devices in list(groups.values()) or [[]]
    )


def as_text(facts: SetFacts) -> str:
    if facts.problem:
        return f"kernel set {facts.name}: cannot be used\n  {facts.problem}"
    made_by = f"made by {facts.made_by}" if facts.made_by else "compiled on the user's machine"
    lines = [f"kernel set {facts.name}: {made_by}"]
    lines += [f"  {line}" for line in _machine(facts.machine)]
    for module in facts.modules:
        lines.append(f"  module {module.name}" + (f", from {module.source}" if module.source else ""))
        lines += [f"    {'kernel':<7}  {kernel.signature}" for kernel in module.kernels]
        for verdict in module.verdicts:
            if len(module.verdicts) > 1:
                lines.append(f"    on GPU {', '.join(map(str, verdict.devices))}:")
            lines += [f"    {line}" for line in table(verdict.candidates)]
    return "\n".join(lines)


def as_data(facts: SetFacts) -> dict[str, Any]:
    return {
        "name": facts.name,
        "made_by": facts.made_by,
        "problem": facts.problem,
        "modules": [
            {
                "name": module.name,
                "source": module.source,
                "kernels": [_kernel(kernel) for kernel in module.kernels],
                "verdicts": [
                    {"devices": list(v.devices), "candidates": [*candidates_data(v.candidates)]}
                    for v in module.verdicts
                ],
            }
            for module in facts.modules
        ],
    }


def _kernel(kernel: Entry) -> dict[str, Any]:
    return {
        "symbol": kernel.symbol,
        "name": kernel.name,
        "signature": kernel.signature,
        "parameters": [{"type": each.type, "size": each.size} for each in kernel.parameters or ()],
    }


def machine_data(machine: Probe) -> dict[str, Any]:
    return {
        "cuda": f"{machine.driver[0]}.{machine.driver[1]}" if machine.driver else None,
        "problem": machine.problem.as_data() if machine.problem else None,
        "devices": [
            {"ordinal": d.ordinal, "name": d.name, "capability": f"{d.capability[0]}.{d.capability[1]}"}
            for d in machine.devices
        ],
        **(
            {"iree": {KINDS[kind].iree_driver: _devices(found) for kind, found in _iree(machine).items()}}
            if _iree(machine)
            else {}
        ),
    }


def _iree(machine: Probe) -> Mapping[str, tuple[str, ...] | Reason]:
    found: Mapping[str, tuple[str, ...] | Reason] = machine.found.get("IREE") or {}
    return found


def _devices(devices: tuple[str, ...] | Reason) -> dict[str, Any]:
    return {"problem": devices.as_data()} if isinstance(devices, Reason) else {"devices": [*devices]}


def _machine(machine: Probe) -> Iterator[str]:
    if machine.driver is not None:
        yield f"driver: supports CUDA up to {machine.driver[0]}.{machine.driver[1]}"
    if machine.problem:
        yield f"GPU: {machine.problem}"
    for device in machine.devices:
        major, minor = device.capability
        yield f"GPU {device.ordinal}: {device.name}, compute capability {major}.{minor}"
    for kind, found in _iree(machine).items():
        yield f"IREE {KINDS[kind].iree_driver}: {found if isinstance(found, Reason) else ', '.join(found)}"


def _word(rank: int, candidate: Candidate) -> str:
    return ("fits" if rank else "used") if candidate.accepted else "refused"


def table(candidates: Sequence[Candidate]) -> Iterator[str]:
    labels = [named(candidate) for candidate in candidates]
    width = max(map(len, labels))
    for rank, (candidate, label) in enumerate(zip(candidates, labels)):
        first, *rest = str(candidate.reason).splitlines()
        yield f"{_word(rank, candidate):<7}  {label:<{width}}  {first}"
        yield from (f"{'':<7}  {'':<{width}}  {line}" for line in rest)


def candidates_data(candidates: Sequence[Candidate]) -> Iterator[dict[str, Any]]:
    for rank, candidate in enumerate(candidates):
        image = candidate.image
        yield {
            "verdict": _word(rank, candidate),
            "origin": candidate.origin.label,
            "place": candidate.build.place,
            **({"wheel": candidate.build.wheel} if candidate.build.wheel else {}),
            "image": image.label if image else None,
            "reason": candidate.reason.as_data(),
        }
