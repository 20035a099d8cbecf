"""Copies a table and a pattern that the runtime shares with gpuforge into `gpuforge/runtime`, which stands alone.

Run it after a change of these: `python scripts/copy_to_runtime.py`. A test holds the copies equal.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gpuforge.cuda.suffix import NVIDIAS, PATTERN

ROOT = Path(__file__).parents[1] / "gpuforge"


def families() -> str:
    """Return the runtime's table of names: toolchain runtimes with their families, and NVIDIA's own libraries."""
    runtimes, libraries = _data("runtimes.toml"), _data("libraries.toml")
    kinds = [f'"{soname}": "{row["name"]}"' for row in runtimes["compiler"] for soname in row["sonames"]]
    openmp = [f'"{name}"' for row in runtimes["compiler"] for name in row.get("openmp", ())]
    alone = [f'"{row["name"]}"' for row in runtimes["compiler"] if row.get("one-release")]
    own = {soname for row in runtimes["driver"] for soname in row["sonames"]}
    own |= {f"{soname.partition('.so')[0]}.so" for row in libraries["package"] for soname in row["sonames"]}
    names = [f'"{soname}"' for soname in sorted(own - {"libcudart.so"})]
    return (
        '"""The families of SONAMEs and the forms of GPU code, copied by scripts/copy_to_runtime.py."""\n'
        f"\n# Runtimes of toolchains, and their families.\nFAMILIES = {{\n{_wrapped(kinds)}}}  # fmt: skip\n"
        "\n# The families whose runtimes fit their own release only, and the runtimes of OpenMP, of any family.\n"
        f"ONE_RELEASE = frozenset({{{', '.join(alone)}}})\nOPENMP = frozenset({{{', '.join(openmp)}}})\n"
        "\n# NVIDIA's own libraries, which have a CUDA runtime inside by design, and those of the driver.\n"
        f"NVIDIAS = frozenset({{\n{_wrapped(names)}}})  # fmt: skip\n"
        f'\n# The beginning of the names of NVIDIA\'s projects.\nPROJECTS = "{NVIDIAS}"\n'
        f"\n# The first bytes of each form of GPU code.\nGPU_CODE = {{\n{''.join(_code())}}}\n"
    )


def _wrapped(items: Iterable[str]) -> str:
    """Return the items of a collection, several in a line."""
    whole = ", ".join(item.replace(" ", "\0") for item in items)
    filled = textwrap.fill(whole, 105, break_long_words=False, break_on_hyphens=False).replace("\0", " ")
    return textwrap.indent(f"{filled},\n", "    ")


def _code() -> Iterator[str]:
    """Yield a line for each form of GPU code that host-only objects must not have."""
    file = ROOT / "audit" / "host" / "data" / "gpu_traces.toml"
    for row in tomllib.loads(file.read_text(encoding="utf-8"))["code"]:
        if row["patterns"]:
            yield f'    "{row["kind"]}": rb"{"|".join(row["patterns"])}",\n'


def guard() -> str:
    """Return the text of the guard against two builds in one place, with the pattern of a project's CUDA suffix."""
    text = (ROOT / "runtime" / "guard.py").read_text(encoding="utf-8")
    line = f'_SUFFIX = re.compile(r"{PATTERN}", re.IGNORECASE)'
    return re.sub(r"^_SUFFIX = .*$", lambda _: line, text, flags=re.MULTILINE)


def _data(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "cuda" / "data" / name).read_text(encoding="utf-8"))


def main() -> None:
    """Write every copy."""
    (ROOT / "runtime" / "userbuild" / "families.py").write_text(families(), encoding="utf-8")
    (ROOT / "runtime" / "guard.py").write_text(guard(), encoding="utf-8")


if __name__ == "__main__":
    main()
