"""Atomic instructions of aarch64, in code that a compiler wrote."""

import pytest

from gpuforge.binary.aarch64 import needs_lse

# objdump's words for them: ldaddal, casal, swpal, ldsetal; ldaxr, ldxr, ldxrb; ldr, str, ldur, add, ldapr
LSE = ("4000e1b8", "41fce088", "0180e1b8", "0130e1f8")
EXCLUSIVE = ("20fc5f88", "207c5fc8", "207c5f08")
OTHERS = ("200040b9", "2000007d", "20c05fb8", "2000018b", "20c0bfb8")


def code(*words: str) -> bytes:
    return bytes.fromhex("".join(words))


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("words", "needs"),
    [
        ((*OTHERS, *LSE), True),
        ((*OTHERS, *LSE[:2]), False),
        (OTHERS * 9, False),
        *(((*LSE, *OTHERS, word), False) for word in EXCLUSIVE),
        ((), False),
    ],
)
def test_only_code_without_older_atomics_needs_lse(words, chunk, *, needs):
    data = b"xyz" + code(*words) + code(*EXCLUSIVE)  # behind the section
    chunks = (data[at : at + chunk] for at in range(0, len(data), chunk))
    assert needs_lse(chunks, 3, 4 * len(words)) == needs


def test_bytes_that_are_no_whole_instruction_do_not_count():
    assert not needs_lse([b"\0\0" + code(*LSE) * 3], 0, 2 + 4 * len(LSE) * 3)
