"""Rules on wheels of compiled binaries that have the problem, and on their nearest twins that have not."""

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


def system_library(name: str) -> Path:
    argv = ["g++", f"-print-file-name={name}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return Path(os.path.realpath(done.stdout.strip()))


def test_two_openmp_runtimes_in_one_import(library, tmp_path):
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


SDK = "-Wl,-rpath,/opt/nvidia/hpc_sdk/Linux_x86_64/{}/compilers/lib:$ORIGIN"


def codes(
    folder: Path, files: dict[str, Path], requires: tuple[str, ...] = ()
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Pack files into a wheel and return the audit's subjects by code and severity."""
    found = audit([pack(folder, files, requires=requires)]).findings
    return {(f.code, f.severity): lines(f) for f in found}


def test_objects_of_two_hpc_sdks(library, tmp_path):
    def made(one: str, other: str) -> dict[tuple[str, str], tuple[str, ...]]:
        linked = library("libg.so", GIVES, SDK.format(one))
        module = library("ext.so", MODULE + CALLS, linked, SDK.format(other))
        return codes(tmp_path, {"demo/libg.so": linked, "demo/ext.so": module})

    assert sorted(made("22.1", "23.5")["GF106", "warning"]) == [
        "demo/ext.so: NVIDIA HPC SDK 23.5",
        "demo/libg.so: NVIDIA HPC SDK 22.1",
    ]
    assert not any(code == "GF106" for code, _ in made("22.1", "22.1"))


def test_versions_of_a_library_that_is_not_needed(library, tmp_path):
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


def test_a_runtime_that_leaves_its_symbols_to_the_program(library, tmp_path):
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


def test_one_soname_from_two_places_is_one_image(library, tmp_path):
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


def test_binaries_that_were_cut_or_changed(library, tmp_path):
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
