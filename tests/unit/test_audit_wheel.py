"""Reading wheels: what is in them, and one clear error for what is none."""

import struct
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from threading import Event, Thread

import pytest
from archive_samples import wheel_file, zip_file
from audit_samples import elf, fatbin, read, wheel
from golden import hold_findings
from packaging.tags import Tag, parse_tag
from refused_samples import EVIL, SAMPLES, SOUND, TWINS, Sample

from gpuforge.audit import audit
from gpuforge.audit.elf_patterns import patterns
from gpuforge.audit.findings import Finding
from gpuforge.audit.model import Preload, WheelFacts, machine_of
from gpuforge.audit.read import scan
from gpuforge.audit.read import wheel as reader
from gpuforge.audit.read.input import Input
from gpuforge.audit.read.scan import Scanned
from gpuforge.audit.read.wheel import reading
from gpuforge.audit.report import text as page
from gpuforge.audit.report.sentences import lines
from gpuforge.binary.elf.symbols import Patterns
from gpuforge.binary.facts import ElfObject
from gpuforge.datafile import load
from gpuforge.errors import MalformedError
from gpuforge.package.contents import FOLDER as RUNTIME
from gpuforge.wheel import checks
from gpuforge.wheel.archive import Archive, Member

FILES = {
    "demo/_core.so": elf(
        sections={".nv_fatbin": fatbin("sm_80", "compute_80:8.7")}, needed=["libfar.so.1", "libc.so.6"]
    ),
    "demo/kernels.fatbin": fatbin("sm_90"),
    "demo/k.ptx": b".version 8.0\n.target sm_70\n",
    "demo/libx.a": b"!<arch>\n" + fatbin("sm_75"),
    "demo/__init__.py": b"import ctypes, sys\nctypes.CDLL(sys.prefix + '/lib/libfar.so.1', ctypes.RTLD_GLOBAL)\n",
    "demo/data.bin": b"\x7fELF is how this text begins",
}


def test_everything_in_a_wheel_is_found(tmp_path):
    found = read(wheel(tmp_path, FILES, requires=["numpy>=1", "torch"]))
    assert (found.project, found.version) == ("demo", "1.0")
    assert found.file_tags == found.wheel_tags == (Tag("cp311", "cp311", "manylinux_2_17_x86_64"),)
    assert found.requires == ("numpy>=1", "torch")
    assert [o.file for o in found.objects] == ["demo/_core.so"]
    assert {d.file: [e.target for c in d.containers for e in c.entries] for d in found.device} == {
        "demo/_core.so": ["sm_80", "compute_80"],
        "demo/kernels.fatbin": ["sm_90"],
        "demo/k.ptx": ["compute_70"],
        "demo/libx.a": ["sm_75"],
    }
    assert found.objects[0].containers[0].section == ".nv_fatbin"
    assert [(p.file, p.everything, "far" in p.names) for p in found.preloads] == [
        ("demo/__init__.py", True, True)
    ]
    assert list(found.damaged) == ["demo/data.bin"]
    assert found.record is not None
    assert found.record.unlisted == ()
    assert set(found.record.sha256) == {"demo/_core.so"}


def test_python_files_are_not_read_without_a_library(tmp_path):
    found = read(wheel(tmp_path, {name: data for name, data in FILES.items() if name != "demo/_core.so"}))
    assert found.preloads == ()


def test_python_files_are_read_beside_any_library(tmp_path):
    found = read(wheel(tmp_path, {**FILES, "demo/_core.so": elf()}))
    assert [p.file for p in found.preloads] == ["demo/__init__.py"]


def test_cuda_pathfinder_is_recognised(tmp_path):
    text = b"from cuda.pathfinder import load_nvidia_dynamic_lib\nload_nvidia_dynamic_lib('cublas')\n"
    found = read(wheel(tmp_path, {"demo/a.so": FILES["demo/_core.so"], "demo/load.py": text}))
    assert found.preloads == (
        Preload(
            "demo/load.py",
            pathfinder=True,
            everything=False,
            names=frozenset({"cublas"}),
            by_path=frozenset({"cublas"}),
            fixed=True,
            imported_before=frozenset({"load_nvidia_dynamic_lib", "pathfinder"}),
        ),
    )
    text = text.replace(b"('cublas')", b"(name)  # cublas, cufft")
    (one,) = read(wheel(tmp_path, {"demo/a.so": FILES["demo/_core.so"], "demo/load.py": text})).preloads
    assert not one.fixed
    assert {"cublas", "cufft"} <= one.listed


def test_what_tests_load_is_not_loaded_by_users(tmp_path):
    load = b"import ctypes\nctypes.CDLL(path)\n"
    files = {"demo/a.so": FILES["demo/_core.so"], "demo/tests/helper.py": load}
    assert read(wheel(tmp_path, files)).preloads == ()
    (own,) = read(wheel(tmp_path, {**files, "demo/tests/ext.so": elf()})).preloads
    assert own.file == "demo/tests/helper.py"


def test_the_runtimes_own_bytes_are_known_and_any_others_at_its_place_are_read(tmp_path):
    library = {"demo/a.so": FILES["demo/_core.so"]}
    driver = (RUNTIME / "driver.py").read_bytes()
    assert b"CDLL" in driver
    place = "demo/_gpuforge/driver.py"
    assert read(wheel(tmp_path, {**library, place: driver})).preloads == ()
    for other, text in [(place, driver + b"\n"), ("demo/driver.py", driver)]:
        assert [p.file for p in read(wheel(tmp_path, {**library, other: text})).preloads] == [other]


@pytest.mark.parametrize("gap", [0, 60, 127, 128, 129, 511, 512, 513, 640, 2000])
def test_calls_are_read_however_far_apart_they_are(tmp_path, gap):
    """The C library, which is in every process, and an operator library are no loading of libraries."""
    libc, ops = b"ctypes.CDLL(None)\n", b"torch.ops.load_library(path)\n"
    between = b"#" * gap + b"\n"
    for text, expected in [
        (libc + between + libc, []),
        (libc + between + ops, [True]),
        (ops + between + b"ctypes.CDLL(path)\n", [False]),
        (between.join([ops] * 5), [True]),
        (between + b"x = load_" + b"x" * 40 + b"_libraries(1)", [False]),
        (between + b"find_library(1)", []),
    ]:
        files = {"demo/a.so": FILES["demo/_core.so"], "demo/load.py": text}
        assert [p.ops for p in read(wheel(tmp_path, files)).preloads] == expected


def test_a_file_larger_than_what_is_kept_is_read_by_more_passes(tmp_path, monkeypatch):
    path = wheel(tmp_path, FILES)
    whole = read(path)
    monkeypatch.setattr(scan, "_HEAD", 1)
    monkeypatch.setattr("gpuforge.wheel.archive._CHUNK", 300)
    assert read(path) == whole


def test_stored_members_are_read_too(tmp_path):
    packed = wheel(tmp_path, FILES)
    stored = tmp_path / "stored" / packed.name
    stored.parent.mkdir()
    with zipfile.ZipFile(packed) as source, zipfile.ZipFile(stored, "w", zipfile.ZIP_STORED) as target:
        for info in source.infolist():
            target.writestr(info.filename, source.read(info))
    assert _facts(read(stored)) == _facts(read(packed))


def _facts(found: WheelFacts) -> tuple[object, ...]:
    return (found.objects, found.device, found.record, found.requires, found.preloads)


def test_a_file_name_that_is_no_wheels_is_no_reason_to_stop(tmp_path):
    path = wheel(tmp_path, {"demo/a.so": elf()}).rename(tmp_path / "demo.whl")
    assert read(path).file_tags == ()


def _broken(kind: str, folder: Path) -> Path:
    path = wheel(folder, FILES)
    data = path.read_bytes()
    match kind:
        case "text":
            path.write_bytes(b"hello")
        case "empty":
            path.write_bytes(b"")
        case "cut off":
            path.write_bytes(data[: len(data) // 2])
        case "no wheel":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("a.txt", "x")
        case "folder":
            path.unlink()
            path.mkdir()
        case "not there":
            path.unlink()
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("text", "it is not a wheel: not even a zip file"),
        ("empty", "it is not a wheel: not even a zip file"),
        (
            "cut off",
            "it begins like a zip file but its directory cannot be read (File is not a zip file): "
            "it was cut off or damaged",
        ),
        ("no wheel", "it is a zip file but no wheel: it has no .dist-info folder"),
        (
            "folder",
            "the folder has no wheel and no binary, and is neither an unpacked wheel nor an environment",
        ),
        ("not there", "No such file or directory"),
    ],
)
def test_what_cannot_be_read_is_one_problem_and_the_rest_goes_on(tmp_path, kind, message):
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    name = "good-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    good, bad = wheel(tmp_path / "good", {"demo/a.so": elf()}, name=name), _broken(kind, tmp_path / "bad")
    report = audit([bad, good])
    assert [(p.message, p.place.file if p.place else "") for p in report.problems] == [(message, str(bad))]
    assert [w.facts.name for w in report.wheels] == [good.name]


def test_a_byte_changed_in_a_member_is_named_with_the_member(tmp_path):
    path = wheel(tmp_path, {"demo/a.so": elf(strings=["x" * 500], page=8)})
    data = bytearray(path.read_bytes())
    data[data.index(b"demo/a.so") + 60] ^= 0xFF
    path.write_bytes(bytes(data))
    assert read(path).damaged == {"demo/a.so": "its bytes do not match the checksum in the archive"}


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (b"\xff" * 8, "cannot be inflated"),  # no such block
        (None, "its bytes do not match the checksum in the archive"),
    ],
)
def test_python_code_that_cannot_be_unpacked_is_reported(tmp_path, jobs, harm, problem):
    files = {
        "demo/a.so": elf(needed=["libnobody.so.1"]),  # which the code may load
        "demo/__init__.py": b"import ctypes\n" * 40,
    }
    path = wheel(tmp_path, files)
    data = bytearray(path.read_bytes())
    if harm:
        start = data.index(b"demo/__init__.py") + len("demo/__init__.py")
        data[start : start + len(harm)] = harm
    else:
        data[data.rindex(b"demo/__init__.py") - 30] ^= 0xFF  # the checksum in the directory
    path.write_bytes(data)
    report = audit([path], jobs=jobs)
    (found,) = (f for f in report.findings if f.code == "GF705")
    assert (found.severity, found.files) == ("error", ("demo/__init__.py",))
    assert lines(found)[0].startswith(f"demo/__init__.py: {problem}")
    assert "GF201" in {f.code for f in report.findings}  # the rest is judged


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("member", ["demo/a.so", "demo/words.txt"])
def test_a_member_whose_first_bytes_cannot_be_unpacked_is_reported_and_the_rest_is_judged(
    tmp_path, jobs, member
):
    files = {
        "demo/a.so": elf(strings=["x" * 500]),
        "demo/words.txt": b"words " * 40,
        "demo/b.so": elf(needed=["libnobody.so.1"]),
    }
    path = wheel(tmp_path, files)
    data = bytearray(path.read_bytes())
    start = data.index(member.encode()) + len(member)
    data[start : start + 8] = b"\xff" * 8
    path.write_bytes(data)
    report = audit([path], jobs=jobs)
    assert not report.problems
    (found,) = (f for f in report.findings if f.code == "GF705")
    assert (found.severity, found.files) == ("error", (member,))
    assert "GF201" in {f.code for f in report.findings}


@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 900, "٣", "²"], ids=["5000", "900", "Arabic", "raised"])
def test_numbers_that_no_version_has_end_in_no_error_of_the_audit(tmp_path, digits):
    made = wheel(
        tmp_path,
        {
            "demo/a.so": elf(versions={"libc.so.6": [f"GLIBC_2.{digits}"]}),
            "demo/b.so": elf(strings=["__pgi_x", f"/opt/hpc_sdk/Linux/{digits}.1/lib"]),
            "demo/k.ptx": f".version 8.{digits}\n.target sm_{digits}\n".encode(),
        },
        requires=[f"torch>={digits}", f"numpy=={digits}.*; os_name == 'posix'"],
        tags=[f"cp3{digits}-abi3-manylinux_2_{digits}_x86_64"],
        python=f">={digits}",
    )
    inner = zipfile.ZipInfo(f"dist/demo-{digits}-cp3{digits}-abi3-manylinux_2_{digits}_x86_64.whl")
    with zipfile.ZipFile(tmp_path / "demo-1.0.zip", "w") as archive:
        archive.writestr(inner, made.read_bytes())
    for given in (made, tmp_path / "demo-1.0.zip"):
        report = audit([given])
        assert page.render(report, width=80, color=False, show_tree=True, show_gpus=True)


def test_a_member_of_an_unknown_packing_method(tmp_path):
    path = wheel(tmp_path, {"demo/a.so": elf()})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("demo/_gpuforge/kernels/k/index.json", "{}" * 400)
    with pytest.raises(MalformedError, match="packed with method 14, which wheels do not use"):
        read(path)


@pytest.mark.parametrize(
    ("tags", "machines", "machine"),
    [
        (("py3-none-manylinux_2_28_x86_64", "py3-none-manylinux2014_x86_64"), (62, 183), "x86_64"),
        (("py3-none-linux_ppc64le",), (), "ppc64le"),
        (("py3-none-musllinux_1_2_i686",), (), "i686"),
        (("py3-none-linux_x86_64", "py3-none-linux_aarch64"), (62,), ""),
        (("py3-none-any",), (183, 183), "aarch64"),
        (("py3-none-any",), (62, 183), ""),
        (("py3-none-any",), (62, 247), ""),
        (("py3-none-win_amd64",), (), "x86_64"),
        ((), (), ""),
    ],
)
def test_a_wheel_is_for_one_processor_by_its_tags_or_else_by_its_objects(tags, machines, machine):
    objects = tuple(
        ElfObject("demo.whl", f"{n}.so", 0, 64, number, 3, ((0, 0),)) for n, number in enumerate(machines)
    )
    assert machine_of([tag for text in tags for tag in parse_tag(text)], objects) == machine


# Several threads read what one reads, and end when the caller does.


FILES_PARALLEL = {
    f"demo/lib{n}.so": elf(soname=f"lib{n}.so", sections={".nv_fatbin": fatbin("sm_80")}) for n in range(9)
}


def outcomes_of(paths: list[Path], jobs: int) -> list[WheelFacts | MalformedError | OSError]:
    with reading([Input.of(path) for path in paths], patterns(), jobs) as outcomes:
        return outcomes()


@pytest.mark.parametrize("allowed", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2])
def test_wheels_are_read_with_the_threads_that_can_be_started(count, allowed, tmp_path, monkeypatch):
    names = ("demo", "other")[:count]
    paths = [
        wheel(tmp_path, FILES_PARALLEL, name=f"{name}-1.0-cp311-cp311-linux_x86_64.whl") for name in names
    ]
    without = outcomes_of(paths, 1)
    left, start = [None] * allowed, Thread.start

    def limited(thread: Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(Thread, "start", limited)
    assert outcomes_of(paths, 4) == without


@pytest.mark.parametrize("count", [1, 2])
def test_an_interrupt_does_not_wait_for_the_threads(count, tmp_path, monkeypatch):
    names = ("demo", "other")[:count]
    paths = [
        wheel(tmp_path, FILES_PARALLEL, name=f"{name}-1.0-cp311-cp311-linux_x86_64.whl") for name in names
    ]
    reading, go_on = Event(), Event()
    ended = []
    others = set(threading.enumerate())

    def scan(archive: Archive, member: Member, wheel: str, sought: Patterns) -> Scanned:
        reading.set()
        ended.append(go_on.wait(5))
        return Scanned(member.name)

    def interrupted(function: Callable[..., object]) -> Callable[..., object]:
        def called(*arguments: object) -> object:
            if threading.current_thread() is not threading.main_thread():
                return function(*arguments)
            assert reading.wait(60)
            raise KeyboardInterrupt

        return called

    monkeypatch.setattr(reader, "scan", scan)
    monkeypatch.setattr(Future, "result", interrupted(Future.result))
    with pytest.raises(KeyboardInterrupt):
        audit(paths, jobs=4)
    assert not ended
    go_on.set()
    for thread in set(threading.enumerate()) - others:
        thread.join(60)


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_unexpected_error_is_that_of_the_wheel_that_brings_it_out(jobs, tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ArithmeticError("no number")

    monkeypatch.setattr(reader, "scan", fail)
    (error,) = outcomes_of([wheel(tmp_path, FILES_PARALLEL)], jobs)
    assert (
        str(error)
        == "gpuforge itself failed at it: ArithmeticError: no number\n  hint: this is a bug; report it with the file"
    )


# What indexes and installers refuse: each kind, the nearest archive that they accept, and who is named.


RULES = {"GF712", "GF713"}
TABLE = load(checks.__file__, "refusals.toml")


def findings_of(folder: Path, sample: Sample) -> list[Finding]:
    report = audit([wheel_file(folder, sample.data, sample.name)])
    assert not report.problems
    return [f for f in report.findings if f.code in RULES]


def each(samples: Mapping[str, Sample]) -> list[object]:
    """The samples as parameters; those of many MiB are thorough."""
    large = [pytest.mark.thorough]
    return [pytest.param(s, id=name, marks=large if "MiB" in name else []) for name, s in samples.items()]


@pytest.mark.parametrize("sample", each(SAMPLES))
def test_each_kind_is_one_finding(tmp_path, sample):
    (finding,) = findings_of(tmp_path, sample)
    assert {subject.item for subject in finding.subjects} == {sample.kind}
    assert finding.code == ("GF712" if TABLE[sample.kind]["by"] else "GF713")


@pytest.mark.parametrize("sample", each(TWINS))
def test_the_nearest_archive_that_nobody_refuses_is_clean(tmp_path, sample):
    assert findings_of(tmp_path, sample) == []


def test_every_kind_has_a_sample():
    assert {sample.kind for sample in SAMPLES.values()} == TABLE.keys()


@pytest.mark.thorough
def test_what_is_said(tmp_path):
    findings = [(name, findings_of(tmp_path, sample)[0]) for name, sample in SAMPLES.items()]
    for code in sorted(RULES):
        hold_findings(code, [(name, finding) for name, finding in findings if finding.code == code])


def test_a_build_for_linux_alone_may_have_names_that_differ_in_case(tmp_path):
    sample = SAMPLES["names that differ in case"]._replace(name="demo-1.0-py3-none-manylinux_2_17_x86_64.whl")
    assert findings_of(tmp_path, sample) == []


def test_the_first_members_of_many_are_named(tmp_path):
    many = [EVIL._replace(name=f"demo/{n}\n.py".encode()) for n in range(300)]
    (finding,) = findings_of(tmp_path, Sample("", zip_file([*SOUND, *many])))
    assert len(finding.subjects) == 201
    assert lines(finding)[-1] == "control characters: and 100 more"


@pytest.mark.thorough
def test_hostile_records_cost_little(tmp_path):
    """Deep names, many small extra fields, and many entries that lead to one header with long ones."""
    deep = [EVIL._replace(name=b"/".join([b"a"] * 32_000) + b"%d" % n) for n in range(7)]
    fields = struct.pack("<HH", 0x9999, 0) * 16_000
    long = [EVIL._replace(name=b"demo/%d" % n, local={"extra": fields}) for n in range(15)]
    one = EVIL._replace(local={"extra": fields})
    many = [one, *(EVIL._replace(listed_at=0) for _ in range(10_000))]
    start = time.process_time()
    for number, entries in enumerate(([*SOUND, *deep], [*SOUND, *long], [*many, *SOUND])):
        audit([wheel_file(tmp_path, zip_file(entries), f"demo-1.{number}-py3-none-any.whl")])
    assert time.process_time() - start < 5
