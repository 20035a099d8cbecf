"""What goes into a package's `__init__.py`: the guard against two builds in one place, and a first import."""

import ast
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpuforge.package import import_package
from gpuforge.runtime import guard as travelling
from gpuforge.runtime.layout import GUARD

SOURCE = Path(travelling.__file__)
LINE = import_package.STATEMENT.decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"{LINE}\n"),
        ("x = 1\n", f"{LINE}\nx = 1\n"),
        ('"""Words."""', f'"""Words."""\n{LINE}\n'),
        ('"""Two\nlines."""\n\nimport os\n', f'"""Two\nlines."""\n{LINE}\n\nimport os\n'),
        (
            "#!/usr/bin/python\n# coding: latin-1\n\nimport os\n",
            f"#!/usr/bin/python\n# coding: latin-1\n{LINE}\n\nimport os\n",
        ),
        (
            '"""Words."""\nfrom __future__ import (\n    annotations,\n)\nimport os\n',
            f'"""Words."""\nfrom __future__ import (\n    annotations,\n)\n{LINE}\nimport os\n',
        ),
        (
            "from __future__ import annotations; import os\n",
            f"from __future__ import annotations; import os\n{LINE}\n",
        ),
        ("@x\ndef f(): ...\n", f"{LINE}\n@x\ndef f(): ...\n"),
        ('f"no docstring"\n', f'{LINE}\nf"no docstring"\n'),
        ("\ufeffx = 1\n", f"\ufeff{LINE}\nx = 1\n"),
        ("x = 1\r\ny = 2\r\n", f"{LINE}\r\nx = 1\r\ny = 2\r\n"),
    ],
)
def test_the_guard_is_imported_behind_docstring_and_future_imports(before, after):
    made = import_package.insert(before.encode())
    assert made.decode() == after
    assert ast.get_docstring(ast.parse(made)) == ast.get_docstring(ast.parse(before.encode()))


def wheel(root: Path, distribution: str, init: str = '"""Words."""\nvalue = 1\n') -> Path:
    tree = root / distribution
    (tree / "demo").mkdir(parents=True)
    (tree / "demo" / "__init__.py").write_text(init)
    info = tree / f"{distribution}-1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("demo/__init__.py,sha256=x,1\n")
    assert import_package.guard(tree, "demo", distribution, SOURCE) == ""
    return tree


def install(tree: Path, site: Path) -> None:
    """Do what an installer does: write each file over what is there."""
    for file in tree.rglob("*"):
        if file.is_file():
            target = site / file.relative_to(tree)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())


def imported(site: Path, **env: str) -> tuple[int, str]:
    code = "import demo; print(demo.value)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(site), **env},
    )
    return done.returncode, done.stdout + done.stderr


def test_one_build_is_imported_and_two_are_refused(tmp_path):
    site = tmp_path / "site"
    install(wheel(tmp_path, "demo_cu12"), site)
    assert imported(site) == (0, "1\n")
    install(wheel(tmp_path, "demo_cu13"), site)
    status, said = imported(site)
    assert status == 1
    assert said.endswith(
        "ImportError: demo was installed 2 times, one build over the other: demo-cu12, demo-cu13. They write the same "
        "files, so what is there now is a mixture. Remove them all and install the one you want:\n"
        "  python -m pip uninstall -y demo-cu12 demo-cu13\n  python -m pip install demo-cu13\n"
    )
    assert imported(site, GPUFORGE_GUARD="off") == (0, "1\n")


def test_a_build_of_another_tool_under_a_sibling_name_is_seen_by_its_record(tmp_path):
    site = tmp_path / "site"
    install(wheel(tmp_path, "demo_cu13"), site)
    info = site / "Demo-0.9.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("demo-0.9.dist-info/METADATA,,\n")  # it only requires demo-cu13
    (site / "demo_tools-1.0.dist-info").mkdir()
    assert imported(site) == (0, "1\n")
    (info / "RECORD").write_text("demo/__init__.py,sha256=y,2\n")
    assert "2 times, one build over the other: demo, demo-cu13" in imported(site)[1]


def test_a_guarded_package_is_imported_from_a_zip_archive(tmp_path):
    tree = wheel(tmp_path, "demo_cu13")
    with zipfile.ZipFile(tmp_path / "site.zip", "w") as bundle:
        for file in tree.rglob("*"):
            bundle.write(file, file.relative_to(tree))
    assert imported(tmp_path / "site.zip") == (0, "1\n")


def test_a_package_in_a_package_is_guarded_too(tmp_path):
    package = tmp_path / "site" / "a" / "b"
    (package / GUARD).mkdir(parents=True)
    (package / GUARD / "b_cu12.build").touch()
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    info = tmp_path / "site" / "b-1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("a/b/__init__.py,,\n")
    assert travelling.builds(str(package / GUARD)) == ["b", "b_cu12"]


def test_a_package_that_cannot_be_guarded_gives_the_reason(tmp_path):
    assert import_package.guard(tmp_path, "demo", "demo_cu13", SOURCE) == "the wheel has no package demo"
    (tmp_path / "demo").mkdir()
    assert import_package.guard(tmp_path, "demo", "demo_cu13", SOURCE) == "demo has no __init__.py"
    (tmp_path / "demo" / "__init__.py").write_text("def broken(:\n")
    said = import_package.guard(tmp_path, "demo", "demo_cu13", SOURCE)
    assert said.startswith("demo/__init__.py cannot be read: ")
    assert (tmp_path / "demo" / "__init__.py").read_text() == "def broken(:\n"


def test_the_guard_has_the_pattern_of_project_suffixes():
    script = runpy.run_path(str(SOURCE.parents[2] / "scripts" / "copy_to_runtime.py"))
    assert SOURCE.read_text(encoding="utf-8") == script["guard"](), "run: python scripts/copy_to_runtime.py"


FIRST = "import torch as _torch  # its libraries are loaded first\n"


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nfrom . import _C\n",
        "from torch import Tensor\nimport demo._C\n",
        "import os, torch.nn\n",
        "from . import _gpuforge_guard\nimport torch\n",
    ],
)
def test_it_is_imported_first_already(source):
    assert import_package.imports(source.encode(), "demo", "torch")


@pytest.mark.parametrize(
    "source",
    [
        "",
        "from . import _C\nimport torch\n",
        "import demo._C\nimport torch\n",
        "def later():\n    import torch\n",
        "import torchvision\n",
        "from .torch import x\n",
        "try:\n    import torch\nexcept ImportError:\n    torch = None\n",
    ],
)
def test_it_is_not_imported_first(source):
    assert not import_package.imports(source.encode(), "demo", "torch")


def test_the_statement_stands_behind_the_docstring(tmp_path):
    init = tmp_path / "demo/__init__.py"
    init.parent.mkdir()
    init.write_text('"""Demo."""\nfrom . import _C\n')
    assert import_package.import_first(tmp_path, "demo", "torch") == "demo imports torch first now"
    assert init.read_text() == f'"""Demo."""\n{FIRST}from . import _C\n'
    assert import_package.import_first(tmp_path, "demo", "torch") == "demo imports torch first already"
    assert init.read_text() == f'"""Demo."""\n{FIRST}from . import _C\n'


def test_a_package_that_cannot_be_changed_gives_the_reason(tmp_path):
    not_first = "demo does not import torch first: "
    assert import_package.import_first(tmp_path, "demo", "torch") == (
        f"{not_first}the wheel has no demo/__init__.py"
    )
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/__init__.py").write_text("def\n")
    assert import_package.import_first(tmp_path, "demo", "torch").startswith(
        f"{not_first}its __init__.py cannot be read: "
    )
