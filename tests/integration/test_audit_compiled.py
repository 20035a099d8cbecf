"""Rules on wheels of compiled binaries that have the problem, and on their nearest twins that have not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from wheel_making import compile_library, graft, pack, patchelf

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

MODULE = 'extern "C" void* PyInit_ext() { return 0; }\n'
CALLS = 'extern "C" int g(); extern "C" int f() { return g(); }\n'
GIVES = 'extern "C" int g() { return 1; }\n'
PIP = "$ORIGIN/../nvidia/cu13/lib"  # where pip puts the libraries of CUDA 13

Library = Callable[..., Path]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Compile a shared library below the test's folder."""
    return lambda name, *arguments, **options: compile_library(tmp_path / name, *arguments, **options)


def severities(*wheels: Path, **options: object) -> dict[str, set[str]]:
    """Return the severities of each code that the audit finds."""
    found: dict[str, set[str]] = {}
    for finding in audit(list(wheels), **options).findings:  # type: ignore[arg-type]
        found.setdefault(finding.code, set()).add(finding.severity)
    return found


def files_of(code: str, *wheels: Path) -> set[str]:
    """Return the files that the findings of a code name."""
    return {file for f in audit(list(wheels)).findings if f.code == code for file in f.files}


def system_library(name: str) -> Path:
    argv = ["g++", f"-print-file-name={name}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return Path(os.path.realpath(done.stdout.strip()))


def test_two_openmp_runtimes_in_one_import(library: Library, tmp_path: Path) -> None:
    threads = '#include <omp.h>\nextern "C" int g() { return omp_get_max_threads(); }\n'
    runtime = tmp_path / "libgomp.so.1"
    shutil.copy(system_library("libgomp.so.1"), runtime)
    one, other = graft(runtime, "libgomp-0a1b2c3d.so.1.0.0"), graft(runtime, "libgomp-4e5f6071.so.1.0.0")
    inner = library("libg.so", threads, "-fopenmp")
    module = library("ext.so", MODULE + CALLS + threads.replace("g()", "h()"), inner, "-fopenmp")
    for file in (inner, module):
        patchelf("--set-rpath", "$ORIGIN:$ORIGIN/../demo.libs", file)
        patchelf("--replace-needed", "libgomp.so.1", one.name, file)
    files = {"demo/libg.so": inner, "demo/ext.so": module, f"demo.libs/{one.name}": one}
    assert "GF105" not in severities(pack(tmp_path, files))
    patchelf("--replace-needed", one.name, other.name, inner)
    both = pack(tmp_path, {**files, f"demo.libs/{other.name}": other})
    assert severities(both)["GF105"] == {"warning"}


def test_two_copies_of_a_cuda_library_in_one_import(library: Library, tmp_path: Path) -> None:
    plain = library("libcurand.so.10", GIVES)
    one, other = graft(plain, "libcurand-0a1b2c3d.so.10.4.0"), graft(plain, "libcurand-4e5f6071.so.10.4.0")
    here = ("-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN")
    inner = library("libh.so", GIVES.replace("g()", "h()") + CALLS, *here, plain)
    module = library("ext.so", MODULE + CALLS, *here, plain, inner)
    for file in (inner, module):
        patchelf("--replace-needed", plain.name, one.name, file)
    files = {"demo/libh.so": inner, "demo/ext.so": module, f"demo/{one.name}": one}
    assert "GF109" not in severities(pack(tmp_path, files))
    patchelf("--replace-needed", one.name, other.name, inner)
    assert severities(pack(tmp_path, {**files, f"demo/{other.name}": other}))["GF109"] == {"warning"}


def test_a_search_path_into_a_package_that_is_not_required(library: Library, tmp_path: Path) -> None:
    cudart = library("libcudart.so.13", GIVES)
    module = library("ext.so", MODULE + CALLS, cudart, f"-Wl,-rpath,{PIP}")
    files = {"demo/ext.so": module}
    assert severities(pack(tmp_path, files))["GF203"] == {"error"}
    assert "GF203" not in severities(pack(tmp_path, files, requires=["nvidia-cuda-runtime==13.*"]))


def test_an_rpath_instead_of_a_runpath(library: Library, tmp_path: Path) -> None:
    cudart = library("libcudart.so.13", GIVES)
    paths = f"-Wl,-rpath,{PIP}"
    old = library("old.so", MODULE + CALLS, cudart, paths, "-Wl,--disable-new-dtags")
    new = library("new.so", MODULE + CALLS, cudart, paths, "-Wl,--enable-new-dtags")
    wheel = pack(tmp_path, {"demo/old.so": old, "demo/new.so": new}, requires=["nvidia-cuda-runtime==13.*"])
    assert files_of("GF304", wheel) == {"demo/old.so"}


def test_the_driver_as_a_needed_library(library: Library, tmp_path: Path) -> None:
    driver = library("libcuda.so.1", 'extern "C" int cuInit(unsigned) { return 0; }\n')
    calls = 'extern "C" int cuInit(unsigned); extern "C" int f() { return cuInit(0); }\n'
    opens = '#include <dlfcn.h>\nextern "C" void* f() { return dlopen("libcuda.so.1", RTLD_NOW); }\n'
    linked = library("linked.so", MODULE + calls, driver)
    opened = library("opened.so", MODULE + opens)
    wheel = pack(tmp_path, {"demo/linked.so": linked, "demo/opened.so": opened})
    assert files_of("GF206", wheel) == {"demo/linked.so"}


def test_a_library_opened_by_name_that_no_requirement_brings(library: Library, tmp_path: Path) -> None:
    opens = '#include <dlfcn.h>\nextern "C" void* f() { return dlopen("libcudnn.so.9", RTLD_NOW); }\n'
    files = {"demo/ext.so": library("ext.so", MODULE + opens)}
    assert severities(pack(tmp_path, files))["GF208"] == {"warning"}
    extra = ['nvidia-cudnn-cu12==9.*; extra == "cuda12"']
    assert severities(pack(tmp_path, files, requires=extra))["GF208"] == {"warning"}, (
        "no search path leads there"
    )
    path = "-Wl,-rpath,$ORIGIN/../nvidia/cudnn/lib"
    files = {"demo/ext.so": library("found.so", MODULE + opens, path)}
    assert "GF208" not in severities(pack(tmp_path, files, requires=extra))


def test_a_grafted_library_that_nothing_needs(library: Library, tmp_path: Path) -> None:
    grafted = graft(library("libg.so.1", GIVES), "libg-0a1b2c3d.so.1")
    alone = library("alone.so", MODULE)
    member = f"demo.libs/{grafted.name}"
    assert files_of("GF209", pack(tmp_path, {"demo/ext.so": alone, member: grafted})) == {member}
    user = library("user.so", MODULE + CALLS, grafted, "-Wl,-rpath,$ORIGIN/../demo.libs")
    assert files_of("GF209", pack(tmp_path, {"demo/ext.so": user, member: grafted})) == set()


def test_relocations_in_code(library: Library, tmp_path: Path) -> None:
    address = 'extern "C" int g() {{ return 1; }}\nasm(".section {}\\n.quad g\\n.previous");\n'
    in_code = library("code.so", MODULE + address.format(".text"), "-Wl,-z,notext")
    in_data = library("data.so", MODULE + address.format(".data"))
    wheel = pack(tmp_path, {"demo/code.so": in_code, "demo/data.so": in_data})
    assert files_of("GF506", wheel) == {"demo/code.so"}


def test_binaries_that_were_cut_or_changed(library: Library, tmp_path: Path) -> None:
    module = library("ext.so", MODULE + CALLS + GIVES)
    files = {"demo/ext.so": module}
    assert "GF705" not in severities(pack(tmp_path, files))
    cut = tmp_path / "cut.so"
    cut.write_bytes(module.read_bytes()[:600])
    assert severities(pack(tmp_path, {"demo/ext.so": cut}))["GF705"] == {"warning"}
    wheel = pack(tmp_path, files, compression=zipfile.ZIP_STORED)
    content = bytearray(wheel.read_bytes())
    content[content.index(b"\x7fELF") + 4000] ^= 0xFF  # its checksum in the archive is now another
    wheel.write_bytes(content)
    assert severities(wheel)["GF705"] == {"error"}


SDK = "-Wl,-rpath,/opt/nvidia/hpc_sdk/Linux_x86_64/{}/compilers/lib:$ORIGIN"


def codes(
    folder: Path, files: dict[str, Path], requires: tuple[str, ...] = ()
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Pack files into a wheel and return the audit's subjects by code and severity."""
    found = audit([pack(folder, files, requires=requires)]).findings
    return {(f.code, f.severity): lines(f) for f in found}


def test_objects_of_two_hpc_sdks(library: Library, tmp_path: Path) -> None:
    def made(one: str, other: str) -> dict[tuple[str, str], tuple[str, ...]]:
        linked = library("libg.so", GIVES, SDK.format(one))
        module = library("ext.so", MODULE + CALLS, linked, SDK.format(other))
        return codes(tmp_path, {"demo/libg.so": linked, "demo/ext.so": module})

    assert sorted(made("22.1", "23.5")["GF106", "warning"]) == [
        "demo/ext.so: NVIDIA HPC SDK 23.5",
        "demo/libg.so: NVIDIA HPC SDK 22.1",
    ]
    assert not any(code == "GF106" for code, _ in made("22.1", "22.1"))


def test_two_images_of_libstdcxx(library: Library, tmp_path: Path) -> None:
    done = subprocess.run(
        ["g++", "-print-file-name=libstdc++.so.6"], capture_output=True, text=True, check=True
    )
    copy = tmp_path / "libstdc++-0a1b2c3d.so.6"
    shutil.copy(os.path.realpath(done.stdout.strip()), copy)
    patchelf("--set-soname", copy.name, copy)
    throws = '#include <stdexcept>\nextern "C" int g() { throw std::runtime_error("no"); }\n'
    linked = library("libg.so", throws)
    module = library(
        "ext.so", MODULE + CALLS + "#include <iostream>\nint main2() { std::cout << 1; return 0; }\n", linked
    )
    for file in (linked, module):
        patchelf("--set-rpath", "$ORIGIN", file)
    clean = {"demo/libg.so": linked, "demo/ext.so": module}
    assert not any(code == "GF107" for code, _ in codes(tmp_path, clean))
    patchelf("--replace-needed", "libstdc++.so.6", copy.name, linked)
    found = codes(tmp_path, {**clean, f"demo/{copy.name}": copy})
    assert any(copy.name in line for line in found["GF107", "warning"])


def test_a_stub_of_the_driver(library: Library, tmp_path: Path) -> None:
    stub = library("libcuda.so.1", 'extern "C" int cuInit(unsigned) { return 34; }\n')
    assert codes(tmp_path, {"demo/libcuda.so.1": stub})["GF207", "error"] == ("demo/libcuda.so.1",)
    linkers = library(
        "stubs/libcuda.so", 'extern "C" int cuInit(unsigned) { return 34; }\n', soname="libcuda.so.1"
    )
    assert not any(code == "GF207" for code, _ in codes(tmp_path, {"demo/stubs/libcuda.so": linkers}))


def test_versions_of_a_library_that_is_not_needed(library: Library, tmp_path: Path) -> None:
    versions = tmp_path / "versions"
    versions.write_text("G_1 { global: g; local: *; };\n", encoding="utf-8")
    linked = library("libg.so.1", GIVES, f"-Wl,--version-script={versions}")
    module = library("ext.so", MODULE + CALLS, linked, "-Wl,-rpath,$ORIGIN")
    files = {"demo/libg.so.1": linked, "demo/ext.so": module}
    assert not any(code == "GF211" for code, _ in codes(tmp_path, files))
    # as patchelf --remove-needed leaves it: the entry is gone, its versions are not
    entry = _dynamic_entry(module, "libg.so.1")
    data = bytearray(module.read_bytes())
    data[entry : entry + 8] = (0x6000000D).to_bytes(8, "little")  # a tag of no meaning to this linker
    module.write_bytes(data)
    assert codes(tmp_path, files)["GF211", "error"] == ("demo/ext.so: versions of libg.so.1: G_1",)
    done = subprocess.run(
        [sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(module)!r})"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        done.returncode
    )  # by glibc's version: an assertion of the dynamic linker, or a symbol that is not there


def _dynamic_entry(path: Path, needed: str) -> int:
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as stream:
        section = next(s for s in ELFFile(stream).iter_sections() if isinstance(s, DynamicSection))
        index = next(i for i, t in enumerate(section.iter_tags()) if getattr(t, "needed", "") == needed)
        return int(section["sh_offset"]) + 16 * index


def test_search_paths_that_leave_the_environment(library: Library, tmp_path: Path) -> None:
    away = library("away.so", MODULE, "-Wl,-rpath,$ORIGIN/../../../../../../lib")
    near = library("near.so", MODULE, "-Wl,-rpath,$ORIGIN/../other.libs")
    found = codes(tmp_path, {"demo/away.so": away, "demo/near.so": near})
    assert found["GF303", "warning"] == ("demo/away.so: RUNPATH $ORIGIN/../../../../../../lib",)


def test_another_packages_library_wins(library: Library, tmp_path: Path) -> None:
    cudart = library("libcudart.so.13", 'extern "C" int g() { return 1; }\n')
    own, system = "$ORIGIN/../nvidia/cu13/lib", "/usr/local/cuda/lib64"
    requires = ["nvidia-cuda-runtime==13.*"]
    late = library("late.so", MODULE + CALLS, cudart, f"-Wl,-rpath,{system}:{own}")
    early = library("early.so", MODULE + CALLS, cudart, f"-Wl,-rpath,{own}:{system}")
    found = codes(tmp_path, {"demo/late.so": late, "demo/early.so": early}, requires)
    assert found["GF305", "warning"] == (
        f"demo/late.so: libcudart.so.13 (nvidia-cuda-runtime, RUNPATH {system} before RUNPATH {own})",
    )


def test_objects_without_relro(library: Library, tmp_path: Path) -> None:
    bare = library("bare.so", MODULE, "-Wl,-z,norelro")
    kept = library("kept.so", MODULE, "-Wl,-z,relro")
    assert codes(tmp_path, {"demo/bare.so": bare, "demo/kept.so": kept})["GF507", "info"] == ("demo/bare.so",)


def test_a_runtime_that_leaves_its_symbols_to_the_program(library: Library, tmp_path: Path) -> None:
    host = library("libacchost.so", 'extern "C" int __pgi_uacc_enter() { return 1; }\n')
    text = (
        'extern "C" int __pgi_uacc_enter(); extern "C" int __pgi_nvomp_go() { return __pgi_uacc_enter(); }\n'
    )
    loose = library("libnvomp.so", text)
    found = codes(tmp_path, {"demo.libs/libacchost.so": host, "demo.libs/libnvomp.so": loose})
    assert found["GF212", "warning"] == ("demo.libs/libnvomp.so: libacchost.so defines __pgi_uacc_enter",)
    linked = library("libnvomp.so", text, host, "-Wl,-rpath,$ORIGIN")
    found = codes(tmp_path, {"demo.libs/libacchost.so": host, "demo.libs/libnvomp.so": linked})
    assert not any(code == "GF212" for code, _ in found)


def test_one_soname_from_two_places_is_one_image(library: Library, tmp_path: Path) -> None:
    """What GF102 says of it: the linker maps the first, and a second one only where it is opened by its path."""
    for place, value in (("a", 1), ("b", 2)):
        text = f'extern "C" int g() {{ return {value}; }}\n'
        linked = library(f"{place}/libcudart.so.13", text)
        library(f"{place}/ext.so", MODULE + CALLS, linked, "-Wl,-rpath,$ORIGIN")
    code = (
        "import ctypes, sys; held = [ctypes.CDLL(path) for path in sys.argv[1:]];"
        "print(len({line.split()[-1] for line in open('/proc/self/maps') if 'cudart' in line}))"
    )
    paths = [tmp_path / "a/ext.so", tmp_path / "b/ext.so", tmp_path / "b/libcudart.so.13"]
    images = [
        subprocess.run([sys.executable, "-c", code, *some], check=True, capture_output=True, text=True).stdout
        for some in (paths[:2], paths)
    ]
    assert images == ["1\n", "2\n"]
