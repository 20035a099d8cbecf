"""A short, fixed part of `make fuzz`: changes of sound files raise nothing but the errors of hostile bytes."""

import random

import pytest
from draws import drawn
from fuzz_targets import TARGETS

_COUNTS = {
    "elf": 400,
    "fatbin": 400,
    "object": 400,
    "kernels": 400,
    "ptx": 200,
    "ar": 200,
    "index": 60,
}  # others: 40


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_fixed_changes_are_read_or_refused(name):
    target = TARGETS[name]
    for seed in target.seeds:
        target.run(seed)
    for number in range(drawn(_COUNTS.get(name, 40))):
        chance = random.Random(number)  # noqa: S311  not for secrets
        target.run(target.mutate(target.seeds[number % len(target.seeds)], chance))
