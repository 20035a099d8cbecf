"""What unit tests of several parts share: a recipe on disk, and a machine that has everything."""

import gc
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from array_samples import libraries, two_devices  # noqa: F401  fixtures
from compile_samples import site  # noqa: F401  a fixture
from hypothesis import settings
from packaging.version import Version
from runtime_samples import (  # noqa: F401  fixtures
    built_old_stub,
    built_stub,
    kernel,
    kernels,
    listed,
    old_stub,
    stub,
    stub_without_launches,
)
from toolkit_samples import Server, publish, serving

from gpuforge.manifest.load import ManifestFile, load
from gpuforge.plan.site import Location, Machine
from gpuforge.toolchains.cpython import Interpreter
from gpuforge.toolchains.toolchain import Compiler
from gpuforge.toolkits.select import select

settings.register_profile("quick", max_examples=10, deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    """Spare all tests the searches for garbage while they are collected, and the quick loop what it can do without.

    This is a grammar of addresses that jsonschema makes when it is loaded, in 2 s, and a search of Hypothesis in all
    modules for constants that it may draw, in 0.5 s of each worker.
    """
    gc.disable()
    if config.getoption("--hypothesis-profile", None) == "quick":
        sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # as if it were not installed
        with suppress(ImportError):  # the oldest releases that are allowed do not search
            from hypothesis.internal.conjecture import providers

            providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the modules of all tests out of each later search for garbage, and make these searches rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


_NUMBERS = itertools.count()
MANIFEST = """\
schema = 1

[package]
name = "demo-pkg"
python = ["3.11", "3.13"]

[toolchains.host]
compiler = "g++"

[toolchains.device]
compiler = "nvcc"

[cuda]
libraries = ["cufft"]

[cuda.12]
toolkit = "12.4"
archs = ["80", "90+ptx"]

[cuda.13]
toolkit = "13.0"
archs = ["80", "90a"]
ptx = "120"

[[objects]]
name = "core"
role = "host-only"
files = ["**/*.so"]

[[objects]]
name = "default-kernels"
role = "fallback"
sources = ["kernels/*.cu"]
toolchain = "device"

[[objects]]
name = "mechanisms"
role = "user-compiled"
sources = ["mod/*.cpp"]
toolchains = ["host"]
"""


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder for a test by a number: pytest's own fixture looks at the names of all others for a free one."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}{next(_NUMBERS)}", numbered=False)


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[..., ManifestFile]:
    """Write the usual recipe, with some text of its manifest replaced or added and one more file, and load it."""

    def write(*replace: tuple[str, str], add: str = "", header: str = "") -> ManifestFile:
        folder = tmp_path / "recipe"
        manifest = MANIFEST + add
        for old, new in replace:
            assert old in manifest
            manifest = manifest.replace(old, new)
        for name, text in {
            "gpuforge.toml": manifest,
            "pyproject.toml": "[build-system]\n",
            "src/core.cpp": "int main() {}\n",
            "kernels/one.cu": "// one\n",
            "kernels/two.cu": "// two\n",
            "mod/a.cpp": "// a\n",
            "build/junk.o": "left over",
            **({header: "# another file\n"} if header else {}),
        }.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return load(folder)

    return write


@pytest.fixture
def machine() -> Machine:
    """A machine with g++ 12 and two Pythons, and CUDA 13.0 from PyPI's pins (for both names)."""
    toolkit = select("13.0", provider="pypi", libraries=("cufft",), machine="x86_64")
    gxx = Compiler("g++", Path("/usr/bin/g++"), Version("12.2.0"), "g++ (test) 12.2.0", Path("/usr/bin/gcc"))
    pythons = {
        minor: Interpreter(Path(f"/usr/bin/python{minor}"), f"{minor}.1", "cpython", headers=True)
        for minor in ("3.11", "3.13")
    }
    toolkits = {"12": toolkit, "13": toolkit}
    return Machine((Location(None, {"12": gxx, "13": gxx}, pythons, toolkits, usual=gxx),))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Serve the folder `www` of the test."""
    (tmp_path / "www").mkdir()
    with serving(tmp_path / "www") as started:
        yield started


@pytest.fixture
def nvidia(tmp_path: Path, server: Server) -> Server:
    """Serve a made-up CUDA 12.4.1 as NVIDIA publishes its archives."""
    publish(tmp_path / "www")
    return server
