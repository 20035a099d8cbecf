"""Fuzz the audit's readers with atheris, guided by coverage: python bench/fuzz.py TARGET SECONDS.

TARGET is one of those in tests/unit/fuzz_targets.py, or "all". Nothing but the errors of hostile bytes may be raised;
libFuzzer writes the input that raised something else, took 10 s or 512 MB to a file in this folder.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit"))


def main() -> None:
    """Run one target in this process, or each in one of its own."""
    name, seconds = sys.argv[1], int(sys.argv[2])
    if name == "all":
        from fuzz_targets import TARGETS

        codes = [
            subprocess.run([sys.executable, __file__, each, str(seconds)], check=False).returncode
            for each in TARGETS
        ]
        sys.exit(max(codes))
    import atheris

    with atheris.instrument_imports(include=["gpuforge"]):
        from fuzz_targets import TARGETS

    target = TARGETS[name]

    def mutate(data: bytes, size: int, seed: int) -> bytes:
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        known = data if len(data) > 1 else chance.choice(target.seeds)
        changed = target.mutate(known, chance)
        return (changed if chance.random() < 0.7 else atheris.Mutate(changed[:size], size))[:size]

    limits = ["-timeout=10", "-rss_limit_mb=1024", "-max_len=65536", f"-max_total_time={seconds}"]
    atheris.Setup([sys.argv[0], *limits], target.run, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
