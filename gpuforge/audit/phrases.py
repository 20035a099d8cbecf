"""The phrases that older baselines and fingerprints have instead of fields: kinds, and what they are about."""

from collections.abc import Mapping

_ALL = {"package": "{0}", "system": "{0}"}  # of every rule
_PHRASES: Mapping[str, Mapping[str, str]] = {
    "GF301": {"RPATH": "RPATH {0}", "RUNPATH": "RUNPATH {0}"},
    "GF601": {"GPU code": "{0}", "needs": "needs {0}", "wants": "wants {0}", "made by": "made by {0}"},
    "GF701": {
        "missing": "{all} is missing",
        "not declared": "{all} is not declared",
        "not listed": "{all} is not listed",
        "ABI": "ABI of {0}",
    },
    "GF702": {"missing": "{0} is missing", "differs": "{0} differs"},
    "GF704": {
        "Requires-Dist": "Requires-Dist: {0}",
        "name": "name: {0}: {1}",
        "no file": "no {0}",
        "no name": "no name: {0}",
        "no version": "no version: {0}",
        "version": "version: {0}",
    },
    "GF709": {"shared files": "{0} and {1}"},
    "GF710": {"CUDA release": "CUDA {0} and {1} of {2}", "requires": "requires {0}"},
    "GF711": {
        "version": "version of {0}",
        "missing": "{0} of {1} is missing",
        "interface": "interface of {0} of {1}",
    },
}
_GPU_CODE: Mapping[str, str] = {  # until schema 4; kinds that are not here had no other phrase
    "fatbin": "a fatbin container",
    "cubin": "machine code of an NVIDIA GPU (a cubin)",
    "AMD GPU": "machine code of an AMD GPU",
    "PTX": "PTX text",
    "LTO-IR": "LTO-IR of CUDA",
    "Tile IR": "Tile IR of CUDA",
    "clang offload bundle": "a clang offload bundle",
    "compressed clang offload bundle": "a compressed clang offload bundle",
    "LLVM offload binary": "an LLVM offload binary",
}

_COMPILERS: Mapping[str, str] = {  # until schema 4
    "CUDA": "a CUDA compiler",
    "clang CUDA": "clang for CUDA",
    "HPC SDK": "the NVIDIA HPC compilers",
    "GCC offloading": "GCC's offloading (OpenACC, OpenMP target)",
    "OpenACC": "an OpenACC compiler",
    "clang offloading": "clang's offloading (OpenMP target)",
    "HIP": "a HIP compiler",
    "SYCL": "a SYCL compiler",
}


_LIBCUDART: Mapping[str, str] = {  # until schema 6, in GF104
    "static": "libcudart, linked statically",
    "opened": "libcudart, opened at run time",
}


def of_schema_6(code: str, library: str, kind: str) -> tuple[str, str]:
    """Return the library and the kind of a subject as a baseline of schema 6 has them."""
    return (_LIBCUDART[kind], "") if code == "GF104" and kind in _LIBCUDART else (library, kind)


def of_schema_4(code: str, item: str, kind: str, about: tuple[str, ...]) -> tuple[str, str, tuple[str, ...]]:
    """Return the item, the kind and the `about` of a subject as a baseline of schema 4 has them."""
    match code, kind, about:
        case "GF101", "HPC SDK", (version, *tools):
            return f"asks for {' and '.join(tools)} of the NVIDIA HPC SDK {version}", "", ()
        case "GF101", "nvcc", (version,):
            return f"asks for nvcc {version}", "", ()
        case "GF101", "option", (option,):
            return f"asks for {option}", "", ()
        case "GF601", "GPU code", (found, *others):
            library, archs = "".join(others[:1]), others[1:]
            text = f"GPU code for {', '.join(archs)}" if archs else _GPU_CODE.get(found, found)
            return item, kind, (text, library) if library else (text,)
        case "GF601", "made by", (compiler, *others):
            return item, kind, (_COMPILERS.get(compiler, compiler), *others)
        case (("GF602" | "GF605"), _, (pattern, name)):
            return f"{pattern!r} of the object {name!r}", kind, ()
    return item, kind, about


def of_schema_3(code: str, kind: str, about: tuple[str, ...]) -> str:
    """Return the kind of such a subject as a baseline of schema 3 has it."""
    if not about:
        return kind
    if code == "GF510":
        return f"{about[0]}, {kind}"
    if kind in {"packages", "calls"}:
        return ", ".join(about)
    phrase = _PHRASES.get(code, _ALL).get(kind, kind).format(*about, all=" ".join(about))
    return f"{phrase} in {about[1]}" if code == "GF601" and len(about) > 1 else phrase
