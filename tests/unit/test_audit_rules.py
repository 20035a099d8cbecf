"""Each rule: a wheel that it must speak of, and the nearest one that it must not."""

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import audit_samples
import pytest
from audit_cases import findings
from audit_samples import CU12, CU13, KERNEL, elf, fatbin, lib, read, wheel
from document_samples import LISTING
from golden import FOLDER, hold_findings
from hostile import objects
from object_samples import archive
from promise_samples import BASE, PROMISES
from rule_cases import CASES
from rule_cases.platform import ABI3, ANY_PYTHON, GLIBC, NOISE, ONE_PYTHON, module
from rule_cases.processes import BOTH, USERS_BUILD
from rule_cases.providers import RELEASE

from gpuforge.audit import against, audit, policy
from gpuforge.audit.evidence import matches
from gpuforge.audit.findings import Finding
from gpuforge.audit.judge import Ignore
from gpuforge.audit.link.graph import build
from gpuforge.audit.read.input import Beside
from gpuforge.audit.report.sentences import lines
from gpuforge.audit.rules import RULES, platform_tags
from gpuforge.audit.rules import files as rules_of_files
from gpuforge.cuda.provided import Provided
from gpuforge.expectation import Expectation
from gpuforge.manifest.load import load
from gpuforge.plan.expectation import expectation

DOCS = Path(__file__).parents[2] / "docs" / "findings"


def test_every_rule_is_listed_once_with_its_page():
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes)), "list each rule once in RULES, in the order of the codes"
    pages = {page.stem for page in DOCS.glob("GF*.md")}
    missing = [f"docs/findings/{code}.md" for code in codes if code not in pages]
    assert not missing, f"write {', '.join(missing)}"
    unlisted = sorted(pages - set(codes))
    assert not unlisted, f"no rule in RULES has the code of these pages: {', '.join(unlisted)}"
    for rule in RULES:
        text = (DOCS / f"{rule.code}.md").read_text()
        assert text.startswith(f"# {rule.code}: {rule.title}\n"), rule.code
        assert rule.code in (DOCS / "README.md").read_text()
        parts = dict(re.findall(r"^\*\*([A-Z][a-z ]+):\*\* (.+)$", text, re.MULTILINE))
        assert [*parts] == ["What", "Why it breaks", "Fix", "Bad", "Good", "Seen in"], rule.code
        bad = parts["Bad"].strip("`")
        assert f"\n  {bad}\n" in (FOLDER / "findings" / f"{rule.code}.txt").read_text(), (
            f"{rule.code}: not the rule's text: {bad}"
        )


def test_no_module_of_rules_imports_another():
    """What rules of several modules need is in a module without rules."""
    modules = {rule.check.__module__ for rule in RULES}
    for name in modules:
        text = Path(str(sys.modules[name].__file__)).read_text()
        assert modules.isdisjoint(re.findall(r"^from (\S+) import", text, re.MULTILINE)), name


def test_one_cause_in_many_files_is_one_finding(tmp_path):
    path = wheel(tmp_path, {f"demo/{n}.so": elf(rpath="libs") for n in range(9)})
    (found,) = audit([path]).findings
    assert (len(found.files), len(lines(found)), found.file) == (9, 9, "demo/0.so")


def test_findings_can_be_accepted_by_file_with_a_reason(tmp_path):
    path = wheel(tmp_path, {f"demo/{n}.so": elf(rpath="libs") for n in range(3)})
    report = audit([path], ignore=[Ignore("GF301", "known", "demo/1*"), Ignore("GF302", "other rule")])
    assert [f.files for f in report.findings] == [("demo/0.so", "demo/2.so")]
    assert [(i.finding.file, i.reason) for i in report.wheels[0].ignored] == [("demo/1.so", "known")]


def test_variants_that_are_chosen_from_do_not_meet(tmp_path):
    files = {f"demo/libx_cuda{v}0.so": elf(needed=[f"libcudart.so.{v}"]) for v in (12, 13)}
    requires = ["nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"]
    assert "GF102" not in {f.code for f in audit([wheel(tmp_path, files, requires=requires)]).findings}


@pytest.mark.parametrize(
    ("pattern", "file", "fits"),
    [
        ("**/*.so", "a/b/c.so", True),
        ("**/*.so", "c.so", True),
        ("*.so", "a/c.so", False),
        ("demo/lib?.so", "demo/lib1.so", True),
        ("demo/[!x]*.so", "demo/y.so", True),
        ("demo/[!x]*.so", "demo/x.so", False),
        ("demo/**", "demo/a/b", True),
        ("a+b.so", "a+b.so", True),
    ],
)
def test_patterns_of_files(pattern, file, fits):
    assert matches(pattern, file) is fits


# Rules about who provides what, and where it is searched for: the cases beyond the plainest.


RUNTIME = "$ORIGIN/../nvidia/cuda_runtime/lib"


def test_makefiles_and_dead_paths_name_the_sdk(tmp_path):
    sdk = "/opt/nvidia/hpc_sdk/Linux_x86_64/22.1/compilers"
    files = {
        "demo.libs/libnvc-0a1b2c3d.so": lib("libnvc-0a1b2c3d.so"),
        "demo/libcore.so": elf(
            needed=["libnvc-0a1b2c3d.so"], runpath="$ORIGIN/../demo.libs", strings=[f"{sdk}/lib"]
        ),
        "demo/demo_makefile": f"CXX = {sdk}/bin/nvc++\nLD = -cuda -gpu=cuda11.5,cc80\n".encode(),
    }
    (found,) = [f for f in audit([wheel(tmp_path, files)]).findings if f.code == "GF101"]
    assert lines(found) == (
        "libnvc-0a1b2c3d.so (NVIDIA HPC SDK 22.1), loaded by libcore.so; "
        "libnvc.so comes beside it when users link against libcore.so",
        "demo/demo_makefile: asks for nvc++ of the NVIDIA HPC SDK 22.1",
        "demo/demo_makefile: asks for -gpu=cuda11.5,cc80",
    )


@pytest.mark.parametrize(
    ("requires", "release", "found"),
    [
        (["nvidia-curand"], RELEASE, 1),
        (["nvidia-curand", "nvidia-cuda-runtime>=13.0,<14"], RELEASE, 0),
        (["cuda-toolkit[cudart,curand]==13.*"], RELEASE, 0),
        (["nvidia-curand"], RELEASE._replace(requires=("nvidia-cuda-runtime",)), 0),
        (["nvidia-curand", "nvidia-cuda-runtime-cu12"], RELEASE, 1),
    ],
)
def test_gf214_a_required_package_needs_what_nothing_installs(tmp_path, requires, release, found):
    files = {"demo/ext.so": elf(needed=["libcurand.so.10"], runpath=CU13)}
    report = audit([wheel(tmp_path, files, requires=requires)], brought=Provided(releases=(release,)))
    findings = [f for f in report.findings if f.code == "GF214"]
    assert len(findings) == found
    for finding in findings:
        assert (finding.severity, finding.files) == ("error", ("demo/ext.so",))
        assert lines(finding) == ("libcudart.so.13 (for libcurand.so.10 of nvidia-curand 10.4.5.25, newest)",)


@pytest.mark.parametrize(
    ("code", "alone"),
    [
        (b"from . import ext\n", "No import loads these objects"),
        (b"ctypes.CDLL(os.path.join(HERE, 'libprovider.so'))\n", "The import fails"),
        (b"ctypes.CDLL(os.path.join(HERE, name))\n", "The import fails"),
    ],
)
def test_the_import_fails_only_where_it_loads_the_object(tmp_path, code, alone):
    files = {
        "demo/__init__.py": code,
        "demo/ext.so": elf(strings=["PyInit_ext"]),
        "demo/libprovider.so": elf(needed=["libnone.so.1"]),
    }
    (found,) = (f for f in audit([wheel(tmp_path, files)]).findings if f.code == "GF201")
    assert alone in found.message


@pytest.mark.parametrize(("needed", "alternatives"), [("libavutil.so.59", True), ("libswscale.so.8", False)])
def test_alternatives_need_versions_of_one_library(tmp_path, needed, alternatives):
    names = {"demo/_f6.so": "libavutil.so.58", "demo/_f7.so": needed}
    files = {file: elf(needed=[name], strings=["PyInit__f"]) for file, name in names.items()}
    (found,) = (f for f in audit([wheel(tmp_path, files)]).findings if f.code == "GF201")
    assert ("alternatives" in found.message) == alternatives


def test_a_guess_proves_no_tag(tmp_path):
    for needed, requires, proved in (
        ("libhidden.so", ["demo-core==1.0"], False),  # a part of the same release may have it
        ("libcudart.so.12", ["nvidia-cuda-runtime-cu12"], True),
    ):
        files = {"demo/ext.so": elf(needed=[needed], versions={"libc.so.6": ["GLIBC_2.4"]}, runpath=RUNTIME)}
        (found,) = audit([wheel(tmp_path, files, requires=requires)]).wheels
        assert any(proof.topic == "platform" for proof in found.proofs) is proved


@pytest.mark.parametrize(
    ("code", "lost"),
    [
        (b"", True),
        (b"ctypes.CDLL('libcufft.so.12', mode=ctypes.RTLD_GLOBAL)\n", False),
        (b"ctypes.CDLL('libcublas.so.13', mode=ctypes.RTLD_GLOBAL)\n", True),
    ],
)
def test_functions_of_a_library_that_python_code_opens_are_found(tmp_path, code, lost):
    files = {"demo/__init__.py": code, "demo/libx.so": elf(undefined=["cufftExecC2C"])}
    assert lost == any(f.code == "GF215" for f in audit([wheel(tmp_path, files)]).findings)


@pytest.mark.parametrize("requires", ["torch>=2.8", "torchvision"])
def test_a_requirement_brings_the_framework(tmp_path, requires):
    files = {"demo/__init__.py": b"import torch\n", "demo/ext.so": elf()}
    report = audit([wheel(tmp_path, files, requires=[requires])])
    assert "GF217" not in {finding.code for finding in report.findings}


# Rules about what meets in one process: the cases beyond the plainest.


CUDART = "demo.libs/libcudart-0a1b2c3d.so.13.0.96"


def test_wheels_given_together_are_one_environment(tmp_path):
    one = wheel(tmp_path, {"a/a.so": elf(needed=["libcudart.so.12"], runpath=CU12)}, requires=BOTH)
    two = wheel(
        tmp_path,
        {"b/b.so": elf(needed=["libcudart.so.13"], runpath=CU13)},
        name="other-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
        requires=BOTH,
    )
    assert "GF104" not in {f.code for path in (one, two) for f in audit([path]).findings}
    found = [f for f in audit([one, two]).findings if f.code == "GF104"]
    assert [(f.severity, f.wheel) for f in found] == [("warning", two.name)]


def test_of_what_two_wheels_bring_together_a_third_is_not_told(tmp_path):
    paths = [
        wheel(
            tmp_path,
            {
                f"{name}/x.so": elf(
                    needed=[f"libgomp-0000000{name}.so.1", *sorted(cuda)],
                    runpath=f"$ORIGIN/../{name}.libs:{CU12}:{CU13}",
                ),
                f"{name}.libs/libgomp-0000000{name}.so.1": lib(f"libgomp-0000000{name}.so.1"),
            }
            if cuda
            else {f"{name}/x.so": elf()},
            name=f"{name}-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
            requires=BOTH,
        )
        for name, cuda in (("a", {"libcudart.so.12"}), ("b", {"libcudart.so.13"}), ("c", set[str]()))
    ]
    found = {f.code: f.wheel for f in audit(paths).findings}
    assert (found["GF104"], found["GF105"]) == (paths[1].name, paths[1].name)


def test_a_library_without_a_version_in_its_soname_is_not_the_original_of_one_with(tmp_path):
    files = {
        "demo/x.so": elf(needed=["libz.so"], runpath="$ORIGIN"), "demo/libz.so": lib("libz.so"),
        "demo/y.so": elf(needed=["libz-0a1b2c3d.so.1.2.11"], runpath="$ORIGIN/../demo.libs"),
        "demo.libs/libz-0a1b2c3d.so.1.2.11": lib("libz-0a1b2c3d.so.1.2.11"),
    }  # fmt: skip
    assert "GF108" not in [f.code for f in audit([wheel(tmp_path, files)]).findings]


@pytest.mark.parametrize(("through", "codes"), [(["libx-0a1b2c3d.so"], []), ([], ["GF108"])])
def test_what_links_with_a_grafted_library_of_its_name_is_no_copy_of_it(through, codes, tmp_path):
    path = "$ORIGIN:$ORIGIN/../demo.libs"
    files = {
        "demo/a.so": elf(needed=["libx.so", "libx-0a1b2c3d.so"], runpath=path),
        "demo/libx.so": elf(soname="libx.so", needed=through, runpath=path),
        "demo.libs/libx-0a1b2c3d.so": lib("libx-0a1b2c3d.so"),
    }
    found = audit([wheel(tmp_path, files)]).findings
    assert [f.code for f in found if f.severity == "error" or f.code == "GF108"] == codes


def test_a_grafted_cudart_is_recognised_by_its_bytes(tmp_path):
    cudart = lib("libcudart.so.13", sections={".nv_fatbin": fatbin("sm_80")})
    own = wheel(
        tmp_path,
        {
            "demo/ext.so": elf(needed=[Path(CUDART).name, "libtorch.so"], runpath="$ORIGIN/../demo.libs"),
            CUDART: cudart,
        },
        requires=["torch"],
    )
    runtime = wheel(
        tmp_path,
        {"nvidia/cu13/lib/libcudart.so.13": cudart},
        name="nvidia_cuda_runtime-13.0.96-py3-none-manylinux_2_17_x86_64.whl",
    )
    found = {f.code: f for f in audit([own, runtime]).findings if f.wheel == own.name}
    assert lines(found["GF102"])[0] == (
        f"{CUDART} (byte for byte nvidia/cu13/lib/libcudart.so.13 of {runtime.name}), loaded by demo/ext.so"
    )
    assert found["GF108"].severity == "warning"


# Rules about the platform, the package and the sources in it: the cases beyond the plainest.


def test_code_chooses_between_objects_that_are_there_for_both_c_libraries_and_no_others(tmp_path):
    path, musl = "$ORIGIN/../demo.libs", "libc.musl-x86_64.so.1"
    files = {
        "demo/a.cpython-311-x86_64-linux-gnu.so": elf(
            needed=["libx-0a1b2c3d.so.1", "liby-0a1b2c3d.so", "libc.so.6"], runpath=path, versions=GLIBC
        ),
        "demo/a.cpython-311-x86_64-linux-musl.so": elf(needed=["libx-1a2b3c4d.so.1", musl], runpath=path),
        "demo/b.so": elf(needed=["libz-0a1b2c3d.so", "libc.so.6"], runpath=path, versions=GLIBC),
        "demo/bin/helper": elf(needed=[musl]),
        "demo.libs/libx-0a1b2c3d.so.1": elf(soname="libx-0a1b2c3d.so.1", versions=GLIBC),
        "demo.libs/libx-1a2b3c4d.so.1": elf(soname="libx-1a2b3c4d.so.1", needed=[musl]),
        "demo.libs/liby-0a1b2c3d.so": elf(soname="liby-0a1b2c3d.so", versions=GLIBC),  # of nothing but a
        "demo.libs/libz-0a1b2c3d.so": elf(soname="libz-0a1b2c3d.so", versions=GLIBC),
    }
    said = {}
    for tag in ("musllinux_1_2_x86_64", "manylinux_2_17_x86_64"):
        report = audit([wheel(tmp_path, files, name=f"demo-1.0-cp311-cp311-{tag}.whl")])
        found = [f for f in report.findings if "are linked with" in f.message]
        said[tag[:5]] = {f.severity: {file.rpartition("/")[2] for file in f.files} for f in found}
    assert said["musll"] == {
        "error": {"b.so", "libz-0a1b2c3d.so"},
        "warning": {"a.cpython-311-x86_64-linux-gnu.so", "libx-0a1b2c3d.so.1", "liby-0a1b2c3d.so"},
    }
    assert said["manyl"] == {
        "error": {"helper"},
        "warning": {"a.cpython-311-x86_64-linux-musl.so", "libx-1a2b3c4d.so.1"},
    }


@pytest.mark.parametrize("family", ["manylinux", "musllinux"])
def test_a_library_of_no_policy_is_told_with_the_policies_of_its_system(tmp_path, family):
    name = f"demo-1.0-cp311-cp311-{family}_1_2_x86_64.whl"
    report = audit([wheel(tmp_path, {"demo/ext.so": elf(needed=["libnuma.so.1"])}, name=name)])
    (found,) = (f for f in report.findings if f.code == "GF201")
    assert f"the {family} policies do not promise them" in found.message


def test_modules_for_several_versions_are_chosen_from(tmp_path):
    files = {f"demo/ext.cpython-{v}-x86_64-linux-gnu.so": module() for v in ("310", "311")}
    assert audit([wheel(tmp_path, files, name=ANY_PYTHON)]).findings == ()


@pytest.mark.parametrize(
    ("python", "severity"),
    [
        (">=3.11,<3.15", "warning"),
        ("~=3.11.2", "warning"),
        (">=3.10", "error"),
        ("", "error"),
        ("none", "error"),
    ],
)
def test_what_requires_python_keeps_away_needs_no_stable_abi(tmp_path, python, severity):
    files = {"demo/ext.abi3.so": module("PyBuffer_Release")}
    (found,) = audit([wheel(tmp_path, files, name=ABI3, python=python)]).findings
    assert (found.code, found.severity) == ("GF504", severity)


def test_nvidias_packages_lie_beside_each_other(tmp_path):
    name = "nvidia_demo_cu12-1.0-py3-none-manylinux_2_17_x86_64.whl"
    files = {"nvidia/cu12/lib/libdemo.so.0": elf(soname="libdemo.so.0")}
    assert audit([wheel(tmp_path, files, name=name, purelib=True)]).findings == ()


def test_a_tag_of_one_python_promises_no_other(tmp_path):
    files = {f"demo/{n}.so": module("_PyObject_MakeTpCall") for n in ("a.cpython-312-x86_64-linux-gnu", "b")}
    assert audit([wheel(tmp_path, files, name=ONE_PYTHON)]).findings == ()


def test_what_takes_the_room(tmp_path):
    files = {"demo/ext.so": elf(sections={".x": NOISE}), "demo/a.py": b"pass\n"}
    found = rules_of_files.sizes(read(wheel(tmp_path, files)))
    assert found["sections"][0] == (".x", len(NOISE))
    assert found["files"][0][0] == "demo/ext.so"
    assert found["device code"] == []


def test_pypi_accepts_100_mebibytes(tmp_path):
    facts = read(wheel(tmp_path, {"demo/a.py": b"pass\n"}))
    found = {
        size: [f.what for f in rules_of_files.large_wheel.check(build([facts._replace(size=size)]))]
        for size in (100 << 20, (100 << 20) + 1)
    }
    assert [*found.values()] == [[], ["The wheel is 101 MiB. PyPI accepts 100 MiB by default."]]


def test_the_floor_of_a_wheel_whose_tag_promises_nothing_is_said(tmp_path):
    files = {"demo/ext.so": elf(versions={"libc.so.6": ["GLIBC_2.28"]})}
    (held,) = audit([wheel(tmp_path, files, name="demo-1.0-cp311-cp311-linux_x86_64.whl")]).wheels
    assert [p.text for p in held.proofs if p.topic == "platform"] == [
        "linux_x86_64 promises nothing; manylinux_2_28 has the glibc and libstdc++ that the objects need; "
        "highest required: GLIBC 2.28 (ext.so)"
    ]


@pytest.mark.parametrize("version", ["2_999999999", "2_" + "9" * 5000, "99999_1"])
def test_a_tag_of_no_glibc_promises_nothing(version):
    assert policy.of_tag(f"manylinux_{version}_x86_64") == (None, "x86_64")


@pytest.mark.parametrize(
    ("name", "foreign"),
    [
        ("demo/x.DLL", True),
        ("demo/x.dll.so", False),
        ("demo/macOS-arm64/tool", True),
        ("demo/win32/bin/tool", True),
        ("demo/darwin.old/tool", True),
        ("demo/win32/v1.2/tool", False),
        ("demo/winter/tool", True),
        ("demo/linux/tool", False),
        ("darwin", False),
    ],
)
def test_members_for_other_systems(name, foreign):
    assert platform_tags._is_foreign(name) == foreign


def test_names_of_many_folders_are_read_once():
    """65,535 bytes is the longest name in a zip file; the square of its folders would take minutes."""
    begun = time.process_time()
    for end in ("x.", "x/.", "x"):
        platform_tags._is_foreign("win/" * 16_000 + end)
        platform_tags._is_foreign("x/" * 32_000 + end)
        platform_tags._is_foreign("win-" * 16_000 + "/" + end)
    assert time.process_time() - begun < 2


# What each finding says, whole: message, subjects and fix of every case of every rule.


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, marks=pytest.mark.thorough) if code in {"GF407", "GF707"} else code  # large files
        for code in sorted({case.code for case in CASES.values()})
    ],
)
def test_a_rule_speaks_where_it_must_and_nowhere_else(code, tmp_path):
    said = []
    for number, (name, case) in enumerate(sorted(CASES.items())):
        if case.code == code:
            (folder := tmp_path / str(number)).mkdir()
            (found,) = findings(case, case.files, folder)
            said.append((name, found))
            assert findings(case, {**case.files, **case.but}, folder, fixed=True) == [], name
    hold_findings(code, said)


Files = dict[str, bytes | None]
EXT = "demo/ext.so"
# what the manifest promises, and what a wheel holds instead
BROKEN: dict[str, tuple[str, Files]] = {
    "GF401": (PROMISES, {EXT: elf(sections={".nv_fatbin": KERNEL + fatbin("sm_90", "compute_90:8.7")})}),
    "GF402": (PROMISES, {EXT: elf(sections={".nv_fatbin": fatbin("sm_80")})}),
    "GF409": (PROMISES, {EXT: elf(sections={".nv_fatbin": fatbin("sm_80", "compute_80:8.7", "compute_90:8.7")})}),
    "GF509": (PROMISES.partition("[[objects]]")[0].replace('["80"]\nptx = "90"', "[]"), {"demo/__init__.py": b""}),
    "GF601": (PROMISES, {"demo/libcore.so": elf(sections={".nv_fatbin": fatbin("sm_80")})}),
    "GF602": (PROMISES, {"demo/libcore.so": None}),
    "GF605": (
        PROMISES + """[[objects]]\nname = "fast"\nrole = "gpu"\nfiles = ["demo/fast*.so", "demo/ext.so"]\n""",
        {EXT: elf()},
    ),
    "GF604": (PROMISES.replace("lib*.so", "*.a"), {"demo/x.a": archive({"a.o": b"BC\xc0\xde" + bytes(64)})}),
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(BROKEN))
def test_what_a_rule_says_of_a_broken_promise(code, tmp_path):
    text, files = BROKEN[code]
    (tmp_path / "gpuforge.toml").write_text(text)
    held = files if code == "GF509" else {**BASE, **files}
    name = (
        "demo-1.0-py3-none-any.whl" if code == "GF509" else "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    )
    path = wheel(tmp_path, {name: data for name, data in held.items() if data is not None}, name=name)
    report = audit([path], expectation=expectation(load(tmp_path / "gpuforge.toml")))
    hold_findings(code, [("a broken promise", found) for found in report.findings if found.code == code])


def _against(folder: Path) -> list[Finding]:
    return list(audit([wheel(folder, USERS_BUILD)], against=against.parse("nvhpc@24.9")).findings)


def _forgotten(folder: Path) -> list[Finding]:
    files = {EXT: elf(needed=["libcurand.so.10"], runpath="$ORIGIN/../nvidia/cu13/lib")}
    brought = Provided(releases=(RELEASE,))
    return list(audit([wheel(folder, files, requires=["nvidia-curand"])], brought=brought).findings)


def _undefined(folder: Path) -> list[Finding]:
    return list(audit([wheel(folder, {EXT: elf(undefined=["cuInit", "cublasCreate_v2"])})]).findings)


def _unstable(folder: Path) -> list[Finding]:
    files = {EXT: elf(undefined=["_ZN3c1010StringType3getEv", "_ZN2at6launchESt8functionIFvvEE"])}
    own = wheel(folder, files, requires=["torch>=2.3.0"])
    found = list(audit([own]).findings)
    return [*found, *audit([own], expectation=Expectation(spans=("torch",))).findings]


def _large(folder: Path) -> list[Finding]:
    return list(audit([wheel(folder, {EXT: elf(sections={".nv_fatbin": bytes(2_000_000)})})]).findings)


def _overwritten(folder: Path) -> list[Finding]:
    name = "{}-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    wheels = [wheel(folder, {EXT: elf(soname=n)}, name=name.format(n)) for n in ("demo", "demo_gpu")]
    return list(audit(wheels).findings)


def _unmet(folder: Path) -> list[Finding]:
    own = wheel(folder, {EXT: elf()}, requires=["torch==2.9.1"])
    return list(audit([own, audit_samples.torch(folder)]).findings)


def _in_library_path(folder: Path) -> list[Finding]:
    files = {EXT: elf(needed=["libcudart.so.12"], runpath="$ORIGIN/../nvidia/cuda_runtime/lib")}
    own = wheel(folder, files, requires=["nvidia-cuda-runtime-cu12"])
    (folder / "libcudart.so.12").write_bytes(elf())
    found = audit([own], beside=Beside(library_path=(folder,))).findings
    return [
        finding._replace(
            subjects=tuple(s._replace(facts=(("folder", "/cuda/lib64"),)) for s in finding.subjects)
        )
        for finding in found
    ]


def _too_large(folder: Path) -> list[Finding]:
    return list(audit(objects.needed_of_one_string(folder)).findings)


def _foreign_kernels(folder: Path) -> list[Finding]:
    sets = [{"name": name, "kind": "module", "abi": "k1"} for name in ("default-kernels", "more")]
    listing = {**LISTING, "sets": sets}
    host = wheel(folder, {"demo/_gpuforge/wheels.json": json.dumps(listing).encode()})
    found: list[Finding] = []
    for version in ("1.0", "0.9"):
        about = {
            "schema": 1,
            "version": version,
            "sets": [{"name": "default-kernels", "kind": "module", "abi": "k2"}],
        }
        files = {"demo_kernels_cu13/_gpuforge/wheel.json": json.dumps(about).encode()}
        name = f"demo_kernels_cu13-{version}-py3-none-manylinux2014_x86_64.whl"
        found += audit([host, wheel(folder, files, name=name)]).findings
    return found


def _unlike(folder: Path) -> list[Finding]:
    (theirs := folder / "upstream").mkdir()
    files = {"demo/__init__.py": b"", EXT: elf(sections={".nv_fatbin": fatbin("sm_80")})}
    parts = {"demo/sparse/__init__.py": b"", "demo/sparse/a.py": b"", "demo/t.so": elf(strings=["PyInit_t"])}
    more = {EXT: elf(sections={".nv_fatbin": fatbin("sm_80", "sm_90", "compute_90")})}
    upstream = wheel(theirs, {**files, **parts, **more}, requires=['nvidia-cufft; extra == "ctk"'])
    return list(
        audit(
            [wheel(folder, files, name="demo_cu13-1.0-cp311-cp311-manylinux_2_17_x86_64.whl")],
            like=audit([upstream]),
        ).findings
    )


MADE: dict[str, Callable[[Path], list[Finding]]] = {
    "GF110": _against, "GF307": _in_library_path,
    "GF214": _forgotten, "GF215": _undefined, "GF216": _unstable, "GF708": _large,
    "GF709": _overwritten, "GF710": _unmet, "GF711": _foreign_kernels,
    "GF714": _too_large, "GF717": _unlike,
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(MADE))
def test_what_a_rule_says_of_several_wheels_and_of_machines(code, tmp_path, monkeypatch):
    monkeypatch.setattr(rules_of_files, "_LIMIT", 100)
    hold_findings(code, [("one", found) for found in MADE[code](tmp_path) if found.code == code])


def test_every_rule_has_its_words_in_a_golden_file():
    assert sorted(path.stem for path in FOLDER.glob("findings/*.txt")) == [rule.code for rule in RULES]


# The table of carriers is what its packages say; the script that reads them keeps the rest of the file.
BEFORE = """\
# why this row
[[carrier]]
package = "demo"
versions = ">=2"
known = ["2.1"]
loads = true
brings = ["nvidia-cublas-cu12"]  # the one before
source = "https://pypi.org/project/demo/2.1/"

[[carrier]]
package = "demo"
versions = "<2"
known = ["1.0"]
loads = true
brings = [
  "nvidia-cufft-cu12", "nvidia-nvtx-cu12",
]
source = "https://pypi.org/project/demo/1.0/"
"""


def test_rows_are_written_anew_and_what_stands_around_them_stays():
    import refresh_carriers as script

    old = ("nvidia-cufft-cu12", "nvidia-nvtx-cu12")
    text = script.rewritten(
        BEFORE, [script.Difference("carrier demo  <2", "brings", old, ("nvidia-cufft-cu12",))]
    )
    assert text == BEFORE.replace(
        'brings = [\n  "nvidia-cufft-cu12", "nvidia-nvtx-cu12",\n]', 'brings = [\n  "nvidia-cufft-cu12",\n]'
    )
