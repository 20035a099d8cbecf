"""Which packages import another one before their own modules, and how the others get to do so."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuforge.package import import_package

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
def test_it_is_imported_first_already(source: str) -> None:
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
def test_it_is_not_imported_first(source: str) -> None:
    assert not import_package.imports(source.encode(), "demo", "torch")


def test_the_statement_stands_behind_the_docstring(tmp_path: Path) -> None:
    init = tmp_path / "demo/__init__.py"
    init.parent.mkdir()
    init.write_text('"""Demo."""\nfrom . import _C\n')
    assert import_package.import_first(tmp_path, "demo", "torch") == ""
    assert init.read_text() == f'"""Demo."""\n{FIRST}from . import _C\n'
    assert (
        import_package.import_first(tmp_path, "demo", "torch")
        == "demo/__init__.py imports it before its own modules"
    )
    assert init.read_text() == f'"""Demo."""\n{FIRST}from . import _C\n'


def test_a_package_that_cannot_be_changed_gives_the_reason(tmp_path: Path) -> None:
    assert import_package.import_first(tmp_path, "demo", "torch") == "the wheel has no demo/__init__.py"
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/__init__.py").write_text("def\n")
    assert import_package.import_first(tmp_path, "demo", "torch").startswith(
        "demo/__init__.py cannot be read: "
    )
