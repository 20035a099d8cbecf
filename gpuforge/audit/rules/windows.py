"""GF112, GF218, GF308, GF512, GF513: modules and DLLs of wheels for Windows."""

import re
from collections.abc import Iterator

from gpuforge.audit import dlls
from gpuforge.audit.dlls import Import
from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import PACKAGES, WheelFacts
from gpuforge.audit.rules.rule import Text, rule
from gpuforge.cpython import STABLE_ABIS, CPython

_FAILS = "The import fails: “DLL load failed while importing … The specified module could not be found.”"


@rule("GF218", "error", "a DLL that a Windows file imports has no provider", applies_to=PACKAGES)
def dll_missing(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find imported DLLs that are neither in the wheel, nor of Windows, Python or a required package.

    A DLL that is delayed is looked for when it is first called. Where code of the wheel adds folders or loads DLLs, it
    may find others there; a file that no module needs is opened by code.
    """
    needed = _needed_by_modules(wheel)
    for each in dlls.imports(graph, wheel):
        text = _missing(wheel, each, opened=each.loader.file not in needed)
        if text:
            subject = Subject(library=each.name, provider=each.provider, needed_by=(each.loader.file,))
            yield dll_missing.finding(
                wheel.name, subject, text=text, cause=(text.what,), files=(each.loader.file,)
            )


def _missing(wheel: WheelFacts, found: Import, *, opened: bool) -> Text | None:
    if dlls.is_debug_runtime(found.name):
        return _DEBUG
    if found.delayed:
        return None
    match found.source:
        case "runtime":
            return _RUNTIME
        case "driver" if not opened:
            return _OF_DRIVER
        case "nobody" | "undeclared":
            if opened or wheel.loads_dlls:
                return _OPENED
            return _NOBODY
    return None


_NOBODY = Text(
    "Nothing provides these DLLs: they are neither in the wheel, nor of Windows, Python or a required package.",
    _FAILS,
    "Put them into the wheel (delvewheel repair), or require the package that has them and add its folder with "
    "os.add_dll_directory before the import.",
    "error",
)
_OPENED = Text(
    "These DLLs are not in the wheel and in no required package; only code that adds folders or loads DLLs can find "
    "them.",
    "Where the user has not installed them, the files that import them do not load.",
    "Require the packages that have them, and add their folders with os.add_dll_directory.",
    "info",
)
_RUNTIME = Text(
    "The C++ runtime of Visual C++ is imported, and is neither in the wheel nor part of Python.",
    "On a machine without the Visual C++ Redistributable the import fails: “The specified module could not be found.”",
    "Put it into the wheel (delvewheel repair), or require msvc-runtime.",
    "warning",
)
_OF_DRIVER = Text(
    "DLLs of a GPU's driver are imported.",
    "On a machine without the driver the import fails, also where the package would work without a GPU.",
    "Load it at run time (LoadLibrary), or link it with /DELAYLOAD.",
    "warning",
)
_DEBUG = Text(
    "DLLs of debug builds are imported.",
    "Only machines with Visual Studio have them; elsewhere the import fails.",
    "Build in the configuration Release (/MD, not /MDd).",
    "error",
)


def _needed_by_modules(wheel: WheelFacts) -> set[str]:
    """Return the modules of a wheel and the DLLs in it that these import, directly or by others."""
    by_name = {f.name: f for f in wheel.pe}
    found: set[str] = set()
    queue = [f for f in wheel.pe if f.is_module]
    while queue:
        file = queue.pop()
        if file.file not in found:
            found.add(file.file)
            queue += [by_name[name] for name in file.imports if name in by_name]
    return found


@rule(
    "GF308",
    "error",
    "a DLL is in a folder in which Windows does not look",
    why=_FAILS,
    fix="Call os.add_dll_directory with the folder before the import, as delvewheel does, or put the DLL beside the "
    "file.",
    applies_to=PACKAGES,
)
def dll_elsewhere(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find DLLs in other folders of the wheel, or in packages, where no code of the wheel adds folders.

    PATH is not searched for what a module imports, since Python 3.8. A DLL that is already in the process is taken by
    its name: if another file beside it is imported first, that is enough.
    """
    if wheel.loads_dlls:
        return
    found = list(dlls.imports(graph, wheel))
    loaded = {each.name for each in found if each.source == "beside" and each.loader.is_module}
    needed = _needed_by_modules(wheel)
    for each in found:
        if each.source not in {"folder", "package"} or each.delayed or each.loader.file not in needed:
            continue
        if each.source == "package" and each.provider in {"torch", "msvc-runtime", wheel.project}:
            continue  # once torch is imported; beside python.exe
        first = each.name in loaded
        yield dll_elsewhere.finding(
            wheel.name,
            Subject(library=each.name, provider=each.provider, needed_by=(each.loader.file,)),
            cause=(each.source, first),
            what="DLLs are in another folder than the files that import them, and no code of the wheel adds it."
            if each.source == "folder"
            else "DLLs are in the folders of other packages, and no code of the wheel adds them.",
            severity="warning" if first else "error",
        )


_ONCE = (
    r"(cudart|cublas|cublaslt|cudnn|nccl|libiomp5|libomp|vcomp)\w*\.dll"  # with state that a process has once
)


@rule(
    "GF112",
    "warning",
    "a DLL comes into a process several times, under several names",
    why="Windows tells DLLs apart by their names: each copy has its own state, memory and registered kernels.",
    fix="Give only one of them: leave the DLL out of the wheel (delvewheel repair --exclude NAME), and require the "
    "package that has it.",
)
def dll_copies(graph: LinkGraph) -> Iterator[Finding]:
    """Compare names without delvewheel's hash: in one wheel all, in several those with state for the whole process."""
    everywhere: dict[str, set[tuple[str, str]]] = {}
    for wheel in graph.wheels:
        copies: dict[str, list[str]] = {}
        for file in wheel.pe:
            if file.is_dll and not file.is_module:
                copies.setdefault(dlls.plain_name(file.name), []).append(file.file)
                everywhere.setdefault(dlls.plain_name(file.name), set()).add((wheel.name, file.file))
        for name, files in copies.items():
            if len({file.rpartition("/")[2].lower() for file in files}) > 1:
                yield _copies(wheel, name, files)
    for name, found in everywhere.items():
        wheels = {wheel for wheel, _ in found}
        names = {file.rpartition("/")[2].lower() for _, file in found}
        if len(wheels) > 1 and len(names) > 1 and re.fullmatch(_ONCE, name):
            yield dll_copies.finding(
                min(wheels),
                tuple(Subject(library=name, file=file, wheel=wheel) for wheel, file in sorted(found)),
                cause=(name,),
                across=True,
                what=f"Several copies of {name} come into one process if these wheels are used together.",
            )


def _copies(wheel: WheelFacts, name: str, files: list[str]) -> Finding:
    return dll_copies.finding(
        wheel.name,
        tuple(Subject(library=name, file=file) for file in files),
        cause=(name,),
        what=f"The wheel has {name} under several names.",
    )


@rule(
    "GF512",
    "error",
    "a file is for another processor than the tag for Windows",
    what="Modules or DLLs are for another processor than the tag says.",
    why="Python does not load them: “%1 is not a valid Win32 application.”",
    fix="Build them for the processor of the tag, or tag the wheel for theirs.",
)
def dll_machine(_: LinkGraph, wheel: WheelFacts) -> Iterator[Subject]:
    """Compare e_machine with the platform tags; .NET's assemblies and programs run elsewhere, too."""
    tags = {tag for tag in wheel.platforms if tag.startswith("win")}
    for file in wheel.pe:
        foreign = re.search(r"(?i)(^|/)(x86|win32|i386|x64|amd64|arm64)(/|$)|arm64", file.file)
        if (
            tags
            and file.is_dll
            and file.machine not in tags
            and "mscoree.dll" not in file.imports
            and not foreign
        ):
            yield Subject(file=file.file, item=file.machine or "another processor")


@rule(
    "GF513",
    "error",
    "a Windows module imports the DLL of another Python than the tags promise",
    why=_FAILS,
    applies_to=PACKAGES,
)
def python_dll(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Compare python3NN.dll with the tags; a module of the stable ABI imports python3.dll (PEP 384).

    From 3.15 on it may import python3t.dll instead, which all Pythons then have (PEP 803).
    """
    named = (CPython.of_tag(t.abi) or CPython.of_tag(t.interpreter) for t in wheel.file_tags)
    pythons = {python for python in named if python}
    stable = any(t.abi in STABLE_ABIS for t in wheel.file_tags)
    if not pythons or len(pythons) > 1:
        return
    free = any(t.abi == "abi3t" or ((one := CPython.of_tag(t.abi)) and one.threads) for t in wheel.file_tags)
    for file in wheel.pe:
        for name in file.imports:
            match = re.fullmatch(r"python3(\d*)(t?)\.dll", name)
            if not (match and file.is_module):
                continue
            if match[1]:
                fits = not stable and CPython(3, int(match[1]), match[2]) in pythons
            else:
                fits = min(pythons) >= _BOTH if match[2] else not free
            if not fits:
                yield python_dll.finding(
                    wheel.name,
                    Subject(library=name, needed_by=(file.file,)),
                    text=_STABLE if stable and match[1] else _OTHER,
                    files=(file.file,),
                )


_BOTH = CPython(3, 15)


_STABLE = Text(
    "The tag promises the stable ABI, and modules import the DLL of one Python.",
    _FAILS,
    "Define Py_LIMITED_API, and link python3.lib instead of python3NN.lib.",
    "error",
)
_OTHER = Text(
    "Modules import the DLL of another Python than the tags promise.",
    _FAILS,
    "Build them with the Python of the tag, or tag the wheel for theirs.",
    "error",
)
