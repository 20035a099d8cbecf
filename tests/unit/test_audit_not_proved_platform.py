"""What must not be proved of platform tags: of each wheel that keeps its tag, the nearest wheels that do not."""

import gzip
import struct
from pathlib import Path

import pytest
from audit_samples import elf, wheel, with_ident
from environment_samples import environment, one
from golden import hold
from packaging.requirements import Requirement
from proof_samples import AARCH64, CUDNN, MODULE, RISCV64, proved, tagged
from rule_cases.platform import needs_level

from gpuforge.audit import against, audit
from gpuforge.audit.link.package_tables import candidates
from gpuforge.audit.read.input import Beside
from gpuforge.audit.report import text
from gpuforge.cuda.provided import PackageRelease, Provided, Shared

GLIBC = {"libc.so.6": ["GLIBC_2.17"]}
PLAIN = elf(versions=GLIBC)
TAG = "manylinux_2_17_x86_64"
RELR = ((36, 0x100), (35, 0), (37, 8))
GNU_STACK, UNKNOWN = struct.pack("<I", 0x6474E551), struct.pack("<I", 0x65041580)
VERNEEDNUM = 0x6FFFFFFF


def second_stack(flags: int) -> bytes:
    """Return an object with two PT_GNU_STACK, the second with these flags."""
    data = bytearray(elf(versions=GLIBC, segment=(0x6474E551, b"")))
    struct.pack_into("<I", data, 64 + 56 * 3 + 4, flags)
    return bytes(data)


def two_libraries(number: int, version: str = "GLIBC_2.99") -> bytes:
    """Return an object that needs versions of two libraries, with this number of them in DT_VERNEEDNUM."""
    versions = {**GLIBC, "libm.so.6": [version]}
    data = elf(needed=["libm.so.6", "libc.so.6"], versions=versions)
    return data.replace(struct.pack("<qQ", VERNEEDNUM, 2), struct.pack("<qQ", VERNEEDNUM, number))


INSIDE = "code inside of other files was not judged: {}"
NEWER = elf(versions={"libc.so.6": ["GLIBC_2.99"]})


@pytest.mark.parametrize(
    ("file", "content", "end", "reason"),
    [
        pytest.param("demo/a.txt", b"text\n" * 20, "", "", id="a text"),
        pytest.param("demo/a.txt.gz", gzip.compress(b"text\n" * 20), "", "", id="a packed text"),
        pytest.param(
            "demo/a.pkl",
            b"\x80\4" + bytes(40),
            "; a file of unknown content was not read: a.pkl",
            "",
            id="a pickle",
        ),
        pytest.param("demo/x.h", NEWER, "", INSIDE, id="a library as a header"),
        pytest.param(
            "demo/x.bin", b"0123456789abcdef" + NEWER, "", INSIDE, id="a library behind other bytes"
        ),
        pytest.param("demo/x.gz", gzip.compress(NEWER), "", INSIDE, id="a packed library"),
        pytest.param(
            "demo/x.gz", gzip.compress(b"text\n" * 20)[:-9], "", "files were not unpacked: {}", id="cut off"
        ),
    ],
)
def test_objects_that_are_not_read(tmp_path, file, content, end, reason):
    path = wheel(tmp_path, {MODULE: elf(versions=GLIBC), file: content}, name=tagged(TAG))
    report = audit([path]).wheels[0]
    reason = reason.format(file.rpartition("/")[2])
    for topic, what in (
        ("platform", "what was read fits manylinux_2_17_x86_64"),
        ("providers", "every NEEDED library is found"),
    ):
        held = [p.text for p in report.proofs if p.topic == topic]
        assert [p.text for p in report.withheld if p.topic == topic] == [f"{what}, but {reason}"] * bool(
            reason
        )
        assert len(held) == (not reason)
        assert all(text.endswith(end) for text in held)


def uses_zlib(symbol: str, *needed: str) -> bytes:
    return elf(needed=needed or ["libz.so.1", "libc.so.6"], versions=GLIBC, undefined=[symbol])


def findings(path: Path) -> set[str]:
    return {finding.code for finding in audit([path]).findings}


@pytest.mark.parametrize(
    ("good", "nearest", "platform", "code"),
    [
        pytest.param(
            PLAIN,
            elf(versions=GLIBC, segment=needs_level(3)),
            TAG,
            "GF505",
            id="the GNU property needs x86-64-v3",
        ),
        pytest.param(PLAIN, elf(versions=GLIBC, stack=7), TAG, "GF503", id="the stack is executable"),
        pytest.param(
            second_stack(6),
            second_stack(7),
            TAG,
            "GF503",
            id="the last of two PT_GNU_STACK makes the stack executable",
        ),
        pytest.param(
            elf(versions=GLIBC, machine=183).replace(GNU_STACK, UNKNOWN),
            elf(versions=GLIBC, machine=62).replace(GNU_STACK, UNKNOWN),
            "manylinux_2_17_aarch64.manylinux_2_17_x86_64",
            "GF503",
            id="the stack is executable by default",
        ),
        pytest.param(
            elf(versions={"libc.so.6": ["GLIBC_2.17", "GLIBC_ABI_DT_RELR"]}, dynamic=RELR),
            elf(versions=GLIBC, dynamic=RELR),
            "manylinux_2_36_x86_64",
            "GF501",
            id="DT_RELR without its version, which glibc refuses",
        ),
        pytest.param(
            elf(versions={"libm.so.6": ["GLIBC_2.17"]}),
            elf(versions={"libm.so.6": ["GLIBC_2.17"]}, dynamic=RELR),
            "manylinux_2_35_x86_64",
            "GF501",
            id="DT_RELR, which an older glibc does not read",
        ),
        pytest.param(
            two_libraries(1, "GLIBC_2.17"),
            two_libraries(1),
            TAG,
            "GF501",
            id="more versions than DT_VERNEEDNUM says",
        ),
        pytest.param(
            PLAIN,
            elf(needed=["libssl.so.3", "libc.so.6"], versions=GLIBC),
            TAG,
            "GF201",
            id="a library that no policy has",
        ),
        pytest.param(PLAIN, with_ident(PLAIN, 7, 9), TAG, "GF501", id="it is for FreeBSD"),
        pytest.param(
            PLAIN, with_ident(PLAIN, 8, 5), TAG, "GF501", id="no glibc knows the version of its OS ABI"
        ),
        pytest.param(
            uses_zlib("uncompress"),
            uses_zlib("uncompress2"),
            "manylinux_2_31_x86_64",
            "GF501",
            id="a symbol that the policy forbids",
        ),
        pytest.param(
            uses_zlib("uncompress2"),
            uses_zlib("zcalloc"),
            "manylinux_2_34_x86_64",
            "GF501",
            id="a symbol that this policy forbids, too",
        ),
        pytest.param(
            uses_zlib("uncompress2", "libc.so.6"),
            uses_zlib("uncompress2"),
            "manylinux_2_31_x86_64",
            "GF501",
            id="the symbol is of a library of the system, and not of another one",
        ),
        pytest.param(
            elf(needed=["ld-linux-x86-64.so.2", "libc.so.6"], versions=GLIBC),
            elf(needed=["ld-linux-aarch64.so.1", "libc.so.6"], versions=GLIBC),
            TAG,
            "GF201",
            id="the dynamic linker of another processor",
        ),
    ],
)
def test_a_tag_that_objects_do_not_keep(tmp_path, good, nearest, platform, code):
    for data, holds in ((good, True), (nearest, False)):
        path = wheel(tmp_path, {MODULE: data}, name=tagged(*platform.split(".")))
        assert bool(proved("platform", path)) == holds
        assert (code in findings(path)) != holds


@pytest.mark.parametrize(("minor", "holds"), [(41, True), (99, False)])
def test_a_tag_beyond_the_newest_policy(tmp_path, minor, holds):
    data = elf(
        needed=["libstdc++.so.6", "libc.so.6"], versions={**GLIBC, "libstdc++.so.6": ["GLIBCXX_3.4.29"]}
    )
    path = wheel(tmp_path, {MODULE: data}, name=tagged(f"manylinux_2_{minor}_x86_64"))
    assert bool(proved("platform", path)) == holds
    assert "GF501" not in findings(path)


def test_musl_leaves_the_stack_alone(tmp_path):
    data = elf(needed=["libc.musl-x86_64.so.1"]).replace(GNU_STACK, UNKNOWN)
    assert "GF503" not in findings(wheel(tmp_path, {MODULE: data}, name=tagged("musllinux_1_2_x86_64")))


@pytest.mark.parametrize(
    ("needed", "platforms", "found"),
    [
        pytest.param("ld-linux-x86-64.so.2", [TAG], True, id="its own loader"),
        pytest.param("ld-linux-aarch64.so.1", [TAG], False, id="another's loader"),
        pytest.param("libc.so", [TAG], False, id="musl's C library on glibc"),
        pytest.param("libc.musl-x86_64.so.1", ["linux_x86_64"], False, id="Alpine's C library beside glibc"),
        pytest.param("libstdc++.so.6", [TAG], True, id="libstdc++ on glibc"),
    ],
)
def test_a_library_of_another_system(tmp_path, needed, platforms, found):
    path = wheel(
        tmp_path, {MODULE: elf(needed=[needed, "libc.so.6"], versions=GLIBC)}, name=tagged(*platforms)
    )
    assert bool(proved("providers", path)) == found


@pytest.mark.parametrize(
    ("interpreter", "holds"),
    [("/lib64/ld-linux-x86-64.so.2", True), ("/nix/store/a-glibc/lib/ld-linux-x86-64.so.2", False)],
)
def test_a_program_that_names_a_loader_of_the_build_machine(tmp_path, interpreter, holds):
    files = {"demo-1.0.data/scripts/tool": elf(interpreter=interpreter, versions=GLIBC)}
    path = wheel(tmp_path, files, name=tagged(TAG))
    assert bool(proved("platform", path)) == holds
    assert ("GF501" in findings(path)) != holds


@pytest.mark.parametrize(
    ("library", "platforms", "is_there"),
    [
        pytest.param("libz.so.1", [TAG, "musllinux_1_2_x86_64"], True, id="both have it"),
        pytest.param("libstdc++.so.6", [TAG], True, id="glibc's systems have it"),
        pytest.param("libstdc++.so.6", [TAG, "musllinux_1_2_x86_64"], False, id="musl's have it not"),
        pytest.param("libm.so.6", [TAG, "musllinux_1_2_x86_64"], True, id="a part of either C library"),
    ],
)
def test_a_wheel_for_both_c_libraries_has_what_both_systems_bring(tmp_path, library, platforms, is_there):
    path = wheel(tmp_path, {MODULE: elf(needed=[library])}, name=tagged(*platforms))
    assert ("GF201" not in findings(path)) is is_there
    assert bool(proved("providers", path)) is is_there


# What must not be proved of packages: what pip does not install, or not in the release that has the library.


PPC64LE = 21
NEEDS_CUDNN = {MODULE: elf(needed=["libcudnn.so.9"], runpath=CUDNN)}


@pytest.mark.parametrize(
    ("requires", "change", "code"),
    [
        pytest.param((), {}, None, id="nothing is required of it"),
        pytest.param(["other>=0.5", "other<2"], {}, None, id="its release meets both lines"),
        pytest.param(["other>=0.5", "other<1"], {}, "GF710", id="its release meets the first line alone"),
        pytest.param(['other<1; extra == "x"'], {}, None, id="an extra wants another release"),
        pytest.param(["missing>=3"], {}, "", id="a required package is not there"),
        pytest.param(
            ['missing; python_version < "3.11"'], {}, None, id="it is required of another Python alone"
        ),
        pytest.param((), {"python": ">=3.9"}, None, id="its Requires-Python holds"),
        pytest.param((), {"python": ">=3.13"}, "", id="its Requires-Python does not hold"),
        pytest.param(
            (),
            {"name": "demo-1.0-cp39-abi3-manylinux_2_17_x86_64.whl"},
            None,
            id="the stable ABI of an older Python",
        ),
        pytest.param(
            (),
            {"name": "demo-1.0-cp312-abi3-manylinux_2_17_x86_64.whl"},
            "",
            id="the stable ABI of a newer Python",
        ),
        pytest.param((), {"name": "demo-1.0-py3-none-manylinux_2_17_x86_64.whl"}, None, id="for any Python"),
        pytest.param(
            (), {"name": "demo-1.0-cp313-cp313-manylinux_2_17_x86_64.whl"}, "", id="it is for another Python"
        ),
        pytest.param(
            (),
            {"name": "demo-1.0-cp311-cp311-manylinux_2_17_aarch64.whl"},
            "",
            id="it is for another processor",
        ),
    ],
)
def test_packages_of_an_environment_that_a_wheel_is_not_installed_beside(tmp_path, requires, change, code):
    other = one(tmp_path, "other-1.0", {"other/ext.so": elf()})
    place = environment(tmp_path / "env", other)
    machine = AARCH64 if "aarch64" in change.get("name", "") else 62
    own = wheel(tmp_path, {"demo/ext.so": elf(machine=machine)}, requires=requires, **change)  # type: ignore[arg-type]
    assert bool(proved("beside", own, beside=Beside(place))) == (code is None)
    found = audit([own], beside=Beside(place)).findings
    assert {f.code for f in found if f.across} == ({code} if code else set())


@pytest.mark.parametrize(
    ("requires", "found"),
    [
        (["nvidia-cudnn-cu12>=9"], True),
        (["nvidia-cudnn-cu12>=9", "nvidia-cudnn-cu12<10"], True),
        (["nvidia-cudnn-cu12>=9", "nvidia-cudnn-cu12<9"], False),
        (["nvidia-cudnn-cu12>=9,<8"], False),
    ],
)
def test_clauses_that_no_release_meets(tmp_path, requires, found):
    path = wheel(tmp_path, NEEDS_CUDNN, requires=requires)
    assert bool(proved("providers", path)) == found
    assert {f.code for f in audit([path]).findings} == (set() if found else {"GF201"})


@pytest.mark.parametrize(
    ("platform", "machine", "found"),
    [
        ("manylinux_2_17_x86_64", 62, True),
        ("manylinux_2_17_aarch64", AARCH64, True),
        ("manylinux_2_31_riscv64", RISCV64, False),
        ("manylinux_2_17_ppc64le", PPC64LE, False),
        ("musllinux_1_2_x86_64", 62, False),
    ],
)
def test_packages_without_wheels_for_the_platform(tmp_path, platform, machine, found):
    needed = ["libcudnn.so.9", *(["libc.musl-x86_64.so.1"] if "musl" in platform else [])]
    files = {MODULE: elf(needed=needed, runpath=CUDNN, machine=machine)}
    path = wheel(
        tmp_path, files, requires=["nvidia-cudnn-cu12>=9"], name=f"demo-1.0-cp311-cp311-{platform}.whl"
    )
    assert bool(proved("providers", path)) == found
    assert {f.code for f in audit([path]).findings} == (set() if found else {"GF201"})


@pytest.mark.parametrize(
    ("needed", "line", "found"),
    [
        ("libcublas.so.13", "nvidia-cublas", True),
        ("libcublas.so.13", "nvidia-cublas<13.5", True),
        ("libcublas.so.13", "nvidia-cublas<13", False),  # a release without any file
        ("libcublas.so.12", "nvidia-cublas-cu12==12.6.*", True),
        ("libcublas.so.12", "nvidia-cublas-cu12==0.0.1.dev5", False),
        ("libcublas.so.11", "nvidia-cublas-cu11==11.10.3.66", True),
        ("libnccl.so.2", "nvidia-nccl-cu12==2.21.5", True),
        ("libcudnn.so.9", "nvidia-cudnn-cu12==9.1.*", True),
        ("libcudnn.so.9", "nvidia-cudnn-cu12==9.999.*", False),
    ],
)
def test_clauses_that_allow_no_release_like_those_seen(tmp_path, needed, line, found):
    (library,) = (each for each in candidates(needed) if each.package == Requirement(line).name)
    files = {MODULE: elf(needed=[needed], runpath=f"$ORIGIN/../{library.folder}")}
    path = wheel(tmp_path, files, requires=[line])
    assert bool(proved("providers", path)) == found
    assert [f.severity for f in audit([path]).findings] == ([] if found else ["info"])


@pytest.mark.parametrize(
    ("needed", "folder", "line", "found"),
    [
        ("libnvcomp.so.4", "nvidia/nvcomp", "nvidia-nvcomp-cu12<5", True),
        ("libnvcomp.so.4", "nvidia/nvcomp", "nvidia-nvcomp-cu12", False),
        ("libcutensor.so.1", "cutensor/lib", "cutensor-cu12==1.7.*", True),
        ("libcutensor.so.1", "cutensor/lib", "cutensor-cu12", False),
        ("libcutensor.so.2", "cutensor/lib", "cutensor-cu12", True),
        ("libcudss.so.0", "nvidia/cu12/lib", "nvidia-cudss-cu12<1", True),
        ("libcudss.so.0", "nvidia/cu12/lib", "nvidia-cudss-cu12", False),
    ],
)
def test_libraries_that_later_releases_lack(tmp_path, needed, folder, line, found):
    path = wheel(tmp_path, {MODULE: elf(needed=[needed], runpath=f"$ORIGIN/../{folder}")}, requires=[line])
    assert bool(proved("providers", path)) == found
    assert {f.code for f in audit([path]).findings} == (set() if found else {"GF201"})


@pytest.mark.parametrize(
    ("soname", "runpath"), [("libnvcomp.so.3", "$ORIGIN/../nvidia/nvcomp"), ("libcudnn.so.77", CUDNN)]
)
def test_a_version_that_no_release_of_nvidias_package_was_seen_to_have(tmp_path, soname, runpath):
    lines = ["nvidia-nvcomp-cu12", "nvidia-cudnn-cu12"]
    assert proved("providers", wheel(tmp_path, NEEDS_CUDNN, requires=lines))
    path = wheel(tmp_path, {MODULE: elf(needed=[soname], runpath=runpath)}, requires=lines)
    assert proved("providers", path) == []


@pytest.mark.parametrize(
    ("python", "requires_python", "markers", "found"),
    [
        ("cp39-abi3", "", ['python_version >= "3.9"'], True),
        ("cp39-abi3", "", ['python_version < "3.12"'], False),
        ("cp39-abi3", ">=3.9,<3.12", ['python_version < "3.12"'], True),
        ("cp39-abi3", "", ['python_version < "3.12"', 'python_version >= "3.12"'], True),
        ("cp312-abi3", "", ['python_version == "3.12"'], False),
        ("py3-none", ">=3.9", ['python_version >= "3.9"'], True),
        ("py3-none", ">=3.9", ['python_version < "3.12"'], False),
        ("cp311-cp311", "", ['python_version < "3.12"'], True),
        ("cp311-cp311", "", ['python_full_version < "3.11.5"'], False),
        ("cp311-cp311", "", ['sys_platform == "linux"'], True),
    ],
)
def test_packages_that_some_pythons_do_not_get(tmp_path, python, requires_python, markers, found):
    files = {"demo/libext.so": elf(needed=["libcudnn.so.9"], runpath=CUDNN)}
    lines = [f"nvidia-cudnn-cu12>=9; {marker}" for marker in markers]
    name = f"demo-1.0-{python}-manylinux_2_17_x86_64.whl"
    path = wheel(tmp_path, files, name=name, requires=lines, python=requires_python)
    assert bool(proved("providers", path)) == found
    assert {(f.code, f.severity) for f in audit([path]).findings} == (
        set() if found else {("GF201", "warning")}
    )


@pytest.mark.parametrize(("extras", "found"), [(["Cuda"], True), ([], False), (["other"], False)])
def test_an_extra_that_metadata_does_not_provide(tmp_path, extras, found):
    path = wheel(tmp_path, NEEDS_CUDNN, requires=['nvidia-cudnn-cu12>=9; extra == "cuda"'], extras=extras)
    assert bool(proved("providers", path)) == found
    assert {(f.code, f.severity) for f in audit([path]).findings} == (
        set() if found else {("GF201", "warning")}
    )


def test_the_report_says_why_a_declared_package_need_not_bring_a_library(tmp_path):
    folders = ("curand", "cudnn", "nccl")
    files = {
        "demo/libext.so": elf(
            needed=["libcurand.so.10", "libcudnn.so.9", "libnccl.so.2"],
            runpath=":".join(f"$ORIGIN/../nvidia/{folder}/lib" for folder in folders),
        )
    }
    requires = [
        'nvidia-curand-cu12; extra == "random"',
        'nvidia-cudnn-cu12>=9; python_version < "3.12"',
        "nvidia-nccl-cu12==2.999",
    ]
    path = wheel(tmp_path, files, name="demo-1.0-py3-none-linux_x86_64.whl", requires=requires, extras=())
    hold("audit/not_proved_packages.txt", text.render(audit([path]), width=100, verbose=True))


@pytest.mark.parametrize(
    ("own", "extra", "complete"),
    [
        ("", "", True),
        ("", '; extra == "x"', False),
        ('; extra == "x"', '; extra == "x"', True),
        ('; extra == "x"', "", True),
    ],
)
def test_what_a_package_needs_is_not_there_without_an_extra(tmp_path, own, extra, complete):
    folder = "nvidia/cusolver/lib"
    shared = Shared("libcusolver.so.11", folder, ("libcurand.so.10",))
    release = PackageRelease("nvidia-cusolver-cu12", "11.6.1.9", "newest", "", "", libraries=(shared,))
    files = {MODULE: elf(needed=["libcusolver.so.11"], runpath=f"$ORIGIN/../{folder}")}
    path = wheel(tmp_path, files, requires=[f"nvidia-cusolver-cu12{own}", f"nvidia-curand-cu12{extra}"])
    brought = Provided(releases=(release,))
    assert bool(proved("requirements", path, brought=brought)) == complete
    assert ("GF214" in {f.code for f in audit([path], brought=brought).findings}) != complete


CONSOLE = "demo-1.0.dist-info/entry_points.txt"
STARTS = b"import os, subprocess\nos.environ['LD_LIBRARY_PATH'] = libs\nsubprocess.call([tool])\n"
OPS = b'import torch\ntorch.ops.load_library("lib%s")\n'
CTYPES = b'import ctypes\nctypes.CDLL("lib%s")\nfrom . import ext\n'


@pytest.mark.parametrize(
    ("files", "requires", "found"),
    [
        ({MODULE: elf()}, (), "proof"),
        ({MODULE: elf()}, ["nvidia-cublas"], "proof"),
        ({MODULE: elf()}, ["nvidia-cublas-cu12"], "warning"),
        ({MODULE: elf()}, ['nvidia-cublas-cu12; extra == "x"'], "proof"),
        ({MODULE: elf()}, ["torch>=2.4,<2.6"], "warning"),
        (NEEDS_CUDNN, ["nvidia-cudnn-cu13>=9"], "proof"),
        (NEEDS_CUDNN, ["nvidia-cudnn-cu12>=9"], "warning"),
        ({MODULE: elf(), "demo/__init__.py": CTYPES % b"foo.so.1"}, (), "proof"),
        ({MODULE: elf(), "demo/__init__.py": CTYPES % b"cudart.so.12"}, (), ""),
        ({MODULE: elf(), "demo/__init__.py": STARTS + CTYPES % b"cudart.so.12"}, (), ""),
        ({MODULE: elf(), "demo/__init__.py": OPS % b"cudart.so.12"}, (), ""),
        ({MODULE: elf(), CONSOLE: b"[console_scripts]\ncudart = runner:main\n"}, (), "proof"),
        ({MODULE: elf(), "demo/__init__.py": CTYPES % b"cudart.so.13"}, ["nvidia-cuda-runtime"], "proof"),
        ({MODULE: elf(sections={".rodata": b"\0libcudart.so.13\0"})}, (), "proof"),
        ({MODULE: elf(sections={".rodata": b"\0libcudart.so.12\0"})}, (), ""),
    ],
)
def test_what_is_opened_or_required_is_a_second_copy_too(tmp_path, files, requires, found):
    libraries = tmp_path / "toolkit" / "lib64"
    libraries.mkdir(parents=True)
    for name in ("libcudart.so.13", "libcublas.so.13", "libcudart.so"):
        (libraries / name).touch()
    brought = against.parse(f"toolkit:{libraries.parent}")
    path = wheel(tmp_path, files, requires=requires)
    assert bool(proved("against", path, against=brought)) == (found == "proof")
    severities = {f.severity for f in audit([path], against=brought).findings if f.code == "GF110"}
    assert severities == ({found} - {"proof", ""})


def test_the_report_names_required_packages_of_another_cuda_release(tmp_path):
    path = wheel(tmp_path, {MODULE: elf()}, requires=["nvidia-curand-cu12", "nvidia-cuda-runtime-cu12"])
    brought = against.Against("the toolkit 13.0", frozenset(["libcudart.so.13"]))
    hold("audit/not_proved_against.txt", text.render(audit([path], against=brought), width=100))


@pytest.mark.parametrize(
    ("needed", "line", "found"),
    [
        ("libtorch_python.so", "torch", True),
        ("libtorch.so.9", "torch", False),
        ("libcuvs_c.so", "libcuvs-cu12", True),
        ("libcuvs_x.so", "libcuvs-cu12", False),
        ("librmm.so", "librmm-cu12", True),
        ("librmm.so", "librmm-cu12==25.4.*", False),  # which has none
        ("libcuml.so", "libcuml-cu12", True),
        ("libcuml++.so", "libcuml-cu12", False),  # renamed in 26.6
        ("libcuml++.so", "libcuml-cu12<26.6", True),
        ("libdemo_x.so", "libdemo-cu12", False),  # nobody here has seen that package
    ],
)
def test_a_package_called_like_a_library_need_not_have_it(tmp_path, needed, line, found):
    path = wheel(tmp_path, {MODULE: elf(needed=[needed])}, requires=[line])
    assert bool(proved("providers", path)) == found
    assert {f.code for f in audit([path]).findings} == (set() if found else {"GF201"})
