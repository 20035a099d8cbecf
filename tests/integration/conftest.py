"""What integration tests need of the machine: said once, so that a skipped test gives its reason."""

from __future__ import annotations

import sys

import pytest
import requests

from gpuforge.containers.engine import connect
from gpuforge.errors import MissingError
from gpuforge.steps.fetch_source import index_url
from gpuforge.toolchains import cpython
from gpuforge.toolchains.detect import detect


def _missing(item: pytest.Item) -> str:
    if item.get_closest_marker("toolkit"):
        try:
            detect("g++")
            cpython.find(f"{sys.version_info.major}.{sys.version_info.minor}")
        except MissingError as error:
            return error.diagnostics[0].message
    if item.get_closest_marker("docker"):
        try:
            connect().close()
        except MissingError as error:
            return error.diagnostics[0].message
    if item.get_closest_marker("network"):
        try:
            requests.head(index_url(), timeout=20).close()
        except requests.RequestException as error:
            return f"the package index cannot be reached: {error}"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    found: dict[tuple[bool, ...], str] = {}
    for item in items:
        kind = tuple(bool(item.get_closest_marker(name)) for name in ("toolkit", "docker", "network"))
        if not any(kind):
            continue
        if kind not in found:
            found[kind] = _missing(item)
        if found[kind]:
            item.add_marker(pytest.mark.skip(reason=found[kind]))
