"""What Python code in a wheel loads: by its syntax tree, not by its prose; code that nobody can parse ends nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import elf, wheel

from gpuforge.audit import audit
from gpuforge.audit.findings import Finding
from gpuforge.audit.read.python_source import Parser

NEEDS = elf(needed=["libcublas.so.12"])
LOAD = "def load(name):\n    return ctypes.CDLL(os.path.join(ROOT, name))\n"
EXTRA = ["nvidia-cublas-cu12; extra == 'ctk'"]


def findings_of(folder: Path, *, requires: list[str] | None = None, **files: str | bytes) -> list[Finding]:
    """The findings of a wheel with these Python files of the package `demo`, and an extension that needs cuBLAS."""
    texts = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    held = {f"demo/{name}.py": text for name, text in texts.items() if name != "entry_points"}
    if "entry_points" in texts:
        held["demo-1.0.dist-info/entry_points.txt"] = texts["entry_points"]
    path = wheel(folder, {"demo/ext.so": NEEDS, **held}, requires=requires or [])
    return [f for f in audit([path]).findings if f.code in ("GF201", "GF202", "GF205")]


@pytest.mark.parametrize(
    ("prose", "code"),
    [
        ('"""Missing libraries (libcublas.so is not in LD_LIBRARY_PATH) are reported."""\n', "GF201"),
        ('def f():\n    """libcublas.so"""\n', "GF201"),
        ("# libcublas.so is opened by torch\n", "GF201"),
        ('MESSAGE = "cannot open libcublas.so: is it installed?"\n', "GF201"),
        ('def g(e):\n    return f"{e}: libcublas.so, or {e!r}"\n', "GF201"),
        ('NAME = "libcublas.so.12"\n', "GF205"),
        ('NAMES = "libcublas.so.12 libcudart.so.12".split()\n', "GF205"),
        ('def g(v):\n    return f"libcublas.so.{v}"\n', "GF205"),
        ("NAME = '#' + 'libcublas.so.12'  # a sign\n", "GF205"),
    ],
)
def test_a_library_is_loaded_by_code_and_not_by_prose(tmp_path: Path, prose: str, code: str) -> None:
    assert [f.code for f in findings_of(tmp_path, a=prose + LOAD + "load(x)\n")] == [code]


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, True),
        ({"b": "from demo.a import preload\n"}, True),  # offered, not called
        ({"b": "raise ImportError('call demo.preload() first')\n"}, True),
        ({"b": "import demo.a\ndemo.a.preload()\n"}, False),
        ({"b": "import atexit, demo.a\natexit.register(demo.a.preload)\n"}, False),
        ({"entry_points": "[demo.init]\nload = demo.a:preload\n"}, False),
        ({"entry_points": "[demo.init]\nload = demo.a : preload [fast]\n"}, False),
        ({"entry_points": "[demo.init]\npreload = demo.b:load\na = demo.c:preload\n"}, True),
        ({"entry_points": "[demo.init]\n# load = demo.a:preload\n"}, True),
    ],
)
def test_a_function_that_nobody_calls_is_left_to_users(
    tmp_path: Path, files: dict[str, str], *, left: bool
) -> None:
    text = f"def names():\n    return ['libcublas.so.12']\n{LOAD}\ndef preload():\n    list(map(load, names()))\n"
    (one,) = findings_of(tmp_path, requires=EXTRA, a=text, **files)
    assert (one.code, one.severity) == ("GF205", "warning" if left else "info")
    assert ("preload() in demo/a.py loads them, and nothing in the wheel calls it" in one.message) is left


@pytest.mark.parametrize(
    "more",
    [
        "preload()\n",
        "class A:\n    def f(self):\n        preload()\n",
        "def __getattr__(name):\n    preload()\n",
        "@hook\ndef f():\n    preload()\n",
        "def own():\n    preload()\n    load('ext.so')\n",  # what the object needs, and the object
    ],
)
def test_a_function_that_is_called_or_loads_the_object_too_is_not_left_to_users(
    tmp_path: Path, more: str
) -> None:
    text = f"{LOAD}\ndef preload():\n    load('libcublas.so.12')\n\n{more}"
    (one,) = findings_of(tmp_path, requires=EXTRA, a=text)
    assert (one.code, one.severity) == ("GF205", "info")


CALL = b"import ctypes\nctypes.CDLL(find('cublas'))\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (CALL, "GF205"),
        (b"\xef\xbb\xbf" + CALL, "GF205"),
        (b"# -*- coding: idna -*-\n" + CALL, "GF205"),
        (b"x = '\\d'\r\n" + CALL, "GF205"),
        (CALL + b"print 'Python 2'\n", "GF201"),
        (CALL + b"\0", "GF201"),
        (CALL + b"(" * 5000, "GF201"),
        (CALL + b"x = " + b"-" * 50_000 + b"1\n", "GF205"),  # too deep for the parser: the text is read
        (CALL + b"x = a" + b".b" * 40_000 + b"\n", "GF205"),
        (CALL + b"x = f'" + b"{x}" * 90_000 + b"'\n", "GF205"),
        pytest.param(CALL + b"a;" * 1_000_000, "GF205", marks=pytest.mark.thorough),
        (b"def f():\n    ctypes.CDLL('\\ud800' + find('cublas'))\n", "GF205"),
    ],
    ids=range(12),
)
def test_code_that_cannot_be_parsed_ends_nothing(tmp_path: Path, text: bytes, code: str) -> None:
    assert [f.code for f in findings_of(tmp_path, a=text)] == [code]


@pytest.mark.thorough
def test_no_more_than_a_budget_is_parsed() -> None:
    parser = Parser()
    one = b"x = 1\n" * 25_000
    trees = [source.tree for _ in range(8) if (source := parser.parse(one))]
    assert [tree is not None for tree in trees] == [True] * 5 + [False] * 3
