"""Decides which build of a module, and which image in it, can run on a machine, and why the others cannot.

It is a pure function: the builds of a set (`look.py`) and the facts about the machine (`machine.py`) are looked up
before; nothing is opened here.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Optional

from .arch import Arch
from .backends import BACKENDS, Here, implementation
from .cpu_level import CpuLevel
from .image import CPU, Build, Candidate, Image, Origin
from .machine import Probe
from .reason import LAST, Reason, Verdict
from .switches import gpu_disabled, switched_off


def resolve(
    builds: Sequence[Build], machine: Probe, env: Mapping[str, str], *, device: int = 0
) -> "tuple[Candidate, ...]":
    """Judge every image of every build for device number `device`, and the CPU, which comes last.

    The CPU is the set's library for it or, if a set has none, the caller's own code, which always exists.

    The accepted ones come first, beginning with the one that will run. They are ordered by origin, and within one by
    image: this very architecture, the nearest lower one of the same major, PTX, libraries for CPUs with the highest
    level first. The refused ones follow in the same order of origins, as given.
    """
    own = () if any(build.origin is Origin.CPU for build in builds) else (CPU,)
    return judge([*builds, *own], machine, env, device=device)


def judge(
    builds: Sequence[Build], machine: Probe, env: Mapping[str, str], *, device: int = 0
) -> "tuple[Candidate, ...]":
    """Judge and order builds like `resolve`, without adding the CPU."""
    obstacle = _obstacle(machine, env, device)
    gpu = machine.devices[device].capability if obstacle is None else (0, 0)
    off = switched_off(env) if gpu_disabled(env) else None
    verdict = partial(_judge, Here(machine, device, gpu, obstacle, off))
    ordered = sorted(builds, key=lambda build: build.origin)
    judged = [candidate for build in ordered for candidate in _candidates(build, verdict)]
    accepted = sorted((c for c in judged if c.accepted), key=_preference)
    return (*accepted, *(c for c in judged if not c.accepted))


def _obstacle(machine: Probe, env: Mapping[str, str], device: int) -> Optional[Reason]:
    """Return why no image at all can run, or None."""
    if gpu_disabled(env):
        return switched_off(env)
    if machine.driver is None:
        return Reason("no-usable-gpu")
    if not machine.devices:
        return Reason("no-devices")
    if not 0 <= device < len(machine.devices):
        return Reason("no-such-device", {"device": device, "count": len(machine.devices)})
    return None


def _candidates(build: Build, judge: "Callable[[Build, Image], Verdict]") -> "list[Candidate]":
    if build is CPU:
        return [Candidate(build, None, True, Reason("own-code"))]
    if build.problem is not None:
        return [Candidate(build, image, False, build.problem) for image in build.images or (None,)]
    return [Candidate(build, image, *judge(build, image)) for image in build.images]


def _judge(here: Here, build: Build, image: Image) -> Verdict:
    """Return whether an image can run here, and why."""
    backend = BACKENDS.get(image.about.loader)
    if backend is None:
        return Verdict(False, here.obstacle or Reason("not-loadable"))
    return implementation(backend).judge(image, build, here)


def _preference(candidate: Candidate) -> "tuple[int, int, int, int, int]":
    image, built_for = candidate.image, candidate.image.built_for if candidate.image else ""
    if candidate.reason.kind in LAST:
        return candidate.origin, 3, 0, 0, 0
    if isinstance(built_for, CpuLevel):
        return candidate.origin, 2, -built_for.rank, 0, 0
    if image is None or not isinstance(built_for, Arch):
        return candidate.origin, int(image is not None and image.about.of_module), 0, 0, 0
    variant = ("a", "f", "").index(built_for.variant)
    return candidate.origin, int(image.about.has_ptx), -built_for.major, -built_for.minor, variant
