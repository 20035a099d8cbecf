"""`gpuforge index`: pip, uv and a browser use what it makes, and it refuses what would mislead them."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import browser
import pytest
from audit_samples import elf, wheel
from builds import run
from toolkit_samples import serving

from gpuforge.cli import main

CODE = {"demo/__init__.py": b"here = True\n"}
TAGS = "py3-none-any"


def make(folder: Path, name: str, requires: tuple[str, ...] = (), **more: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    return wheel(folder, {**CODE, **more}, name=f"{name}-{TAGS}.whl", requires=requires, purelib=True)


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    make(folder, "demo_cu12-1.0")
    make(folder, "demo_cu13-1.0")
    make(folder, "ext-1.0+cu130torch2.11")
    make(folder, "ext-1.0+cu130torch2.15")
    make(folder, "plain-1.0")
    return folder


@pytest.fixture
def site(tmp_path: Path, dist: Path) -> Path:
    assert main.run(["index", str(dist), "-o", str(tmp_path / "site")]) == 0
    return tmp_path / "site"


@pytest.fixture
def url(site: Path) -> Iterator[str]:
    """The index, served as any web server would serve its folder."""
    with serving(site) as server:
        server.ranges = False
        yield server.url


def names(site: Path, choice: str) -> set[str]:
    projects = [path.parent for path in (site / choice).glob("*/index.json")]
    return {
        each["filename"].partition("-py3")[0]
        for project in projects
        for each in json.loads((project / "index.json").read_text())["files"]
    }


def test_each_cuda_and_torch_has_a_folder_with_what_fits_it(site):
    folders = {path.parent.name for path in site.glob("*/index.html")}
    assert folders == {
        "all", "cu12", "cu13", "torch2.11", "torch2.15", "cu13-torch2.11", "cu13-torch2.15",
    }  # fmt: skip
    assert names(site, "cu12") == {"demo_cu12-1.0", "plain-1.0"}
    assert names(site, "cu13-torch2.11") == {"demo_cu13-1.0", "ext-1.0+cu130torch2.11", "plain-1.0"}
    assert len(names(site, "all")) == 5


def test_pip_and_uv_install_from_it(url, tmp_path):
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--no-cache-dir", "--quiet", "--target"]
    subprocess.run([*pip, tmp_path / "a", "--index-url", f"{url}/cu13/", "demo-cu13"], check=True)
    assert (tmp_path / "a" / "demo" / "__init__.py").is_file()
    uv = [
        Path(sys.executable).with_name("uv"),
        "pip",
        "install",
        "--quiet",
        "--no-config",
        "--no-cache",
        "--target",
    ]
    command = [*uv, tmp_path / "b", "--default-index", f"{url}/torch2.15/", "ext"]
    subprocess.run(command, check=True)
    assert (tmp_path / "b" / "ext-1.0+cu130torch2.15.dist-info").is_dir()


def test_uv_locks_with_its_hashes_and_without_downloading_a_wheel(url, site, tmp_path):
    project = tmp_path / "user"
    project.mkdir()
    for path in (site / "files").glob("*.whl"):  # METADATA lies beside it
        path.write_bytes(b"")
    (project / "pyproject.toml").write_text(
        '[project]\nname = "user"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["demo-cu13"]\n'
    )
    uv = [Path(sys.executable).with_name("uv"), "lock", "--quiet", "--no-config", "--no-cache"]
    subprocess.run([*uv, "--default-index", f"{url}/all/"], cwd=project, check=True)
    sha256 = {each["name"]: each["sha256"] for each in json.loads((site / "files.json").read_text())["files"]}
    lock = (project / "uv.lock").read_text()
    assert f'hash = "sha256:{sha256[f"demo_cu13-1.0-{TAGS}.whl"]}"' in lock


def test_a_release_is_added_and_an_old_file_is_yanked(site, tmp_path, capsys):
    new = make(tmp_path / "new", "demo_cu13-1.1")
    old = f"demo_cu13-1.0-{TAGS}.whl"
    assert main.run(["index", str(new), "-o", str(site), "--yank", f"{old}=wrong results"]) == 0
    ways = "pip takes --extra-index-url ADDRESS/all, uv --index ADDRESS/all"  # dependencies come from PyPI
    assert ways in capsys.readouterr().err
    page = (site / "all" / "demo-cu13" / "index.html").read_text()
    assert 'data-yanked="wrong results"' in page
    assert f"demo_cu13-1.1-{TAGS}.whl" in page
    assert len(names(site, "all")) == 6


def test_files_may_lie_elsewhere(tmp_path, dist):
    site, address = tmp_path / "site", "https://example.org/v1"
    assert main.run(["index", str(dist), "-o", str(site), "--base-url", address]) == 0
    assert not (site / "files").exists()
    page = (site / "all" / "plain" / "index.html").read_text()
    assert f'href="{address}/plain-1.0-{TAGS}.whl#sha256=' in page
    page = (site / "all" / "ext" / "index.html").read_text()
    assert f'href="{address}/ext-1.0%2Bcu130torch2.11-{TAGS}.whl#sha256=' in page  # S3 takes + for a space
    assert "core-metadata" not in page
    assets = tmp_path / "assets.json"
    row = {
        "name": f"demo_cu13-2.0-{TAGS}.whl",
        "size": 7,
        "url": f"{address}/x",
        "digest": f"sha256:{'a' * 64}",
    }
    assets.write_text(json.dumps({"assets": [row, {"name": "notes.txt"}]}))
    assert main.run(["index", str(assets), "-o", str(site)]) == 0
    assert f'href="{address}/x#sha256={"a" * 64}"' in (site / "cu13" / "demo-cu13" / "index.html").read_text()


def test_what_would_mislead_is_refused_and_nothing_is_written(site, tmp_path, capsys):
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    bad = tmp_path / "bad"
    bad.mkdir()
    lies = elf(needed=["libcublas.so.12", "libc.so.6"], runpath="$ORIGIN/../nvidia/cublas/lib")
    name = "lies_cu13-1.0-py3-none-manylinux_2_17_x86_64.whl"
    wheel(bad, {"lies/_core.so": lies}, name=name, requires=["nvidia-cublas-cu12"])
    lost = elf(needed=["libcufft.so.11", "libc.so.6"])
    wheel(bad, {"lost/_core.so": lost}, name="lost-1.0-py3-none-manylinux_2_17_x86_64.whl")
    make(bad, "plain-1.0", changed=b"another file of that name")
    make(bad, "ext-2.0+cu130torch2.11", requires=("torch==2.15.*",))
    make(bad, "ext-2.0+cu130torch2.15", requires=("torch>=2.15,<2.16",))
    assert main.run(["index", str(bad), "-o", str(site)]) == 2
    told = capsys.readouterr().err
    assert f"{name}: its name is for CUDA 13, and its libraries need CUDA 12" in told
    assert "GF201" in told
    assert (
        f"ext-2.0+cu130torch2.11-{TAGS}.whl: its name is for torch 2.11, and it requires torch==2.15.*\n"
        in told
    )
    assert "ext-2.0+cu130torch2.15" not in told
    assert f"plain-1.0-{TAGS}.whl: in the index with another content already" in told
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before


SLOW = """
import sys
from gpuforge.audit.read import wheel
from gpuforge.cli import bounded, main
from gpuforge.cli.options import Call

bounded.CPU_SECONDS, bounded.LEAST_CPU_SECONDS = 1.0, 0.1
read = wheel._facts

def endless(opened):
    while opened.source.label.startswith("endless"):
        pass
    return read(opened)

wheel._facts = endless
sys.exit(main.run(sys.argv[1:], call=Call(limited=True)))
"""


def test_a_wheel_that_takes_too_long_hides_no_other(tmp_path):
    """In a program of its own: it forks, which threads of other tests here would not survive."""
    lost = elf(needed=["libcufft.so.11", "libc.so.6"])
    wheel(tmp_path, {"lost/_core.so": lost}, name="lost-1.0-py3-none-manylinux_2_17_x86_64.whl")
    make(tmp_path, "endless-1.0")
    make(tmp_path, "plain-1.0")
    done = run(sys.executable, "-c", SLOW, "index", tmp_path, "-o", tmp_path / "site")
    assert done.returncode == 2
    assert f"endless-1.0-{TAGS}.whl: GF714" in done.stderr
    assert "GF201" in done.stderr
    assert "plain" not in done.stderr
    assert not (tmp_path / "site" / "all").exists()


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ([{"name": "demo.tar.gz", "size": 1, "url": "x", "digest": f"sha256:{'a' * 64}"}], "demo.tar.gz"),
        ([{"name": f"demo-1.0-{TAGS}.whl", "digest": f"sha256:{'a' * 64}"}], "no list of release assets"),
        ([{"name": f"demo-1.0-{TAGS}.whl", "size": 1, "url": "x"}], "has no sha256"),
        (["demo"], "no list of release assets"),
        (7, "no list of release assets"),
    ],
)
def test_a_wrong_list_of_assets_is_one_message(listed, told, tmp_path, capsys):
    (tmp_path / "assets.json").write_text(json.dumps(listed))
    assert main.run(["index", str(tmp_path / "assets.json"), "-o", str(tmp_path / "site")]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_a_requirement_that_is_not_valid_hides_no_other_wheel(tmp_path, capsys):
    make(tmp_path, "bad-1.0", requires=(f"x; {'(' * 200}python_version > '3'",))
    make(tmp_path, "demo_cu12-1.0")
    lost = elf(needed=["libcufft.so.11", "libc.so.6"])
    wheel(tmp_path, {"lost/_core.so": lost}, name="lost-1.0-py3-none-manylinux_2_17_x86_64.whl")
    assert main.run(["index", str(tmp_path), "-o", str(tmp_path / "site")]) == 2
    told = capsys.readouterr().err
    assert f"bad-1.0-{TAGS}.whl: METADATA has a Requires-Dist that is not valid" in told
    assert "GF201" in told
    assert not (tmp_path / "site" / "all").exists()


def test_two_files_of_one_name_are_refused(tmp_path, capsys):
    given = [str(make(tmp_path / folder, "demo-1.0")) for folder in ("a", "b")]
    assert main.run(["index", *given, "-o", str(tmp_path / "site")]) == 2
    assert "is given twice" in capsys.readouterr().err


@pytest.mark.browser
@browser.needs_chromium
def test_the_page_for_people_shows_the_lines_of_a_choice(url):
    shown = browser.dom(f"{url}/#package=ext&torch=2.11")
    choice = f"{url}/cu13-torch2.11/"
    assert f'pip install "ext==1.0+cu130torch2.11" --extra-index-url {choice}' in shown
    assert f'uv pip install "ext==1.0+cu130torch2.11" --index {choice}' in shown
    assert re.search(r'<pre tabindex="0" role="textbox" aria-readonly="true" aria-label="uv">', shown)
    assert re.search(r"-py3-none-any\.whl, [1-9] kB", shown)


ASSETS = [
    f"ext-{version}+cu{cuda}torch2.{torch}-cp3{python}-cp3{python}-{system}.whl"
    for version in ("1.0", "1.1")
    for cuda, torch in (("128", 9), ("128", 10), ("130", 11))
    for python in (11, 12)
    for system in ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "win_amd64")
]
CHANGE = """<iframe id="page" src="index.html#package=ext"></iframe><script>
document.getElementById("page").onload = event => {
  const page = event.target.contentDocument, select = page.forms[0].elements;
  const note = text => document.body.append(page.getElementById("lines").textContent, text);
  note("\\n");
  for (const [name, value] of [["system", "Windows amd64"], ["torch", "2.9"]]) {
    select[name].value = value;
    select[name].dispatchEvent(new Event("change", { bubbles: true }));
    note(` ${select.CUDA.value} ${select.system.value}\\n`);
  }
};
</script>"""


@pytest.mark.browser
@browser.needs_chromium
def test_a_choice_that_no_wheel_meets_changes_the_others(tmp_path):
    """A page of release assets, as it is met: nobody knows beforehand which torch there is for which CUDA."""
    listed = [
        {"name": name, "size": 10**7, "url": f"https://x/{name}", "digest": f"sha256:{'0' * 64}"}
        for name in ASSETS
    ]
    (tmp_path / "assets.json").write_text(json.dumps(listed))
    assert main.run(["index", str(tmp_path / "assets.json"), "-o", str(tmp_path / "site")]) == 0
    (tmp_path / "site" / "change.html").write_text(CHANGE)
    with serving(tmp_path / "site") as server:
        server.ranges = False
        page = browser.dom(f"{server.url}/change.html")
    first, system, torch = re.findall(r".*MB.*", page)[-3:]
    assert "ext-1.1+cu130torch2.11-cp312-cp312-manylinux_2_28_x86_64.whl, 10.0 MB" in first
    assert "ext-1.1+cu130torch2.11-cp312-cp312-win_amd64.whl, 10.0 MB 13 Windows amd64" in system
    assert (
        "ext-1.1+cu128torch2.9-cp312-cp312-win_amd64.whl, 10.0 MB. Changed to fit this choice: CUDA 12."
        in torch
    )
    assert torch.endswith("12 Windows amd64")
