"""Who provides the DLLs that the files of a wheel for Windows import, and in which folders Windows looks for them.

Python loads a module with LOAD_LIBRARY_SEARCH_DEFAULT_DIRS and LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR: DLLs are looked for in
the folder of the module, in that of python.exe, in System32, and in those that `os.add_dll_directory` added.
https://learn.microsoft.com/windows/win32/dlls/dynamic-link-library-search-order
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal, NamedTuple

from gpuforge.audit import layout
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.binary.pe import PeFile
from gpuforge.datafile import load
from gpuforge.grouping import grouped

Source = Literal[
    "system", "python", "driver", "beside", "folder", "package", "undeclared", "runtime", "nobody"
]

# vcruntime140.dll and vcruntime140_1.dll come with CPython, as in delvewheel's `ignore_by_abi_platform`
_PYTHON = re.compile(r"(python3\d*t?(_d)?|vcruntime140(_1)?)\.dll")
_API_SETS = ("api-ms-", "ext-ms-")
# installed by the drivers of GPUs; the loaders of OpenCL and Vulkan, too
_DRIVER = re.compile(
    r"(nv(cuda|ml|cuvid|encodeapi64|api64|optix|rtc_driver)|opencl|vulkan-1|amdhip64(_\d+)?|ze_loader)\.dll"
)
# Microsoft's "Visual C++ Redistributable", and the debug builds that only its compiler brings
_RUNTIME = re.compile(
    r"(msvc[pr]\d\w*|concrt\d\w*|vcomp\d\w*|vccorlib\d\w*|vcruntime\d\w*|vcamp\d\w*|mfc\d\w*|ucrtbased)\.dll"
)
_HASH = re.compile(r"-[0-9a-f]{32}(?=\.dll$)")  # that delvewheel puts into a name
_DEBUG = re.compile(r"(msvcp\d+\w*d|vcruntime\d+\w*d|ucrtbased|concrt\d+d|python3\d*t?_d)\.dll")


class Import(NamedTuple):
    """A DLL that a file imports, and who has it."""

    loader: PeFile
    name: str
    source: Source
    provider: str = ""  # the file in the wheel, or the package
    delayed: bool = False


def plain_name(name: str) -> str:
    """Return the name of a DLL without delvewheel's hash."""
    return _HASH.sub("", name)


def is_debug_runtime(name: str) -> bool:
    """Return whether a DLL is of a debug build, which no user has."""
    return _DEBUG.fullmatch(name) is not None


def imports(graph: LinkGraph, wheel: WheelFacts) -> Iterator[Import]:
    """Yield the DLLs that the modules and DLLs of a wheel import; programs have other folders."""
    here = grouped((file.name, file.file) for file in wheel.pe)
    beside = {f.name: other for other in graph.wheels if other is not wheel for f in other.pe}
    for loader in wheel.pe:
        if not loader.is_dll:
            continue
        for delayed, names in ((False, loader.imports), (True, loader.delayed)):
            for name in names:
                source, provider = _provider(graph, wheel, loader, name, here)
                if source in {"undeclared", "runtime", "nobody"} and name in beside:
                    source, provider = "package", beside[name].known_as
                yield Import(loader, name, source, provider, delayed)


def _provider(
    graph: LinkGraph, wheel: WheelFacts, loader: PeFile, name: str, here: Mapping[str, list[str]]
) -> tuple[Source, str]:
    if files := here.get(name):
        folder = _folder(loader.file)
        near = next((file for file in files if _folder(file) == folder), "")
        return ("beside", near) if near else ("folder", files[0])
    if _PYTHON.fullmatch(name):
        return "python", ""
    if _DRIVER.fullmatch(name):
        return "driver", ""
    if name.startswith(_API_SETS) or name in _tables().system:
        return "system", ""
    declared = graph.declared[wheel.name]
    packages = _tables().packages.get(name, ())
    if found := next((p for p in packages if p in declared or p == wheel.project), ""):
        return "package", found
    if "torch" in declared and (name in _tables().nvidia or _RUNTIME.fullmatch(name)):
        return "package", "torch"  # its releases for CUDA on Windows have CUDA's DLLs, in torch/lib
    if _RUNTIME.fullmatch(name):
        return "runtime", ""
    return ("undeclared", packages[0]) if packages else ("nobody", "")


def _folder(file: str) -> str:
    return layout.install_path(file).rpartition("/")[0]


class _Tables(NamedTuple):
    system: frozenset[str]
    packages: Mapping[str, tuple[str, ...]]  # DLL -> the packages that have it
    nvidia: frozenset[str]


@cache
def _tables() -> _Tables:
    data = load(__file__, "windows.toml")
    packages: dict[str, tuple[str, ...]] = {}
    for row in data["package"]:
        for name in row["dlls"].split():
            packages[name] = (*packages.get(name, ()), row["package"])
    nvidia = frozenset(
        name for name, of in packages.items() if any(p.startswith(("nvidia-", "cutensor")) for p in of)
    )
    return _Tables(frozenset(data["system"].split()), packages, nvidia)


def is_of_nvidia(name: str) -> bool:
    """Return whether a DLL is NVIDIA's, by its name; delvewheel's hash does not count."""
    plain = plain_name(name.lower())
    return plain in _tables().nvidia or _CUDAS.fullmatch(plain) is not None


_CUDAS = re.compile(
    r"(cuda?rt|cublas(lt)?|cufftw?|curand|cusolver(mg)?|cusparse|cudnn\w*|nvrtc(-builtins)?|nvjpeg|npp\w+|nvjitlink_|nvinfer\w*)(64)?_\d\w*\.dll"
)


_PLACES: Mapping[Source, str] = {
    "beside": "beside the file", "folder": "in other folders of the wheel", "package": "from other packages",
    "python": "from Python", "driver": "from the driver", "system": "from Windows",
}  # fmt: skip


def unproved(graph: LinkGraph, wheel: WheelFacts) -> Iterator[str]:
    """Yield what was seen of the DLLs of a wheel for Windows, and why it is no proof that they load."""
    if not wheel.pe:
        return
    found: dict[str, set[str]] = {}
    for each in imports(graph, wheel):
        if not each.delayed:
            found.setdefault(_PLACES.get(each.source, ""), set()).add(each.name)
    nowhere = sorted(found.pop("", ()))
    counts = ", ".join(f"{len(found[place])} {place}" for place in _PLACES.values() if place in found)
    lacking = f"; found by no table: {', '.join(nowhere)}" if nowhere else ""
    yield (
        f"imported DLLs by their names: {counts or 'none'}{lacking}. Not judged for Windows: the functions and "
        "releases of DLLs, the release of Windows, DLLs that code opens by name, static "
        "CUDA runtimes, and which folders code adds"
    )
