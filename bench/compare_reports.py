"""Compare the audits of two gpuforge programs: python bench/compare_reports.py BEFORE AFTER FOLDER [--below MB].

BEFORE and AFTER are gpuforge programs, such as those of two virtual environments. Both audit each wheel of the folder,
as text with all subjects and as JSON; the diff of each report that differs is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
from pathlib import Path

_KINDS = {"text": ("--verbose",), "json": ("--format", "json")}


def report(program: str, wheel: Path, kind: str) -> list[str]:
    """Return the lines of one report, those of stderr and the exit code included."""
    run = subprocess.run(
        [program, "audit", *_KINDS[kind], str(wheel)], capture_output=True, text=True, check=False
    )
    return [*run.stdout.splitlines(), *run.stderr.splitlines(), f"exit code {run.returncode}"]


def main() -> int:
    """Compare the reports, and return 1 if any differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--below", type=float, default=float("inf"), help="largest wheel, in MB")
    given = parser.parse_args()
    wheels = [w for w in sorted(given.folder.glob("*.whl")) if w.stat().st_size <= given.below * 1e6]
    differing = 0
    for wheel in wheels:
        for kind in _KINDS:
            before, after = (report(program, wheel, kind) for program in (given.before, given.after))
            lines = list(difflib.unified_diff(before, after, "before", "after", lineterm="", n=0))
            differing += bool(lines)
            sys.stdout.writelines(
                f"{line}\n" for line in ([f"{kind} of {wheel.name}", *lines] if lines else ())
            )
    sys.stdout.write(f"{len(wheels)} wheels, {differing} of {len(wheels) * len(_KINDS)} reports differ\n")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
