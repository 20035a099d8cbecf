"""Runtimes that would be in a process twice: each refusal beside the nearest thing that must pass."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from audit_samples import elf

from gpuforge.errors import ActionError
from gpuforge.package import embed
from gpuforge.runtime.userbuild.check import LibraryGroup, conflicts, parts, release

STATIC_CUDART = {".rodata": b"\0/cudart.shm.%x\0"}
GOMP, HASHED_GOMP = elf(soname="libgomp.so.1"), "libgomp-a34b3233.so.1.0.0"


def needing(*names: str) -> bytes:
    return elf(needed=["libc.so.6", *names])


class Case(NamedTuple):
    """Files of the wheel, of a package that it requires, and of the machine; what the new library needs (or is)."""

    needed: tuple[str, ...] = ()
    machine: Mapping[str, bytes] = {}
    wheel: Mapping[str, bytes] = {}
    required: Mapping[str, bytes] = {}
    library: bytes = b""


CUDART_12, CUDART_13 = elf(soname="libcudart.so.12"), elf(soname="libcudart.so.13")
NVC, OTHER_NVC = elf(soname="libnvc.so"), elf(soname="libnvc.so", defined=["later"])
REFUSED = {
    "a hashed libgomp in the wheel": Case(
        ("libgomp.so.1",), {"libgomp.so.1": GOMP}, {f"demo.libs/{HASHED_GOMP}": elf(soname=HASHED_GOMP)}
    ),
    "auditwheel's short name": Case(
        ("libgomp.so.1",),
        {"libgomp.so.1": GOMP},
        {"demo.libs/libgomp-a34b3233.so.1": elf(soname="libgomp-a34b3233.so.1")},
    ),
    "a hashed libgomp of a required package": Case(
        ("libgomp.so.1",),
        {"libgomp.so.1": GOMP},
        {},
        {f"other.libs/{HASHED_GOMP}": elf(soname=HASHED_GOMP)},
    ),
    "a file with the plain name whose SONAME has the hash": Case(
        ("libgomp.so.1",), {"libgomp.so.1": GOMP}, {"demo.libs/libgomp.so.1": elf(soname=HASHED_GOMP)}
    ),
    "LLVM's beside GCC's": Case(
        ("libomp.so.5",),
        {"libomp.so.5": elf(soname="libomp.so.5"), "libgomp.so.1": GOMP},
        {"demo/a.so": needing("libgomp.so.1")},
    ),
    "Intel's beside GCC's": Case(
        ("libgomp.so.1",), {"libgomp.so.1": GOMP}, {}, {"other/libiomp5.so": elf(soname="libiomp5.so")}
    ),
    "Intel's beside LLVM's": Case(
        ("libomp.so.5",),
        {"libomp.so.5": elf(soname="libomp.so.5")},
        {},
        {"other/libiomp5.so": elf(soname="libiomp5.so")},
    ),
    "an OpenMP runtime under a name of its own": Case(
        ("libgomp.so.1",),
        {"libgomp.so.1": GOMP},
        {"demo/libthreads.so": b"exports __kmpc_fork_call"},
    ),
    "an OpenMP runtime that was linked into the new library": Case(
        wheel={f"demo.libs/{HASHED_GOMP}": elf(soname=HASHED_GOMP)},
        library=b"exports GOMP_parallel",
    ),
    "two majors of cudart": Case(
        ("libcudart.so.13",), {"libcudart.so.13": CUDART_13}, {"demo.libs/libcudart.so.12": CUDART_12}
    ),
    "two majors of cudart, one of a required package": Case(
        ("libcudart.so.13",), {"libcudart.so.13": CUDART_13}, {}, {"nvidia/lib/libcudart.so.12": CUDART_12}
    ),
    "a hashed cudart": Case(
        ("libcudart.so.13",),
        {"libcudart.so.13": CUDART_13},
        {"demo.libs/libcudart-0a1b2c3d.so.13": elf(soname="libcudart-0a1b2c3d.so.13")},
    ),
    "a cudart that was linked into the wheel's library": Case(
        ("libcudart.so.13",), {"libcudart.so.13": CUDART_13}, {"demo/a.so": elf(sections=STATIC_CUDART)}
    ),
    "a cudart that was linked into the new library": Case(
        wheel={"demo.libs/libcudart.so.13": CUDART_13}, library=elf(sections=STATIC_CUDART)
    ),
    "two releases of the HPC SDK": Case(
        ("libnvc.so",), {"libnvc.so": OTHER_NVC}, {"demo.libs/libnvc.so": NVC}
    ),
    "a hashed library of the HPC SDK": Case(
        ("libnvhpcatm.so",),
        {"libnvhpcatm.so": elf(soname="libnvhpcatm.so")},
        {"demo.libs/libnvhpcatm-406400d8.so": elf(soname="libnvhpcatm-406400d8.so")},
    ),
    "one that a needed library brings": Case(
        ("libmiddle.so",),
        {"libmiddle.so": needing("libnvomp.so"), "libnvomp.so": elf(soname="libnvomp.so")},
        {"demo/a.so": needing("libhost.so"), "demo/libhost.so": needing("libnvomp-fb1a2b9f.so")}
        | {"demo/libnvomp-fb1a2b9f.so": elf(soname="libnvomp-fb1a2b9f.so")},
    ),
}
PASS = {
    "the same SONAME in two files": Case(
        ("libgomp.so.1",), {"libgomp.so.1": GOMP}, {}, {"other/lib/libgomp.so.1": elf(soname="libgomp.so.1")}
    ),
    "no OpenMP in the new library": Case(wheel={f"demo.libs/{HASHED_GOMP}": elf(soname=HASHED_GOMP)}),
    "a hashed library that is no runtime": Case(
        ("libz.so.1",),
        {"libz.so.1": elf(soname="libz.so.1")},
        {"demo.libs/libz-a34b3233.so.1": elf(soname="libz-a34b3233.so.1")},
    ),
    "a plugin of libgomp": Case(
        ("libgomp.so.1",),
        {"libgomp.so.1": GOMP},
        {"demo/libgomp-plugin-nvptx.so.1": elf(soname="libgomp-plugin-nvptx.so.1")},
    ),
    "a library that uses OpenMP and brings none": Case(
        ("libgomp.so.1",), {"libgomp.so.1": GOMP}, {"demo/a.so": b"imports GOMP_parallel"}
    ),
    "one that the wheel itself loads already, beside another of a required package": Case(
        ("libgomp.so.1",),
        {"libgomp.so.1": GOMP},
        {"demo/a.so": needing("libgomp.so.1")},
        {f"other.libs/{HASHED_GOMP}": elf(soname=HASHED_GOMP)},
    ),
    "two minor releases of one cudart": Case(
        ("libcudart.so.13",),
        {"libcudart.so.13": elf(soname="libcudart.so.13", defined=["later"])},
        {"demo.libs/libcudart.so.13": CUDART_13},
    ),
    "a cudart linked into each": Case(
        wheel={"demo/a.so": elf(sections=STATIC_CUDART)}, library=elf(sections=STATIC_CUDART)
    ),
    "NVIDIA's own library, which has one inside": Case(
        ("libcudart.so.13",),
        {"libcudart.so.13": CUDART_13},
        {},
        {"nvidia/lib/libcufft.so.12": elf(soname="libcufft.so.12", sections=STATIC_CUDART)},
    ),
    "its words in a library of the driver": Case(
        ("libcudart.so.13", "libcuda.so.1"),
        {"libcudart.so.13": CUDART_13, "libcuda.so.1": elf(soname="libcuda.so.1", sections=STATIC_CUDART)},
        {"demo/a.so": needing("libcudart.so.13")},
    ),
    "one release of the HPC SDK in two files": Case(
        ("libnvc.so",), {"libnvc.so": NVC}, {"demo.libs/libnvc.so": NVC}
    ),
    "a library that cannot be read": Case(
        ("libgomp.so.1",), {"libgomp.so.1": GOMP}, {f"demo.libs/{HASHED_GOMP}": b"\x7fELF"}
    ),
}


def lay(folder: Path, files: Mapping[str, bytes]) -> tuple[Path, ...]:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if data.startswith((b"exports ", b"imports ")):
            link(folder / name, *data.decode().split())
        else:
            (folder / name).write_bytes(data)
    return tuple(folder / name for name in files)


def link(target: Path, what: str, symbol: str) -> None:
    """Make a library with symbols, of which the samples have no table; their names may share their ends."""
    source = f"void {symbol}(void)" + (
        "{}" if what == "exports" else f"; void x{symbol}(void) {{ {symbol}(); }}"
    )
    argv = ["gcc", "-shared", "-fPIC", "-xc", "-", "-o", str(target)]
    subprocess.run(argv, input=source.encode(), check=True)


def judged(tmp_path: Path, case: Case) -> list[tuple[str, str, str]]:
    site, machine = tmp_path / "site", tmp_path / "machine"
    lay(machine, case.machine)
    (library,) = lay(tmp_path, {"libanswers.so": case.library or needing(*case.needed)})
    found = [LibraryGroup("", lay(site, case.wheel)), LibraryGroup("other", lay(site, case.required))]
    env = {"LD_LIBRARY_PATH": f"{machine}:{site}/demo"}
    return [
        (conflict.there.kind, conflict.there.path.name, conflict.there.of.owner)
        for conflict in conflicts(found, library, env)
    ]


@pytest.mark.parametrize("name", REFUSED)
def test_a_second_copy_is_found(tmp_path, name):
    assert len(judged(tmp_path, REFUSED[name])) == 1


@pytest.mark.parametrize("name", PASS)
def test_the_nearest_thing_that_is_none_passes(tmp_path, name):
    assert judged(tmp_path, PASS[name]) == []


def test_the_owner_is_told(tmp_path):
    case = REFUSED["a hashed libgomp of a required package"]
    assert judged(tmp_path, case) == [("OpenMP runtime", HASHED_GOMP, "other")]


def distribution(site: Path, name: str, *requires: str, files: Mapping[str, bytes] | None = None) -> None:
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    lines = "".join(f"Requires-Dist: {line}\n" for line in requires)
    lay(info, {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{lines}".encode()})
    lay(site, files or {})
    lay(info, {"RECORD": "".join(f"{file},,\n" for file in files or ()).encode()})


def owners(site: Path) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [])  # without the many packages that the tests are run with
        return [part.owner for part in parts(site / "demo" / "_gpuforge", "demo", without=[])]


RUNTIME = {"demo/_gpuforge/__init__.py": b"", "demo/core.so": needing()}


def test_the_packages_that_a_wheel_requires_are_followed(tmp_path):
    distribution(tmp_path, "Demo", "Middle_One>=1; python_version > '3'", "absent", files=RUNTIME)
    distribution(tmp_path, "middle-one", "far[fast]")
    distribution(
        tmp_path,
        "far",
        "fast; extra == 'fast'",
        "slow; extra == 'slow'",
        "middle-one",
        files={"far.libs/libfar.so.1.2": needing(), "far/data.txt": b""},
    )
    for name in ("fast", "slow", "stranger"):
        distribution(tmp_path, name, files={f"{name}/{name}.so": needing()})
    assert owners(tmp_path) == ["", "far", "fast"]
    assert release(tmp_path / "demo/_gpuforge", "demo") == "Demo 1.0"


@pytest.mark.parametrize(
    ("extras", "counted"),
    [
        (["one; extra == 'all'"], True),
        (["one; platform_system == 'Linux' and extra == \"all\""], True),
        (["one; 'all' == extra"], True),
        (["one; extra == 'all'", "absent; extra == 'all'"], False),
        (["one; extra == 'all'", "absent; extra == 'all'", "one; extra == 'less'"], True),
        (["two; extra == 'all'"], False),
    ],
)
def test_an_extra_counts_when_all_of_it_is_installed(tmp_path, extras, counted):
    distribution(tmp_path, "demo", *extras, files=RUNTIME)
    distribution(tmp_path, "one", files={"one/one.so": needing()})
    assert owners(tmp_path) == ["", *["one"] * counted]


def test_without_a_record_the_package_and_what_was_grafted_count(tmp_path):
    lay(tmp_path, {**RUNTIME, "demo.libs/libx.so.1": needing(), "stranger/s.so": needing()})
    (part,) = parts(tmp_path / "demo/_gpuforge", "demo", without=[])
    assert [path.name for path in part.libraries] == ["core.so", "libx.so.1"]
    assert release(tmp_path / "demo/_gpuforge", "demo") == ""


def test_the_fallback_that_is_replaced_does_not_count_and_others_do(tmp_path):
    """In the wheel, and in a kernels wheel of it."""
    apart = "demo_kernels_cu12/_gpuforge"
    libraries = {
        f"{folder}/kernels/{name}/lib{name}.so": needing()
        for folder in ("demo/_gpuforge", apart)
        for name in ("default", "another")
    }
    wheel = {"distribution": "demo-kernels-cu12", "folder": "demo_kernels_cu12", "extra": "cu12"}
    listing = {"schema": 1, "distribution": "demo", "version": "1.0", "wheels": [wheel], "sets": []}
    files = {**RUNTIME, **{name: data for name, data in libraries.items() if name.startswith("demo/")}}
    distribution(tmp_path, "demo", "demo-kernels-cu12; extra == 'cu12'", files=files)
    distribution(
        tmp_path,
        "demo-kernels-cu12",
        files={name: libraries[name] for name in libraries.keys() - files.keys()},
    )
    lay(tmp_path, {"demo/_gpuforge/wheels.json": json.dumps(listing).encode()})
    lay(tmp_path, {f"{apart}/wheel.json": json.dumps({"schema": 1, "version": "1.0", "sets": []}).encode()})
    found = parts(tmp_path / "demo/_gpuforge", "demo", without=["default"])
    assert [(part.owner, [path.name for path in part.libraries]) for part in found] == [
        ("", ["libanother.so", "core.so"]),
        ("demo-kernels-cu12", ["libanother.so"]),
    ]


@pytest.mark.thorough
def test_what_only_the_replaced_fallback_needs_is_not_loaded(tmp_path):
    """A grafted library that nothing else needs is in no process with the user's build."""
    fallback = "demo/_gpuforge/kernels/default/libdefault.so"
    files = {
        **RUNTIME,
        fallback: elf(needed=[HASHED_GOMP], runpath="$ORIGIN/../../../../demo.libs"),
        f"demo.libs/{HASHED_GOMP}": elf(soname=HASHED_GOMP),
    }
    distribution(tmp_path / "site", "demo", files=files)
    lay(tmp_path, {"libgomp.so.1": GOMP, "libanswers.so": needing("libgomp.so.1")})
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    found = {
        name: conflicts(parts(tmp_path / "site/demo/_gpuforge", "demo", without=[name]), library, env)
        for library in [tmp_path / "libanswers.so"]
        for name in ("default", "another")
    }
    assert [bool(found["default"]), bool(found["another"])] == [False, True]


@pytest.mark.parametrize("host_needs", [True, False])
def test_a_build_refuses_what_its_users_compilations_would_be_refused_for(tmp_path, host_needs):
    """A fallback by a command needs the machine's libgomp; repair gave the wheel one of its own."""
    kernels = "kernels/default/libdefault.so"
    hashed = elf(needed=[HASHED_GOMP], runpath="$ORIGIN/../demo.libs")
    lay(tmp_path / "tree", {f"demo/_gpuforge/{kernels}": needing(), "demo/__init__.py": b""})
    lay(tmp_path / "tree", {"demo/core.so": hashed if host_needs else needing()})
    lay(tmp_path / "tree", {f"demo.libs/{HASHED_GOMP}": elf(soname=HASHED_GOMP)})
    index = {"name": "default", "libraries": [{"file": "libdefault.so"}]}
    lay(tmp_path / "packed", {"kernels/default/index.json": json.dumps(index).encode()})
    lay(tmp_path / "packed", {kernels: needing("libgomp.so.1")})
    lay(tmp_path / "lib", {"libgomp.so.1": GOMP})

    def check(by_command: dict[str, str]) -> None:
        embed.check_runtimes(tmp_path / "tree", "demo", [tmp_path / "packed"], by_command, [tmp_path / "lib"])

    check({})
    if not host_needs:
        check({"default": "make-it"})
        return
    with pytest.raises(ActionError) as caught:
        check({"default": "make-it"})
    assert str(caught.value) == (
        "object 'default': users' `compile` would refuse what make-it makes: it brings libgomp.so.1, a second OpenMP "
        f"runtime beside demo.libs/{HASHED_GOMP} of the wheel\n"
        "  hint: leave the runtime to the user's machine: name it in [wheel] exclude; or build the host code without it"
    )
