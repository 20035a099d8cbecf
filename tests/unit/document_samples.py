"""The documents of kernel sets and source sets as gpuforge writes them, for tests that change something in one."""

import json
from hashlib import sha256
from typing import Any

MODULE: dict[str, Any] = {
    "name": "k",
    "source": "k.cu",
    "file": "k.fatbin",
    "sha256": "aa",
    "images": [{"kind": "cubin", "arch": "sm_80"}],
    "kernels": [{"symbol": "k", "name": "k", "parameters": [{"type": "", "size": 8}]}],
}
INDEX: dict[str, Any] = {
    "schema": 1,
    "name": "k",
    "kind": "module",
    "toolchain": {"family": "nvcc", "version": "13.0.88"},
    "toolkit": "13.0",
    "modules": [MODULE],
}
LIBRARY: dict[str, Any] = {
    "file": "libk.so",
    "sha256": "aa",
    "size": 1,
    "images": [{"kind": "library", "arch": ""}],
}
LIBRARIES: dict[str, Any] = {
    "schema": 1,
    "name": "k",
    "kind": "library",
    "toolchain": {"family": "gcc", "version": "12.2.0"},
    "toolkit": "",
    "abi": "1-0a",
    "packages": {"neuron": "major.minor"},
    "stands-in-for": "m",
    "fallbacks": [],
    "libraries": [LIBRARY],
}
TOOLCHAIN: dict[str, Any] = {
    "name": "host",
    "family": "gcc",
    "version": ">=9",
    "argv": ["c++", "-O2"],
    "accepts": [[">=", [9]]],
    "programs": "",
    "answers": "",
    "places": ["/opt/x"],
    "product": "",
    "offload": "",
    "runtimes": ["libgomp.so.1"],
    "install": {"": "install g++"},
    "makes": "library",
    "sources": [],
    "devices": [],
    "extensions": [],
    "by_command": False,
    "of_toolkit": False,
}
RECIPE: dict[str, Any] = {
    "schema": 1,
    "name": "m",
    "kind": "library",
    "abi": "1-0a",
    "fallbacks": ["k"],
    "cpu": "c",
    "sources": [{"file": "a.cpp", "sha256": "aa"}],
    "includes": [{"file": "a.h", "sha256": "bb"}],
    "toolchains": [TOOLCHAIN],
    "toolkit": "",
    "archs": [],
}
LISTING: dict[str, Any] = {
    "schema": 1,
    "distribution": "demo",
    "version": "1.0",
    "wheels": [{"distribution": "demo-kernels-cu13", "folder": "demo_kernels_cu13", "extra": "cu13"}],
    "sets": [{"name": "default-kernels", "kind": "module", "abi": "k1"}],
}


def recipe(**change: object) -> bytes:
    """Return the recipe of one source, with some fields changed."""
    source = {"file": "a.cpp", "sha256": sha256(b"// a\n").hexdigest()}
    held = {**RECIPE, "fallbacks": [], "cpu": "", "sources": [source], "includes": []}
    return json.dumps(held | change).encode()
