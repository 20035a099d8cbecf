"""The reports, whole: as text at 80 columns and as JSON that its schema accepts."""

import ast
import json
import re
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from audit_reports import BAD, GOOD, SCHEMA, hold, sample
from audit_samples import EXEC_STACK, elf, fatbin, wheel
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt

import gpuforge.audit
from gpuforge import __version__
from gpuforge.audit import audit
from gpuforge.audit.findings import Subject, facts_of
from gpuforge.audit.judge import Ignore, Report
from gpuforge.audit.report import data, junit, markdown, sarif, sentences, tables, text
from gpuforge.audit.report.sentences import bullets, lines
from gpuforge.audit.report.text import Page, Text
from gpuforge.audit.rules import RULES


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


def test_the_text_report(report):
    found = text.render(report, width=80)
    # all but commands, which are to be copied
    whole = [line for line in found.splitlines() if not line.lstrip().startswith(("patchelf ", "sed "))]
    assert all(len(line) <= 80 for line in whole)
    assert all(line == line.rstrip() for line in found.splitlines())
    hold("report.txt", found)


def test_the_json_report(report, tmp_path):
    found = (
        data.dumps(report)
        .replace(str(tmp_path), "DIST")
        .replace(f'"version": "{__version__}"', '"version": "0"')
    )
    hold("report.json", found)


@pytest.mark.parametrize("at_once", [1, 2, 256])
def test_the_json_report_is_written_in_pieces(report, at_once, monkeypatch):
    monkeypatch.setattr(data, "_AT_ONCE", at_once)
    assert data.dumps(report) == json.dumps(data.as_data(report), indent=2) + "\n"


def test_the_json_report_is_valid_against_its_schema(report):
    Draft202012Validator.check_schema(SCHEMA)
    Draft202012Validator(SCHEMA).validate(json.loads(data.dumps(report)))
    assert SCHEMA["properties"]["schema"]["const"] == data.SCHEMA


@pytest.mark.parametrize("width", [80, 120])
def test_colour_changes_nothing_of_what_is_said(report, width):
    for held in (report, sample()):
        coloured = text.render(held, width=width, color=True, verbose=True, show_tree=True, show_gpus=True)
        assert "\x1b[" in coloured
        bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
        plain = text.render(held, width=width, verbose=True, show_tree=True, show_gpus=True)
        assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_the_tree_and_the_gpus(width):
    found = text.render(sample(), width=width, verbose=True, show_tree=True, show_gpus=True)
    assert all(len(line) <= width and line == line.rstrip() for line in found.splitlines())
    hold(f"everything-{width}.txt", found)


def test_every_subject_is_listed_with_verbose():
    report = sample()
    first, other = report.wheels
    files = tuple(f"bad/deep/{n}.so" for n in range(20))
    finding = first.findings[0]._replace(files=files, subjects=tuple(map(Subject, files)))
    report = report._replace(wheels=(first._replace(findings=(finding,)), other))
    assert "- 20 files, such as 0.so, 1.so, 2.so\n" in text.render(report)
    assert all(f"- {file}\n" in text.render(report, verbose=True) for file in files)


def test_of_a_whole_environment_only_what_has_binaries_is_shown():
    report = sample()
    bad, good = report.wheels
    good = good._replace(facts=good.facts._replace(form="installed"))
    found = text.render(report._replace(wheels=(bad, good)))
    assert "good-2.0" not in found
    assert "1 more installed distribution has no binaries and no findings\n" in found


def test_the_json_of_the_sample_is_valid_and_says_what_was_of_no_use():
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
def test_long_lists_of_names_are_cut_where_a_person_reads(subject, line):
    finding = sample().findings[0]._replace(subjects=(subject,))
    assert bullets(finding) == (line,)
    assert " more" not in lines(finding)[0]


def test_libraries_of_one_provider_are_one_bullet():
    subjects = [
        Subject(library=f"lib{n}.so", provider="torch", needed_by=(f"{n}.so", "x.so")) for n in range(5)
    ]
    finding = sample().findings[0]._replace(subjects=tuple(subjects))
    assert bullets(finding) == ("torch: lib0.so, lib1.so, lib2.so and 2 more; needed by 6 files",)
    assert lines(finding)[0] == "lib0.so (torch), NEEDED by 0.so, x.so"


def test_what_is_accepted_is_told_once_for_each_reason(tmp_path):
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
def test_a_size_of_gpu_code_is_never_all_zeros(size, shown):
    assert tables._megabytes(size) == shown


def test_what_several_wheels_make_true_has_a_section_of_its_own(tmp_path):
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


def test_findings_for_information_are_named_and_shown_on_request(tmp_path):
    files = {"demo/ext.so": elf(sections={".nv_fatbin": fatbin("sm_90a", "compute_90a:8.4")})}
    report = audit([wheel(tmp_path, files)])
    assert "  info      GF404 (--verbose shows the findings for information)\n" in text.render(report)
    assert "  info      GF404 Kernels are compiled only for" in text.render(report, verbose=True)


def test_what_several_files_have_of_one_list_is_a_line_for_each_part(report):
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
def test_a_name_with_spaces_is_not_broken_either(width, tmp_path):
    name = "demo/a folder of plugins/an extension with a name.so"
    needs = elf(needed=["libcudart.so.12"], rpath="libs")
    found = text.render(audit([wheel(tmp_path, {name: needs})]), width=width, verbose=True)
    assert f"NEEDED by {name}\n" in found or f"\n              {name}\n" in found
    assert found.count(name) >= 2


def test_information_about_several_wheels_is_shown(tmp_path):
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
def test_a_clean_report_says_what_was_not_looked_at(tmp_path, files, unread):
    shown = text.render(audit([wheel(tmp_path, files)]), width=200)
    assert "clean: no findings" in shown
    assert ("not read" in shown) is bool(unread)
    assert unread in shown


# Markdown for a step summary: whole, and as GitHub's kind of parser reads it.


def test_the_whole_report():
    hold("report.md", markdown.render(sample(), show_tree=True, show_gpus=True))


def test_nothing_in_it_becomes_markup():
    found = MarkdownIt("gfm-like", {"linkify": False}).render(markdown.render(sample(), show_gpus=True))
    assert "<em>" not in found
    assert "<b>'" not in found
    assert "&lt;b&gt;'<code>$ORIGIN</code>' &amp; " in found
    assert "*stars* <code>$ORIGIN/x</code>" in found
    assert "&amp; &lt;more&gt;</summary>" in found
    rows = [row.count("<td") for row in found.split("<tr>")[2:] if "<td" in row]
    assert set(rows) == {5, 8, 3}  # each row has the columns of its table, also with | in a name


# Lines of a report: words wrap, names do not break, styles change no text.


WORDS = st.text(st.sampled_from("aBc./-_,0…é統一"), min_size=1, max_size=60)
TEXTS = st.lists(WORDS, min_size=1, max_size=8)


@given(TEXTS, st.integers(min_value=8, max_value=40))
def test_no_word_is_broken_and_only_a_long_one_is_wider_than_the_page(words, width):
    lines = list(Page(width, color=False).lines(Text(" ".join(words))))
    assert [word for line in lines for word in line.split(" ")] == words
    assert all(len(line) <= width or " " not in line for line in lines)


def test_a_path_wider_than_the_terminal_is_whole_on_a_line_of_its_own():
    path = f"nvidia/{'a-long-folder/' * 5}libcublasLt-0a1b2c3d.so.12"
    lines = list(Page(30, color=False).lines(Text(f"found in {path}, twice"), indent=4))
    assert lines == ["    found in", f"    {path},", "    twice"]


def test_a_head_stands_before_the_first_line_alone():
    text, head = Text("one two", "bold", " three"), Text("  error", "bold red")
    assert list(Page(16, color=False).lines(text, indent=9, head=head)) == [
        "  error  one two",
        "         three",
    ]
    assert next(Page(16, color=True).lines(text, indent=9, head=head)) == (
        "  \x1b[1;31merror\x1b[0m  \x1b[1mone two\x1b[0m"
    )


# JUnit XML: what GitLab and Jenkins read of it.


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - it is our own


@pytest.mark.parametrize(("fail_on", "failures"), [("error", ["GF301"]), ("warning", ["GF301", "GF502"])])
def test_what_fails_the_command_fails_a_case(fail_on, failures):
    root = parsed(junit.dumps(sample(), fail_on=fail_on))
    assert [suite.get("name") for suite in root] == [BAD, GOOD, "dist/text.whl"]
    found = [case.get("name", "")[:5] for case in root.iter("testcase") if case.find("failure") is not None]
    assert found == failures
    assert root.get("failures") == str(len(failures))


def test_the_counts_are_those_of_the_cases():
    root = parsed(junit.dumps(sample()))
    assert (root.tag, root.get("errors"), root.get("tests")) == ("testsuites", "1", str(2 * len(RULES) + 1))
    for suite in root:
        cases = suite.findall("testcase")
        assert suite.get("tests") == str(len(cases))
        for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert suite.get(attribute) == str(len(suite.findall(f"testcase/{kind}")))
        assert all(case.get("classname") and case.get("name") and case.get("time") for case in cases)


def test_a_whole_suite():
    """The cases that say something; those of other rules are empty."""
    root = parsed(junit.dumps(sample(), fail_on="warning"))
    for suite in root:
        for case in suite.findall("testcase"):
            if len(case) == 0:
                suite.remove(case)
        for count in ("tests",):
            suite.attrib.pop(count)
    root.attrib.pop("tests")
    ET.indent(root)
    hold("report.junit.xml", ET.tostring(root, encoding="unicode") + "\n")


# The details of subjects: templates that are filled with facts.


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (Subject(detail="as it stands"), "as it stands"),
        (Subject(detail="of {provider}", provider="{x}"), "of {x}"),
        (Subject(detail="{line!r}", facts=facts_of(line="{x} of y")), "'{x} of y'"),
        (Subject(detail="{size:MiB} MiB", facts=facts_of(size=3 << 20)), "3 MiB"),
        (Subject(detail="{size:KiB} KiB", facts=facts_of(size=3 << 20)), "3,072 KiB"),
        (Subject(detail="{names}", facts=facts_of(names=("a", "b", "c"))), "a, b, c"),
        (Subject(detail="{names}", facts=facts_of(names=())), ""),
        (Subject(detail="{names:2}", facts=facts_of(names=("a", "b", "c"))), "a, b and 1 more"),
        (Subject(detail="{by:lines}", facts=facts_of(by=("a>1", "b"))), "'a>1 → b'"),
        (Subject(detail="{count:,}", facts=facts_of(count=1234)), "1,234"),
        (Subject(detail="{0} of {size:MiB} MiB", about=("x",), facts=facts_of(size=3 << 20)), "x of 3 MiB"),
        (Subject(detail="{0} of {1}", about=("x", "{y}")), "x of {y}"),
        (Subject(detail="{names:chain}", facts=facts_of(names=("a", "b"))), "a → b"),
        (Subject(detail="in {place:short}", facts=facts_of(place="a.o")), "in a.o"),
        (Subject(detail="{sizes:sizes}", facts=facts_of(sizes=(("x", 2_000_000),))), "x 2 MiB"),
        (Subject(detail="{of:images}", facts=facts_of(of=(("x", 1), ("y", 2)))), "x (1 image), y (2 images)"),
        (Subject(detail="{of:GPUs}", facts=facts_of(of=(("9.0", "Hopper"),))), "9.0 (Hopper)"),
        (
            Subject(detail="{of:drivers}", facts=facts_of(of=(("8.0", "525"), ("9.0", "525"), ("10.0", "")))),
            "8.0, 9.0 with driver 525 or newer; 10.0 with driver of that toolkit or newer",
        ),
        (Subject(detail="in {place:short}", facts=facts_of(place="a " * 25)), f'in "{"a " * 24}…"'),
    ],
)
def test_a_detail_is_filled_with_its_facts(subject, text):
    assert sentences.detail(subject) == sentences.sentence(subject) == text
    assert sentences.filled(subject) == subject._replace(detail=text, facts=())


def _templates(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """Yield what is written as a subject's detail."""
    yield from (n.value for n in nodes if isinstance(n, ast.keyword) and n.arg == "detail")
    yield from (n.value for n in nodes if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "detail")


@pytest.mark.thorough
def test_templates_have_no_values_in_them():
    """A brace in a value would be taken for a field."""
    for module in Path(gpuforge.audit.__file__).parent.rglob("*.py"):
        for template in _templates([*ast.walk(ast.parse(module.read_text()))]):
            assert not any(isinstance(node, ast.JoinedStr) for node in ast.walk(template)), module


def test_json_has_the_facts_as_values():
    facts = facts_of(size=3 << 20, names=("x", "y"), sizes=(("x", 2_000_000),))
    subject = Subject(detail="{size:MiB} MiB of {names}: {sizes:sizes}", facts=facts)
    assert data._subject(subject) == {
        "detail": "3 MiB of x, y: x 2 MiB",
        "facts": {"size": 3 << 20, "names": ("x", "y"), "sizes": {"x": 2_000_000}},
    }
    properties = SCHEMA["$defs"]["subject"]["properties"]
    assert properties["facts"]["additionalProperties"] == {
        "type": ["string", "integer", "array", "object"],
        "items": {"type": "string"},
        "additionalProperties": {"type": ["string", "integer"]},
    }


# SARIF 2.1.0: what the standard and GitHub's code scanning demand, and the results whole.


LEVELS = {"none", "note", "warning", "error"}


def test_the_results():
    (run,) = sarif.as_log(sample())["runs"]
    for result in run["results"]:
        del result["ruleIndex"]  # of rules that come and go; another test looks at it
    hold("report.sarif.json", json.dumps({k: run[k] for k in ("invocations", "results")}, indent=2) + "\n")


def test_the_log_and_its_tool():
    log = json.loads(sarif.dumps(sample()))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    driver = log["runs"][0]["tool"]["driver"]
    assert driver["name"] == "gpuforge"
    assert re.fullmatch(r"\d+\.\d+.*", driver["version"])
    assert len(json.dumps(log)) < 10 << 20  # what GitHub takes


def test_the_types_and_choices_of_the_standard():
    models = pytest.importorskip("sarif_pydantic", reason="sarif-pydantic is not installed")
    log = models.Sarif.model_validate(sarif.as_log(sample()))
    assert len(log.runs[0].results) == 4


def test_each_rule_has_its_page():
    rules = sarif.as_log(sample())["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.code for rule in RULES]
    for rule in rules:
        assert re.fullmatch(r"[A-Z]\w+", rule["name"])
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"].endswith(".")
        assert len(rule["fullDescription"]["text"]) < 1024
        assert rule["help"]["markdown"]
        assert "**" not in rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in LEVELS
    assert rules[0]["name"] == "RuntimesHashed"
    assert "\n\n**Fix:** Use only" in rules[0]["help"]["markdown"]
    assert "\n\nFix: Use only" in rules[0]["help"]["text"]


def test_a_rule_leads_to_its_page_on_the_site_once_there_is_one(monkeypatch):
    described = Message()
    monkeypatch.setattr(sarif, "metadata", lambda _: described)
    for line, address in (
        ("Source, https://git.example.org/gpuforge", None),
        ("Documentation, https://docs.example.org/g/", "https://docs.example.org/g/findings/GF101.html"),
    ):
        described["Project-URL"] = line
        sarif._site.cache_clear()
        assert sarif.as_log(sample())["runs"][0]["tool"]["driver"]["rules"][0].get("helpUri") == address
    sarif._site.cache_clear()


def test_every_result_says_which_rule_where_and_whether_it_was_accepted():
    (run,) = sarif.as_log(sample())["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [len(r["suppressions"]) for r in run["results"]] == [0, 0, 0, 1]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in LEVELS
        assert result["message"]["text"]
        for location in result["locations"]:
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert re.fullmatch(r"[!-~]+", uri)
            assert unquote(uri).startswith(BAD)
            assert location["physicalLocation"]["region"]["startLine"] == 1
        (fingerprint,) = result["partialFingerprints"].values()
        assert re.fullmatch(r"[0-9a-f]{64}", fingerprint)


def test_the_same_cause_keeps_its_fingerprint_in_the_next_build():
    first = sample()
    held, *_ = first.wheels
    finding, *others = held.findings
    changed, *same = finding.subjects
    changed = changed._replace(file=changed.file.replace("fb1a2b9f", "00112233"))
    renamed = finding._replace(subjects=(changed, *same), wheel=finding.wheel.replace("1.0", "1.1"))
    assert renamed != finding
    second = first._replace(wheels=(held._replace(findings=(renamed, *others)),))
    one, two = (sarif.as_log(r)["runs"][0]["results"][0]["partialFingerprints"] for r in (first, second))
    assert one == two


def test_without_accepted_findings_no_result_speaks_of_it():
    report = sample()
    report = report._replace(wheels=tuple(held._replace(ignored=()) for held in report.wheels))
    assert all("suppressions" not in r for r in sarif.as_log(report)["runs"][0]["results"])


def test_no_result_has_more_places_than_github_takes():
    report = sample()
    held = report.wheels[0]
    many = tuple(f"bad/{n}.so" for n in range(1500))
    finding = held.findings[0]._replace(
        files=many, subjects=tuple(Subject(file, detail=file) for file in many)
    )
    (run,) = sarif.as_log(report._replace(wheels=(held._replace(findings=(finding,)),)))["runs"]
    result = run["results"][0]
    assert len(result["locations"]) == 1000
    assert result["message"]["text"].split("\n")[-2] == "- and 1,470 more (--format json lists all)"


def test_a_name_is_no_link_in_a_message(tmp_path):
    names = ["[x](http://example.org)", "[x\\](http://example.org)", "[x\\\\](http://example.org)"]
    report = audit([tmp_path / f"{name.replace('/', '')}.whl" for name in names])
    (run,) = sarif.as_log(report)["runs"]
    texts = [each["message"]["text"] for each in run["invocations"][0]["toolExecutionNotifications"]]
    assert len(texts) == len(names)
    assert not [text for text in texts if "](" in text]
