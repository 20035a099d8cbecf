"""What is not required is not there: wheels that are given together, and what their metadata requires."""

import zipfile
from pathlib import Path

import pytest
from audit_samples import TAGS, elf, said, torch, wheel

from gpuforge.audit import audit, version_clauses
from gpuforge.audit.findings import Finding
from gpuforge.audit.read.input import Beside, Input, Remote
from gpuforge.audit.report.sentences import lines
from gpuforge.expectation import Expectation
from gpuforge.package import variants
from gpuforge.wheel.archive import Archive

ABI3 = "demo-1.0-cp37-abi3-manylinux_2_17_x86_64.whl"


@pytest.mark.parametrize(("requires", "code"), [([], "GF201"), (["base==1.0"], "GF202")])
@pytest.mark.parametrize(
    ("needed", "file"),
    [
        ("libgomp.so.1", "base/lib/libgomp.so.1"),
        ("libfoo.so.1", "base/lib/libfoo-0a1b2c3d.so.1"),
        ("libOpenCL.so.1", "base/.libs/libOpenCL.so.1"),
    ],
)
def test_what_a_package_has_is_not_for_those_that_do_not_require_it(tmp_path, needed, file, requires, code):
    name = file.rpartition("/")[2]
    lib = {"base/ext.so": elf(needed=[name], runpath="$ORIGIN/lib:$ORIGIN/.libs"), file: elf(soname=needed)}
    other = wheel(tmp_path, lib, name=f"base-1.0-{TAGS}.whl")
    one = wheel(tmp_path, {"demo/lib.so": elf(needed=[needed])}, requires=requires)
    found = {f.code: f.severity for f in audit([one, other]).findings if f.wheel == one.name}
    assert found[code] == "warning"
    assert not {"GF201", "GF202"} - {code} & found.keys()


@pytest.mark.parametrize(
    ("requires", "codes"),
    [(["torch<3,>=2.2"], set()), (["torch>=2.15"], {"GF204", "GF710"}), ([], {"GF201"})],
)
def test_a_package_given_brings_what_it_says_itself(tmp_path, requires, codes):
    marker = "; platform_system == 'Linux' and platform_machine == 'x86_64'"
    torch = wheel(
        tmp_path,
        {
            "torch/lib/libc10.so": elf(soname="libc10.so"),
            "torch/_C.so": elf(needed=["libc10.so"], rpath="$ORIGIN/lib"),
        },
        name=f"torch-2.7.1-{TAGS}.whl",
        requires=[
            f"nvidia-cuda-runtime-cu12==12.6.77{marker}",
            "nvidia-nccl-cu13; extra == 'other'",
            "sympy>=1.13.3",
        ],
    )
    one = wheel(tmp_path, {"demo/ext.so": elf(needed=["libc10.so", "libcudart.so.12"])}, requires=requires)
    report = audit([one, torch])
    found = {f.code for f in report.findings if f.wheel == one.name and f.severity == "error"}
    assert found == codes
    known = report.graph.declared[one.name]
    expected = {"torch", "nvidia-cuda-runtime-cu12"}
    assert (known.keys() == expected) == (codes == set())


@pytest.mark.parametrize(
    ("code", "codes"),
    [
        ({}, ["GF202"]),
        (
            {
                "libdensity/load.py": b"ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'libdensity.so.0'))\n"
            },
            [],
        ),
        (
            {
                "density/ext.abi3.so": elf(
                    needed=["libdensity.so.0"], rpath="$ORIGIN/../libdensity", strings=["PyInit_ext"]
                )
            },
            [],
        ),
    ],
)
def test_a_package_without_code_is_not_imported(tmp_path, code, codes):
    lib = {"libdensity/libdensity.so.0": elf(soname="libdensity.so.0")}
    other = wheel(tmp_path, lib | code, name=f"density_cu12-1.0-{TAGS}.whl")
    one = wheel(tmp_path, {"demo/ext.so": elf(needed=["libdensity.so.0"])}, requires=["density-cu12"])
    found = [f.code for f in audit([one, other]).findings if f.wheel == one.name and f.code < "GF3"]
    assert found == codes


@pytest.mark.parametrize(
    ("requires", "unmet"),
    [
        (["torch==2.9.1"], "requires 'torch==2.9.1'; this audit has torch 2.4.1"),
        (["torch>=2.4", "numpy"], ""),
        (["torch==2.9.1; extra == 'gpu'"], ""),
        (["torch==2.9.1; platform_system == 'Windows'"], ""),
    ],
)
def test_wheels_that_are_given_fit_one_another(requires, unmet, tmp_path):
    own = wheel(tmp_path, {"demo/ext.so": elf()}, requires=requires)
    found = said(audit([own, torch(tmp_path)]), "GF710")
    assert [(f.wheel, f.severity, lines(f)) for f in found] == (
        [(own.name, "error", (unmet,))] if unmet else []
    )
    newer = wheel(tmp_path, {}, name=f"torch-2.9.1-{TAGS}.whl")
    assert not said(audit([own, torch(tmp_path), newer]), "GF710")
    assert not said(audit([own]), "GF710")


@pytest.mark.parametrize(
    ("line", "unmet"),
    [
        ("torch>=2.4", ""),
        ("torch>=2.9", "requires 'torch>=2.9; python_version >= \"3.9\"'; this audit has torch 2.4.1"),
    ],
)
def test_markers_are_for_the_pythons_that_both_wheels_are_for(line, unmet, tmp_path):
    requires = ['torch<2; python_version < "3.9"', f'{line}; python_version >= "3.9"']
    own = wheel(tmp_path, {"demo/ext.abi3.so": elf()}, name=ABI3, requires=requires)
    found = said(audit([own, torch(tmp_path)]), "GF710")
    assert [lines(f) for f in found] == ([(unmet,)] if unmet else [])


def test_what_a_wheel_that_is_given_requires_is_read_there(tmp_path):
    own = wheel(tmp_path, {"demo/a.so": elf()}, requires=["nvidia-cublas-cu12", "other", "torch>=2.11"])
    other = wheel(tmp_path, {"other/b.py": b""}, name="other-1.0-py3-none-any.whl", requires=["nvidia-cufft"])
    (found,) = said(audit([own, other, torch(tmp_path)]), "GF104")
    assert (found.wheel, lines(found)) == (
        own.name,
        (
            "CUDA 12: nvidia-cublas-cu12, by 'nvidia-cublas-cu12'",
            "CUDA 12: nvidia-cuda-runtime-cu12, by 'torch>=2.11 → nvidia-cuda-runtime-cu12'",
            "CUDA 13: nvidia-cufft, by 'other → nvidia-cufft'",
        ),
    )
    above = wheel(
        tmp_path, {"above/b.py": b""}, name="above-1.0-py3-none-any.whl", requires=["demo", "nvidia-cufft"]
    )
    (found,) = said(audit([above, own, other, torch(tmp_path)]), "GF104")
    assert found.wheel == own.name


@pytest.mark.parametrize(("indexes", "warned"), [((), 1), (("torch",), 0)])
def test_the_tables_do_not_judge_a_package_of_an_index_of_its_own(tmp_path, indexes, warned):
    own = wheel(tmp_path, {"demo/a.so": elf()}, requires=["nvidia-cublas-cu12", "torch>=2.11"])
    assert len(said(audit([own], expectation=Expectation(indexes=indexes)), "GF104")) == warned


@pytest.mark.parametrize(
    ("requires", "subject"),
    [
        ([], [("demo/ext.so: liba.so (other, by RUNPATH $ORIGIN/../other)",)]),
        (["other"], []),
        (["between; extra == 'all'"], []),
    ],
)
def test_a_wheel_that_is_given_has_to_be_required(requires, subject, tmp_path):
    files = {"demo/ext.so": elf(needed=["liba.so"], runpath="$ORIGIN/../other")}
    own = wheel(tmp_path, files, requires=requires)
    between = wheel(tmp_path, {}, name="between-1.0-py3-none-any.whl", requires=["other"])
    other = wheel(tmp_path, {"other/liba.so": elf(soname="liba.so")}, name=f"other-1.0-{TAGS}.whl")
    assert [lines(f) for f in said(audit([own, between, other]), "GF203")] == subject


def test_a_plugin_finds_the_wheel_that_brings_it(tmp_path):
    plugin = wheel(tmp_path, {"demo/p/plugin.so": elf(needed=["liba.so"], runpath="$ORIGIN/..")})
    host = {"demo/liba.so": elf(soname="liba.so")}
    name = f"host-1.0-{TAGS}.whl"
    assert said(audit([plugin, wheel(tmp_path, host, name=name)]), "GF203")
    bringing = wheel(tmp_path, host, name=name, requires=["demo; extra == 'gpu'"])
    assert not said(audit([plugin, bringing]), "GF203")


def test_a_wheels_own_file_is_its_own_also_where_another_wheel_has_the_same_place(tmp_path):
    files = {
        "demo/ext.so": elf(needed=["liba.so"], runpath="$ORIGIN"), "demo/liba.so": elf(soname="liba.so"),
    }  # fmt: skip
    old, new = (wheel(tmp_path, files, name=f"demo-{version}-{TAGS}.whl") for version in ("1.0", "2.0"))
    report = audit([old, new])
    assert not said(report, "GF203")
    owners = {
        e.provider.object.wheel
        for e in report.graph.edges
        if e.provider.object and e.loader.wheel == old.name
    }
    assert owners == {old.name}


def test_a_path_to_another_packages_folder_leaves_the_next_one_its_turn(tmp_path):
    path = "$ORIGIN/../nvidia/cufile/lib:$ORIGIN/../nvidia/cu13/lib"
    files = {"demo/ext.so": elf(needed=["libcufile.so.0"], runpath=path)}
    report = audit([wheel(tmp_path, files, requires=["nvidia-cufile"])])
    assert [f.code for f in report.findings] == ["GF305"]  # the folder is that of nvidia-cufile-cu12


@pytest.mark.parametrize("order", [1, -1])
def test_of_a_file_that_two_wheels_put_in_one_place_the_required_one_is_meant(order, tmp_path):
    files = {"demo/ext.so": elf(needed=["libnccl.so.2"], runpath="$ORIGIN/../nvidia/nccl/lib")}
    own = wheel(tmp_path, files, requires=["nvidia-nccl-cu12"])
    both = [
        wheel(
            tmp_path,
            {"nvidia/nccl/lib/libnccl.so.2": elf(soname="libnccl.so.2", strings=[cuda])},
            name=f"nvidia_nccl_{cuda}-2.27-py3-none-manylinux_2_17_x86_64.whl",
        )
        for cuda in ("cu12", "cu13")
    ]
    assert not said(audit([own, *both[::order]]), "GF203")


@pytest.mark.parametrize(
    ("requires", "wheels"), [(["plain", "other"], []), (["plain"], [f"plain-1.0-{TAGS}.whl"])]
)
def test_whose_rpath_leads_to_a_wheel_may_require_it(requires, wheels, tmp_path):
    ext = elf(needed=["libplain.so"], rpath="$ORIGIN/../plain:$ORIGIN/../other")
    files = {
        "demo": {"demo/ext.so": ext},
        "plain": {"plain/libplain.so": elf(soname="libplain.so", needed=["liba.so"])},
        "other": {"other/liba.so": elf(soname="liba.so")},
    }
    paths = [
        wheel(tmp_path, held, name=f"{name}-1.0-{TAGS}.whl", requires=requires if name == "demo" else [])
        for name, held in files.items()
    ]
    assert [f.wheel for f in said(audit(paths), "GF203")] == wheels


# The releases that version clauses allow, name and end below.


def test_arbitrary_equality_compares_the_text_as_it_is_written():
    assert version_clauses.allows("===0dev1", "0dev1")
    assert not version_clauses.allows("===0dev1", "0.dev1")


def test_pre_releases_are_allowed_too():
    assert version_clauses.allows(">=1.0,<2", "1.5rc1")


def test_the_releases_that_clauses_name():
    assert version_clauses.named(">= 2.1,!=2.5.*,~=2.0,===dev,<3") == {"2.0", "2.1", "2.5", "3"}


def test_the_newest_release_comes_first():
    assert [*version_clauses.newest_first({"1.9", "1.10", "1.10rc1"})] == ["1.10", "1.10rc1", "1.9"]


@pytest.mark.parametrize(
    ("versions", "below"),
    [("<1.19,>=1.15.0", ["1.18.999"]), ("<13", ["12.999"]), ("<2.0.0", ["1.999"]), (">=2,<=3", []), ("", [])],
)
def test_release_below_an_upper_bound(versions, below):
    assert list(version_clauses.below(versions)) == below
    assert all(version_clauses.allows(versions, release) for release in below)


@pytest.mark.parametrize("release", ["", "1.x", "9" * 30, "1.0+cu12"])
def test_any_text_may_be_asked_for(release):
    assert version_clauses.allows(">=1,<2", release) is (release == "1.0+cu12")


# A wheel's file name and its metadata are of one release and one platform.


def _renamed(path: Path, info: str | None = None, text: tuple[str, str] = ("", "")) -> Path:
    """Rewrite a wheel with another name for its .dist-info folder and other words in METADATA."""
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in held.items():
            changed = data.replace(*(t.encode() for t in text)) if text[0] else data
            archive.writestr(name.replace("demo-1.0.dist-info", info or "demo-1.0.dist-info"), changed)
    return path


@pytest.mark.parametrize(
    ("info", "text", "problems"),
    [
        ("other-1.0.dist-info", ("", ""), ["the name is 'other' in the .dist-info folder and 'demo' in the file name"]),
        ("demo-1.1.dist-info", ("", ""), ["the version is 1.1 in the .dist-info folder and 1.0 in the file name"]),
        (None, ("Name: demo", "Name: other"), ["the name is 'other' in METADATA and 'demo' in the file name"]),
        (None, ("Version: 1.0\nReq", "Version: 2.0\nReq"), ["the version is 2.0 in METADATA and 1.0 in the file name"]),
        (None, ("Name: demo\n", ""), ["METADATA gives no name"]),
        (None, ("Name: demo", "Name: DEMO"), []),
        (None, ("Version: 1.0\nReq", "Version: 1.0.0\nReq"), []),
        ("Demo-1.dist-info", ("", ""), []),
    ],
)  # fmt: skip
def test_metadata_and_file_name_are_of_one_release(tmp_path, info, text, problems):
    path = _renamed(wheel(tmp_path, {"demo/ext.so": elf()}, requires=["numpy"]), info, text)
    found = said(audit([path]), "GF704")
    assert [line for f in found for line in lines(f)] == problems


def test_the_name_of_a_variant_is_one_if_the_wheel_is_a_variant(tmp_path):
    plain = wheel(tmp_path, {"demo/ext.so": elf()})
    made = variants.make(plain, tmp_path / "made", variants.describe("13.0", []), epoch=None)
    report = audit([made])
    assert {f.code for f in report.findings if f.severity == "error"} == set()
    assert [facts.version for facts in report.graph.wheels] == ["1.0"]
    renamed = plain.rename(plain.with_name(made.name))
    (found,) = said(audit([renamed]), "GF704")
    assert "is not the file name of a wheel" in lines(found)[0]


def test_a_tag_that_is_none_is_no_traceback(tmp_path):
    path = wheel(tmp_path, {"demo/ext.so": elf()}, tags=["py3-none-any", "10-none-any", "cp311"])
    (found,) = said(audit([path]), "GF502")
    assert "10-none-any: in WHEEL only" in lines(found)


@pytest.mark.parametrize(
    ("platform", "differs"),
    [("manylinux2014_x86_64", False), ("manylinux_2_17_x86_64", False), ("manylinux_2_28_x86_64", True)],
)
def test_both_names_of_a_platform_are_one_tag(tmp_path, platform, differs):
    tags = [f"py3-none-{platform}", "py3-none-manylinux_2_17_x86_64"]
    path = wheel(
        tmp_path, {"demo/ext.so": elf()}, name="demo-1.0-py3-none-manylinux2014_x86_64.whl", tags=tags
    )
    assert bool(said(audit([path]), "GF502")) == differs


# GF709: what two packages would install in the same place.


ONE, OTHER = elf(soname="one.so"), elf(soname="other.so")


def findings_of(
    folder: Path, one: tuple[str, dict[str, bytes]], other: tuple[str, dict[str, bytes]]
) -> list[Finding]:
    paths = [wheel(folder, files, name=f"{name}.whl") for name, files in (one, other)]
    return [f for f in audit(paths).findings if f.code == "GF709"]


@pytest.mark.parametrize(
    ("name", "files", "severity"),
    [
        (f"demo_gpu-1.0-{TAGS}", {"demo/ext.so": OTHER}, "error"),
        (f"demo_gpu-1.0-{TAGS}", {"demo_gpu-1.0.data/platlib/demo/ext.so": OTHER}, "error"),
        (f"demo_gpu-1.0-{TAGS}", {"demo/ext.so": ONE, "demo/__init__.py": b"y\n"}, "warning"),
        (f"demo_gpu-1.0-{TAGS}", {"demo/LICENSE": b"y\n"}, "info"),
    ],
)
def test_the_last_one_wins(tmp_path, name, files, severity):
    base = {"demo/ext.so": ONE, "demo/__init__.py": b"x\n", "demo/LICENSE": b"x\n"}
    (finding,) = findings_of(tmp_path, (f"demo-1.0-{TAGS}", base), (name, files))
    path = next(iter(p for p in files if files[p] not in base.values())).removeprefix(
        "demo_gpu-1.0.data/platlib/"
    )
    line = f"{name}.whl: {path}, also in demo-1.0-{TAGS}.whl"
    assert (finding.severity, lines(finding)) == (severity, (line,))
    assert finding.files == (path,)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        (f"other-1.0-{TAGS}", {"demo/ext.so": ONE}),  # the same bytes
        (f"demo-1.1-{TAGS}", {"demo/ext.so": OTHER}),  # another release
        ("other-1.0-cp312-cp312-manylinux_2_17_x86_64", {"demo/ext.so": OTHER}),
        ("other-1.0-cp311-cp311-manylinux_2_28_aarch64", {"demo/ext.so": OTHER}),
    ],
)
def test_what_is_the_same_or_never_meets_is_no_finding(tmp_path, name, files):
    assert findings_of(tmp_path, (f"demo-1.0-{TAGS}", {"demo/ext.so": ONE}), (name, files)) == []


def test_a_wrong_hash_in_record_makes_no_other_file_of_it(tmp_path):
    paths = [
        wheel(tmp_path, {"demo/ext.so": ONE}, name=f"{name}-1.0-{TAGS}.whl", record=record)
        for name, record in (
            ("demo", {}),
            ("other", {"demo/ext.so": f"demo/ext.so,sha256={'A' * 43},{len(ONE)}"}),
        )
    ]
    assert "GF709" not in {f.code for f in audit(paths).findings}


def test_other_tags_that_meet_do_not_hide_it(tmp_path):
    name = "other-1.0-cp38-abi3-manylinux_2_28_x86_64.manylinux2014_x86_64"
    (finding,) = findings_of(
        tmp_path, (f"demo-1.0-{TAGS}", {"demo/ext.so": ONE}), (name, {"demo/ext.so": OTHER})
    )
    assert finding.severity == "error"


def test_builds_of_one_release_are_alternatives(tmp_path):
    one, other = (f"demo_cu{cuda}-1.0-{TAGS}" for cuda in (12, 13))
    (finding,) = findings_of(tmp_path, (one, {"demo/ext.so": ONE}), (other, {"demo/ext.so": OTHER}))
    assert finding.severity == "warning"
    assert "They are builds of one release, and only one belongs in an environment." in finding.message


def test_a_guard_in_each_of_them_is_enough(tmp_path):
    guard = {"demo/_gpuforge_guard/__init__.py": b"refuse\n"}
    one, other = (f"demo_cu{cuda}-1.0-{TAGS}" for cuda in (12, 13))
    (finding,) = findings_of(
        tmp_path, (one, {"demo/ext.so": ONE, **guard}), (other, {"demo/ext.so": OTHER, **guard})
    )
    assert finding.severity == "info"
    assert finding.message.endswith("If both are installed, the import fails and names them.")
    (tmp_path / "half").mkdir()
    (half,) = findings_of(
        tmp_path / "half", (one, {"demo/ext.so": ONE, **guard}), (other, {"demo/ext.so": OTHER})
    )
    assert half.severity == "warning"


@pytest.mark.parametrize(
    ("file", "severity", "proved"),
    [("nvidia/nccl/lib/libnccl.so.2", "error", False), ("nvidia/nccl/include/nccl.h", "info", True)],
)
@pytest.mark.parametrize("version", ["2.27.5", "2.27.7"])
def test_libraries_that_are_only_listed_overwrite_each_other_too(
    tmp_path, file, severity, version, *, proved
):
    def listed(cuda: int, version: str, data: bytes) -> Input:
        path = wheel(
            tmp_path, {file: data}, name=f"nvidia_nccl_cu{cuda}-{version}-py3-none-manylinux_2_17_x86_64.whl"
        )
        return Input.of(path)._replace(remote=Remote(lambda: Archive(path), 1000, outline=True))

    own = wheel(tmp_path, {"tiny.py": b""}, name="tiny-1.0-py3-none-any.whl", requires=["nvidia-nccl-cu12"])
    beside = Beside(wheels=(listed(12, "2.27.5", ONE), listed(13, version, OTHER)))
    report = audit([own], beside=beside)
    (found,) = [f for f in report.findings if f.code == "GF709" and f.across]
    assert (found.severity, found.files) == (severity, (file,))
    assert any(proof.topic == "beside" for w in report.wheels for proof in w.proofs) is proved


def test_required_packages_of_two_majors_share_names(tmp_path):
    files = {"demo/ext.so": elf()}

    def said(*requires: str) -> list[tuple[str, tuple[str, ...]]]:
        path = wheel(tmp_path, files, requires=requires)
        return [(f.severity, lines(f)) for f in audit([path]).findings if f.code == "GF709"]

    line = (
        "nvidia/nccl/lib/libnccl.so.2: nvidia-nccl-cu12, by 'nvidia-nccl-cu12', and nvidia-nccl-cu13, "
        "by 'torch>=2.11'"
    )
    assert said("nvidia-nccl-cu12", "torch>=2.11") == [("warning", (line,))]
    assert said("nvidia-nccl-cu12", "torch<2.11") == []
    assert said("nvidia-nccl-cu12; extra == 'x'", "torch>=2.11") == []
