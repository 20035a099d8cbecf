"""Feed mutated binaries to the audit's readers: nothing but their own error may come of it.

    python bench/mutations.py 1000000 FILE...

FILE is any ELF object or fatbin; its first bytes, and those that its headers name, are changed at random. The seed
of a failure is printed; the tests do the same with a few hundred examples.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from gpuforge.audit.elf_patterns import patterns
from gpuforge.binary import fatbin
from gpuforge.binary.elf.header import read_header
from gpuforge.binary.elf.object_file import ObjectFile
from gpuforge.binary.elf.outline import outline
from gpuforge.binary.elf.reader import read as read_elf
from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError

LONGEST = 1 << 18  # bytes of a file that take part: copying it is what takes the time
SPECIAL = (0, 1, 0x7F, 0x80, 0xFF)


def mutated(data: bytes, seed: int) -> bytes:
    """Return a copy with up to eight bytes changed, half of them in the headers, and one in ten cut off."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    copy = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        where = chance.randrange(min(len(copy), 1024) if chance.random() < 0.5 else len(copy))
        copy[where] = chance.choice(SPECIAL) if chance.random() < 0.5 else chance.randrange(256)
    return bytes(copy[: chance.randrange(len(copy))] if chance.random() < 0.1 else copy)


def read(data: bytes) -> None:
    """Read `data` with every reader."""
    for reader in (
        lambda: read_elf(Window.of(data), patterns().every),
        lambda: outline(Window.of(data), read_header(Window.of(data))),
        lambda: list(fatbin.scan(data)),
        lambda: ObjectFile(data).symbols,
    ):
        try:
            reader()
        except MalformedError:
            continue


def main() -> None:
    """Run the number of mutations that was asked for, over the files in turn."""
    count, files = int(sys.argv[1]), [Path(name).read_bytes()[:LONGEST] for name in sys.argv[2:]]
    begin = time.perf_counter()
    slowest = 0.0
    for seed in range(count):
        one = mutated(files[seed % len(files)], seed)
        start = time.perf_counter()
        try:
            read(one)
        except Exception:
            print(f"seed {seed}, file {sys.argv[2 + seed % len(files)]}")
            raise
        slowest = max(slowest, time.perf_counter() - start)
    took = time.perf_counter() - begin
    print(f"{count} mutations, no traceback; {took:.0f} s, the slowest {slowest:.3f} s")


if __name__ == "__main__":
    main()
