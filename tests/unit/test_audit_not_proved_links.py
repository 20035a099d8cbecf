"""What must not be proved of NEEDED libraries: a wheel whose import finds them all, and the nearest whose does not."""

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest
from audit_samples import DT, FLAGS_1, elf, torch, wheel, with_ident

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines

MODULE = "demo/ext.cpython-311-x86_64-linux-gnu.so"
LIBRARY = "demo.libs/libx.so.1"
X = {LIBRARY: elf(soname="libx.so.1")}
NODEFAULTLIB, NODLOPEN, PIE = 0x800, 0x40, 0x08000000
AARCH64 = 183
OS_ABI, ABI_VERSION = 7, 8  # bytes of e_ident
Files = Mapping[str, bytes]


def flags(value: int) -> list[tuple[int, int]]:
    return [(FLAGS_1, value)]


def module(runpath: str | None = "$ORIGIN/../demo.libs", *needed: str, dynamic: int = 0) -> Files:
    needed = needed or ("libx.so.1",)
    return {MODULE: elf(needed=[*needed, "libc.so.6"], runpath=runpath, dynamic=flags(dynamic))}


def by_rpath(runpath: str | None) -> Files:
    """A module whose RPATH leads a library of its own to what that needs."""
    files = {
        MODULE: elf(needed=["liby.so"], rpath="$ORIGIN/../demo.libs"),
        "demo.libs/liby.so": elf(soname="liby.so", needed=["libx.so.1"], runpath=runpath),
    }
    return {**files, **X}


def circle(soname: str) -> Files:
    """A library that needs the module which needs it."""
    name = MODULE.rpartition("/")[2]
    return {
        MODULE: elf(soname=soname, needed=["liby.so"], runpath="$ORIGIN/../demo.libs"),
        "demo.libs/liby.so": elf(soname="liby.so", needed=[name]),
    }


def two_modules(path: Mapping[str, str], *needed: str, back: bool = False) -> Files:
    """A module that needs a second one, which needs a library; `path` are search paths of the second."""
    one, two = (f"demo/{name}.cpython-311-x86_64-linux-gnu.so" for name in ("one", "two"))
    of_two = ["libx.so.1", *([one.rpartition("/")[2]] if back else [])]
    tag = {"runpath" if "libx.so.1" in needed else "rpath": "$ORIGIN:$ORIGIN/../demo.libs"}
    return {
        one: elf(needed=[*needed, two.rpartition("/")[2]], strings=["PyInit_one"], **tag),
        two: elf(needed=of_two, strings=["PyInit_two"], **path),
        **X,
    }


def opened(name: str) -> Files:
    """A library that finds its own only by the RPATH of the module that needs it, and code that opens a library."""
    code = f"import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), {name!r}))\n"
    return {
        "demo/__init__.py": code.encode(),
        "demo/liby.so": elf(needed=["libx.so.1"]),
        MODULE: elf(needed=["liby.so"], rpath="$ORIGIN:$ORIGIN/../demo.libs"),
        **X,
    }


def first(data: bytes) -> Files:
    """A module that looks for its library in two folders, with a file in the first."""
    return {**module("$ORIGIN/first:$ORIGIN/../demo.libs"), "demo/first/libx.so.1": data, **X}


def installed_over(library: bytes, moved: bytes) -> Files:
    """A library, and one that pip installs over it, in that order of the archive and in the other."""
    return {f"demo-1.0.data/platlib/{LIBRARY}": moved, **module(), LIBRARY: library}


def of_flags(*values: int) -> Files:
    dynamic = [entry for value in values for entry in flags(value)]
    return {**module(), LIBRARY: elf(soname="libx.so.1", dynamic=dynamic)}


def of_paths(first: str, last: str) -> Files:
    """A module with two RUNPATHs, as a tool leaves them that adds an entry."""
    needed = ["libx.so.1", "libc.so.6"]
    return {MODULE: elf(needed=needed, strings=[first], dynamic=[(DT["runpath"], 1)], runpath=last), **X}


def cut_short(*needed: str) -> bytes:
    """A module whose PT_DYNAMIC ends before its last NEEDED entry, which glibc reads all the same."""
    data = bytearray(elf(needed=needed, runpath="$ORIGIN/../demo.libs"))
    start, size = struct.unpack_from("<Q16xQ", data, 64 + 56 + 8)
    entries = [bytes(data[at : at + 16]) for at in range(start, start + size, 16)]
    last = [entry for entry in entries if struct.unpack_from("<q", entry)[0] == DT["needed"]][-1]
    entries.remove(last)
    data[start : start + size] = b"".join((*entries[:-1], last, entries[-1]))
    struct.pack_into("<QQ", data, 64 + 56 + 32, size - 32, size - 32)
    return bytes(data)


POINTER = b"version https://git-lfs.github.com/spec/v1\nsize 1\n"
LOST = "error GF202"


@pytest.mark.parametrize(
    ("files", "nearest", "finding"),
    [
        pytest.param(by_rpath(None), by_rpath(""), "warning GF202", id="an empty RUNPATH ends the RPATH"),
        pytest.param(
            two_modules({"rpath": "$ORIGIN/../demo.libs"}),
            two_modules({}),
            "warning GF202",
            id="a module finds its library only by the RPATH of a module that needs it",
        ),
        pytest.param(
            two_modules({"runpath": "$ORIGIN/../demo.libs"}, "libx.so.1"),
            two_modules({}, "libx.so.1"),
            "warning GF202",
            id="a module that needs it has loaded its library before",
        ),
        pytest.param(
            two_modules({"rpath": "$ORIGIN:$ORIGIN/../demo.libs"}, back=True),
            two_modules({"rpath": "$ORIGIN"}, back=True),
            "warning GF202",
            id="one of two modules that need each other finds no library if it is imported first",
        ),
        pytest.param(
            opened("libz.so"),
            opened("liby.so"),
            "warning GF202",
            id="Python code opens a library before the module that has the path is imported",
        ),
        pytest.param(
            circle(MODULE.rpartition("/")[2]),
            circle(""),
            LOST,
            id="the file name of what is loaded is no SONAME",
        ),
        pytest.param(
            {**module("${ORIGIN}/../demo.libs"), **X},
            {**module("$ORIGIN_x/../demo.libs"), **X},
            LOST,
            id="a longer name than ORIGIN",
        ),
        pytest.param(
            {MODULE: cut_short("libc.so.6", "libx.so.1"), **X},
            {MODULE: cut_short("libc.so.6", "libz.so.9"), **X},
            "warning GF201",
            id="a NEEDED entry behind the end of PT_DYNAMIC",
        ),
        pytest.param(
            first(elf(soname="libx.so.1", machine=AARCH64)), first(POINTER), LOST, id="a text comes first"
        ),
        pytest.param(
            first(elf(soname="libx.so.1", machine=AARCH64)), first(b""), LOST, id="an empty file comes first"
        ),
        pytest.param(
            {**module("$ORIGIN/../demo.libs", "libstdc++.so.6")},
            {**module("$ORIGIN/../demo.libs", "libstdc++.so.6"), "demo.libs/libstdc++.so.6": POINTER},
            LOST,
            id="a text comes before the system",
        ),
        pytest.param(
            {MODULE: elf(needed=["libx.so.1"], filters=["libx.so.1"], runpath="$ORIGIN/../demo.libs"), **X},
            {MODULE: elf(needed=["libx.so.1"], filters=["liby.so"], runpath="$ORIGIN/../demo.libs"), **X},
            "warning GF201",
            id="a filter's library is not there",
        ),
        pytest.param(
            module(None, "libm.so.6"),
            module(None, "libm.so.6", dynamic=NODEFAULTLIB),
            "warning GF202",
            id="the system's folders are left out",
        ),
        pytest.param(
            module(None, "libm.so.6"),
            module(None, "libmvec.so.1"),
            "error GF501",
            id="only systems with a newer glibc than that of the tag have it",
        ),
        pytest.param(of_flags(0), of_flags(PIE), LOST, id="a program has the name of a library"),
        pytest.param(of_flags(0), of_flags(NODLOPEN), LOST, id="it can be loaded only when a program starts"),
        pytest.param(of_flags(PIE, 0), of_flags(0, PIE), LOST, id="the last entry with flags counts"),
        pytest.param(
            of_paths("$ORIGIN/none", "$ORIGIN/../demo.libs"),
            of_paths("$ORIGIN/../demo.libs", "$ORIGIN/none"),
            LOST,
            id="the last search path counts",
        ),
        pytest.param(
            {**module(), LIBRARY: with_ident(elf(soname="libx.so.1"), OS_ABI, 3)},
            {**module(), LIBRARY: with_ident(elf(soname="libx.so.1"), OS_ABI, 9)},
            LOST,
            id="it has the OS ABI of another system",
        ),
        pytest.param(
            {**module(), LIBRARY: with_ident(elf(soname="libx.so.1"), ABI_VERSION, 0)},
            {**module(), LIBRARY: with_ident(elf(soname="libx.so.1"), ABI_VERSION, 5)},
            LOST,
            id="it has an ABI version that glibc does not know",
        ),
        pytest.param(
            {**module(), LIBRARY: with_ident(with_ident(elf(soname="libx.so.1"), OS_ABI, 3), ABI_VERSION, 1)},
            {**module(), LIBRARY: with_ident(with_ident(elf(soname="libx.so.1"), OS_ABI, 3), ABI_VERSION, 9)},
            LOST,
            id="it has an ABI version of GNU that glibc does not know",
        ),
        pytest.param(
            first(elf(soname="libx.so.1", machine=AARCH64)),
            first(with_ident(elf(soname="libx.so.1", machine=AARCH64), OS_ABI, 9)),
            LOST,
            id="one for another processor, with an OS ABI that glibc refuses before, comes first",
        ),
        pytest.param(
            installed_over(POINTER, elf(soname="libx.so.1")),
            installed_over(elf(soname="libx.so.1"), POINTER),
            LOST,
            id="a text is installed over it",
        ),
        pytest.param(
            installed_over(elf(soname="libx.so.1", machine=AARCH64), elf(soname="libx.so.1")),
            installed_over(elf(soname="libx.so.1"), elf(soname="libx.so.1", machine=AARCH64)),
            LOST,
            id="one for another processor is installed over it",
        ),
        pytest.param(
            {**module("$ORIGIN/sub/../../demo.libs"), "demo/sub/x.py": b"", **X},
            {**module("$ORIGIN/sub/../../demo.libs"), **X},
            "warning GF202",
            id="a folder on the way does not exist",
        ),
        pytest.param(
            {**module("$ORIGIN/../../../python3.11/site-packages/demo.libs"), **X},
            {**module("$ORIGIN/../../../python3.10/site-packages/demo.libs"), **X},
            "info GF202",
            id="the folder is that of another Python",
        ),
        pytest.param(
            {**module(), f"demo-1.0.data/data/lib/python3.11/site-packages/{LIBRARY}": X[LIBRARY]},
            {**module(), f"demo-1.0.data/data/lib/python3.10/site-packages/{LIBRARY}": X[LIBRARY]},
            "info GF202",
            id="the library lies among the packages of another Python",
        ),
        pytest.param(
            {**module("$ORIGIN/../../../../lib/python3.11/site-packages/demo.libs"), **X},
            {**module("$ORIGIN/../../../../lib64/python3.11/site-packages/demo.libs"), **X},
            "info GF202",
            id="not every environment has a lib64",
        ),
    ],
)
def test_a_library_that_the_linker_does_not_load(tmp_path, files, nearest, finding):
    good, found = judged(tmp_path, files), judged(tmp_path, nearest)
    assert finding not in good
    assert "proved" in good
    assert finding in found
    assert "proved" not in found


def test_the_line_says_what_is_found_only_by_the_paths_of_others(tmp_path):
    said = {
        path: " ".join(each.text for each in audit([wheel(tmp_path, by_rpath(path))]).wheels[0].proofs)
        for path in (None, "$ORIGIN")
    }
    assert "; not those of liby.so, opened alone" in said[None]
    assert "alone" not in said["$ORIGIN"]


PATH = "$ORIGIN/../demo.libs"
ELSEWHERE = elf(soname="libx.so.1", machine=AARCH64)


@pytest.mark.parametrize(
    ("files", "finding"),
    [
        pytest.param(
            {
                MODULE: elf(needed=["libx-1.so", "liby.so"], rpath=PATH),
                "demo.libs/libx-1.so": X[LIBRARY],
                "demo.libs/liby.so": elf(needed=["libx.so.1"]),
            },
            "warning GF202",
            id="it is loaded by another file name",
        ),
        pytest.param(
            {
                MODULE: elf(soname="ext.so", needed=["liby.so"], rpath=PATH),
                "demo.libs/liby.so": elf(needed=["ext.so"]),
            },
            LOST,
            id="it is the module, which was loaded by its path",
        ),
        pytest.param(first(ELSEWHERE), LOST, id="one for another processor comes first"),
        pytest.param(
            {
                **module(None, "libz.so.1"),
                MODULE: elf(needed=["libz.so.1"], rpath=PATH),
                "demo.libs/libz.so.1": ELSEWHERE,
            },
            LOST,
            id="one for another processor comes before the system",
        ),
        pytest.param(
            {**module(f"{PATH}:$ORIGIN/$LIB"), **X},
            LOST,
            id="its path has a variable that musl does not know",
        ),
    ],
)
def test_a_library_that_glibc_finds_and_musl_does_not(tmp_path, files, finding):
    assert "proved" in judged(tmp_path, files)
    found = judged(tmp_path, files, "musllinux_1_2_x86_64")
    assert finding in found
    assert "proved" not in found


def test_musl_finds_by_its_own_rules_also_without_a_tag_for_it(tmp_path):
    """Alpine's pip tags what it builds linux_x86_64."""
    for musl in (False, True):
        needed = ["libx.so.1", "libc.musl-x86_64.so.1" if musl else "libc.so.6"]
        files = {**first(ELSEWHERE), MODULE: elf(needed=needed, runpath=f"$ORIGIN/first:{PATH}")}
        found = judged(tmp_path, files, "linux_x86_64")
        assert (LOST in found, "proved" in found) == (musl, not musl)


def test_a_library_that_musl_finds(tmp_path):
    for files in ({**module(), **X}, by_rpath(None)):
        assert judged(tmp_path, files, "musllinux_1_2_x86_64") == ["proved"]


@pytest.mark.parametrize(
    ("name", "subject", "found"),
    [
        ("libcuda.so.1", "libcuda.so.1", True),
        ("libcuda.so.2", "libcuda.so.2 (not in every driver)", False),
        ("libcuda-0a1b2c3d.so.1", "libcuda-0a1b2c3d.so.1 (not in every driver)", False),
        ("libnvidia-ml.so.99", "libnvidia-ml.so.99 (not in every driver)", False),
        ("libnvidia-gpucomp.so.580.95.05", "libnvidia-gpucomp.so.580.95.05 (not in every driver)", False),
    ],
)
def test_a_name_of_the_drivers_that_not_every_driver_has(tmp_path, name, subject, found):
    files = module(None, name)
    (finding,) = (f for f in audit([wheel(tmp_path, files)]).findings if f.code == "GF206")
    assert lines(finding) == (f"{subject}, NEEDED by {MODULE}",)
    assert ("proved" in judged(tmp_path, files)) == found


@pytest.mark.parametrize(
    ("runpath", "once"), [("$ORIGIN/../torch/lib", ""), (None, ", once torch is imported")]
)
@pytest.mark.parametrize("beside", [False, True])
def test_what_an_import_has_loaded_is_found_once_it_was_imported(tmp_path, runpath, once, beside):
    """Without Python code nobody imports anything first."""
    own = wheel(tmp_path, module(runpath, "libc10.so"), requires=["torch==2.4.1"])
    (audited, *_) = audit([own, *([torch(tmp_path)] if beside else [])]).wheels
    (found, *_) = (p.text for p in audited.proofs if p.topic == "providers")
    assert found.startswith(f"every NEEDED library is found{once}: ")


def test_what_an_imported_package_has_loaded_of_others_is_found_once_it_was_imported(tmp_path):
    files = {"nvidia/cuda_runtime/lib/libcudart.so.12": elf(soname="libcudart.so.12")}
    runtime = wheel(
        tmp_path, files, name="nvidia_cuda_runtime_cu12-12.4.127-py3-none-manylinux_2_17_x86_64.whl"
    )
    for runpath in ("$ORIGIN/../torch/lib", "$ORIGIN/../torch/lib:$ORIGIN/../nvidia/cuda_runtime/lib"):
        own = wheel(tmp_path, module(runpath, "libc10.so", "libcudart.so.12"), requires=["torch==2.4.1"])
        (audited, *_) = audit([own, torch(tmp_path), runtime]).wheels
        (found, *_) = (p.text for p in audited.proofs if p.topic == "providers")
        assert found.startswith("every NEEDED library is found, once torch is imported: ") == (
            ":" not in runpath
        )


def judged(folder: Path, files: Files, platform: str = "manylinux_2_17_x86_64") -> list[str]:
    """Return the findings of a wheel, and whether all of its NEEDED libraries are proved to be found."""
    report = audit([wheel(folder, files, name=f"demo-1.0-cp311-cp311-{platform}.whl")])
    proved = [p for p in report.wheels[0].proofs if p.topic == "providers"]
    return [*(f"{f.severity} {f.code}" for f in report.findings), *(["proved"] if proved else [])]


@pytest.mark.parametrize(
    ("tag", "found"), [("py3-none", False), ("cp310-cp310", True), ("cp311-cp311", False)]
)
def test_a_library_among_the_packages_of_one_python(tmp_path, tag, found):
    place = "demo-1.0.data/data/lib64/python3.10/site-packages"
    name = f"demo-1.0-{tag}-manylinux_2_17_x86_64.whl"
    for files in (
        {**module(), f"{place}/{LIBRARY}": X[LIBRARY]},
        {f"{place}/{MODULE}": module()[MODULE], **X},
    ):
        report = audit([wheel(tmp_path, files, name=name)])
        assert bool([p for p in report.wheels[0].proofs if p.topic == "providers"]) == found
    both = {f"{place}/{MODULE}": module()[MODULE], f"{place}/{LIBRARY}": X[LIBRARY]}
    assert [f.code for f in audit([wheel(tmp_path, both, name=name)]).findings if f.code == "GF202"] == []
