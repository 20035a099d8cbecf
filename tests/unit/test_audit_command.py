"""The command `gpuforge audit` and the build's step: exit codes, streams, options."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from audit_samples import elf, fatbin, wheel
from jsonschema import Draft202012Validator
from plan_samples import PACKAGE

from gpuforge.actions import entry
from gpuforge.actions.audit import AuditWheel
from gpuforge.audit.report import data
from gpuforge.cli.main import run
from gpuforge.cuda.kernels import KernelImage
from gpuforge.expectation import Expectation
from gpuforge.manifest.load import load
from gpuforge.plan.expectation import expectation
from gpuforge.runtime.arch import Arch
from gpuforge.runtime.cpu import CpuLevel

SCHEMA = Path(data.__file__).with_name("report.schema.json")
OK = {"demo/ext.so": elf()}
WARNS = {"demo/ext.so": elf(runpath="/build/lib")}
FAILS = {"demo/ext.so": elf(rpath="libs")}
MANIFEST = (
    PACKAGE
    + """\
[cuda.13]
toolkit = "13.0"
archs = []
[[objects]]
name = "core"
role = "host-only"
files = ["**/*.so"]
"""
)


@pytest.mark.parametrize(
    ("files", "options", "status"),
    [
        (OK, [], 0),
        (WARNS, [], 0),
        (WARNS, ["--fail-on", "warning"], 1),
        (FAILS, [], 1),
        (FAILS, ["--ignore", "GF301=the tests run there"], 0),
        (FAILS, ["--ignore", "GF301:demo/*=the tests run there"], 0),
        (FAILS, ["--ignore", "GF301:other/*=the tests run there"], 1),
        (FAILS, ["--ignore", "GF301"], 2),
        (FAILS, ["--ignore", "GF301="], 2),
        (FAILS, ["--ignore", "GF999=there is no such rule"], 2),
        (FAILS, ["--baseline", "/nowhere.json"], 2),
        (FAILS, ["--format", "sarif"], 1),
        (FAILS, ["--format", "junit"], 1),
        (FAILS, ["--format", "markdown", "--tree", "--gpus"], 1),
        (FAILS, ["--tree", "--gpus"], 1),
        (OK, ["--format", "json", "--tree", "--gpus"], 0),
        (OK, ["--format", "sarif", "--tree"], 2),
        (OK, ["--format", "junit", "--gpus"], 2),
        (OK, ["--format", "html"], 2),
        (OK, ["--cuda", "13"], 2),
        (OK, ["--manifest", "/nowhere.toml"], 2),
        (OK, ["--jobs", "2"], 0),
    ],
)
def test_exit_status(tmp_path, files, options, status):
    assert run(["audit", str(wheel(tmp_path, files)), *options]) == status


def test_unreadable_input_goes_to_stderr(tmp_path, capfd):
    bad = tmp_path / "bad.whl"
    bad.write_text("x")
    assert run(["audit", str(bad), str(wheel(tmp_path, OK)), str(tmp_path / "none.whl")]) == 2
    out, err = capfd.readouterr()
    assert "demo-1.0" in out
    assert err == (
        f"error: {bad}: it is not a wheel: not even a zip file\n"
        "  hint: download or build it again; `python -m zipfile -t FILE` tests an archive\n"
        f"error: {tmp_path / 'none.whl'}: No such file or directory\n"
        "  hint: check the path\n"
        "2 errors\n"
    )


def test_json_goes_to_stdout_alone(tmp_path, capfd):
    assert run(["audit", "--format", "json", str(wheel(tmp_path, FAILS))]) == 1
    out, err = capfd.readouterr()
    report = json.loads(out)
    assert err == ""
    assert [f["code"] for f in report["findings"]] == ["GF301"]
    assert report["wheels"][0]["verdict"] == "error"


def test_what_only_the_compared_wheel_has_is_there_in_each_form(tmp_path, capfd):
    (tmp_path / "old").mkdir()
    name = "demo-0.9-cp3{}-cp3{}-manylinux_2_17_x86_64.whl"
    for minor, library in ((11, "libold.so.1"), (12, "libno.so.1")):
        files = {"demo/x.py": b"", "demo/ext.so": elf(needed=["libc.so.6", library])}
        wheel(tmp_path / "old", files, name=name.format(minor, minor))
    path = str(wheel(tmp_path, OK))
    call = ["audit", path, "--like", str(tmp_path / "old")]
    for form in ("text", "markdown"):
        assert run([*call, "--format", form]) == 1
        out, err = capfd.readouterr()
        assert ["GF717" in out, "libold.so.1" in out, "libno" in out, err] == [True, True, False, ""]
    assert run([*call, "--format", "json", "--ignore", "GF717:demo/x.py=left out"]) == 0
    report = json.loads(capfd.readouterr().out)
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(report)
    (found,) = report["comparisons"]
    assert found["like"]["name"] == name.format(11, 11)
    assert found["differences"]["modules"] == {"only_there": ["demo.x"], "only_here": []}
    others = wheel(tmp_path, OK, name="other-1.0-py3-none-any.whl")
    assert run(["audit", path, "--like", f"{others}"]) == 0
    assert "compared with other-1.0" in " ".join(capfd.readouterr().out.split())
    others.rename(tmp_path / "old" / others.name)
    third = wheel(tmp_path, OK, name="third-1.0-cp311-cp311-manylinux_2_17_x86_64.whl")
    assert run(["audit", str(third), "--like", str(tmp_path / "old")]) == 0
    assert f"{third.name} was not compared" in capfd.readouterr().err
    assert run(["audit", path, "--like", str(tmp_path / "none.whl")]) == 2
    assert "none.whl: No such file or directory" in capfd.readouterr().err


def test_sarif_junit_and_markdown_go_to_stdout_alone(tmp_path, capfd):
    path = str(wheel(tmp_path, FAILS))
    for form, begin in (("sarif", "{"), ("junit", "<?xml "), ("markdown", "## ")):
        assert run(["audit", "--format", form, path]) == 1
        out, err = capfd.readouterr()
        assert (out[: len(begin)], out[-1], err) == (begin, "\n", "")
        assert "GF301" in out


def test_a_baseline_is_written_kept_and_told_of(tmp_path, capfd):
    base = tmp_path / "baseline.json"
    path = str(wheel(tmp_path, FAILS))
    assert run(["audit", path, "--write-baseline", str(base)]) == 0
    assert capfd.readouterr().err == f"{base}: lists 1 finding, which --baseline {base} accepts from now on\n"
    assert run(["audit", path, "--baseline", str(base), "--fail-on", "warning"]) == 0
    out, err = capfd.readouterr()
    assert "accepted  GF301 demo/ext.so: in the baseline" in out
    assert err == ""
    worse = str(wheel(tmp_path, {**FAILS, "demo/new.so": elf(rpath="libs")}))
    assert run(["audit", worse, "--baseline", str(base)]) == 1
    assert "- demo/new.so\n" in capfd.readouterr().out
    assert run(["audit", worse, "--baseline", str(base), "--write-baseline", str(base)]) == 0
    assert capfd.readouterr().err.startswith(f"{base}: lists 2 findings,")
    mended = str(wheel(tmp_path, OK))
    assert run(["audit", mended, "--baseline", str(base)]) == 0
    assert capfd.readouterr().err == (
        "note: in the baseline, but no longer found: GF301 demo: demo/ext.so: RPATH libs\n"
        "note: in the baseline, but no longer found: GF301 demo: demo/new.so: RPATH libs\n"
    )


def test_a_baseline_is_not_written_of_half_of_it(tmp_path, capfd):
    base = tmp_path / "baseline.json"
    argv = ["audit", str(wheel(tmp_path, FAILS)), str(tmp_path / "none.whl"), "--write-baseline", str(base)]
    assert run(argv) == 2
    assert capfd.readouterr().err.endswith(f"note: {base} was not written, as not everything could be read\n")
    assert not base.exists()


def test_an_ignore_that_accepts_nothing_is_told_of(tmp_path, capfd):
    argv = ["audit", "--format", "json", str(wheel(tmp_path, OK)), "--ignore", "GF301:x/*=needed once"]
    assert run(argv) == 0
    out, err = capfd.readouterr()
    told = "--ignore GF301:x/*=needed once: no finding matches it"
    assert json.loads(out)["unused"] == [told]
    assert err == f"note: {told}\n"


def test_the_manifest_brings_promises_and_accepted_findings(tmp_path, capfd):
    manifest = tmp_path / "gpuforge.toml"
    manifest.write_text(
        MANIFEST + '[audit]\nignore = [{ rule = "GF301", file = "demo/*", reason = "known" }]\n'
    )
    assert run(["audit", "--format", "json", "--manifest", str(manifest), str(wheel(tmp_path, FAILS))]) == 0
    report = json.loads(capfd.readouterr().out)
    assert [i["reason"] for i in report["ignored"]] == ["known"]
    assert (
        "host-only: core: 1 object read completely (ext.so): "
        "no GPU code in a known format (packed data was not unpacked), no trace of a GPU compiler, "
        "no library of a GPU stack NEEDED"
    ) in report["proved"]


@pytest.mark.parametrize(
    "name", ["demo-1.0+cu126", "demo-1.0+cu12", "demo-1.0+git1.cu128", "demo_cu126-1.0", "demo_cu12-1.0"]
)
def test_the_wheels_name_tells_the_table_that_it_is_judged_by(tmp_path, capfd, name):
    manifest = tmp_path / "gpuforge.toml"
    tables = '[cuda.12]\ntoolkit = "12.6"\narchs = ["80"]\n[cuda.13]\ntoolkit = "13.0"\narchs = ["90"]\n'
    gpu = '[[objects]]\nname = "core"\nrole = "gpu"\nfiles = ["demo/ext.so"]\n'
    manifest.write_text(f"{MANIFEST.partition('[cuda.13]')[0]}{tables}{gpu}")
    files = {"demo/ext.so": elf(sections={".nv_fatbin": fatbin("sm_90")})}
    audited = wheel(tmp_path, files, name=f"{name}-cp311-cp311-manylinux_2_17_x86_64.whl")
    assert run(["audit", "--format", "json", "--manifest", str(manifest), str(audited)]) == 1
    out, err = capfd.readouterr()
    assert "not judged" not in err
    (found,) = (f for f in json.loads(out)["findings"] if f["code"] == "GF401")
    assert "sm_80" in json.dumps(found)


def test_a_toolkit_that_the_manifest_lacks(tmp_path, capfd):
    manifest = tmp_path / "gpuforge.toml"
    manifest.write_text(MANIFEST)
    assert run(["audit", "--manifest", str(manifest), "--cuda", "12", str(wheel(tmp_path, OK))]) == 2
    assert "the manifest has no CUDA version 12\n  hint: it has 13\n" in capfd.readouterr().err


def step(folder: Path, path: Path) -> subprocess.CompletedProcess[str]:
    (folder / "gpuforge.toml").write_text(MANIFEST)
    step = AuditWheel(wheel=path, expectation=expectation(load(folder), "13"))
    (folder / "request.json").write_text(step.text())
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "gpuforge.actions.entry",
            step.program(),
            *map(str, (folder / "request.json", folder / "end")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_step_reads_the_architectures_that_were_planned(tmp_path):
    kernels = Expectation(cubins=(Arch(9, 0, "a"),), ptx=(Arch(12, 0),))
    images = (
        KernelImage("ptx", Arch(5, 0)),
        KernelImage("library", CpuLevel("x86-64-v3")),
        KernelImage("iree-vulkan", None),
    )
    expected = Expectation(
        cubins=(Arch(8, 0),), targets={"blur": images}, kernels_wheels={"demo-kernels-cu13": kernels}
    )
    step = AuditWheel(wheel=tmp_path, expectation=expected)
    text = step.text()
    assert entry.load(step.program(), text) == step
    written = json.loads(text)["expectation"]
    assert (written["cubins"], written["ptx"]) == (["sm_80"], [])
    written = written["kernels_wheels"]["demo-kernels-cu13"]
    assert (written["cubins"], written["ptx"]) == (["sm_90a"], ["compute_120"])


@pytest.mark.thorough
def test_the_step_reports_and_passes(tmp_path):
    path = wheel(tmp_path, OK)
    for given in (path, path.parent):
        done = step(tmp_path, given)
        assert (done.returncode, done.stderr) == (0, "")
        assert "host-only: core" in done.stdout
        assert json.loads((tmp_path / "report.json").read_text())["findings"] == []


@pytest.mark.thorough
def test_the_step_fails_on_an_error_and_still_reports(tmp_path):
    done = step(tmp_path, wheel(tmp_path, FAILS))
    assert done.returncode == 1
    assert done.stderr == (
        "error: the audit found errors: GF301\n"
        "  hint: the findings above say what to change; [audit] ignore accepts one, with a reason\n"
    )
    assert json.loads((tmp_path / "report.json").read_text())["findings"]
    shown = "\n".join(json.loads((tmp_path / "end").read_text())["notes"])
    assert "error     GF301 " in shown
    assert "\n  fix " in shown
    assert "proved" in done.stdout
    assert "proved" not in shown
