"""Decides which kernel a name means, and which image can run here and why others cannot, and loads the first one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Optional

from . import layout
from .arch import Arch, Version, binary_mismatch, driver_for_binary, driver_for_ptx, ptx_mismatch
from .backends import BACKENDS, Here, Request, implementation
from .driver import Probe, switched_off
from .process import DriverError, KernelUnavailable, UnknownKernel, printable
from .signature import Entry, matching, nearest
from .values import (
    CPU,
    LAST,
    Build,
    BuildPlace,
    Candidate,
    Image,
    ImageKind,
    KernelName,
    Module,
    Origin,
    Reason,
    Refused,
    Verdict,
    dotted,
)

_ABSENT = "no-such-kernel"


def find(set_name: str, places: Sequence[BuildPlace], name: str, module: str | None) -> KernelName:
    if module is not None and not isinstance(module, str):
        raise TypeError(f"a module's name is a str, not {type(module).__name__}")
    known = listed(places)
    modules = [module] if module is not None else sorted(known)
    if module is not None and module not in known:
        raise UnknownKernel(_sentence("no-module", set_name, module, known))
    found = [(each, one) for each in modules for one in known[each]]
    entries = matching([one for _, one in found], name)
    homes = sorted({each for each, one in found if one in entries})
    if len(entries) == 1 and len(homes) == 1:
        return KernelName(homes[0], name, entries[0])
    if len(entries) > 1:
        signatures = "".join(f"\n  {one.signature}" for one in entries)
        raise UnknownKernel(f"kernel set {set_name} has several kernels {name!r}: name one of{signatures}")
    if homes:
        raise UnknownKernel(
            f"kernel set {set_name} has the kernel {name!r} in several modules: name one of {', '.join(homes)}"
        )
    files = {
        each: [file for place in places if not place.problem for file in place.files(each)]
        for each in modules
    }
    unlisted = [each for each in modules if not all(file.kernels for file in files[each])]
    message = _unknown(set_name, modules, known, name)
    if not unlisted:
        raise UnknownKernel(message)
    if len(unlisted) > 1:
        raise UnknownKernel(_sentence("several-modules", set_name, name, unlisted))
    return KernelName(unlisted[0], name, None, message)


def module_named(set_name: str, places: Sequence[BuildPlace], module: str | None) -> str:
    known = listed(places)
    if module is None and len(known) == 1:
        return next(iter(known))
    if module is None or module not in known:
        kind = "several-modules" if module is None else "no-module"
        raise UnknownKernel(_sentence(kind, set_name, module or "", known))
    return module


def listed(places: Iterable[BuildPlace]) -> Mapping[str, tuple[Entry, ...]]:
    """Return the kernels that any index lists for each module of a set; raises UnknownKernel, KernelUnavailable."""
    known: dict[str, dict[str, Entry]] = {}
    problems, no_set = [], None
    for place in places:
        if place.problem:
            problems.append(place.problem)
            no_set = place if place.problem.kind == "no-set" else no_set
        for name, files in (place.contents.modules if place.contents else {}).items():
            entries = known.setdefault(name, {})
            for entry in (entry for file in files for entry in file.kernels):
                entries.setdefault(entry.symbol, entry)
    if not known and no_set and len(problems) == 1:
        raise UnknownKernel(f"{no_set.problem}; it has: {neighbours(no_set.path)}")
    if not known:
        raise KernelUnavailable([str(problem) for problem in problems])
    return {name: tuple(entries.values()) for name, entries in known.items()}


def neighbours(folder: str) -> str:
    """Return the names of what the wheel itself has, with those first that are spelled like the one of a folder."""
    home = layout.home_of(folder)
    names = {*layout.names(layout.kernels(home)), *layout.names(layout.sources(home))}
    return ", ".join(nearest(sorted(names), os.path.basename(folder))) or "none"


def is_absent(
    kernel: KernelName,
    candidates: Sequence[Candidate],
    failures: Mapping[str, Reason],
    places: Sequence[BuildPlace],
) -> bool:
    """Return whether no place of a set has a kernel; a module's files in one place have the same ones."""
    if kernel.entry is not None:
        return False
    missing = {file for file, why in failures.items() if why.kind == _ABSENT}
    lists, lacking = False, {""}
    for place in places:
        files = place.files(kernel.module)
        lists |= place.origin > Origin.USER_BUILD and any(file.kernels for file in files)
        everywhere = any(file.file in missing for file in files)
        lacking |= {
            file.file
            for file in files
            if everywhere or (place.sources and not place.sources.mentions(file, kernel.name))
        }
    judged = [candidate for candidate in candidates if candidate.build.place not in lacking]
    return len(lacking) + len(judged) > 1 and all(
        each.reason.kind == "not-compiled" or (lists and each.origin > Origin.USER_BUILD) for each in judged
    )


def absent(kernel: str, problem: str) -> Reason:
    return Reason(_ABSENT, {"kernel": kernel, "problem": problem})


def _sentence(kind: str, set_name: str, name: str, names: Collection[str]) -> str:
    known = ", ".join(sorted(names)) or "none"
    return str(Reason(kind, {"set": set_name, "name": name, "known": known}))


def _unknown(set_name: str, modules: Sequence[str], known: Mapping[str, Sequence[Entry]], name: str) -> str:
    signatures = [one.signature for module in modules for one in known[module]]
    lines = "".join(f"\n  {one}" for one in nearest(signatures, name))
    where = f"module {modules[0]} of kernel set {set_name}" if len(modules) == 1 else f"kernel set {set_name}"
    return f"{where} has no kernel {name!r}" + (f"; it has{lines}" if lines else "")


def gpu_refusal(image: Image, arch: Arch, here: Here) -> Reason | None:
    mismatch = (ptx_mismatch if image.about.has_ptx else binary_mismatch)(arch, here.gpu)
    if mismatch is None:
        return driver_refusal(image, here.machine.driver or (0, 0))
    return Reason(mismatch, {"built": dotted(arch.capability), "major": arch.major, "here": dotted(here.gpu)})


def driver_refusal(image: Image, driver: Version) -> Reason | None:
    found = dotted(driver)
    if image.about.has_ptx:
        isa = image.isa or (0, 0)
        needed = driver_for_ptx(isa)
        facts = {"isa": dotted(isa), "needed": dotted(needed), "found": found}
        return Reason("driver-older-than-ptx", facts) if driver < needed else None
    needed = driver_for_binary(image.toolkit)
    release = str(needed[0]) if needed[1] == 0 else dotted(needed)
    facts = {"toolkit": dotted(image.toolkit), "needed": release, "found": found}
    return Reason("driver-older-than-code", facts) if driver < needed else None


def resolve(
    builds: Sequence[Build], machine: Probe, env: Mapping[str, str], *, device: int = 0
) -> tuple[Candidate, ...]:
    """Judge every image of every build for device number `device`, and the CPU, which comes last.

    The accepted ones come first, beginning with the one that will run, ordered by origin, then by image: this very
    architecture, the nearest lower one of the same major, PTX, libraries for CPUs with the highest level first.
    """
    own = () if any(build.origin is Origin.CPU for build in builds) else (CPU,)
    return judge([*builds, *own], machine, env, device=device)


def only_there(
    candidates: Iterable[Candidate], machine: Probe, device: Optional[int], contexts: str
) -> tuple[Candidate, ...]:
    """Refuse what does not run where a caller demands it: in one of the `contexts`, else on a device."""

    def elsewhere(image: ImageKind) -> bool:
        if contexts and BACKENDS[image.loader].contexts != contexts:
            return True
        return image.built_for == "CPU" and bool(contexts or device or machine.devices)

    where = f"in a context of {contexts}" if contexts else f"on device {device}"
    why = Reason("elsewhere", {"where": where})
    return tuple(
        Candidate(c.build, c.image, False, why) if c.accepted and c.image and elsewhere(c.image.about) else c
        for c in candidates
    )


def judge(
    builds: Sequence[Build], machine: Probe, env: Mapping[str, str], *, device: int = 0
) -> tuple[Candidate, ...]:
    verdict = partial(_judge, target(machine, env, device))
    ordered = sorted(builds, key=lambda build: build.origin)
    judged = [candidate for build in ordered for candidate in _candidates(build, verdict)]
    accepted = sorted((c for c in judged if c.accepted), key=_preference)
    return (*accepted, *(c for c in judged if not c.accepted))


def target(machine: Probe, env: Mapping[str, str], device: int = 0) -> Here:
    off = switched_off(env)
    obstacle = off or _obstacle(machine, device)
    return Here(machine, device, (0, 0) if obstacle else machine.devices[device].capability, obstacle, off)


def _obstacle(machine: Probe, device: int) -> Optional[Reason]:
    if machine.driver is None:
        return _NO_GPU
    if not machine.devices:
        return Reason("no-devices")
    if not 0 <= device < len(machine.devices):
        return Reason("no-such-device", {"device": device, "count": len(machine.devices)})
    return None


def _candidates(build: Build, judge: Callable[[Build, Image], Verdict]) -> list[Candidate]:
    if build is CPU:
        return [Candidate(build, None, True, Reason("own-code"))]
    if build.problem is not None:
        return [Candidate(build, image, False, build.problem) for image in build.images or (None,)]
    return [Candidate(build, image, *judge(build, image)) for image in build.images]


def _judge(here: Here, build: Build, image: Image) -> Verdict:
    backend = BACKENDS.get(image.about.loader)
    if backend is None:
        return Verdict(False, here.obstacle or Reason("not-loadable"))
    verdict: Verdict = implementation(backend).judge(image, build, here)
    return verdict


def _preference(candidate: Candidate) -> tuple[int, int, int, int, int]:
    image, built_for = candidate.image, candidate.image.built_for if candidate.image else ""
    if candidate.reason.kind in LAST:
        return candidate.origin, 3, 0, 0, 0
    if image is not None and image.about.built_for == "CPU":
        from .cpu import CpuLevel

        return candidate.origin, 2, -CpuLevel(str(built_for)).rank, 0, 0
    if image is None or not isinstance(built_for, Arch):
        return candidate.origin, int(image is not None and image.about.of_module), 0, 0, 0
    variant = ("a", "f", "").index(built_for.variant)
    return candidate.origin, int(image.about.has_ptx), -built_for.major, -built_for.minor, variant


_NOT_FOUND = {  # a function that looks a kernel up, and its result for an image without it
    ("cuLibraryGetKernel", 500),  # CUDA_ERROR_NOT_FOUND
    ("cuModuleGetFunction", 500),
    ("clCreateKernel", -46),  # CL_INVALID_KERNEL_NAME
    ("dlsym", 0),
}
_NO_GPU = Reason("no-usable-gpu")  # reported once, by the machine's own problem


def load(
    request: Request,
    candidates: Sequence[Candidate],
    places: Sequence[BuildPlace],
    failures: dict[str, Reason],
) -> tuple[Any, str]:
    """Return the kernel of the first accepted candidate that loads, and its file; (None, "") if none does.

    `failures` gets the reasons of earlier files. A fatbin is loaded once, for any number of its images that fit: the
    driver chooses among them. A warning has the reason if a file that the environment names
    is not used.
    """
    module_name = request.kernel.module
    found = {module.file: (module, place) for place in places for module in place.files(module_name)}
    for candidate in candidates:
        file = candidate.build.place
        if not candidate.accepted or candidate.build is CPU or file in failures:
            continue
        try:
            kernel = _load(request, candidate, *found[file])
        except (DriverError, Refused) as error:
            failures[file] = _failure(request.kernel.name, error)
            continue
        if kernel is None:
            continue
        _warn(candidates, failures, candidate)
        kernel.module = found[file][0]
        return kernel, file
    return None, ""


def _load(request: Request, candidate: Candidate, module: Module, place: BuildPlace) -> Any:
    image = candidate.image
    assert image is not None  # noqa: S101  an image was accepted
    make = implementation(BACKENDS[image.about.loader]).make
    entries = request.kernel.entries(module, candidate.origin)
    for entry in entries:
        try:
            return make(request._replace(entry=entry), image, module, place)
        except DriverError as error:
            if entry is entries[-1] or not _is_absent(error):
                raise
    raise Refused(absent(request.kernel.name, f"{module.file} lists others"))


def reasons(
    candidates: Sequence[Candidate], failures: Mapping[str, Reason], machine: Probe
) -> tuple[str, ...]:
    """Return one line for each place tried; only one line for all that need a GPU, if the machine has none."""
    lines = [str(machine.problem)] if machine.problem else []
    lines += [
        f"{named(candidate)}: "
        f"{failures.get(candidate.build.place, candidate.reason) if candidate.accepted else candidate.reason}"
        for candidate in candidates
        if candidate.build is not CPU
        and not (machine.problem and candidate.reason in (machine.problem, _NO_GPU))
    ]
    return tuple(dict.fromkeys(lines)) or ("the module has no images",)


def named(candidate: Candidate) -> str:
    own = candidate.origin in {Origin.EXPLICIT, Origin.USER_BUILD}
    shipped = not own or not candidate.build.place
    return candidate.label if shipped else printable(f"{candidate.label} ({candidate.build.place})")


def _failure(name: str, error: DriverError | Refused) -> Reason:
    if isinstance(error, Refused):
        return error.reason
    if _is_absent(error):
        return absent(name, str(error))
    facts = {"kernel": name, "call": error.call, "code": error.code, "message": str(error)}
    return Reason("not-loaded", facts)


def _is_absent(error: DriverError) -> bool:
    return (error.call, error.code) in _NOT_FOUND


def _warn(candidates: Sequence[Candidate], failures: Mapping[str, Reason], used: Candidate) -> None:
    """Warn if kernels that the user chose are not used: those that the environment names, or a user build."""
    before = [c for c in candidates if c.origin < used.origin]
    explicit = [c for c in before if c.origin is Origin.EXPLICIT]
    own = [c for c in before if c.origin is Origin.USER_BUILD and c.reason.kind != "not-compiled"]
    own = [c for c in own if c.build.problem or c.build.place in failures]  # not those for another GPU
    if not explicit and not own:
        return
    first = (explicit or own)[0]
    text = f"{named(first)}: {failures.get(first.build.place, first.reason)}"
    if explicit:
        text = f"the environment names kernels that are not used: {text}"
    warnings.warn(f"{text}. Used instead: {named(used)}", RuntimeWarning, stacklevel=5)
