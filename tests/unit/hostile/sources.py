"""Text files that a wheel carries: Python code, makefiles, sources, lists."""

from pathlib import Path

from audit_samples import elf, wheel

from hostile.attack import attack


def _code(folder: Path, *texts: bytes) -> list[Path]:
    return [wheel(folder, {"demo/a.so": elf(), **{f"demo/m{n}.py": text for n, text in enumerate(texts)}})]


@attack
def one_long_word(folder: Path) -> list[Path]:
    return _code(folder, b"environ['" + b"LIB" * 300_000, b"os.environ['" + b"A" * 900_000 + b"LIB")


@attack
def libc_of_spaces(folder: Path) -> list[Path]:
    return _code(
        folder, b"CDLL(" + b" " * 900_000, (b"CDLL(" + b" " * 500) * 1_500, b"CDLL(find_library" * 50_000
    )


@attack
def many_calls(folder: Path) -> list[Path]:
    return _code(folder, b"CDLL(" * 700_000, b"ibrary(load_library(" * 200_000)


@attack
def names_of_long_words(folder: Path) -> list[Path]:
    return _code(
        folder,
        b"CDLL(x) load_library( RTLD_GLOBAL " + b"lib" * 1_000_000,
        b"CDLL(x) '" + b"a" * 3_000_000,
        b"CDLL(x)" + b"'lib" * 900_000,
    )


@attack
def cuda_words_without_end(folder: Path) -> list[Path]:
    return _code(
        folder,
        b"load_nvidia_dynamic_lib(x)",
        b"cu" * 1_900_000,
        b"".join(b"cu%d " % n for n in range(400_000)),
    )


@attack
def deep_nesting(folder: Path) -> list[Path]:
    return _code(
        folder,
        b"import ctypes\nctypes.CDLL(" + b"(" * 100_000,
        b"import ctypes\nctypes.CDLL(" + b"(" * 150 + b"x" + b")" * 151,
        b"import ctypes\nctypes.CDLL(" + b"-" * 100_000 + b"1)",
        b"import ctypes\nctypes.CDLL(x" + b".a" * 100_000 + b")",
        b"import ctypes\nctypes.CDLL(" + b"1+" * 100_000 + b"1)",
        b"import ctypes\nctypes.CDLL(" + b"not " * 50_000 + b"1)",
        b"import ctypes\nctypes.CDLL(f'{" * 300,
        b"".join(b" " * n + b"if CDLL(x):\n" for n in range(900)),
        b"CDLL(x)\n" + b"lambda: " * 50_000 + b"1",
        b"CDLL(x)\n" + b"if 1:\n x\nel" * 30_000 + b"if 1: y",
        b"CDLL(x)\nx = [" + b"[" * 90 + b"1" + b"]" * 91,
        b"CDLL(x)\nx" + b"()" * 100_000,
        b"CDLL(x)\nx" + b"[0]" * 100_000,
        b"CDLL(x)\nx = " + b"9" * 5_000 + b"\n",
        b"CDLL(x)\nx = '" + b"\\N{" * 10_000 + b"'\n",
    )


@attack
def odd_encodings(folder: Path) -> list[Path]:
    return _code(
        folder,
        b"# coding: utf-7\nCDLL(x)\n+AHg-",
        b"# coding: rot13\nPQYY(k)\nCDLL(",
        b"# coding: zip\nCDLL(x)",
        b"# coding: idna\nCDLL(" + b"x." * 100_000,
        b"# coding: punycode\nCDLL(" + b"x" * 200_000,
        b"# coding: unicode_escape\nCDLL(x)\\ud800",
        b"# coding: nothing\nCDLL(x)",
        b"\xff\xfe" + "CDLL(x)".encode("utf-16-le"),
        b"CDLL(x)\0\0",
        b"CDLL('\xed\xa0\x80')",
        b"CDLL(x)\r\rx\x0c\x1a",
    )


@attack
def a_module_of_literals(folder: Path) -> list[Path]:
    return _code(folder, b"CDLL(x)\nx=[" + b"1," * 1_900_000 + b"]")


@attack
def many_functions(folder: Path) -> list[Path]:
    return _code(
        folder,
        b"import ctypes\n"
        + b"".join(b"def f%d(): return f%d(ctypes.CDLL('libx.so'))\n" % (n, n + 1) for n in range(40_000)),
    )


@attack
def modules_that_import_one_another(folder: Path) -> list[Path]:
    every = b"".join(b"from demo import m%d\n" % n for n in range(400))
    return _code(folder, *([every + b"import ctypes\nctypes.CDLL('libx.so')\n"] * 400))


@attack
def makefiles(folder: Path) -> list[Path]:
    texts = {
        "a.mk": b"/hpc_sdk/" * 300_000,
        "b.mk": b"-gpu=" + b"a," * 900_000,
        "c.mk": b"-gpu=cuda1" * 200_000,
        "d.mk": b"/cuda-1" * 300_000 + b"1" * 500_000,
        "e.pc": b"/hpc_sdk/x/1.1/compilers/bin/nvc " * 60_000,
        "makefile." + "a" * 60_000: b"x",
        "f.mk": b"".join(b"/hpc_sdk/x/%d.1/compilers/bin/nvc " % n for n in range(60_000)),
    }
    return [wheel(folder, {"demo/a.so": elf(), **{f"demo/{name}": text for name, text in texts.items()}})]


@attack
def sources_of_blank_lines(folder: Path) -> list[Path]:
    """`^\\s*` over newlines: each line was tried to the end of all."""
    base = "demo/_gpuforge/sources/s"
    texts = {
        f"{base}/a.cu": b"\n" * 1_000_000,
        f"{base}/b.cu": b"#\n" * 500_000,
        f"{base}/c.cu": b" " * 1_000_000,
        f"{base}/d.cu": b"#include </" + b"a" * 900_000,
        f"{base}/e.cu": b"#line" + b" " * 900_000,
        f"{base}/f.cu": b"# 1" + b"1" * 900_000,
    }
    return [wheel(folder, {"demo/a.so": elf(), f"{base}/recipe.json": b"{}", **texts})]


@attack
def many_entry_points(folder: Path) -> list[Path]:
    text = b"[console_scripts]\n" + b"a=b\n" * 60_000
    texts = {f"demo{number}-1.0.dist-info/entry_points.txt": text for number in range(100)}
    return [wheel(folder, {"demo/a.so": elf(), **texts})]


@attack
def scripts_and_entry_points(folder: Path) -> list[Path]:
    start = b"import os\nos.execv(x) # LD_LIBRARY_PATH\n"
    return [
        wheel(
            folder,
            {
                "demo/a.so": elf(),
                "demo/m.py": start,
                "demo-1.0.data/scripts/a": b"#!python\n" + b" " * 250_000,
                "demo-1.0.data/scripts/b": b"#! " + b"/env " * 50_000,
                "demo-1.0.data/scripts/c": b"#!python\n" + b"import a\n" * 25_000,
                "demo-1.0.data/scripts/d": b"#!python\n" + b"\n\t" * 120_000,
                "demo-1.0.dist-info/entry_points.txt": b"[" + b"a" * 250_000,
                "other-1.0.dist-info/entry_points.txt": b"[console_scripts]\n" + b"a." * 100_000,
                "third-1.0.dist-info/entry_points.txt": b"\n" * 250_000,
            },
        )
    ]
