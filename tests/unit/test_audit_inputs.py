"""What can be given to the audit: folders, environments, sdists, single binaries; and clear errors for the rest."""

import io
import os
import random
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from audit_samples import elf, fatbin, wheel
from packaging.tags import Tag

from gpuforge.audit import audit
from gpuforge.audit.judge import Report
from gpuforge.audit.layout import Route
from gpuforge.audit.read import inputs
from gpuforge.audit.read.input import Input

CORE = elf(soname="libcore.so")
EXT = elf(needed=["libcore.so", "libc.so.6"], runpath="$ORIGIN/../demo.libs")
FILES = {"demo/ext.so": EXT, "demo.libs/libcore.so": CORE, "demo/k.fatbin": fatbin("sm_80", "compute_80:8.4")}
NAME = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"


def seen(report: Report) -> list[tuple[str, str, list[str]]]:
    return [(w.facts.name, w.facts.form, [o.file for o in w.facts.objects]) for w in report.wheels]


def said(report: Report) -> list[tuple[str, str]]:
    return [(p.place.file if p.place else "", p.message) for p in report.problems]


def installed(site: Path, path: Path) -> Path:
    """Put a wheel's files where an installer does, with its traces."""
    with zipfile.ZipFile(path) as archive:
        archive.extractall(site)  # noqa: S202 - made by the test
    info = next(site.glob(f"{path.name.partition('-')[0]}-*.dist-info"))
    (info / "INSTALLER").write_text("pip\n")
    script = site.parents[2] / "bin" / path.name.partition("-")[0]
    script.parent.mkdir(exist_ok=True)
    script.write_bytes(elf(interpreter="/lib64/ld-linux-x86-64.so.2", rpath="libs"))
    with (info / "RECORD").open("a") as record:
        record.write(f"../../../bin/{script.name},sha256=x,1\n{info.name}/INSTALLER,,\n")
        record.write("demo/__pycache__/a.cpython-311.pyc,,\n")
    return site


def test_a_folder_is_searched_for_wheels(tmp_path):
    for folder in ("a", "b/c"):
        (tmp_path / folder).mkdir(parents=True)
        wheel(tmp_path / folder, FILES, name=f"{folder[0]}-1.0-py3-none-manylinux_2_17_x86_64.whl")
    (tmp_path / "b" / "notes.txt").write_text("no wheel")
    report = audit([tmp_path])
    assert [(name[0], form) for name, form, _ in seen(report)] == [("a", "wheel"), ("b", "wheel")]
    assert report.problems == ()


def test_the_same_name_twice_is_two_wheels(tmp_path):
    for folder, files in (("old", {"demo/ext.so": elf(rpath="libs")}), ("new", FILES)):
        (tmp_path / folder).mkdir()
        wheel(tmp_path / folder, files)
    report = audit([tmp_path, tmp_path / "old" / NAME])
    assert seen(report) == [
        (f"new/{NAME}", "wheel", ["demo/ext.so", "demo.libs/libcore.so"]),
        (f"old/{NAME}", "wheel", ["demo/ext.so"]),
    ]
    assert [(f.code, f.wheel) for f in report.findings if f.severity == "error"] == [("GF301", f"old/{NAME}")]
    assert {w.facts.project for w in report.wheels} == {"demo"}
    assert {w.facts.file_tags for w in report.wheels} == {(Tag("cp311", "cp311", "manylinux_2_17_x86_64"),)}


def test_a_link_to_a_wheel_is_that_wheel(tmp_path):
    path = wheel(tmp_path, FILES)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / NAME).symlink_to(path)
    assert len(audit([path, tmp_path / "links" / NAME, path]).wheels) == 1


def test_an_unpacked_wheel_is_judged_as_the_wheel(tmp_path):
    path = wheel(tmp_path, FILES, tags=["cp311-cp311-manylinux_2_17_x86_64"])
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "demo-1.0")  # noqa: S202 - made by the test
    packed, unpacked = audit([path]), audit([tmp_path / "demo-1.0"])
    assert [(form, sorted(files)) for _, form, files in seen(unpacked)] == [
        ("unpacked", sorted(seen(packed)[0][2]))
    ]
    facts, other = unpacked.wheels[0].facts, packed.wheels[0].facts
    assert (facts.project, facts.version, facts.file_tags) == (other.project, other.version, other.file_tags)
    assert facts.size == sum(facts.members.values())
    assert [f.code for f in unpacked.findings] == [f.code for f in packed.findings]


INFO = "My_Demo-1.0.dist-info"


@pytest.mark.parametrize(
    ("given", "project", "version"),
    [
        (Input(f"aaa/{NAME}", Path(NAME), PurePosixPath(NAME)), "demo", "1.0"),
        (Input("aaa", Path("/proc/7/fd/3"), PurePosixPath("x.tar.gz", NAME), "nested"), "demo", "1.0"),
        (Input("aaa", Path("aaa"), PurePosixPath("aaa"), "unpacked", info=INFO), "my-demo", "1.0"),
        (Input(INFO, Path("site"), PurePosixPath("site", INFO), "installed", info=INFO), "my-demo", "1.0"),
        (Input("demo-1.0.so", Path("demo-1.0.so"), PurePosixPath("demo-1.0.so"), "file"), "", ""),
    ],
)
def test_what_the_names_of_an_input_claim(given, project, version):
    assert given.claims[:2] == (project, version)


def test_a_folders_name_is_no_tag_of_the_wheel_in_it(tmp_path):
    for folder in ("x-abi3-y", "z"):
        (tmp_path / folder).mkdir()
        wheel(tmp_path / folder, {"demo/ext.so": elf(undefined=["_PyObject_MakeTpCall"])})
    one, other = (each.facts.objects[0] for each in audit([tmp_path]).wheels)
    assert one.symbols == other.symbols


@pytest.mark.parametrize("given", ["lib/python3.11/site-packages", "."])
def test_an_environment_is_its_distributions(tmp_path, given):
    site = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (tmp_path / "w").mkdir()
    installed(site, wheel(tmp_path / "w", FILES))
    user = {"user/ext.so": elf(needed=["libcore.so", "libc.so.6"], runpath="$ORIGIN/../demo.libs")}
    installed(site, wheel(tmp_path / "w", user, name="user-2.0-py3-none-linux_x86_64.whl"))
    report = audit([tmp_path / "env" / given])
    assert [(name, form, sorted(files)) for name, form, files in seen(report)] == [
        (
            "demo-1.0.dist-info",
            "installed",
            ["demo-1.0.data/scripts/demo", "demo.libs/libcore.so", "demo/ext.so"],
        ),
        ("user-2.0.dist-info", "installed", ["user-2.0.data/scripts/user", "user/ext.so"]),
    ]
    assert report.problems == ()
    assert {f.code for f in report.findings if f.severity == "error"} == {"GF301"}  # of the scripts
    edge = next(
        e for e in report.graph.edges if e.loader.wheel.startswith("user") and e.needed == "libcore.so"
    )
    assert edge.provider.source == "sibling"


@pytest.mark.parametrize("given", ["lib/python3.11/site-packages", "lib64/python3.11/site-packages", "."])
def test_libraries_in_an_environments_lib_folder_lie_there(tmp_path, given):
    site = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (tmp_path / "env" / "lib64").symlink_to("lib")
    (tmp_path / "w").mkdir()
    record = ["../../libmkl.so.3,,", "../../../share/mkl/notes.txt,,", "../../../../elsewhere.so,,"]
    installed(site, wheel(tmp_path / "w", {}))
    with (site / "demo-1.0.dist-info" / "RECORD").open("a") as stream:
        stream.write("\n".join(record) + "\n")
    for line in record:
        file = site / line.partition(",")[0]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(elf(soname=file.name))
    user = {"user/ext.so": elf(needed=["libmkl.so.3"], rpath="$ORIGIN/../../..")}
    installed(site, wheel(tmp_path / "w", user, name="user-2.0-py3-none-linux_x86_64.whl", requires=["demo"]))
    report = audit([tmp_path / "env" / given])
    assert [o.file for o in report.wheels[0].facts.objects if o.soname] == [
        "demo-1.0.data/data/lib/libmkl.so.3",
        "demo-1.0.data/data/share/mkl/notes.txt",
        "demo-1.0.data/data/elsewhere.so",
    ]
    (edge,) = (e for e in report.graph.edges if e.needed == "libmkl.so.3")
    assert (edge.provider.source, edge.route) == ("sibling", Route("RPATH", "$ORIGIN/../../.."))


def test_an_installed_distribution_without_record_is_one_problem(tmp_path):
    site = tmp_path / "site-packages"
    for name in ("a-1.dist-info", "b-2.dist-info"):
        (site / name).mkdir(parents=True)
    assert said(audit([site])) == [
        (str(site / "a-1.dist-info"), "it has no RECORD, so its files are not known"),
        (str(site / "b-2.dist-info"), "it has no RECORD, so its files are not known"),
    ]


@pytest.mark.parametrize("kind", ["tar.gz", "tar.xz", "zip"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_wheels_inside_an_sdist_are_read(tmp_path, kind, jobs):
    path = wheel(tmp_path, FILES)
    sdist = tmp_path / f"demo-1.0.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(sdist, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(path, f"demo-1.0/wheels/{NAME}")
            archive.writestr("demo-1.0/PKG-INFO", "")
    else:
        with tarfile.open(sdist, "w:" + kind[4:]) as archive:
            archive.add(path, f"demo-1.0/wheels/{NAME}")
            archive.add(__file__, "demo-1.0/setup.py")
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    report = audit([sdist], jobs=jobs)
    assert seen(report) == [
        (f"{sdist.name}/demo-1.0/wheels/{NAME}", "nested", ["demo/ext.so", "demo.libs/libcore.so"])
    ]
    assert report.wheels[0].facts.project == "demo"
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_single_binaries_see_each_other_where_they_lie(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    ptx = tmp_path / "k.ptx"
    ptx.write_bytes(b".version 8.0\n.target sm_70\n")
    report = audit([*(tmp_path / name for name in FILES), ptx])
    assert [(w.facts.name, w.facts.form, list(w.facts.members)) for w in report.wheels] == [
        ("ext.so", "file", ["demo/ext.so"]),
        ("libcore.so", "file", ["demo.libs/libcore.so"]),
        ("k.fatbin", "file", ["demo/k.fatbin"]),
        ("k.ptx", "file", ["k.ptx"]),
    ]
    assert [e.provider.source for e in report.graph.edges if e.needed == "libcore.so"] == ["sibling"]
    assert [f.code for f in report.findings if f.severity == "error"] == []
    assert [[e.target for e in d.containers[0].entries] for w in report.wheels for d in w.facts.device] == [
        ["sm_80", "compute_80"],
        ["compute_70"],
    ]


def test_a_single_binary_is_not_asked_for_metadata_but_for_what_it_is(tmp_path):
    path = tmp_path / "libx.so"
    path.write_bytes(elf(needed=["libnowhere.so.1"], rpath="libs"))
    report = audit([path])
    assert [f.code for f in report.findings if f.severity != "info"] == ["GF301"]
    assert report.wheels[0].proofs == ()  # not that all it needs is found


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "empty",
            "the folder has no wheel and no binary, and is neither an unpacked wheel nor an environment",
        ),
        ("text.txt", "it is neither a wheel nor a binary"),
        ("nothing.whl", "No such file or directory"),
        ("nothing.tar.gz", "No such file or directory"),
        ("sdist.tar.gz", "there is no wheel in it"),
        ("sdist.zip", "there is no wheel in it"),
        ("cut.tar.gz", "it cannot be unpacked ("),
        ("cut.so", "it ends at byte 40, before 64"),
    ],
)
def test_what_cannot_be_read_is_said_once_and_the_rest_goes_on(tmp_path, name, message):
    bad = tmp_path / name
    match name:
        case "empty":
            bad.mkdir()
        case "text.txt":
            bad.write_text("text")
        case "sdist.zip":
            with zipfile.ZipFile(bad, "w") as archive:
                archive.writestr("setup.py", "")
        case "sdist.tar.gz" | "cut.tar.gz":
            source = tmp_path / "random"
            source.write_bytes(os.urandom(50_000))
            with tarfile.open(bad, "w:gz") as archive:
                archive.add(source, "random")
            if name == "cut.tar.gz":
                bad.write_bytes(bad.read_bytes()[:30_000])
        case "cut.so":
            bad.write_bytes(elf()[:40])
        case _:
            pass
    report = audit([bad, wheel(tmp_path, FILES)])
    assert NAME in [w.facts.name for w in report.wheels]
    if name == "cut.so":
        assert [(f.code, f.file) for f in report.findings if f.wheel == name] == [("GF705", name)]
        return
    ((place, found),) = said(report)
    assert place == str(bad)
    assert found.startswith(message)


def test_what_cannot_be_opened(tmp_path):
    path = tmp_path / "libx.so"
    path.write_bytes(CORE)
    with inputs.expand([path]) as given:
        path.unlink()
        with pytest.raises(FileNotFoundError):
            given.readable[0].open()


def test_a_wheel_that_is_named_otherwise(tmp_path):
    path = wheel(tmp_path, FILES).rename(tmp_path / "demo.zip")
    report = audit([path])
    assert [w.facts.name for w in report.wheels] == ["demo.zip"]
    assert [f.code for f in report.findings if f.severity == "error"] == ["GF704"]


@pytest.mark.skipif(shutil.which("mkfifo") is None, reason="needs mkfifo")
def test_a_pipe_is_not_waited_for(tmp_path):
    subprocess.run(["mkfifo", str(tmp_path / "pipe.so")], check=True)
    (tmp_path / "demo-1.dist-info").mkdir()
    (tmp_path / "demo-1.dist-info" / "RECORD").write_text("pipe.so,,\n")
    with inputs.expand([tmp_path]) as given:
        assert [m.name for m in given.readable[0].open().members] == ["demo-1.dist-info/RECORD"]
    assert said(audit([tmp_path / "pipe.so"])) == [
        (str(tmp_path / "pipe.so"), "it is neither a file nor a folder")
    ]


@pytest.mark.skipif(shutil.which("mkfifo") is None, reason="needs mkfifo")
def test_a_pipe_among_wheels_is_one_problem(tmp_path):
    good = wheel(tmp_path, FILES)
    pipe = tmp_path / "pipe-1.0-py3-none-any.whl"
    subprocess.run(["mkfifo", str(pipe)], check=True)
    report = audit([tmp_path])
    assert [w.facts.name for w in report.wheels] == [good.name]
    assert said(report) == [(str(pipe), "it is neither a file nor a folder")]


def test_a_folder_of_bad_wheels_is_a_problem_each_and_the_good_ones_are_read(tmp_path):
    good = wheel(tmp_path, FILES)
    whole = good.read_bytes()
    chance = random.Random(0)  # noqa: S311 - not for secrets
    for number in range(40):
        cut = whole[: chance.randrange(len(whole) - 1)]
        (tmp_path / f"cut{number}-1.0-py3-none-any.whl").write_bytes(cut)
    for name, data in {"empty": b"", "text": b"no zip\n", "end": b"PK\x05\x06" + bytes(18)}.items():
        (tmp_path / f"{name}-1.0-py3-none-any.whl").write_bytes(data)
    report = audit([tmp_path], jobs=2)
    assert [w.facts.name for w in report.wheels] == [good.name]
    assert len(report.problems) == len({d.place for d in report.problems}) == 43


def test_what_is_no_wheel_in_an_sdist_is_not_unpacked_to_its_end(tmp_path):
    path = tmp_path / "demo-1.0.tar.gz"
    good = wheel(tmp_path, FILES)
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("demo-1.0/zeros.whl")
        member.size = 1 << 24
        archive.addfile(member, io.BytesIO(bytes(1 << 24)))
        archive.add(good, f"demo-1.0/{'long' * 50}.whl")  # longer than the kernel takes as a name
    with inputs.expand([path]) as given:
        assert [i.size for i in given.readable] == [64, good.stat().st_size]


def test_a_record_that_is_no_table_is_a_problem_of_that_distribution_alone(tmp_path):
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    for name in ("one", "two"):
        installed(site, wheel(tmp_path, FILES, name=f"{name}-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"))
    (site / "one-1.0.dist-info" / "RECORD").write_text("x" * 200_000 + ",,\n")
    report = audit([tmp_path / "lib" / "python3.11" / "site-packages"])
    assert [(Path(file).name, text.partition(" (")[0]) for file, text in said(report)] == [
        ("one-1.0.dist-info", "its RECORD is not a list of comma-separated values")
    ]
    assert [name for name, _, _ in seen(report)] == ["two-1.0.dist-info"]
