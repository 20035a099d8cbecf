"""Joins runtime/c/*.h into the one header that C and C++ programs include, with the tables of Python's runtime."""

import json
import math
from collections.abc import Iterable

from gpuforge.package.contents import FOLDER
from gpuforge.runtime import builds, cpu, document, driver, elf, more_reasons, values
from gpuforge.runtime.arch import EMBEDDED, MINORS_AGREE, PTX_ISA, RENAMED

PATH = "include/gpuforge_kernels.h"  # in the runtime's folder of a wheel
_HEAD = """\
/* gpuforge_kernels.h: finds, explains and loads a wheel's kernels from C99 and C++11, without Python.

   In one source file of the program, before any other header:

       #define GPUFORGE_KERNELS_IMPLEMENTATION
       #include <gpuforge_kernels.h>

   It needs libc, POSIX threads and dlopen: link with `-pthread -ldl`. The order, the variables and the sentences are
   those of the Python runtime beside it. gpuforge makes it when it packs a wheel. */
"""


def joined() -> str:
    """Return the header."""
    texts = [part.read_text(encoding="utf-8") for part in sorted((FOLDER / "c").glob("*.h"))]
    return "\n".join([_HEAD, texts[0], _tables(), *texts[1:]])


_LIMITS = {
    "GPUF_LARGEST": document.LARGEST,
    "GPUF_DEEPEST": document.DEEPEST,
    "GPUF_LONGEST_NUMBER": document.LONGEST_NUMBER,
    "GPUF_LONGEST_ARCH": values.LONGEST_ARCH,
    "GPUF_MOST": elf.MOST,
    "GPUF_LONGEST": elf.LONGEST,
    "GPUF_SCHEMA": values.SCHEMA,
}


def _tables() -> str:
    assert values.SCHEMA == builds.SCHEMA  # noqa: S101  the header has one number for both
    sentences = {**values.SENTENCES, **more_reasons.SENTENCES}
    needed = ", ".join(map(str, driver.DRIVER_NEEDED))
    return "\n".join(
        [
            "/* ---- tables of the Python runtime ---- */",
            "",
            "enum {",
            *(f"    {name} = {value}," for name, value in _LIMITS.items()),
            "};",
            "",
            *_array("const char *const gpuf_sentences[][2]", _pairs(sentences)),
            *_array("const char *const gpuf_without[][2]", _pairs(more_reasons.WITHOUT)),
            *_array(
                "const char *const gpuf_named[][2]",
                _pairs({name: kind.label for name, kind in values.KINDS.items() if not kind.of_module}),
            ),
            *_array(
                "const char *const gpuf_levels[][3]",
                (
                    f"{{{_text(cpu_machine)}, {_text(level)}, {_text(' '.join(features))}}}"
                    for cpu_machine, levels in cpu.LEVELS.items()
                    for level, features in levels.items()
                ),
            ),
            f"static const char gpuf_install_again[] = {_text(values.INSTALL_AGAIN)};",
            f"static const char gpuf_cpuinfo[] = {_text(cpu.CPUINFO)};",
            f"enum {{ GPUF_CPUINFO_MOST = {cpu.FIRST} }};",
            "",
            *_array("const int gpuf_ptx_isa[][4]", _numbers(PTX_ISA)),
            *_array("const int gpuf_embedded[][2]", (f"{{{a}, {b}}}" for a, b in sorted(EMBEDDED))),
            *_array("const int gpuf_renamed[][4]", _numbers(RENAMED)),
            f"static const int gpuf_minors_agree = {MINORS_AGREE};",
            f"static const int gpuf_driver_needed[2] = {{{needed}}};",
            "",
            *_array(
                "const struct { const char *name; int number; } gpuf_machines[]",
                (f"{{{_text(name)}, {number}}}" for name, number in elf.MACHINES.items()),
            ),
            *_array(
                "const struct { int code; const char *advice; } gpuf_advice[]",
                (f"{{{code}, {_text(advice)}}}" for code, advice in driver.ADVICE.items()),
            ),
            *_driver(),
            *_sha256(),
        ]
    )


def _driver() -> list[str]:
    lines = [
        "typedef struct gpuf_library_table {",
        "    const char *what;",
        "    const char *files[2];",
        "    int file_count;",
        "    const char *advice;",
        "    const char *const *required; /* ends with NULL */",
        "} gpuf_library_table;",
        "",
    ]
    table = driver.DRIVER
    return [
        *lines,
        *_array("const char *const gpuf_cuda_required[]", [*map(_text, table.required), "NULL"]),
        "static const gpuf_library_table gpuf_cuda = {",
        f"    {_text(table.what)}, {{{', '.join(map(_text, table.files))}}}, {len(table.files)},",
        f"    {_text(table.advice)}, gpuf_cuda_required}};",
        "",
    ]


def _sha256() -> list[str]:
    """The constants of SHA-256: the first 32 bits of the fractions of the roots of primes."""
    primes = [n for n in range(2, 312) if all(n % d for d in range(2, math.isqrt(n) + 1))]
    rounds = [f"0x{_root(prime, 3):08x}u" for prime in primes]
    begin = [f"0x{_root(prime, 2):08x}u" for prime in primes[:8]]
    return [
        *_array("const unsigned gpuf_rounds[64]", (", ".join(rounds[n : n + 8]) for n in range(0, 64, 8))),
        *_array("const unsigned gpuf_begin[8]", [", ".join(begin)]),
    ]


def _root(number: int, degree: int) -> int:
    """Return the first 32 bits of the fraction of a root, in whole numbers."""
    scaled = number << 32 * degree
    low, high = 0, 1 << 40
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= scaled else (low, middle - 1)
    return low & 0xFFFFFFFF


def _array(declaration: str, rows: Iterable[str]) -> list[str]:
    return [f"static {declaration} = {{", *(f"    {row}," for row in rows), "};", ""]


def _pairs(table: dict[str, str]) -> list[str]:
    return [f"{{{_text(key)}, {_text(value)}}}" for key, value in table.items()]


def _numbers(table: dict[tuple[int, int], tuple[int, int]]) -> list[str]:
    return [f"{{{a}, {b}, {c}, {d}}}" for (a, b), (c, d) in sorted(table.items())]


def _text(text: str) -> str:
    return json.dumps(text)
