"""The reports, whole: as text at 80 columns and as JSON that its schema accepts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from audit_reports import SCHEMA, hold, sample
from audit_samples import EXEC_STACK, elf, fatbin, wheel
from jsonschema import Draft202012Validator

from gpuforge import __version__
from gpuforge.audit import audit
from gpuforge.audit.findings import Subject
from gpuforge.audit.judge import Ignore, Report
from gpuforge.audit.report import data, tables, text
from gpuforge.audit.report.sentences import bullets, lines


@pytest.fixture
def report(tmp_path: Path) -> Report:
    clean = wheel(
        tmp_path,
        {
            "good/_core.so": elf(
                needed=["libcudart.so.13", "libc.so.6"],
                runpath="$ORIGIN/../nvidia/cu13/lib",
                versions={"libc.so.6": ["GLIBC_2.14"]},
                sections={".nv_fatbin": fatbin("sm_80", "sm_90", "compute_90:9.0")},
            )
        },
        name="good-2.0-cp311-cp311-manylinux_2_17_x86_64.whl",
        requires=["nvidia-cuda-runtime<14,>=13.0"],
    )
    nvomp, nvc = "bad.libs/libnvomp-fb1a2b9f.so", "bad.libs/libnvc-ca879ffd.so"
    bad = wheel(
        tmp_path,
        {
            nvomp: elf(soname="libnvomp-fb1a2b9f.so", rpath="bad.libs", stack=EXEC_STACK),
            nvc: elf(soname="libnvc-ca879ffd.so", rpath="bad.libs"),
            "bad/libcore.so": elf(
                needed=["libnvomp-fb1a2b9f.so", "libnvc-ca879ffd.so"], runpath="$ORIGIN/../bad.libs"
            ),
            "bad/ext.so": elf(needed=["libcufft.so.11", "libcore.so"], runpath="$ORIGIN"),
            "bad/libcore.a": b"!<arch>\n",
            **{
                f"bad/plugins/a_plugin_with_a_long_name_{n:02}.so": elf(needed=["libcufft.so.11"])
                for n in range(15)
            },
        },
        name="bad-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
        tags=["cp311-cp311-linux_x86_64"],
    )
    (tmp_path / "text.whl").write_text("no wheel")
    return audit(
        [bad, clean, tmp_path / "text.whl"],
        ignore=[Ignore("GF503", "glibc 2.41 is not supported yet, see the installation page", "bad.libs/*")],
    )


def test_the_text_report(report: Report) -> None:
    found = text.render(report, width=80)
    # all but commands, which are to be copied
    whole = [line for line in found.splitlines() if not line.lstrip().startswith(("patchelf ", "sed "))]
    assert all(len(line) <= 80 for line in whole)
    assert all(line == line.rstrip() for line in found.splitlines())
    hold("report.txt", found)


def test_the_json_report(report: Report, tmp_path: Path) -> None:
    found = (
        data.dumps(report)
        .replace(str(tmp_path), "DIST")
        .replace(f'"version": "{__version__}"', '"version": "0"')
    )
    hold("report.json", found)


@pytest.mark.parametrize("at_once", [1, 2, 256])
def test_the_json_report_is_written_in_pieces(
    report: Report, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "_AT_ONCE", at_once)
    assert data.dumps(report) == json.dumps(data.as_data(report), indent=2) + "\n"


def test_the_json_report_is_valid_against_its_schema(report: Report) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    Draft202012Validator(SCHEMA).validate(json.loads(data.dumps(report)))
    assert SCHEMA["properties"]["schema"]["const"] == data.SCHEMA


@pytest.mark.parametrize("width", [80, 120])
def test_colour_changes_nothing_of_what_is_said(report: Report, width: int) -> None:
    for held in (report, sample()):
        coloured = text.render(held, width=width, color=True, verbose=True, show_tree=True, show_gpus=True)
        assert "\x1b[" in coloured
        bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
        plain = text.render(held, width=width, verbose=True, show_tree=True, show_gpus=True)
        assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_the_tree_and_the_gpus(width: int) -> None:
    found = text.render(sample(), width=width, verbose=True, show_tree=True, show_gpus=True)
    assert all(len(line) <= width and line == line.rstrip() for line in found.splitlines())
    hold(f"everything-{width}.txt", found)


@pytest.mark.parametrize("width", [20, 40, 80])
def test_no_name_is_broken(width: int) -> None:
    report = sample()
    found = text.render(report, width=width, verbose=True, show_tree=True, show_gpus=True)
    for each in report.wheels:
        assert each.facts.name in found
        for needed in (o.needed for o in each.facts.objects):
            assert all(name in found for name in needed)
        assert all(file in found for finding in each.findings for file in finding.files if "\x1b" not in file)


def test_every_subject_is_listed_with_verbose() -> None:
    report = sample()
    first, other = report.wheels
    files = tuple(f"bad/deep/{n}.so" for n in range(20))
    finding = first.findings[0]._replace(files=files, subjects=tuple(map(Subject, files)))
    report = report._replace(wheels=(first._replace(findings=(finding,)), other))
    assert "- 20 files, such as 0.so, 1.so, 2.so\n" in text.render(report)
    assert all(f"- {file}\n" in text.render(report, verbose=True) for file in files)


def test_of_a_whole_environment_only_what_has_binaries_is_shown() -> None:
    report = sample()
    bad, good = report.wheels
    good = good._replace(facts=good.facts._replace(form="installed"))
    found = text.render(report._replace(wheels=(bad, good)))
    assert "good-2.0" not in found
    assert "1 more installed distribution has no binaries and no findings\n" in found


def test_the_json_of_the_sample_is_valid_and_says_what_was_of_no_use() -> None:
    found = data.as_data(sample(), ["--ignore GF999=x: no finding matches it"])
    Draft202012Validator(SCHEMA).validate(found)
    assert found["unused"] == ["--ignore GF999=x: no finding matches it"]
    assert [(c["count"], c["images"][0]["stored"]) for c in found["device_code"][0]["containers"]] == [
        (3, 12_000_000),
        (1, 4_000_000),
    ]


MANY = tuple(f"{letter}.so" for letter in "abcdefg")


@pytest.mark.parametrize(
    ("subject", "line"),
    [
        (
            Subject(
                library="libx-1.so",
                provider="a runtime",
                detail="liby.so comes with",
                names=MANY,
                loaded_by=MANY,
            ),
            "libx-1.so (a runtime), loaded by a.so, b.so, c.so and 4 more; "
            "liby.so comes with a.so, b.so, c.so and 4 more",
        ),
        (
            Subject(library="libx.so", needed_by=MANY[:6]),
            "libx.so, NEEDED by a.so, b.so, c.so, d.so, e.so, f.so",
        ),
        (
            Subject("x.so", detail="sm_50, sm_60, sm_70, sm_75, sm_80, sm_86, sm_90a; nothing for 10.0"),
            "x.so: sm_50, sm_60, sm_70, sm_75, sm_80, sm_86, sm_90a; nothing for 10.0",
        ),
        (Subject("x.so", item="sm_80", detail="in 1 of 2 containers"), "x.so: sm_80: in 1 of 2 containers"),
    ],
)
def test_long_lists_of_names_are_cut_where_a_person_reads(subject: Subject, line: str) -> None:
    finding = sample().findings[0]._replace(subjects=(subject,))
    assert bullets(finding) == (line,)
    assert " more" not in lines(finding)[0]


def test_libraries_of_one_provider_are_one_bullet() -> None:
    subjects = [
        Subject(library=f"lib{n}.so", provider="torch", needed_by=(f"{n}.so", "x.so")) for n in range(5)
    ]
    finding = sample().findings[0]._replace(subjects=tuple(subjects))
    assert bullets(finding) == ("torch: lib0.so, lib1.so, lib2.so and 2 more; needed by 6 files",)
    assert lines(finding)[0] == "lib0.so (torch), NEEDED by 0.so, x.so"


def test_what_is_accepted_is_told_once_for_each_reason(tmp_path: Path) -> None:
    files = {f"demo/{name}.so": elf(stack=EXEC_STACK) for name in "abcde"}
    report = audit([wheel(tmp_path, files)], ignore=[Ignore("GF503", "known")])
    lines = text.render(report).splitlines()
    assert lines[1].startswith("  clean: only accepted findings; ")
    assert [line for line in lines if line.startswith("  accepted")] == [
        "  accepted  GF503 demo/a.so, demo/b.so, demo/c.so and 2 more: known"
    ]


@pytest.mark.parametrize(
    ("size", "shown"), [(22_700_000, "22.7"), (100_000, "0.1"), (20_604, "0.0206"), (7, "0.0001")]
)
def test_a_size_of_gpu_code_is_never_all_zeros(size: int, shown: str) -> None:
    assert tables._megabytes(size) == shown


def test_what_several_wheels_make_true_has_a_section_of_its_own(tmp_path: Path) -> None:
    cudart = elf(soname="libcudart.so.13")
    one, other = (
        wheel(
            tmp_path,
            {f"{name}/ext.so": elf(), "shared/libcudart.so.13": data},
            name=f"{name}-1.0-py3-none-linux_x86_64.whl",
        )
        for name, data in (("one", cudart), ("other", cudart + b"x"))
    )
    found = text.render(audit([one, other]))
    apart, _, together = found.partition("Several of these wheels together\n")
    assert "GF709" not in apart
    assert together.startswith("  1 error\n\n  error     GF709 ")
    assert together.rstrip().splitlines()[-1].startswith("2 wheels: 1 with errors")


def test_findings_for_information_are_named_and_shown_on_request(tmp_path: Path) -> None:
    files = {"demo/ext.so": elf(sections={".nv_fatbin": fatbin("sm_90a", "compute_90a:8.4")})}
    report = audit([wheel(tmp_path, files)])
    assert "  info      GF404 (--verbose shows the findings for information)\n" in text.render(report)
    assert "  info      GF404 Kernels are compiled only for" in text.render(report, verbose=True)


def test_what_several_files_have_of_one_list_is_a_line_for_each_part(report: Report) -> None:
    (first, *_) = report.findings
    wants = {"a.so": ("A_1", "B_1"), "b.so": ("A_1", "B_1", "B_2"), "c.so": ("B_2",)}
    subjects = tuple(Subject(file=file, detail="wants", names=names) for file, names in wants.items())
    assert bullets(first._replace(subjects=subjects)) == (
        "wants A_1, B_1: a.so, b.so",
        "wants B_2: b.so, c.so",
    )
    assert bullets(first._replace(subjects=subjects[:1])) == ("a.so: wants A_1, B_1",)
    same = tuple(Subject(file=file, detail="9.0 with driver 1") for file in wants)
    assert bullets(first._replace(subjects=same)) == ("9.0 with driver 1: a.so, b.so, c.so",)


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_name_with_spaces_is_not_broken_either(width: int, tmp_path: Path) -> None:
    name = "demo/a folder of plugins/an extension with a name.so"
    needs = elf(needed=["libcudart.so.12"], rpath="libs")
    found = text.render(audit([wheel(tmp_path, {name: needs})]), width=width, verbose=True)
    assert f"NEEDED by {name}\n" in found or f"\n              {name}\n" in found
    assert found.count(name) >= 2


def test_information_about_several_wheels_is_shown(tmp_path: Path) -> None:
    name = "{}-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    paths = [wheel(tmp_path, {"demo/ext.so": elf(), "demo/LICENSE": each.encode()}, name=name.format(each))
             for each in ("one", "two")]  # fmt: skip
    shown = " ".join(text.render(audit(paths)).split())
    assert "info GF709 Two of these wheels install different files" in shown
    assert "--verbose" not in shown


@pytest.mark.parametrize(
    ("files", "unread"),
    [
        ({"demo.py": b""}, "anything but its metadata"),
        ({"demo/ext.so": elf()}, ""),
        ({"demo/ext.so": elf(), "demo/x.dll": b"MZ"}, "files for other systems (x.dll)"),
        ({"demo/ext.so": elf(), "demo/x.hsaco": b"x"}, "GPU code that is not CUDA's (x.hsaco)"),
        (
            {"demo/ext.so": elf(sections={".rodata": b"\0libcublas.so.%d\0"})},
            "libraries whose names are put together when they are opened (libcublas.so.%d)",
        ),
    ],
)
def test_a_clean_report_says_what_was_not_looked_at(
    tmp_path: Path, files: dict[str, bytes], unread: str
) -> None:
    shown = text.render(audit([wheel(tmp_path, files)]), width=200)
    assert "clean: no findings" in shown
    assert ("not read" in shown) is bool(unread)
    assert unread in shown
