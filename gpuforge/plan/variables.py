"""The environments of actions: what a build may see, and what a fetch needs of the machine's settings."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gpuforge import digest
from gpuforge.cuda.choices import Linkage
from gpuforge.cuda.targets import Target
from gpuforge.manifest.braces import fill
from gpuforge.plan.action import CacheFolder
from gpuforge.toolchains import sccache
from gpuforge.toolchains.detect import family_of
from gpuforge.toolchains.toolchain import Compiler

TOOLKIT_SEEN = "${work}/cuda"  # where a host build sees its toolkit: with the nvcc of `write_nvcc`
_PREFIX_MAP = "-ffile-prefix-map=${work}=/gpuforge"
EPOCH = "315532800"  # 1980-01-01, the earliest time that a ZIP member can have
_FETCH = frozenset(
    {"HOME", "PATH", "NETRC", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"}
    | {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "SSH_AUTH_SOCK", "GPUFORGE_DEBIAN_MIRROR"}
    | {
        name
        for proxy in ("http", "https", "all", "no")
        for name in (f"{proxy}_proxy", f"{proxy}_proxy".upper())
    }
)
# The variables that change how pip fetches, not what.
_NO_PIP_FACT = (
    "CERT", "PROXY", "CACHE", "RETRIES", "TIMEOUT", "VERSION_CHECK", "NO_INPUT", "PROGRESS", "TRUSTED", "LOG",
)  # fmt: skip

FILES = "GPUFORGE_FILES"  # the store's shared files, by their sha256: a fetch takes wheels from there
_NO_INDEX = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1"}
PIP_CACHE = (CacheFolder("pip", "PIP_CACHE_DIR"),)
COMPILER_CACHE = (CacheFolder("sccache", sccache.FOLDER),)


def fetch_passes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the variables that a fetch sees: proxies, CA bundles and pip's own."""
    return tuple(sorted(name for name in environ if name in _FETCH or name.startswith("PIP_")))


def requirement_passes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that a fetch of requirements sees: it runs a build's Python with the build's PATH."""
    return (FILES, *(name for name in fetch_passes(environ) if name not in {"PATH", "SSH_AUTH_SOCK"}))


def index_passes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that an index lookup sees; it keeps what it read in gpuforge's own cache."""
    kept = [name for name in ("GPUFORGE_CACHE_DIR",) if name in environ]
    return tuple(sorted({*requirement_passes(environ), *kept}))


def build_passes(environ: Mapping[str, str], *, contained: bool = False) -> tuple[str, ...]:
    """Return the names of the variables that set up a host build's compiler cache, which changes no result.

    A container has no network and folders of its own: there only the size and whether it is used are passed.
    """
    if contained:
        return sccache.CONTAINED
    settings = {name for name in environ if sccache.is_setting(name)}
    return tuple(sorted({sccache.FOLDER, sccache.CONFIGURATION, *sccache.OF_STORE, *settings}))


def pip_facts(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that decide what pip fetches, as digests: addresses of indexes may contain passwords.

    A file that a variable names (PIP_CONSTRAINT) counts by its content.
    """
    facts = {}
    for name in sorted(environ):
        if not name.startswith("PIP_") or any(word in name for word in _NO_PIP_FACT):
            continue
        words = environ[name].split()
        contents = [digest.of_file(Path(word)) for word in words if Path(word).is_file()]
        facts[name] = digest.of_data([words, contents])
    return facts


def plain(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of any action: nothing of the user's, one locale, one time zone, one date."""
    return {
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": environ.get("SOURCE_DATE_EPOCH", EPOCH),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "TMPDIR": "${work}",
        "HOME": "${work}",
        "USER": "gpuforge",  # a container's user may have no name
        "LOGNAME": "gpuforge",
    }


def fetch() -> dict[str, str]:
    """Return the environment of a fetch, without the variables that `fetch_passes` hands through."""
    return {"TMPDIR": "${work}", "LC_ALL": "C.UTF-8"}


def hook(environ: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the environment of a build backend's hook: PATH and, as for a build, no package index."""
    return plain(environ) | {"PATH": path, **_NO_INDEX}


def hook_cuda(path: str, targets: Sequence[Target]) -> dict[str, str]:
    """Return the variables that show the hook a toolkit: it compiles nothing, but a setup.py may look for one."""
    return _toolkit("${in:toolkit}", targets) | {"PATH": f"${{in:toolkit}}/bin:{path}"}


def host_build(environ: Mapping[str, str], host: Compiler, path: str) -> dict[str, str]:
    """Return the environment of a PEP 517 build, with its compilers in CC and CXX; `path` is its PATH without them.

    `-ffile-prefix-map` keeps the build's paths out of the objects, and the compilers in `${work}/bin`, which the step
    writes, ask the compiler cache first. By default, scikit-build-core builds in a folder with a random name.
    """
    programs = {name: f"${{work}}/bin/{program}" for name, program in compilers(host).items()}
    pinned = {"CC": programs["cc"]} if "cc" in programs else {}
    return plain(environ) | pinned | {
        "PATH": f"${{work}}/bin:{path}",
        "CXX": programs["cxx"],
        "CFLAGS": _PREFIX_MAP,
        "CXXFLAGS": _PREFIX_MAP,
        "SKBUILD_BUILD_DIR": "${work}/build",
        **_NO_INDEX,
    }  # fmt: skip


def host_cuda(host: Compiler, targets: Sequence[Target], linkage: Linkage) -> dict[str, str]:
    """Return the variables that give a build its toolkit and architectures, in addition to `host_build`.

    The toolkit's nvcc keeps random names out of the objects (`write_nvcc`). By default, nvcc and CMake link
    cudart statically; here the manifest's linkage decides.
    """
    cudart = "static" if linkage == "static" else "shared"
    return _toolkit(TOOLKIT_SEEN, targets) | {
        "CMAKE_PREFIX_PATH": TOOLKIT_SEEN,  # for libraries that FindCUDAToolkit does not know: NCCL
        "CUDAHOSTCXX": f"${{work}}/bin/{compilers(host)['cxx']}",
        "CMAKE_ARGS": f"-DCMAKE_CUDA_ARCHITECTURES={cmake_architectures(targets)} "
        f"-DCMAKE_CUDA_RUNTIME_LIBRARY={cudart.title()}",
        "NVCC_PREPEND_FLAGS": f"-Xcompiler={_PREFIX_MAP} -cudart={cudart}",
    }


def _toolkit(root: str, targets: Sequence[Target]) -> dict[str, str]:
    """Return the variables by which builds find a toolkit at `root`, and the architectures to build for.

    CMake reads CUDACXX, CUDAHOSTCXX, CUDAARCHS and CUDAToolkit_ROOT itself; scikit-build-core hands CMAKE_ARGS on;
    torch's extension builder reads CUDA_HOME, TORCH_CUDA_ARCH_LIST and PYTORCH_NVCC; linkers' drivers LIBRARY_PATH.
    """
    return {
        **dict.fromkeys(("CUDACXX", "PYTORCH_NVCC"), f"{root}/bin/nvcc"),
        **dict.fromkeys(("CUDA_PATH", "CUDA_HOME", "CUDAToolkit_ROOT"), root),
        "LIBRARY_PATH": f"{root}/lib64/stubs",  # of the driver's libcuda, which is not on this machine
        "CUDAARCHS": cmake_architectures(targets),
        **({"TORCH_CUDA_ARCH_LIST": torch_architectures(targets)} if targets else {}),
    }


def test(environ: Mapping[str, str], linkage: Linkage, system_path: str, *, gpu: bool) -> dict[str, str]:
    """Return the environment that a wheel is tested in: without `gpu` no GPU is visible; pip reaches no index.

    If the wheel takes CUDA's libraries from the machine, those of the toolkit are on LD_LIBRARY_PATH.
    """
    libraries = "${in:toolkit}/lib64:${in:toolkit}/lib"
    hidden = {} if gpu else {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    return plain(environ) | hidden | {
        "LD_LIBRARY_PATH": libraries if linkage == "system" else "",  # an image may set it
        "PATH": system_path,
        **_NO_INDEX,
    }  # fmt: skip


def compilers(host: Compiler) -> dict[str, str]:
    """Return the names without a version that a host build calls a compiler by: `g++` for cxx, `gcc` for cc."""
    both = family_of(host.family).c_program
    return {"cxx": host.family} | ({"cc": both[1]} if both and host.c_path else {})


def cmake_architectures(targets: Sequence[Target]) -> str:
    """Return CMAKE_CUDA_ARCHITECTURES: `80-real` for a cubin, `90-virtual` for PTX; `OFF` for a package without either.

    If it is unset or empty, the project's CMake chooses:
    https://cmake.org/cmake/help/latest/prop_tgt/CUDA_ARCHITECTURES.html
    """
    return ";".join(item for target in targets for item in target.cmake) or "OFF"


NAMES = {
    "project": "${stage:source}",
    "overlay": "${work}/overlay",
    "toolkit": TOOLKIT_SEEN,
    "env": "${lay:env}",
}
"""The values of the manifest's placeholders in a host build."""


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Return a string of the manifest with `{project}`, `{overlay}`, `{toolkit}` and `{env}` filled in."""
    return fill(literal(text), names)


def torch_architectures(targets: Sequence[Target]) -> str:
    """Return TORCH_CUDA_ARCH_LIST: `8.0;9.0a;9.0+PTX`."""
    return ";".join(target.torch for target in targets)


def literal(text: str) -> str:
    """Return text that an action's command will get as it is."""
    return text.replace("$", "$$")


def literals(words: Iterable[str]) -> tuple[str, ...]:
    """Return the same for several words."""
    return tuple(map(literal, words))
