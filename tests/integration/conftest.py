"""What integration tests need of the machine: said once, so that a skipped test gives its reason."""

import functools
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import builds
import pytest
import requests
from compile_samples import site  # noqa: F401  a fixture
from docker.errors import ImageNotFound

from gpuforge.containers import catalog
from gpuforge.containers.engine import connect
from gpuforge.errors import MissingError
from gpuforge.toolchains import cpython
from gpuforge.toolchains.detect import detect
from gpuforge.toolkits.providers.pypi import fetch
from gpuforge.toolkits.select import select
from gpuforge.wheel.package_index import index_url

TEST_IMAGE = "bookworm-test"
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux2014", "manylinux_2_17")


def _missing(item: pytest.Item) -> str:
    if item.get_closest_marker("toolkit"):
        try:
            detect("g++")
            cpython.find(builds.PYTHON)
        except MissingError as error:
            return error.diagnostics[0].message
    if item.get_closest_marker("docker"):
        try:
            _engine()
        except MissingError as error:
            return error.diagnostics[0].message
    if item.get_closest_marker("network"):
        try:
            requests.head(index_url(), timeout=20).close()
        except requests.RequestException as error:
            return f"the package index cannot be reached: {error}"
    return ""


@functools.cache
def _engine() -> Any:
    return connect()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Download one wheel for CPython 3.11, once; for another machine than x86_64 it is named: "numpy (aarch64)"."""

    @functools.cache
    def download(requirement: str) -> Path:
        requirement, _, machine = requirement.removesuffix(")").partition(" (")
        options = ["--no-deps", "--only-binary=:all:", "--python-version=3.11"]
        options += [f"--platform={platform}_{machine or 'x86_64'}" for platform in PLATFORMS]
        folder = tmp_path_factory.mktemp("wheels")
        argv = [sys.executable, "-m", "pip", "download", "-q", *options, "-d", str(folder), requirement]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"pip does not download {requirement}: {done.stderr.strip().splitlines()[-1]}")
        return next(folder.glob("*.whl"))

    return download


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of gpuforge for each module: what its tests share is fetched and built once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of gpuforge for all processes that run tests, where it does not matter what others have built."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "store"


@pytest.fixture(scope="session")
def nvcc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVIDIA's compiler of CUDA 13.0 from PyPI."""
    root = tmp_path_factory.mktemp("toolkit") / "cuda"
    fetch(select("13.0", provider=None, libraries=[], machine=platform.machine()).source, root)
    return root / "bin" / "nvcc"


@pytest.fixture(scope="session")
def test_image() -> str:
    """The smallest image that gpuforge's steps run in; GPUFORGE_TEST_IMAGE names another."""
    return _present(TEST_IMAGE, os.environ.get("GPUFORGE_TEST_IMAGE"))


@pytest.fixture(scope="session")
def bookworm_image() -> str:
    """The reference of the image that wheels are built in."""
    return _present("bookworm")


@pytest.fixture(scope="session")
def bookworm_images() -> None:
    """The image that wheels are built in, and the one they are tested in."""
    for name in ("bookworm", "bookworm-test"):
        _present(name)


def _present(name: str, reference: str | None = None) -> str:
    """Return the reference of an image of the catalog, or the other one that is given; skip where it is not here."""
    reference = reference or catalog.find(name).reference
    try:
        _engine().images.get(reference)
    except ImageNotFound:
        pytest.skip(f"image {reference} is not here: gpuforge images build {name}")
    return reference


@pytest.fixture(scope="session")
def openacc_wheel(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Path:
    """The wheel of recipes/openacc, built once for all tests of one process."""
    folder = tmp_path_factory.mktemp("openacc")
    recipe = builds.RECIPES / "openacc"
    builds.build(recipe, "--python", builds.PYTHON, "-o", folder / "dist", cache=store)
    (built,) = (folder / "dist").glob("*.whl")
    return built


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    found: dict[tuple[bool, ...], str] = {}
    for item in items:
        kind = tuple(bool(item.get_closest_marker(name)) for name in ("toolkit", "network", "docker"))
        if not any(kind):
            continue
        if kind not in found:
            found[kind] = _missing(item)
        if found[kind]:
            item.add_marker(pytest.mark.skip(reason=found[kind]))
