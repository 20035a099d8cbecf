"""The page that `gpuforge audit --html` writes: nothing in it can run or load anything, and all findings are there."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import browser
import pytest
from audit_reports import BAD, GOOD, sample
from audit_samples import elf, wheel
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.audit import audit
from gpuforge.audit.report import html_page
from gpuforge.cli import main


class Reader(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_has_every_wheel_finding_proof_and_page_of_a_code():
    report = sample()
    text = " ".join(Reader(html_page.render(report)).text.split())
    for name in (BAD, GOOD):
        assert name in text
    for finding in report.findings:
        assert f"{finding.code} {finding.message}"[:60] in text
    assert "About these findings" in text
    assert "cannot be read" in text


def test_the_policy_allows_the_pages_own_style_and_nothing_else():
    page = html_page.render(sample())
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    elements = Reader(page).elements
    assert not {"script", "img", "link", "iframe"} & {tag for tag, _ in elements}
    for _, attributes in elements:
        assert not [name for name in attributes if name.startswith("on") or name in {"style", "src"}]
        assert (attributes.get("href") or "#").startswith("#")


@given(st.text(min_size=1, max_size=40))
def test_no_name_becomes_markup(name):
    needed = [{"name": name, "provider": "package", "package": name, "declared": None, "route": ""}]
    binary = {"wheel": "w", "file": name, "needed": needed}
    allowed = {"svg", "g", "title", "text", "path"}
    assert {tag for tag, _ in Reader(html_page.draw([binary], [])).elements} <= allowed


def test_files_that_load_the_same_share_a_row_and_the_systems_libraries_are_one():
    system = [{"name": f"lib{each}.so", "provider": "system", "route": "the system"} for each in "abc"]
    lost = {"name": "libx.so", "provider": "nobody", "route": ""}
    objects = [{"wheel": "w", "file": f"f{at}.so", "needed": [*system, lost]} for at in range(300)]
    for at in range(5):  # found in four ways, and once not at all
        objects[at]["needed"].append(
            {"name": "liby.so", "provider": "wheel", "route": f"RUNPATH {at}" * (at > 0)}
        )
    findings = [{"severity": "error", "subjects": [{"library": "libx.so"}]}]
    drawn = Reader(html_page.draw(objects, findings))
    libraries = [
        attributes for tag, attributes in drawn.elements if tag == "g" and attributes.get("tabindex")
    ]
    assert [each["aria-label"] for each in libraries] == [
        "libx.so, brought by nothing: no path leads there",
        "libraries of the system, brought by the system: the system",
        "liby.so, brought in this wheel: no path leads there",
        "liby.so, brought in this wheel: RUNPATH 1; RUNPATH 2; RUNPATH 3; and 1 more",
    ]
    assert libraries[0]["class"] == "library error"
    assert "f5.so and 294 more" in drawn.text
    assert "4 ways" in drawn.text


def test_a_long_list_of_a_finding_is_folded(tmp_path):
    files = {f"demo/lib{at}.so": elf(needed=["libc.so.6"], runpath=f"/home/me/{at}") for at in range(30)}
    page = html_page.render(audit([wheel(tmp_path, files)]))
    (rest,) = re.findall(
        r"<details><summary>and (\d+) more</summary><ul>(.*?)</ul></details>", page, re.DOTALL
    )
    assert rest[0] == "22"
    assert rest[1].count("<li>") == 22


def test_a_comparison_tells_what_is_new_and_what_went(tmp_path):
    for folder, library in (("old", "libold.so.1"), ("new", "libnew.so.1")):
        (tmp_path / folder).mkdir()
        wheel(tmp_path / folder, {"demo/_core.so": elf(needed=["libc.so.6", library])})
    target = tmp_path / "page.html"
    main.run(["audit", str(tmp_path / "new"), "--html", str(target), "--like", str(tmp_path / "old")])
    page = target.read_text()
    section = page[page.index("<h2>Compared with") : page.index("<h2 id=")]
    (row,) = re.findall(r"<td>libraries from outside</td><td>(.*?)</td><td>(.*?)</td>", section)
    assert ["libold.so.1" in row[0], "libnew.so.1" in row[1]] == [True, True]


def test_a_page_that_cannot_be_written_is_said_before_anything_else(tmp_path, capsys):
    given = wheel(tmp_path, {"demo/__init__.py": b""})
    assert main.run(["audit", str(given), "--html", str(given / "page.html")]) == 3
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.browser
@pytest.mark.thorough
@browser.needs_chromium
def test_a_browser_refuses_nothing_of_the_page(tmp_path):
    target = tmp_path / "page.html"
    target.write_text(html_page.render(sample()))
    assert "GPU wheel audit" in browser.dom(target.as_uri())
