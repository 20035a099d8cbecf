"""The cases of tests/conformance: kernel sets, machine facts and an environment; and what Python makes of them.

A case is NAME.toml with NAME.txt and NAME.json, which `explain` must print, whichever reader runs it. UPDATE_GOLDEN=1
writes both from Python's.
"""

import hashlib
import json
import os
import re
import struct
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuforge.runtime.arch import Arch
from gpuforge.runtime.backends.nvrtc import Nvrtc
from gpuforge.runtime.backends.opencl.devices import OpenClDevice
from gpuforge.runtime.cpu import Cpu
from gpuforge.runtime.driver import Device, Probe, switched_off
from gpuforge.runtime.explain import facts_of
from gpuforge.runtime.explain_command import PackageFacts, package_as_data, package_as_text
from gpuforge.runtime.find import contents
from gpuforge.runtime.kernellibrary import KernelLibrary
from gpuforge.runtime.kernelset import KernelSet
from gpuforge.runtime.values import Reason

FOLDER = Path(__file__).parents[1] / "conformance"
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
HOME = "site/demo/_gpuforge"  # where the package's runtime would lie
MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21, "riscv64": 243}


@dataclass(frozen=True)
class Case:
    """One case, its files laid out below `root`."""

    root: Path
    package: str
    names: tuple[str, ...]
    environment: dict[str, str]
    machine: Probe

    @property
    def home(self) -> str:
        return str(self.root / HOME)

    def neutral(self, text: str) -> str:
        """Return what was printed without what differs from machine to machine: the width of a column, too."""
        named = text.replace(str(self.root), "{root}").replace(os.uname().machine, "{machine}")
        return re.sub(r"(?<=\S) {3,}", "  ", named)


def lay_out(name: str, root: Path) -> Case:
    """Read a case and write its files."""
    data = tomllib.loads((FOLDER / f"{name}.toml").read_text().replace("{root}", str(root)))
    for path, content in data.get("files", {}).items():
        target = root / path.format(home=HOME, recipe=_recipe_digest(data))
        record = content.get("json", {})
        if record.get("sha256") == "{made}":
            record["sha256"] = _made(target.parent / record["build"] / record["file"])
        _write(target, content)
    environment = {"GPUFORGE_KERNEL_HOME": f"{root}/kernels", **data.get("environment", {})}
    return Case(
        root,
        data.get("package", "demo"),
        tuple(data.get("names", ())),
        environment,
        _machine(data.get("machine", {})),
    )


def _made(library: Path) -> str:
    """Return the digest of a user's build, "00" if it is not there."""
    file = library / "index.json" if library.is_dir() else library
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "00"


def explained(case: Case) -> tuple[str, str]:
    """Return what Python's reader prints of a case: for people, and as JSON."""
    sys.path.insert(0, str(case.root / "site"))  # where the package would have been imported from
    try:
        return _explained(case)
    finally:
        sys.path.remove(str(case.root / "site"))


def _explained(case: Case) -> tuple[str, str]:
    sets, libraries = contents(case.home)
    facts = PackageFacts(
        tuple(facts_of(_Told(case, name)) for name in sets if name in (case.names or sets)),
        tuple(
            KernelLibrary(
                name, home=case.home, package=case.package, env=case.environment, machine=case.machine
            ).facts()
            for name in libraries
            if name in (case.names or libraries)
        ),
        {},
    )
    return package_as_text(facts) + "\n", json.dumps(package_as_data(facts), indent=2) + "\n"


class _Told(KernelSet):
    """A kernel set on a machine that is described, not looked at."""

    def __init__(self, case: Case, name: str) -> None:
        super().__init__(Path(case.home, "kernels", name), package=case.package, env=case.environment)
        self._machine = case.machine

    def probe(self) -> Probe:
        off = switched_off(self.env)
        return Probe(None, problem=off) if off else self._machine


def _machine(data: Mapping[str, Any]) -> Probe:
    devices = [
        Device(number, name, _version(capability))
        for number, (capability, _, name) in enumerate(
            text.partition(" ") for text in data.get("devices", ())
        )
    ]
    driver = _version(data["cuda"]) if "cuda" in data else None
    problem = data.get("problem") or ({"kind": "no-devices"} if driver and not devices else None)
    return Probe(
        driver,
        tuple(devices),
        _reason(problem) if problem else None,
        _cpu(data.get("cpu", {})),
        {"NVRTC": _nvrtc(data), "OpenCL": _opencl(data)},
    )


def _nvrtc(data: Mapping[str, Any]) -> Nvrtc | Reason | None:
    found = data.get("nvrtc")
    if found is None or "kind" in found:
        return _reason(found) if found else None
    return Nvrtc("", _version(found["version"]), found["release"], tuple(map(Arch.parse, found["archs"])))


def _opencl(data: Mapping[str, Any]) -> tuple[OpenClDevice, ...] | Reason | None:
    found = data.get("opencl")
    if found is None or isinstance(found, dict):
        return _reason(found) if found else None
    return tuple(OpenClDevice(name, "", "") for name in found)


def _cpu(data: Mapping[str, Any]) -> Cpu:
    """Read `{ machine = "x86_64", features = "pni avx" }`; without features, the system does not tell them."""
    features = data.get("features")
    return Cpu(data.get("machine", ""), None if features is None else frozenset(features.split()))


def _reason(data: Mapping[str, Any]) -> Reason:
    return Reason(data["kind"], {key: value for key, value in data.items() if key != "kind"})


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if "link" in content:
        path.symlink_to(content["link"])
        return
    if "pipe" in content:
        os.mkfifo(path)
        return
    if "modules" in content:
        _write_set(path, content)
    elif "folder" in content:
        path.mkdir()
    else:
        path.write_bytes(_bytes(content))
    if "mode" in content:
        path.chmod(int(content["mode"], 8))


def _bytes(content: Mapping[str, Any]) -> bytes:
    if "text" in content:
        data = content["text"].encode()
    elif "hex" in content:
        data = bytes.fromhex(content["hex"])
    elif "json" in content:
        data = json.dumps(content["json"]).encode()
    else:
        data = library(content["library"].get("abi"), content["library"].get("machine"))
    for offset, value in content.get("patch", {}).items():
        data = data[: int(offset)] + bytes.fromhex(value) + data[int(offset) + len(value) // 2 :]
    return data[: content.get("cut", len(data))]


def _write_set(folder: Path, content: Mapping[str, Any]) -> None:
    """Write an index of modules, `{ saxpy = "cubin sm_80, ptx compute_90 9.0" }`, and the files that it lists."""
    folder.mkdir()
    modules = []
    for name, images in content["modules"].items():
        data = f"fatbin of {name}".encode()
        (folder / f"{name}.fatbin").write_bytes(data)
        modules.append(
            {
                "name": name,
                "source": f"kernels/{name}.cu",
                "digest": "00",
                "file": f"{name}.fatbin",
                "sha256": hashlib.sha256(data).hexdigest(),
                "images": [_image(text) for text in images.split(", ") if text],
                "kernels": content.get("kernels", {}).get(name, []),
            }
        )
    index = {
        "schema": 1,
        "name": folder.name,
        "kind": "module",
        "toolchain": {"family": "nvcc", "version": "13.0.88"},
        "toolkit": "13.0",
        "modules": modules,
    }
    (folder / "index.json").write_text(json.dumps({**index, **content.get("index", {})}))


def _image(text: str) -> dict[str, str]:
    return dict(zip(("kind", "arch", "isa"), text.split(), strict=False))


def _recipe_digest(data: Mapping[str, Any]) -> str:
    """The name by which a user's builds know the recipe of the one object that is compiled."""
    recipes = [content for path, content in data.get("files", {}).items() if path.endswith("recipe.json")]
    return hashlib.sha256(_bytes(recipes[0])).hexdigest()[:16] if recipes else ""


def library(abi: str | None, machine: int | None = None) -> bytes:
    """Make a shared library as small as can be read: one segment, and one exported symbol with an ABI id."""
    names = b"\0gpuforge_abi_id\0" if abi is not None else b"\0something_else\0"
    text = (abi or "").encode() + b"\0"
    strings, symbols = 120, 120 + len(names) + len(text)
    rows = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    rows += struct.pack("<IBBHQQ", 1, 0x11, 0, 1, strings + len(names), len(text))
    sections = symbols + len(rows)
    total = sections + 3 * 64
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine or MACHINES.get(os.uname().machine, 62), 1, 0, 64, sections,
                        0, 64, 56, 1, 64, 3, 0)  # fmt: skip
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, total, total, 4096)
    table = bytes(64)
    table += struct.pack("<IIQQQQIIQQ", 0, 11, 0, symbols, symbols, len(rows), 2, 1, 8, 24)
    table += struct.pack("<IIQQQQIIQQ", 0, 3, 0, strings, strings, len(names), 0, 0, 1, 0)
    return head + segment + names + text + rows + table


def check(case: Case, name: str, text: str, data: str) -> None:
    """Compare with the golden files."""
    for suffix, found in ((".txt", text), (".json", data)):
        golden = FOLDER / f"{name}{suffix}"
        if os.environ.get("UPDATE_GOLDEN"):
            golden.write_text(case.neutral(found))
        assert case.neutral(found) == golden.read_text()


def facts_file(case: Case, target: Path) -> Path:
    """Write a case as explain_kernels.c reads it."""
    machine = case.machine
    rows: list[tuple[object, ...]] = [("home", case.home), ("package", case.package)]
    rows += [("name", name) for name in case.names]
    rows += [("variable", key, value) for key, value in case.environment.items()]
    rows += [("file", file) for file in files_of(case)]
    rows += [("driver", *machine.driver)] if machine.driver else []
    rows += [("device", *device.capability, device.name) for device in machine.devices]
    rows += [("problem", *_fields(machine.problem))] if machine.problem else []
    nvrtc, opencl = machine.found.get("NVRTC"), machine.found.get("OpenCL")
    if isinstance(nvrtc, Reason):
        rows.append(("no-nvrtc", *_fields(nvrtc)))
    elif nvrtc:
        archs = [arch.number for arch in nvrtc.archs]
        rows.append(("nvrtc", *nvrtc.version, nvrtc.release, *archs))
    if isinstance(opencl, Reason):
        rows.append(("no-opencl", *_fields(opencl)))
    elif opencl is not None:
        rows.append(("opencl", *(device.name for device in opencl)))
    rows += [("cpu", machine.cpu.machine)] if machine.cpu.machine else []
    rows += (
        [("cpu-features", " ".join(sorted(machine.cpu.features)))] if machine.cpu.features is not None else []
    )
    target.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return target


def files_of(case: Case) -> list[Path]:
    """Return the files that make up a case, but for this list itself."""
    return sorted(path for path in case.root.rglob("*") if path.is_file() and path.name != "facts")


def _fields(reason: Reason) -> list[object]:
    fields: list[object] = [reason.kind]
    for name, value in reason.facts.items():
        fields += [name, "number" if isinstance(value, int) else "text", value]
    return fields
