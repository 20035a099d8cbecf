"""A manifest's tests in the step's process: pytest's numbers, its failures, and what is found first on the path."""

import os
import re
import sys
from pathlib import Path

import pytest

from gpuforge.actions import trial_runs
from gpuforge.actions.trial_result import CommandResult
from gpuforge.errors import ActionError

pytestmark = pytest.mark.thorough


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """A folder with tests, one of which fails."""
    folder = tmp_path / "project" / "tests"
    folder.mkdir(parents=True)
    (folder / "test_demo.py").write_text("def test_one(): pass\ndef test_two(): assert 1 == 2\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def tried(folder: Path, *words: str, project: Path | None = None) -> CommandResult:
    """Run pytest as a test command, in this process's environment."""
    command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return trial_runs.tested(command, Path(sys.executable), folder, project, "demo")


def test_pytests_numbers_are_in_the_result(tests):
    said = tried(tests, "-k", "one")
    assert said.summary.startswith("1 passed, 1 deselected in ")
    assert said.outcome == "1 passed, 1 deselected"
    assert said.counts == {"passed": 1, "deselected": 1}


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            [],
            "failed with exit status 1: 1 failed, 1 passed in #s: FAILED test_demo.py::test_two - assert 1 == 2",
            "the log has all of its output",
        ),
        (
            ["-k", "one", "empty"],
            "failed with exit status 5: pytest found no tests",
            "check the path in [test] command: {project} is the source tree",
        ),
        (
            ["nowhere"],
            "failed with exit status 4: no tests ran in #s: ERROR: file or directory not found: nowhere",
            "it runs in an empty folder: name the whole path; {project} in [test] command is the source tree",
        ),
    ],
)
def test_how_pytest_fails(tests, words, message, hint):
    (tests / "empty").mkdir()
    with pytest.raises(ActionError) as caught:
        tried(tests, *words)
    (problem,) = caught.value.diagnostics
    shown = " ".join(["python -m pytest -q -p no:cacheprovider", *words])
    assert re.sub(r"in [\d.]+s", "in #s", problem.message) == f"`{shown}` {message}"
    assert problem.hint == hint


def test_tests_that_import_the_source_tree_are_told_how_to_avoid_it(tests):
    project = tests.parent
    (project / "demo").mkdir()
    (project / "demo" / "__init__.py").write_text("from . import _core\n")
    (tests / "__init__.py").touch()  # with it, pytest puts the project first on the path
    (tests / "test_demo.py").write_text("import demo\n")
    with pytest.raises(ActionError) as caught:
        tried(project, "{project}/tests", project=project)
    (problem,) = caught.value.diagnostics
    assert "1 error in" in problem.message
    assert "cannot import name '_core' from partially initialized module 'demo'" in problem.message
    assert problem.hint == (
        "the source tree's own demo/ may be found before the installed one: "
        "copy the tests alone beside it, with [test] sources"
    )


def test_a_process_left_running_does_not_hold_the_test(tmp_path):
    program = "import subprocess; p = subprocess.Popen(['sleep', '30']); print(p.pid, flush=True)"
    ran = trial_runs.run([sys.executable, "-c", program], tmp_path, os.environ)
    os.kill(int(ran.lines[0]), 9)
    assert ran.status == 0
    assert ran.seconds < 5
