"""Copies what the runtime shares with gpuforge (`gpuforge/cuda`) into `gpuforge/runtime`, which travels alone.

Run it after a change of these files: `python scripts/copy_to_runtime.py`. A test holds the copies equal.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1] / "gpuforge"
SHARED = ("arch.py", "runs_on.py")


def copy_of(name: str) -> str:
    """Return the runtime's text of a shared file: the same, below a line that says where to change it."""
    text = (ROOT / "cuda" / name).read_text(encoding="utf-8")
    return f"# A copy of gpuforge/cuda/{name}, made by scripts/copy_to_runtime.py: change it there.\n{text}"


def families() -> str:
    """Return the runtime's table of toolchain runtimes: each SONAME's family, without its version."""
    rows = tomllib.loads((ROOT / "toolkits" / "data" / "runtimes.toml").read_text(encoding="utf-8"))[
        "compiler"
    ]
    lines = [f'    "{soname}": "{row["name"]}",\n' for row in rows for soname in row["sonames"]]
    return (
        '"""Whose runtime a SONAME is: from gpuforge/toolkits/data/runtimes.toml, by scripts/copy_to_runtime.py."""\n'
        f"\nFAMILIES = {{\n{''.join(lines)}}}\n"
    )


def main() -> None:
    """Write every copy."""
    (ROOT / "runtime" / "userbuild" / "families.py").write_text(families(), encoding="utf-8")
    for name in SHARED:
        (ROOT / "runtime" / name).write_text(copy_of(name), encoding="utf-8")


if __name__ == "__main__":
    main()
