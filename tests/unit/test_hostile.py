"""Each attack of the package `hostile`, as a user would meet it: bounded, one clear message, no other wheel hidden."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from audit_samples import elf, wheel
from hostile import ATTACKS, archives, inputs, names, objects
from markdown_it import MarkdownIt

from gpuforge.audit import audit
from gpuforge.diagnostics import shown

_SECONDS, _MEGABYTES = 10, 512
_LARGE = {"inputs-sparse_files", "graphs-many_wheels"}  # more than a megabyte
_PROGRAM = "import sys\nfrom gpuforge.cli.main import main\nsys.argv[0] = 'gpuforge'\nmain()\n"
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_COMMAND = re.compile(r"(?m)^\s*::|##(?:\[|vso\[|teamcity\[)")


# Limits processor time, and tells the most memory of the program in KiB. That of a process counts from before its
# program starts, when it still is its parent: a small one.
_MEASURE = f"""
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_CPU, ({_SECONDS}, {_SECONDS}))
status = subprocess.run([sys.executable, "-c", *sys.argv[2:]]).returncode
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status & 0xFF)
"""


def gpuforge(
    folder: Path, paths: Sequence[Path], *options: str, **environment: str
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run `gpuforge audit` with the processor time that any audit of less than a megabyte may take; with its MiB."""
    memory = folder / "memory.txt"
    ended = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(memory), _PROGRAM, "audit", *options, *map(str, paths)],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        stdin=subprocess.DEVNULL,
        timeout=300,
        env={**os.environ, **environment},
        check=False,
    )
    return ended, int(memory.read_text()) >> 10


@pytest.mark.thorough
@pytest.mark.parametrize("attack", sorted(ATTACKS.keys() - _LARGE))
def test_an_attack_stays_within_the_bounds(attack, tmp_path):
    paths = ATTACKS[attack](tmp_path)
    ended, memory = gpuforge(tmp_path, paths)
    assert ended.returncode in {0, 1, 2}
    assert "Traceback" not in ended.stderr
    assert "itself failed" not in ended.stderr
    assert memory < _MEGABYTES


@pytest.mark.parametrize(
    "attack",
    [
        objects.needed_of_one_string,
        # thorough: seconds each, of the budget that the others spend, too
        pytest.param(objects.sections_by_the_million, marks=pytest.mark.thorough),
        pytest.param(archives.long_names, marks=pytest.mark.thorough),
        pytest.param(archives.stored_members_of_one_place, marks=pytest.mark.thorough),
    ],
)
def test_what_is_too_large_has_one_finding_and_no_proof(attack, tmp_path):
    assert callable(attack)
    report = audit(attack(tmp_path))
    (judged,) = report.wheels
    assert [finding.code for finding in judged.findings] == ["GF714"]
    assert judged.findings[0].subjects[0].detail.startswith("too large to judge: ")
    assert not judged.proofs


@pytest.mark.thorough
def test_wheels_in_an_archive_have_the_budget_of_the_archive(tmp_path):
    report = audit(archives.wheels_of_bombs_in_a_tar(tmp_path))
    assert [wheel.facts.too_large != "" for wheel in report.wheels] == [False] + [True] * 29


@pytest.mark.thorough
def test_a_large_table_of_sound_names_is_judged(tmp_path):
    """The nearest thing that must not be refused: as many entries, each with a name of its own."""
    needed = [f"libdemo{number}.so.1" for number in range(2_000)]
    report = audit([wheel(tmp_path, {"demo/a.so": elf(needed=needed)})])
    assert "GF714" not in {finding.code for finding in report.findings}
    assert len(report.objects[0].needed) == 2_000


@pytest.mark.thorough
def test_one_bad_wheel_hides_no_other(tmp_path):
    report = audit(archives.bad_beside_good(tmp_path))
    assert [wheel.facts.too_large != "" for wheel in report.wheels] == [True, False]
    assert len(report.problems) == 2
    assert report.wheels[1].proofs


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["text", "json"])
def test_archives_of_wheels_hide_no_other_input(form, tmp_path):
    """Two that take long, and two of thousands of wheels, each with a finding of its own, at 1,024 open files."""
    bad: list[str] = []
    for number in range(2):
        (folder := tmp_path / str(number)).mkdir()
        for build in (inputs.tar_of_thousands_of_wheels, inputs.tar_of_a_million_members):
            (path,) = build(folder)
            bad.append(str(path.rename(folder / f"{number}{path.name}")))
    sound = wheel(tmp_path, {"demo/a.so": elf()})
    command = f'ulimit -n 1024 -v 2000000; exec "$0" -c "$@" --format {form}'
    ended = subprocess.run(
        ["bash", "-c", command, sys.executable, _PROGRAM, "audit", *bad, str(sound)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (1, "")
    if form == "json":
        report = json.loads(ended.stdout)
        names = {f["wheel"] for f in report["findings"] if f["code"] == "GF714"}
        assert names == {Path(each).name for each in bad}
        assert next(w for w in report["wheels"] if w["name"] == sound.name)["proved"]
    else:
        assert ended.stdout.count("too large to judge: ") == len(bad)
        assert sound.name in ended.stdout


@pytest.mark.thorough
def test_a_wheel_that_ends_the_process_is_left_out_of_the_next(tmp_path):
    """What no budget stops: reading one of two wheels never ends, and the kernel ends the process."""
    program = (
        "import gpuforge.audit.read.wheel as reader\nfrom gpuforge.cli import bounded\n"
        "opened = reader.opened\nbounded.CPU_SECONDS = 2\n"
        "def endless(source, *rest):\n"
        "    while source.label.startswith('evil'): pass\n"
        "    return opened(source, *rest)\n"
        f"reader.opened = endless\n{_PROGRAM}"
    )
    evil = wheel(tmp_path, {"demo/a.so": elf()}, name="evil-1.0-py3-none-any.whl")
    sound = wheel(tmp_path, {"demo/a.so": elf()})
    ended = subprocess.run(
        [sys.executable, "-c", program, "audit", "--format", "json", str(evil), str(sound)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    report = json.loads(ended.stdout)
    assert {f["wheel"] for f in report["findings"] if f["code"] == "GF714"} == {evil.name}
    assert next(w for w in report["wheels"] if w["name"] == sound.name)["proved"]
    assert ended.returncode == 1


@pytest.mark.parametrize("name", sorted(names.STEERING))
def test_a_name_is_shown_without_what_steers(name):
    text = shown(names.STEERING[name])
    assert not _UNSEEN.search(text)
    assert not _COMMAND.search(text)
    assert "\n" not in text


def test_plain_names_are_shown_as_they_are():
    plain = "libé中.so.1 std::vector<int> a##b [x] 50 % “q” … → 🚫"
    assert shown(plain) == plain


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["text", "markdown", "json", "sarif", "junit", "tree"])
def test_no_output_is_steered_by_a_name(form, tmp_path):
    options = ["--tree", "--gpus", "--verbose"] if form == "tree" else ["--format", form]
    paths = ATTACKS["names-every_text_everywhere"](tmp_path)
    ended, _ = gpuforge(tmp_path, paths, *options, PYTHONIOENCODING="ascii")
    assert ended.returncode == 2
    for text in (ended.stdout, ended.stderr):
        assert text
        assert text.isascii()
        assert not _UNSEEN.search(text)
        if form not in {"json", "sarif"}:
            assert not _COMMAND.search(text)
    if form in {"json", "sarif"}:
        json.loads(ended.stdout)
    elif form == "junit":
        ET.fromstring(ended.stdout)  # noqa: S314  our own output
    elif form == "markdown":
        tokens = MarkdownIt("gfm-like", {"linkify": False}).enable("table").parse(ended.stdout)
        every = [*tokens, *(child for token in tokens for child in token.children or ())]
        assert not [t.content for t in every if t.type.startswith("html") and "script" in t.content]
        assert not [t for t in every if t.type in {"link_open", "image"}]
