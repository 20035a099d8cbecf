"""Damaged kernel sets and libraries: no reader crashes, and both say the same of them."""

import random
import subprocess
from pathlib import Path

import pytest
from conformance_cases import explained, facts_file, files_of, lay_out
from header_samples import compile_program

CASES = [
    *("sources", "library-built", "wheels", "several-modules", "library-explicit", "sources-built-library"),
    "sources-packages-missing",
]
ROUNDS = 300  # of each case
COMPARED = 25  # of each case
WORDS = (
    b'"',
    b"\\u0000",
    b"\\ud800",
    b"[" * 20,
    b"null",
    b"1e9",
    b"-",
    b"}",
    b"9" * 16,
    b"../",
    b"\xff",
    b"true",
    b"\n",
)


pytestmark = [pytest.mark.xdist_group("header"), pytest.mark.thorough]  # compiled once


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("damage")
    here = Path(__file__).parent
    return {
        name: compile_program(folder, here / f"{name}_kernels.c", f"-I{here}")
        for name in ("damage", "explain")
    }


@pytest.mark.parametrize("name", CASES)
def test_damage_is_read_without_a_fault(programs, name, tmp_path):
    case = lay_out(name, tmp_path)
    command = [programs["damage"], "20261122", str(ROUNDS), facts_file(case, case.root / "facts")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", CASES)
def test_both_readers_say_the_same_of_damage(programs, name, tmp_path):
    draw = random.Random(f"20261122 {name}")  # noqa: S311  to be repeated, not to be secret
    cases = []
    for number in range(COMPARED):
        root = tmp_path / f"{number:03}"
        root.mkdir()
        case = lay_out(name, root)
        file = draw.choice(files_of(case))
        file.write_bytes(damaged(file.read_bytes(), draw))
        cases.append(case)
    command = [programs["explain"], *(facts_file(case, case.root / "facts") for case in cases)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    printed = [text.decode() for text in done.stdout.split(b"\0")]
    for number, case in enumerate(cases):
        assert (number, *printed[2 * number : 2 * number + 2]) == (number, *explained(case))


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Return a file's content with one thing wrong in it."""
    at = draw.randrange(len(data) + 1)
    kind = draw.randrange(5)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + draw.choice((b"\xff", b"\0")) * 8 + data[at + 8 :]
    if kind == 3:
        return data[:at] + data[draw.randrange(len(data) + 1) :]
    return data[:at] + draw.choice(WORDS) + data[at:]
