"""gpuforge_kernels.h, held to the same cases as the Python runtime, byte for byte, under the sanitizers."""

import platform
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conformance_cases import NAMES, Case, check, explained, facts_file, lay_out
from header_samples import compile_program

Explain = Callable[[Sequence[Case]], "list[tuple[str, str]]"]


pytestmark = [pytest.mark.xdist_group("header"), pytest.mark.thorough]  # compiled once


@pytest.fixture(scope="module", params=["c", "c++"])
def explain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Explain:
    """Explain cases with the header, compiled as C99 or as C++11."""
    folder = tmp_path_factory.mktemp("explain")
    source = Path(__file__).with_name("explain_kernels.c")
    program = compile_program(folder, source, f"-I{source.parent}", language=request.param)

    def run(cases: Sequence[Case]) -> list[tuple[str, str]]:
        files = [facts_file(case, case.root / "facts") for case in cases]
        done = subprocess.run([program, *files], capture_output=True, check=False)
        assert (done.returncode, done.stderr.decode()) == (0, "")
        printed = done.stdout.decode(errors="backslashreplace").split("\0")
        return list(zip(printed[::2], printed[1::2], strict=False))

    return run


def test_the_header_explains_every_case_as_python_does(explain, tmp_path):
    cases = {}
    for name in NAMES:
        (tmp_path / name).mkdir()
        cases[name] = lay_out(name, tmp_path / name)
    for (name, case), printed in zip(cases.items(), explain(list(cases.values())), strict=True):
        assert (name, *printed) == (name, *explained(case))
        check(case, name, *printed)


def test_a_cpu_that_nobody_told_of_is_looked_at_for_a_set_too(explain, tmp_path):
    """Its library for the CPU may be of a level; the lowest runs on every x86-64."""
    if platform.machine() != "x86_64":
        pytest.skip("the levels are those of x86-64")
    case = lay_out("set-with-cpu", tmp_path)
    (index,) = case.root.rglob("saxpy-cpu/index.json")
    index.write_text(index.read_text().replace('"arch": ""', '"arch": "x86-64"'))
    ((printed, _),) = explain([case])
    words = "used CPU library x86-64 compiled for x86-64, which this CPU has"
    assert " ".join(printed.splitlines()[2].split()) == words
