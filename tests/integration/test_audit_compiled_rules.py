"""Each rule on a wheel of compiled binaries that has the problem, and on its nearest twin that has not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from document_samples import LIBRARIES, LIBRARY, RECIPE
from wheel_making import compile_library, graft, pack, patchelf

from gpuforge import digest
from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines
from gpuforge.expectation import Expectation, HostOnly

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


def test_requirements_that_do_not_parse(library: Library, tmp_path: Path) -> None:
    files = {"demo/ext.so": library("ext.so", MODULE)}
    assert severities(pack(tmp_path, files, requires=["numpy >=1.2 <3"]))["GF704"] == {"error"}
    assert "GF704" not in severities(pack(tmp_path, files, requires=["numpy >=1.2, <3"]))


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


def test_a_pure_wheel_with_a_shared_object(library: Library, tmp_path: Path) -> None:
    files = {"demo/ext.so": library("ext.so", MODULE)}
    assert severities(pack(tmp_path, files, purelib=True))["GF706"] == {"warning"}
    assert "GF706" not in severities(pack(tmp_path, files))


def test_one_library_stored_under_two_names(library: Library, tmp_path: Path) -> None:
    large = library("libg.so.1", GIVES + "char filler[1 << 21] = {1};\n")
    other = library("libh.so.1", GIVES + "char filler[1 << 21] = {2};\n")
    twice = {"demo/libg.so.1": large, "demo/libg.so": large}
    assert files_of("GF707", pack(tmp_path, twice)) == set(twice)
    assert files_of("GF707", pack(tmp_path, {"demo/libg.so.1": large, "demo/libh.so.1": other})) == set()


def test_two_packages_with_one_file(library: Library, tmp_path: Path) -> None:
    one, other = library("one.so", MODULE + GIVES), library("other.so", MODULE + GIVES.replace("1", "2"))
    first = pack(tmp_path, {"shared/ext.so": one}, name="first")
    second = pack(tmp_path, {"shared/ext.so": other}, name="second")
    assert severities(first, second)["GF709"] == {"error"}
    same = pack(tmp_path, {"shared/ext.so": one}, name="second")
    assert "GF709" not in severities(first, same)


def test_a_requirement_that_the_wheel_beside_it_does_not_meet(library: Library, tmp_path: Path) -> None:
    one, other = library("one.so", MODULE), library("other.so", MODULE + GIVES)
    given = pack(tmp_path, {"base/ext.so": one}, name="base", version="1.0")
    needs_newer = pack(tmp_path, {"user/ext.so": other}, name="user", requires=["base ==2.*"])
    assert "GF710" in severities(given, needs_newer)
    meets = pack(tmp_path, {"user/ext.so": other}, name="user", requires=["base ==1.*"])
    assert "GF710" not in severities(given, meets)


def lines_of(code: str, wheel: Path, expectation: Expectation | None = None) -> list[str]:
    """Return the lines about each subject of the findings of a code."""
    found = audit([wheel], expectation=expectation).findings
    return [line for finding in found if finding.code == code for line in lines(finding)]


def test_a_host_only_pattern_that_matches_no_binary(library: Library, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("no binary")
    files = {"demo/libcore.so": library("libcore.so", GIVES), "demo/core.txt": notes}
    wheel = pack(tmp_path, files)

    def found(*patterns: str) -> list[str]:
        return lines_of("GF602", wheel, Expectation(host_only=(HostOnly("core", patterns),)))

    assert found("demo/lib*.so") == []
    assert found("demo/lib*.so", "lib/*.so", "demo/*.txt") == [
        "'lib/*.so' of the object 'core': no file",
        "'demo/*.txt' of the object 'core': demo/core.txt, with no object in it",
    ]


def of_set(
    folder: Path, wheel_folder: str, listing: str, content: dict[str, object], files: dict[str, Path]
) -> Path:
    """Write a wheel with a folder of gpuforge's own: its listing, and files beside it."""
    (path := folder / listing).write_text(json.dumps(content))
    return pack(folder, {f"{wheel_folder}/{name}": file for name, file in {listing: path, **files}.items()})


def test_a_library_that_is_not_the_one_in_its_index(library: Library, tmp_path: Path) -> None:
    built, rebuilt = library("libfast.so", GIVES), library("again/libfast.so", GIVES.replace("1", "2"))
    assert built.read_bytes() != rebuilt.read_bytes()
    images = [{"kind": "library", "arch": ""}]
    entry = {**LIBRARY, "file": "libfast.so", "sha256": digest.of_file(built), "images": images}
    index: dict[str, object] = {**LIBRARIES, "libraries": [entry]}

    def found(**files: Path) -> list[str]:
        named = {f"{name}.so": file for name, file in files.items()}
        return lines_of("GF701", of_set(tmp_path, "demo/_gpuforge/kernels/fast", "index.json", index, named))

    where = "demo/_gpuforge/kernels/fast"
    assert found(libfast=built) == []
    assert found(libfast=rebuilt) == [f"{where}/libfast.so: its sha256 is not the one in the index"]
    assert found(libfast=built, libmore=rebuilt) == [
        f"{where}/libmore.so: it is in the folder and not in the index"
    ]
    assert found() == [f"{where}/libfast.so: it is in the index and not in the wheel"]


def test_sources_that_were_changed_after_their_recipe(library: Library, tmp_path: Path) -> None:
    sources = {name: tmp_path / name for name in ("f.cpp", "changed.cpp")}
    sources["f.cpp"].write_text(CALLS)
    sources["changed.cpp"].write_text(CALLS.replace("g();", "g() + 1;"))
    library("libf.so", sources["f.cpp"].read_text())  # g++ takes it
    entry = {"file": "f.cpp", "sha256": digest.of_file(sources["f.cpp"])}
    recipe: dict[str, object] = {**RECIPE, "sources": [entry], "includes": [], "fallbacks": []}

    def found(files: dict[str, Path]) -> list[str]:
        return lines_of(
            "GF702", of_set(tmp_path, "demo/_gpuforge/sources/user", "recipe.json", recipe, files)
        )

    where = "demo/_gpuforge/sources/user/recipe.json"
    assert found({"f.cpp": sources["f.cpp"]}) == []
    assert found({"f.cpp": sources["changed.cpp"]}) == [
        f"{where}: the sha256 of f.cpp is not the one in the recipe"
    ]
    assert found({}) == [f"{where}: f.cpp is not in the wheel"]
