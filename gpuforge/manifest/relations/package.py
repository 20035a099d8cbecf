"""`[package]`: Python versions, ABI and the import name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpuforge.manifest.problem import Problem, Raw, numbered, table
from gpuforge.manifest.quoting import quote

OLDEST_PYTHON = "3.10"
"""The oldest Python that wheels are built and tested with: the oldest that pip supports.
Source: Requires-Python of https://pypi.org/project/pip/26.3/"""


def python(data: Raw) -> Iterator[Problem]:
    """Yield Python versions that do not fit `abi`, and those that are too old."""
    package = table(data, "package")
    python, abi = package.get("python", []), package.get("abi")
    if "package" not in data or not isinstance(package, Mapping) or not isinstance(python, list):
        return
    for index, version in enumerate(python if abi != "abi3" else []):
        if isinstance(version, str) and re.fullmatch(r"3\.[0-9]", version):
            yield Problem(
                ("package", "python", index),
                f"[package] python: {version} is older than {OLDEST_PYTHON}, the oldest that gpuforge builds for",
                'remove it; abi = "abi3" can promise an older one',
            )
    if abi is None and not python:
        yield Problem(
            ("package", "python") if "python" in package else ("package",),
            "[package] needs `python`: the versions to build wheels for",
            'write, for example, python = ["3.11", "3.12"], or set `abi` if one wheel serves all versions',
        )
    if abi == "abi3" and len(python) != 1:
        yield Problem(
            ("package", "python") if python else ("package", "abi"),
            f'[package] abi = "abi3" needs exactly one Python version, but `python` has {len(python)}',
            "keep the lowest version that the wheel supports; one wheel serves it and all later versions",
        )
    if abi == "none" and len(python) > 1:
        yield Problem(
            ("package", "python"),
            f'[package] abi = "none" takes at most one Python version, but `python` has {len(python)}',
            "one wheel serves all versions; keep the one that builds it, or remove `python`",
        )


def import_name(data: Raw) -> Iterator[Problem]:
    """Yield a name from which no import package follows."""
    package = table(data, "package")
    name = package.get("name")
    if "import" in package or not isinstance(name, str):
        return
    default = name.replace("-", "_")
    if re.match(r"[A-Za-z0-9]", name) and not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", default):
        yield Problem(
            ("package", "name"),
            f"[package] needs `import`: its default from the name, {quote(default)}, cannot be imported",
            'name the import package for the kernels, e.g. import = "example"',
        )


def c_header(data: Raw) -> Iterator[Problem]:
    """Yield a header that would find nothing."""
    roles = [thing.get("role") for _, thing in numbered(data.get("objects"))]
    has_kernels = "fallback" in roles or "user-compiled" in roles
    if table(data, "package").get("c-header") is True and not has_kernels:
        yield Problem(
            ("package", "c-header"),
            "[package] c-header adds the header that loads the wheel's kernels, and the wheel has none: no object is "
            "`fallback` or `user-compiled`",
            "remove `c-header`, or add an object with kernels",
            at_key=True,
        )
